//! A batch that is larger than the topic takes.

use std::time::Duration;

use base::ErrorCode;
use records::Compression;
use vltava_client_core::producer::{Acks, DeliveryError, ProducerSettings};

use crate::stage::Stage;

const LINGER: Duration = Duration::from_millis(5);

/// A broker that takes batches up to a size, and keeps to Kafka's rule of sequences.
struct Log {
    bytes_max: usize,
    values: Vec<Vec<u8>>,
    sequence_next: i32,
}

impl Log {
    /// Answers all that is sent, until nothing is.
    fn take_all(&mut self, stage: &mut Stage) {
        while let Some(sent) = stage.sent.pop_front() {
            let (_, sequence, count) = sent.told();
            let (code, at) = match () {
                () if sent.bytes > self.bytes_max => (ErrorCode::MessageTooLarge, -1),
                () if sequence >= 0 && sequence != self.sequence_next => {
                    (ErrorCode::OutOfOrderSequenceNumber, -1)
                }
                () => {
                    self.sequence_next += count;
                    self.values.extend_from_slice(&sent.values);
                    (ErrorCode::None, self.values.len() as i64 - i64::from(count))
                }
            };
            stage.answer(&sent, code, at);
        }
    }
}

fn values(count: usize) -> Vec<Vec<u8>> {
    // No two alike, so that they cannot be compressed away.
    let mut chance = vltava_client_core::Chance::new(3);
    (0..count).map(|_| (0..100).map(|_| chance.next_u64() as u8).collect()).collect()
}

/// Writes so many records of 100 bytes as batches of ten, of which the topic takes `taken`.
fn written(settings: ProducerSettings, count: usize, bytes_max: usize) -> (Stage, Log, Vec<Vec<u8>>) {
    let settings = ProducerSettings { batch_bytes_max: 1_200, linger: LINGER, ..settings };
    let mut stage = Stage::new(settings);
    let values = values(count);
    for value in &values {
        stage.send_value(value);
    }
    let mut log = Log { bytes_max, values: Vec::new(), sequence_next: 0 };
    log.take_all(&mut stage);
    stage.pass(LINGER);
    log.take_all(&mut stage);
    (stage, log, values)
}

#[test]
fn it_goes_in_parts_in_the_order_of_its_records() {
    let plain = ProducerSettings::default();
    let compressed = ProducerSettings { compression: Compression::Lz4, ..plain.clone() };
    let careless = ProducerSettings { idempotence: false, acks: Acks::Leader, ..plain.clone() };
    for settings in [plain, compressed, careless] {
        for bytes_max in [200, 300, 700] {
            let (stage, log, values) = written(settings.clone(), 35, bytes_max);
            assert!(log.values == values, "{} of {} to {bytes_max}", log.values.len(), values.len());
            let done: usize = stage.done.iter().map(|(_, records, _)| records).sum();
            assert_eq!(done, 35, "each record has its last word");
            assert!(stage.done.iter().all(|(_, _, outcome)| outcome.is_ok()), "{:?}", stage.done);
            assert_eq!((stage.producer.outstanding(), stage.producer.memory_used_bytes()), (0, 0));
        }
    }
}

#[test]
fn each_part_is_where_the_broker_says() {
    let (stage, log, values) = written(ProducerSettings::default(), 9, 400);
    let mut known = vec![None; values.len()];
    for (first, records, outcome) in &stage.done {
        let base = outcome.as_ref().ok().and_then(|written| written.base_offset).expect("it is written");
        (0..*records).for_each(|record| known[first + record] = Some(base.0 as usize + record));
    }
    for (number, at) in known.into_iter().enumerate() {
        assert_eq!(log.values[at.expect("it has its last word")], values[number]);
    }
}

#[test]
fn a_record_that_is_too_large_alone_is_refused_and_holds_up_nobody() {
    let mut stage = Stage::new(ProducerSettings { linger: LINGER, ..ProducerSettings::default() });
    let mut log = Log { bytes_max: 300, values: Vec::new(), sequence_next: 0 };
    for value in [&[1; 50][..], &[2; 900], &[3; 50], &[4; 50]] {
        stage.send_value(value);
    }
    stage.pass(LINGER);
    // The broker's rule of sequences is not the point here: what follows a refusal is of a new epoch.
    while let Some(sent) = stage.sent.pop_front() {
        let is_behind_a_gap = sent.told().0 == 0 && sent.told().1 > log.sequence_next;
        let code = match () {
            () if sent.bytes > log.bytes_max => ErrorCode::MessageTooLarge,
            () if is_behind_a_gap => ErrorCode::OutOfOrderSequenceNumber,
            () => ErrorCode::None,
        };
        if code.is_none() {
            log.sequence_next += sent.told().2;
            log.values.extend_from_slice(&sent.values);
        }
        stage.answer(&sent, code, 0);
    }
    assert_eq!(log.values, [vec![1; 50], vec![3; 50], vec![4; 50]]);
    let refused: Vec<_> = stage.done.iter().filter(|(_, _, outcome)| outcome.is_err()).collect();
    let [(1, 1, Err(error))] = refused[..] else { panic!("{refused:?}") };
    assert!(!error.may_be_written());
    assert!(error.to_string().contains("max.message.bytes"), "{error}");
}

#[test]
fn what_may_be_written_is_not_sent_in_parts() {
    let mut stage = Stage::new(ProducerSettings { linger: LINGER, ..ProducerSettings::default() });
    (0..2).for_each(|_| assert_eq!(stage.send_value(&[1; 50]).partition.0, 0));
    stage.pass(LINGER);
    let sent = stage.next();
    stage.answer(&sent, ErrorCode::RequestTimedOut, -1);
    stage.pass(Duration::from_secs(2));
    // The topic takes less by now, and a broker looks at the size first.
    let sent = stage.next();
    stage.answer(&sent, ErrorCode::MessageTooLarge, -1);
    let [(0, 2, Err(DeliveryError::Refused { may_be_written: true, .. }))] = stage.done[..] else {
        panic!("{:?}", stage.done)
    };
}

#[test]
fn all_parts_are_given_up_when_their_time_is_over() {
    let settings = ProducerSettings { linger: LINGER, ..ProducerSettings::default() };
    let timeout = settings.delivery_timeout;
    let mut stage = Stage::new(settings);
    (0..4).for_each(|_| assert_eq!(stage.send_value(&[1; 50]).partition.0, 0));
    stage.pass(LINGER);
    let sent = stage.next();
    stage.answer(&sent, ErrorCode::MessageTooLarge, -1);
    assert_eq!(stage.next().values.len(), 2, "the first half; its answer never comes");
    stage.pass(timeout);
    let done: Vec<_> = stage
        .done
        .iter()
        .map(|(first, records, outcome)| {
            (*first, *records, outcome.as_ref().map_err(DeliveryError::may_be_written).err())
        })
        .collect();
    assert_eq!(done, [(0, 2, Some(true)), (2, 2, Some(false))]);
    assert_eq!((stage.producer.outstanding(), stage.producer.memory_used_bytes()), (0, 0));
}
