use std::time::Duration;

use base::{Offset, ProducerId, Sequence};
use proptest::prelude::*;
use records::Producer;

use super::state::{PRODUCERS_MAX, ProducerError};
use super::*;
use crate::log::{AppendError, Appended, FlushScope, Log};
use crate::memory::MemoryDisk;
use crate::recovery::Known;
use crate::settings::LogSettings;
use crate::testing::*;

fn send(log: &mut Log, raw: &[u8]) -> Result<Appended, ProducerError> {
    match append_at(log, now(1), raw, 0) {
        Ok(appended) => Ok(appended),
        Err(AppendError::Producer(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

fn log() -> Log {
    create(&MemoryDisk::new(), LogSettings::tiny())
}

#[test]
fn a_repetition_is_answered_as_the_first_time() {
    let mut log = log();
    let mut first = Vec::new();
    for i in 0..7 {
        first.push(send(&mut log, &idempotent(producer(9, 0, i * 3), 3)).expect("in turn"));
    }
    let end = log.end();
    for i in 2..7 {
        let again = send(&mut log, &idempotent(producer(9, 0, i * 3), 3)).expect("repeated");
        let expected = Appended { duplicate: true, ..first[usize::try_from(i).expect("small")] };
        assert_eq!(again, expected);
    }
    assert_eq!(log.end(), end, "nothing was appended");
    // Older ones are not remembered, and a batch that was cut differently is not the same.
    for raw in [idempotent(producer(9, 0, 3), 3), idempotent(producer(9, 0, 18), 2)] {
        let error = send(&mut log, &raw).expect_err("neither new nor known");
        assert!(matches!(error, ProducerError::OutOfSequence { last: Sequence(20), .. }), "{error}");
    }
}

#[test]
fn sequences_have_no_gaps_and_wrap() {
    let mut log = log();
    // Whoever is not known may begin anywhere.
    send(&mut log, &idempotent(producer(9, 0, i32::MAX - 2), 2)).expect("unknown");
    let error = send(&mut log, &idempotent(producer(9, 0, 0), 1)).expect_err("a gap");
    assert_eq!(
        error,
        ProducerError::OutOfSequence { id: ProducerId(9), got: Sequence(0), last: Sequence(i32::MAX - 1) }
    );
    // One batch over the end of the range: i32::MAX, 0, 1.
    let over = idempotent(producer(9, 0, i32::MAX), 3);
    let appended = send(&mut log, &over).expect("in turn");
    assert_eq!(send(&mut log, &over).expect("repeated"), Appended { duplicate: true, ..appended });
    send(&mut log, &idempotent(producer(9, 0, 2), 1)).expect("goes on behind the wrap");
}

#[test]
fn a_new_epoch_counts_from_zero_and_an_old_one_is_fenced() {
    let mut log = log();
    send(&mut log, &idempotent(producer(9, 3, 0), 2)).expect("new");
    let error = send(&mut log, &idempotent(producer(9, 4, 2), 1)).expect_err("not from zero");
    assert!(matches!(error, ProducerError::OutOfSequence { last: Sequence::NONE, .. }));
    send(&mut log, &idempotent(producer(9, 4, 0), 1)).expect("from zero");
    let error = send(&mut log, &idempotent(producer(9, 3, 2), 1)).expect_err("replaced");
    assert!(matches!(error, ProducerError::OldEpoch { .. }));
    // What the old epoch wrote is no repetition for the new one.
    send(&mut log, &idempotent(producer(9, 4, 1), 2)).expect("in turn");
}

#[test]
fn producers_that_fell_silent_are_forgotten() {
    let mut log = log();
    send(&mut log, &idempotent(producer(1, 0, 0), 1)).expect("new");
    send(&mut log, &transactional(producer(2, 0, 0), 1)).expect("new");
    let day = 24 * 60 * 60 * 1000;
    assert_eq!(log.expire_producers(now(day)), 0);
    assert_eq!(log.expire_producers(now(day + 1)), 1);
    let left: Vec<_> = log.producers().map(|p| p.id).collect();
    assert_eq!(left, [ProducerId(2)], "one with an open transaction is kept");
}

#[test]
fn old_timestamps_do_not_make_a_producer_old() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    let day = 24 * 60 * 60 * 1000;
    let sent = idempotent(producer(1, 0, 0), 1);
    append_at(&mut log, now(9 * day), &sent, 0).expect("its records are from day 0");
    assert_eq!(log.expire_producers(now(10 * day - 1)), 0);
    assert!(append_at(&mut log, now(10 * day - 1), &sent, 0).expect("again").duplicate);
    log.close().expect("memory");
    let known = Known { clean: true, ..unclean(log.end()) };
    let (mut log, _) = open(&disk, LogSettings::tiny(), known).expect("good");
    assert_eq!(log.expire_producers(now(day - 1)), 0, "counted from the start on");
    assert_eq!(log.expire_producers(now(day)), 1);
}

#[test]
fn there_are_only_so_many_producers() {
    let mut producers = Producers::default();
    let placed = |id: i64, at: i64, transactional: bool| {
        let of = producer(id, 0, 0);
        let raw = if transactional { self::transactional(of, 1) } else { idempotent(of, 1) };
        let mut header = records::BatchHeader::parse(&raw).expect("good");
        header.place(Offset(at), base::LeaderEpoch(0));
        header
    };
    producers.apply(&placed(-1 + 2, 0, true), Duration::ZERO);
    let many = i64::try_from(PRODUCERS_MAX).expect("small") + 1000;
    // The ids go down as the offsets go up: age decides, not the number.
    for at in 1..=many {
        producers.apply(&placed(many + 10 - at, at, false), Duration::ZERO);
        assert!(producers.views().count() <= PRODUCERS_MAX);
    }
    let known = |producers: &Producers, at: i64| {
        let header = placed(if at == 0 { 1 } else { many + 10 - at }, at, at == 0);
        matches!(producers.check(&header), Ok(Verdict::Duplicate { .. }))
    };
    assert!(known(&producers, many) && known(&producers, many / 2), "the newest stay");
    assert!(!known(&producers, 1) && known(&producers, 0), "the oldest goes, unless it has a transaction");
    let bytes = snapshot::format_snapshot(&producers);
    let restored = snapshot::restore_snapshot(&bytes, Duration::ZERO).expect("just written");
    assert_eq!(restored, producers);
}

#[test]
fn transactions_hold_the_stable_offset_back() {
    let mut log = log();
    send(&mut log, &transactional(producer(1, 0, 0), 2)).expect("opens at 0");
    send(&mut log, &idempotent(producer(3, 0, 0), 2)).expect("not part of one");
    send(&mut log, &transactional(producer(2, 0, 0), 2)).expect("opens at 4");
    send(&mut log, &transactional(producer(1, 0, 2), 2)).expect("goes on");
    assert_eq!(log.first_unstable(), Some(Offset(0)));
    let error = send(&mut log, &idempotent(producer(1, 0, 4), 1)).expect_err("half way");
    assert_eq!(error, ProducerError::InTransaction { id: ProducerId(1) });
    send(&mut log, &marker(1, 0, false, 5)).expect("aborts at 8");
    // Ended, but not all in-sync replicas have the marker.
    assert_eq!(log.last_stable_offset(Offset(8)), Offset(0));
    log.on_high_watermark(Offset(9));
    assert_eq!(log.last_stable_offset(Offset(9)), Offset(4));
    let error = send(&mut log, &marker(1, 0, true, 4)).expect_err("an older coordinator");
    assert!(matches!(error, ProducerError::CoordinatorFenced { got: 4, current: 5, .. }));
    send(&mut log, &marker(2, 0, true, 5)).expect("commits at 9");
    log.on_high_watermark(Offset(10));
    assert_eq!(log.last_stable_offset(Offset(10)), Offset(10));
    let aborted = log.aborted_transactions(Offset(0), Offset(10)).expect("memory");
    let ranges: Vec<_> =
        aborted.iter().map(|t| (t.producer_id.0, t.first_offset.0, t.last_offset.0)).collect();
    assert_eq!(ranges, [(1, 0, 8)]);
    assert_eq!(aborted[0].last_stable_offset, Offset(4));
    assert!(log.aborted_transactions(Offset(9), Offset(10)).expect("memory").is_empty());
    // A marker for a producer that wrote nothing changes nothing.
    send(&mut log, &marker(77, 0, false, 1)).expect("empty");
    assert_eq!(log.first_unstable(), None);
}

#[test]
fn a_snapshot_is_as_kafka_writes_it() {
    let mut producers = Producers::default();
    let header = records::BatchHeader::parse(&idempotent(producer(1, 2, 3), 4)).expect("good");
    producers.apply(&header, Duration::ZERO);
    let bytes = snapshot::format_snapshot(&producers);
    assert_eq!(bytes.len(), 2 + 4 + 4 + 46);
    assert_eq!(bytes[..2], [0, 1]);
    assert_eq!(bytes[6..10], [0, 0, 0, 1]);
    let entry = parse_snapshot(&bytes).expect("just written")[0];
    assert_eq!((entry.last_sequence, entry.offset_delta), (Sequence(6), 3));
    let restored = snapshot::restore_snapshot(&bytes, Duration::ZERO).expect("just written");
    assert_eq!(snapshot::format_snapshot(&restored), bytes);
    for cut in 0..bytes.len() {
        assert!(parse_snapshot(&bytes[..cut]).is_err(), "{cut}");
    }
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x40;
        assert!(parse_snapshot(&bad).is_err(), "{at}");
    }
}

#[test]
fn a_snapshot_knows_every_batch_that_may_be_sent_again() {
    let mut producers = Producers::default();
    let sent: Vec<_> = (0..7i32)
        .map(|at| {
            let raw = idempotent(producer(1, 2, at * 10), 10);
            let mut header = records::BatchHeader::parse(&raw).expect("good");
            header.place(Offset(i64::from(at) * 10), base::LeaderEpoch(0));
            header
        })
        .collect();
    sent.iter().for_each(|header| producers.apply(header, Duration::ZERO));
    let bytes = snapshot::format_snapshot(&producers);
    let restored = snapshot::restore_snapshot(&bytes, Duration::ZERO).expect("just written");
    assert_eq!(restored, producers);
    for (at, header) in sent.iter().enumerate() {
        let (verdict, is_known) = (restored.check(header), at >= 2);
        assert_eq!(matches!(verdict, Ok(Verdict::Duplicate { .. })), is_known, "{at}: {verdict:?}");
    }
    // Kafka keeps the last entry that it reads of a producer.
    let last = *parse_snapshot(&bytes).expect("just written").last().expect("five");
    assert_eq!((last.last_sequence, last.last_offset), (Sequence(69), Offset(69)));
}

/// What a producer may do next.
#[derive(Debug, Clone)]
enum Step {
    Send { id: i64, count: usize },
    Repeat { id: i64, back: usize },
    Skip { id: i64 },
    Bump { id: i64 },
    Open { id: i64, count: usize },
    End { id: i64, commit: bool },
    Restart { clean: bool },
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 1..4i64;
    prop_oneof![
        8 => (id.clone(), 1..5usize).prop_map(|(id, count)| Step::Send { id, count }),
        3 => (id.clone(), 0..8usize).prop_map(|(id, back)| Step::Repeat { id, back }),
        1 => id.clone().prop_map(|id| Step::Skip { id }),
        1 => id.clone().prop_map(|id| Step::Bump { id }),
        4 => (id.clone(), 1..5usize).prop_map(|(id, count)| Step::Open { id, count }),
        4 => (id, any::<bool>()).prop_map(|(id, commit)| Step::End { id, commit }),
        1 => any::<bool>().prop_map(|clean| Step::Restart { clean }),
        1 => Just(Step::Checkpoint),
    ]
}

#[derive(Debug, Clone, Default)]
struct Model {
    epoch: i16,
    next: i32,
    open: Option<i64>,
    sent: Vec<(Producer, usize, Appended)>,
    aborted: Vec<(i64, i64)>,
}

proptest! {
    #[test]
    fn producers_are_what_their_batches_say(steps in prop::collection::vec(step(), 1..80)) {
        let disk = MemoryDisk::new();
        let mut log = create(&disk, LogSettings::tiny());
        let mut models = vec![Model::default(); 4];
        for step in steps {
            run(&disk, &mut log, &mut models, &step);
            let open = models.iter().filter_map(|m| m.open).min();
            log.on_high_watermark(log.end());
            prop_assert_eq!(log.first_unstable().map(|o| o.0), open);
            let mut expected: Vec<_> = models.iter().flat_map(|m| m.aborted.clone()).collect();
            expected.sort_unstable();
            let aborted = log.aborted_transactions(Offset(0), log.end()).expect("memory");
            let found: Vec<_> = aborted.iter().map(|t| (t.first_offset.0, t.last_offset.0)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

fn run(disk: &MemoryDisk, log: &mut Log, models: &mut [Model], step: &Step) {
    let index = |id: i64| usize::try_from(id).expect("small");
    match *step {
        Step::Send { id, count } if models[index(id)].open.is_none() => {
            let model = &mut models[index(id)];
            let of = producer(id, model.epoch, model.next);
            let appended = send(log, &idempotent(of, count)).expect("in turn");
            assert!(!appended.duplicate);
            model.sent.push((of, count, appended));
            model.next += i32::try_from(count).expect("small");
        }
        Step::Open { id, count } => {
            let model = &mut models[index(id)];
            let of = producer(id, model.epoch, model.next);
            let appended = send(log, &transactional(of, count)).expect("in turn");
            model.sent.push((of, count, appended));
            model.open.get_or_insert(appended.base_offset.0);
            model.next += i32::try_from(count).expect("small");
        }
        Step::Repeat { id, back } => {
            let model = &models[index(id)];
            let Some(&(of, count, first)) = model.sent.iter().rev().nth(back) else { return };
            let answer = send(log, &idempotent(of, count));
            if of.epoch.0 < model.epoch && model.next > 0 {
                assert!(matches!(answer, Err(ProducerError::OldEpoch { .. })), "{answer:?}");
            } else if of.epoch.0 == model.epoch && back < 5 {
                assert_eq!(answer, Ok(Appended { duplicate: true, ..first }));
            } else {
                assert!(answer.map_or(true, |answer| answer.duplicate));
            }
        }
        Step::Skip { id } => {
            let model = &models[index(id)];
            if model.next > 0 {
                let raw = idempotent(producer(id, model.epoch, model.next + 1), 1);
                assert!(matches!(send(log, &raw), Err(ProducerError::OutOfSequence { .. })));
            }
        }
        Step::Bump { id } if models[index(id)].open.is_none() => {
            let model = &mut models[index(id)];
            model.epoch += 1;
            let of = producer(id, model.epoch, 0);
            let appended = send(log, &idempotent(of, 1)).expect("a new epoch");
            model.sent.push((of, 1, appended));
            model.next = 1;
        }
        Step::End { id, commit } => {
            let model = &mut models[index(id)];
            let appended = send(log, &marker(id, model.epoch, commit, 1)).expect("current");
            if let Some(first) = model.open.take().filter(|_| !commit) {
                model.aborted.push((first, appended.last_offset.0));
            }
        }
        Step::Restart { clean } => restart(disk, log, clean),
        Step::Checkpoint => log.flush(FlushScope::Checkpoint).expect("memory"),
        Step::Send { .. } | Step::Bump { .. } => {}
    }
}

fn restart(disk: &MemoryDisk, log: &mut Log, clean: bool) {
    if clean {
        log.close().expect("memory");
    }
    let before: Vec<_> = log.producers().collect();
    let (recovery_point, log_start) = (log.recovery_point(), log.start());
    let known = Known { recovery_point, log_start, clean, adopted: false };
    *log = open(disk, LogSettings::tiny(), known).expect("good").0;
    let after: Vec<_> = log.producers().collect();
    assert_eq!(after, before);
}
