//! A broker forgets a producer that was silent for long (`producer.id.expiration.ms`).

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::{DeliveryError, ProducerSettings};

use crate::stage::Stage;

/// A producer whose first batch is acknowledged.
fn known() -> Stage {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.send_value(b"first");
    let first = stage.next();
    assert_eq!(first.told(), (0, 0, 1));
    stage.answer(&first, ErrorCode::None, 0);
    stage
}

#[test]
fn a_broker_that_forgot_it_is_told_anew() {
    for code in [ErrorCode::UnknownProducerId, ErrorCode::OutOfOrderSequenceNumber] {
        let mut stage = known();
        stage.pass(Duration::from_secs(24 * 3600));
        stage.send_value(b"second");
        let second = stage.next();
        assert_eq!(second.told(), (0, 1, 1));
        stage.answer(&second, code, -1);
        let again = stage.next();
        assert_eq!((again.told(), &again.values), ((1, 0, 1), &second.values), "{code:?}");
        stage.answer(&again, ErrorCode::None, 1);
        assert!(stage.done.iter().all(|(_, _, outcome)| outcome.is_ok()), "{:?}", stage.done);
        assert_eq!(stage.done.len(), 2);
    }
}

/// Each refusal begins an epoch, of which there are 32 767.
#[test]
fn a_broker_that_never_remembers_is_not_told_as_fast_as_it_forgets() {
    let mut stage = known();
    stage.send_value(b"second");
    let mut told = 0;
    for _ in 0..100 {
        while let Some(sent) = stage.sent.pop_front() {
            told += 1;
            stage.answer(&sent, ErrorCode::UnknownProducerId, -1);
        }
        stage.pass(Duration::from_millis(10));
    }
    assert!((5..30).contains(&told), "{told} times in a second");
}

#[test]
fn after_a_silence_one_batch_goes_ahead() {
    let settings = || ProducerSettings { batch_bytes_max: 200, ..ProducerSettings::default() };
    for (silence, at_once) in [(1, 2), (3600, 1)] {
        let mut stage = Stage::new(settings());
        stage.send_value(b"first");
        let first = stage.next();
        stage.answer(&first, ErrorCode::None, 0);
        stage.pass(Duration::from_secs(silence));
        // Full batches, which leave at once if they may.
        for _ in 0..3 {
            stage.send_value(&[7; 150]);
        }
        assert_eq!(stage.sent.len(), at_once, "after {silence} s");
        while let Some(sent) = stage.sent.pop_front() {
            stage.answer(&sent, ErrorCode::None, i64::from(sent.header.base_sequence.0));
        }
        assert_eq!(stage.done.len(), 4);
    }
}

/// A leader that is replaced, or whose disk fails, while others take what it has appended says only that.
#[test]
fn what_may_be_written_is_not_written_as_another() {
    for code in [ErrorCode::RequestTimedOut, ErrorCode::NotLeaderOrFollower, ErrorCode::KafkaStorageError] {
        let mut stage = known();
        stage.send_value(b"second");
        let second = stage.next();
        stage.answer(&second, code, -1);
        stage.pass(Duration::from_secs(2));
        let again = stage.next();
        assert_eq!(again.told(), second.told());
        stage.answer(&again, ErrorCode::UnknownProducerId, -1);
        let (.., outcome) = stage.done.last().expect("it has its last word");
        assert!(
            matches!(outcome, Err(DeliveryError::Refused { may_be_written: true, .. })),
            "{code:?}: {outcome:?}"
        );
        assert!(stage.sent.is_empty());
    }
}

/// After a restart Kafka knows the last batch of a producer again, and no other.
#[test]
fn a_broker_that_remembers_only_the_last_batch_gets_none_twice() {
    let mut stage = known();
    stage.send_value(b"second");
    let second = stage.next();
    stage.answer(&second, ErrorCode::RequestTimedOut, -1);
    stage.pass(Duration::from_secs(1));
    let again = stage.next();
    assert_eq!(again.told(), second.told());
    stage.answer(&again, ErrorCode::OutOfOrderSequenceNumber, -1);
    let doubtful = Err(DeliveryError::Refused {
        code: ErrorCode::OutOfOrderSequenceNumber,
        message: None,
        may_be_written: true,
    });
    assert_eq!(stage.done.last().map(|(_, _, outcome)| outcome.clone()), Some(doubtful));
    assert!(stage.sent.is_empty(), "it is not said again as another");
    // What was never sent is not in doubt.
    stage.send_value(b"third");
    let third = stage.next();
    assert_eq!(third.told(), (0, 2, 1));
    stage.answer(&third, ErrorCode::OutOfOrderSequenceNumber, -1);
    let anew = stage.next();
    assert_eq!((anew.told(), &anew.values), ((1, 0, 1), &third.values));
    stage.answer(&anew, ErrorCode::None, 5);
    assert!(stage.done.last().is_some_and(|(_, _, outcome)| outcome.is_ok()));
}
