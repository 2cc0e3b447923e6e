//! When a batch leaves that more records would fit into.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::{Effect, NewRecord, ProducerSettings};

use crate::stage::Stage;

/// A producer that the broker knows, with nothing on its way.
fn known(linger: Duration) -> Stage {
    let mut stage = Stage::new(ProducerSettings { linger, ..ProducerSettings::default() });
    stage.send_value(b"first");
    stage.pass(linger);
    let sent = stage.next();
    stage.answer(&sent, ErrorCode::None, 0);
    stage
}

#[test]
fn it_leaves_when_its_linger_has_passed_whatever_is_on_its_way() {
    let mut stage = known(Duration::from_millis(5));
    for expected in 1..=3 {
        stage.send_value(b"one");
        stage.pass(Duration::from_millis(4));
        stage.send_value(b"another");
        assert_eq!(stage.sent.len(), expected - 1, "they linger");
        let deadline = stage.producer.deadline(stage.now());
        assert_eq!(deadline, Some(stage.now().elapsed + Duration::from_millis(1)));
        stage.pass(Duration::from_millis(1));
        assert_eq!(stage.sent.len(), expected, "five milliseconds are over since the first of them");
    }
    assert_eq!(stage.sent.iter().map(|sent| sent.values.len()).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn whoever_sleeps_is_told_of_a_linger_that_begins_while_an_answer_is_due() {
    let linger = Duration::from_millis(5);
    let mut stage = Stage::new(ProducerSettings { linger, ..ProducerSettings::default() });
    stage.partitions = 2;
    stage.send_value(b"known");
    stage.pass(linger);
    stage.acknowledge_request();
    stage.send_value(b"slow");
    stage.pass(linger);
    assert_eq!(stage.sent.len(), 1);
    let first = stage.try_send_value(b"one").expect("there is room");
    assert!(first.wakes, "nobody would step it before the answer comes");
    let deadline = {
        stage.pass(Duration::ZERO);
        stage.producer.deadline(stage.now())
    };
    assert_eq!(deadline, Some(stage.now().elapsed + linger));
    let second = stage.send(&NewRecord { value: Some(b"another"), ..NewRecord::default() }, Some(1));
    assert!(!second.wakes, "once is enough");
}

#[test]
fn what_is_sent_again_left_when_it_was_first_sent() {
    let mut stage = known(Duration::from_millis(5));
    stage.send_value(b"one");
    stage.pass(Duration::from_millis(5));
    let left = stage.now().elapsed;
    let lost = stage.next();
    stage.lose(&lost);
    stage.pass(Duration::from_secs(2));
    let again = stage.next();
    stage.answer(&again, ErrorCode::None, 1);
    assert_eq!(stage.left.last(), Some(&Some(left)), "what comes behind it is not the client's time");
    // What nobody took never left.
    stage.send_value(b"another");
    let mut effects = base::Effects::new();
    stage.producer.abort(&mut effects);
    let left = |effect: Effect| match effect {
        Effect::Done { left_at, .. } => left_at,
        other => panic!("{other:?}"),
    };
    assert_eq!(effects.drain().map(left).collect::<Vec<_>>(), [None]);
}

#[test]
fn without_a_linger_it_leaves_when_nothing_is_on_its_way() {
    let mut stage = known(Duration::ZERO);
    stage.send_value(b"alone");
    assert_eq!(stage.sent.len(), 1, "it leaves at once");
    for value in [b"one", b"two", b"six"] {
        stage.send_value(value);
        stage.pass(Duration::from_secs(1));
    }
    assert_eq!(stage.sent.len(), 1, "the others gather");
    let alone = stage.next();
    stage.answer(&alone, ErrorCode::None, 1);
    assert_eq!(stage.next().values, [b"one", b"two", b"six"]);
}

/// Another partition of its leader always has full batches, so that something is always on its way.
#[test]
fn it_leaves_soon_after_what_was_before_it_although_the_connection_is_never_free() {
    let settings = ProducerSettings { batch_bytes_max: 512, in_flight_max: 2, ..ProducerSettings::default() };
    let mut stage = Stage::new(settings);
    stage.partitions = 2;
    let full = NewRecord { value: Some(&[7; 400]), ..NewRecord::default() };
    // Before the broker knows it, a producer has one batch on its way.
    stage.send(&full, Some(0));
    stage.acknowledge_request();
    for _ in 0..6 {
        stage.send(&full, Some(0));
    }
    assert_eq!(stage.sent.len(), 2);
    stage.send(&NewRecord { value: Some(b"small"), ..NewRecord::default() }, Some(1));
    let mut rounds = Vec::new();
    for round in 1..=20 {
        stage.send(&full, Some(0));
        stage.pass(Duration::from_millis(1));
        if stage.acknowledge_request().contains(&1) {
            rounds.push(round);
        }
    }
    assert!(matches!(rounds[..], [5..=8]), "it left in {rounds:?}");
}

#[test]
fn while_somebody_waits_for_all_it_lingers_no_longer_than_was_chosen() {
    let mut stage = known(Duration::from_millis(5));
    stage.send_value(b"slow");
    stage.pass(Duration::from_millis(5));
    assert_eq!(stage.sent.len(), 1);
    stage.send_value(b"behind it");
    stage.producer.begin_flush();
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.sent.len(), 1, "it leaves at once only if nothing is on its way");
    let due = stage.producer.deadline(stage.now()).expect("something is due");
    assert_eq!(due - stage.now().elapsed, Duration::from_millis(4));
    stage.pass(Duration::from_millis(4));
    assert_eq!(stage.sent.len(), 2);
}
