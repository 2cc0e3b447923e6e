//! What is asked of a broker, and what comes of its answers.

use std::time::Duration;

use super::*;
use crate::chance::Chance;
use crate::consumer::{ConsumerSettings, Reset, Start};

const NOW: Now = Now { elapsed: Duration::ZERO, wall: base::TimestampMs(0) };

fn of() -> TopicPartition {
    TopicPartition { topic: TopicName::new("a").expect("legal"), partition: PartitionIndex(0) }
}

/// A consumer at an offset, and what it says to a broker there.
fn at(offset: i64) -> (Consumer, Told) {
    let settings = ConsumerSettings { reset: Reset::None, ..ConsumerSettings::default() };
    let mut consumer = Consumer::new(settings, Vec::new(), Chance::new(1));
    consumer.assign([(of(), Start::Offset(Offset(offset)))]);
    let told = consumer.parts.get_mut(&of()).and_then(|part| part.told(Uuid::ZERO, true));
    (consumer, told.expect("the position is known"))
}

fn refused(consumer: &mut Consumer, told: Told) -> usize {
    let code = ErrorCode::OffsetOutOfRange as i16;
    let part = PartitionData { error_code: code, ..PartitionData::default() };
    let mut effects = Effects::new();
    let (said, frame) = (FetchResponse::default(), Arc::default());
    consumer.on_part(&of(), (BrokerId(1), told), (&part, &said), &frame, (NOW, &mut effects));
    effects.drain().filter(|effect| matches!(effect, Effect::Failed { .. })).count()
}

#[test]
fn a_late_answer_of_a_broker_that_led_is_of_the_past() {
    let (mut consumer, told) = at(300);
    consumer.told_at = Duration::from_millis(1);
    consumer.parts.get_mut(&of()).expect("it is assigned").doubted_at = Some(Duration::ZERO);
    assert_eq!(refused(&mut consumer, Told { offset: Offset(100), ..told }), 0);
    assert_eq!(refused(&mut consumer, told), 1);
    assert_eq!(refused(&mut consumer, told), 0, "it is told once");
}

/// It may have been away while another was made the leader, and have fewer records.
#[test]
fn a_leader_without_the_position_is_believed_once_the_cluster_says_that_it_leads() {
    let (mut consumer, told) = at(300);
    assert_eq!((refused(&mut consumer, told), refused(&mut consumer, told)), (0, 0));
    assert!(consumer.metadata.is_wanted);
    consumer.told_at = Duration::from_millis(1);
    assert_eq!(refused(&mut consumer, told), 1);
}

/// Committed by somebody, with the epoch of what was read last: the only sign that the log was cut since (KIP-320).
#[test]
fn the_epoch_that_was_committed_is_told_until_the_topic_is_another() {
    let (mut consumer, _) = at(0);
    consumer.take(&of(), Some((Offset(100), LeaderEpoch(3)))).expect("it was committed");
    let part = consumer.parts.get_mut(&of()).expect("it is assigned");
    let mut epoch = |topic: u8| part.told(Uuid([topic; 16]), true).map(|told| told.last_epoch);
    assert_eq!(epoch(1), Some(LeaderEpoch(3)));
    assert_eq!(epoch(1), Some(LeaderEpoch(3)));
    assert_eq!(epoch(2), Some(LeaderEpoch::NONE));
}

#[test]
fn records_that_lead_nowhere_are_asked_for_ever_more_seldom() {
    let (mut consumer, told) = at(300);
    let mut bytes = vec![0; 100];
    // A batch of which more is said to be there.
    bytes[8..12].copy_from_slice(&1_000_i32.to_be_bytes());
    bytes[16] = 2;
    let mut rests = Vec::new();
    for _ in 0..3 {
        let part = PartitionData { records: Some(Records::Bytes(&bytes)), ..PartitionData::default() };
        let (said, frame) = (FetchResponse::default(), Arc::new(bytes.clone()));
        let mut effects = Effects::new();
        consumer.on_part(&of(), (BrokerId(1), told), (&part, &said), &frame, (NOW, &mut effects));
        assert!(effects.is_empty());
        rests.push(consumer.parts[&of()].retry_at);
    }
    assert!(rests[0] > Duration::ZERO && rests.is_sorted(), "{rests:?}");
}

#[test]
fn after_a_chunk_that_cannot_be_read_nothing_of_its_partition_is_current() {
    let (mut consumer, told) = at(300);
    let chunk = Chunk::new(Parts {
        of: of(),
        told,
        frame: Arc::new(vec![0; 100]),
        range: 0..100,
        high_watermark: Offset(400),
        check_crcs: true,
        aborted: None,
    });
    assert!(consumer.is_current(&of(), chunk.generation()));
    consumer.fail(&chunk);
    assert!(!consumer.is_current(&of(), chunk.generation()));
    assert_eq!(consumer.position(&of()), Some(Offset(300)), "where it stands");
    assert!(consumer.ready(NOW, |_| true, |part| part.leader).is_empty());
    consumer.assign([(of(), Start::Offset(Offset(7)))]);
    assert_eq!(consumer.position(&of()), Some(Offset(7)), "it begins again");
}
