//! What is asked of the cluster about topics, and for how long.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::{AppendError, ProducerSettings};

use crate::stage::{Stage, TOPIC};

const SECOND: Duration = Duration::from_secs(1);
/// The metadata is old twice meanwhile, and the topic idle.
const LONG: u32 = 660;

fn pass_seconds(stage: &mut Stage, seconds: u32) {
    (0..seconds).for_each(|_| stage.pass(SECOND));
}

/// How often the topic was asked for, as one to be created and as one that is there.
fn asked(stage: &Stage) -> (usize, usize) {
    let of = |creates| {
        let asked = stage.asked.iter().filter(|&(names, flag)| *flag == creates && !names.is_empty());
        asked.inspect(|(names, _)| assert_eq!(*names, [TOPIC])).count()
    };
    (of(true), of(false))
}

/// A producer that wrote to its topic once.
fn written() -> Stage {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.send_value(b"first");
    let first = stage.next();
    stage.answer(&first, ErrorCode::None, 0);
    assert_eq!(asked(&stage), (1, 0));
    stage
}

#[test]
fn one_without_partitions_is_asked_for_now_and_then() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.partitions = 0;
    for _ in 0..1_000 {
        let refused = stage.try_send_value(b"again");
        assert!(matches!(refused, Err(AppendError::TopicNotKnownYet { .. })), "{refused:?}");
        stage.pass(Duration::from_millis(10));
    }
    let count = asked(&stage).0;
    assert!((5..=25).contains(&count), "{count} times within ten seconds");
    stage.partitions = 1;
    stage.pass(2 * SECOND);
    stage.send_value(b"at last");
}

#[test]
fn one_that_is_not_there_is_asked_for_while_somebody_waits() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.topic_code = ErrorCode::UnknownTopicOrPartition;
    let refused = stage.try_send_value(b"misspelt");
    assert!(matches!(refused, Err(AppendError::TopicNotKnownYet { .. })), "{refused:?}");
    pass_seconds(&mut stage, LONG);
    assert_eq!(asked(&stage), (1, 0));
    stage.topic_code = ErrorCode::None;
    stage.send_value(b"made by somebody");
}

#[test]
fn one_that_was_deleted_is_not_made_anew_unless_it_is_written_to() {
    let mut stage = written();
    stage.topic_code = ErrorCode::UnknownTopicOrPartition;
    pass_seconds(&mut stage, LONG);
    assert_eq!(asked(&stage).0, 1);
    let refused = stage.try_send_value(b"second");
    assert!(matches!(refused, Err(AppendError::TopicNotKnownYet { .. })), "{refused:?}");
    stage.pass(SECOND);
    assert_eq!(asked(&stage).0, 2);
}

#[test]
fn one_that_batches_wait_for_may_be_made_anew() {
    let mut stage = written();
    stage.send_value(b"second");
    let second = stage.next();
    stage.topic_code = ErrorCode::UnknownTopicOrPartition;
    stage.answer(&second, ErrorCode::UnknownTopicId, -1);
    stage.pass(SECOND);
    assert!(asked(&stage).0 > 1, "{:?}", stage.asked);
    stage.topic_code = ErrorCode::None;
    pass_seconds(&mut stage, 3);
    let again = stage.sent.pop_back().expect("it is sent again");
    stage.answer(&again, ErrorCode::None, 1);
    assert_eq!(stage.done.len(), 2);
}

#[test]
fn one_that_is_idle_is_let_go_but_not_its_sequence() {
    let mut stage = written();
    pass_seconds(&mut stage, LONG);
    let (names, _) = stage.asked.last().expect("the brokers are asked for");
    assert!(names.is_empty(), "{names:?}");
    stage.send_value(b"second");
    assert_eq!(stage.next().told(), (0, 1, 1), "the broker knows the first");
}
