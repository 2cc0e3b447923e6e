//! Whoever waited in vain is told what was in the way.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::{DeliveryError, ProducerSettings};

use crate::stage::Stage;

const AWAY: &str = "cannot connect to one:9092: Connection refused";

/// What a record is refused with.
fn refusal(stage: &mut Stage) -> String {
    stage.try_send_value(b"again").expect_err("the topic is not known").to_string()
}

#[test]
fn a_topic_is_not_known_for_a_reason() {
    let mut stage = Stage::new(ProducerSettings::default());
    let bare = refusal(&mut stage);
    assert!(bare.ends_with("of the topic"), "{bare}");
    stage.is_away = Some(AWAY);
    stage.pass(Duration::ZERO);
    assert_eq!(refusal(&mut stage), format!("{bare}: {AWAY}"));
    stage.is_away = None;
    stage.topic_code = ErrorCode::UnknownTopicOrPartition;
    stage.pass(Duration::from_secs(2));
    assert_eq!(refusal(&mut stage), format!("{bare}: the cluster says UNKNOWN_TOPIC_OR_PARTITION of it"));
    stage.topic_code = ErrorCode::None;
    stage.partitions = 0;
    stage.pass(Duration::from_secs(2));
    assert_eq!(refusal(&mut stage), format!("{bare}: the cluster says no partition of it"));
}

/// A broker that forgot the producer refuses the first of two batches, and may have taken the second for the beginning.
#[test]
fn what_may_be_written_is_not_numbered_again_with_what_is_not() {
    let mut stage = Stage::new(ProducerSettings { batch_bytes_max: 200, ..ProducerSettings::default() });
    stage.send_value(b"the broker meets the producer");
    let known = stage.next();
    stage.answer(&known, ErrorCode::None, 0);
    stage.send_value(&[1; 150]);
    stage.send_value(&[2; 150]);
    stage.send_value(&[3; 150]);
    let (first, second) = (stage.next(), stage.next());
    stage.answer(&first, ErrorCode::NotEnoughReplicas, -1);
    stage.answer(&second, ErrorCode::NotEnoughReplicasAfterAppend, -1);
    stage.pass(Duration::from_secs(1));
    let again = stage.next();
    assert_eq!(again.told(), first.told());
    stage.answer(&again, ErrorCode::OutOfOrderSequenceNumber, -1);
    stage.pass(Duration::from_secs(1));
    let lost: Vec<_> = stage.done.iter().filter_map(|(.., outcome)| outcome.as_ref().err()).collect();
    assert!(matches!(lost[..], [DeliveryError::Refused { may_be_written: true, .. }]), "{lost:?}");
    let (epoch, ..) = first.told();
    for value in [1, 3] {
        let anew = stage.next();
        assert_eq!((anew.values[0][0], anew.told().0), (value, epoch + 1));
        stage.answer(&anew, ErrorCode::None, 1);
    }
    assert_eq!(stage.done.len(), 4);
}

/// What became of the last batch, after its time is over.
fn late(stage: &mut Stage) -> String {
    (0..120).for_each(|_| stage.pass(Duration::from_secs(1)));
    let (.., outcome) = stage.done.last().expect("its time is over");
    outcome.clone().expect_err("nobody acknowledged it").to_string()
}

#[test]
fn records_are_late_for_a_reason() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.send_value(b"first");
    let first = stage.next();
    stage.is_away = Some(AWAY);
    stage.lose(&first);
    let doubt = "; the records may have been written";
    assert_eq!(late(&mut stage), format!("not acknowledged within delivery.timeout.ms: {AWAY}{doubt}"));

    let mut stage = Stage::new(ProducerSettings::default());
    stage.send_value(b"first");
    let mut sent = stage.next();
    stage.topic_code = ErrorCode::UnknownTopicOrPartition;
    for _ in 0..119 {
        stage.answer(&sent, ErrorCode::NotLeaderOrFollower, -1);
        stage.pass(Duration::from_secs(2));
        match stage.sent.pop_front() {
            Some(next) => sent = next,
            None => break,
        }
    }
    let (.., outcome) = stage.done.last().expect("its time is over");
    let error = outcome.clone().expect_err("nobody acknowledged it").to_string();
    assert_eq!(
        error,
        "not acknowledged within delivery.timeout.ms (the broker last said NOT_LEADER_OR_FOLLOWER): \
         the cluster says UNKNOWN_TOPIC_OR_PARTITION of it; the records may have been written"
    );
}
