//! Compaction, one story each.

mod replicas;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use records::{BatchBuilder, BatchOptions, Scratch, batches};

use crate::disk::Disk as _;
use crate::layout::{FileKind, file_name};
use crate::log::{FlushScope, Log};
use crate::memory::MemoryDisk;
use crate::recovery::{Known, OpenError};
use crate::scan::Damage;
use crate::settings::LogSettings;
use crate::testing::power::PowerDisk;
use crate::testing::*;
use crate::{AppendError, Committed, CompactionError};

/// Room for all keys of a test.
const MAP_BYTES: usize = 1 << 16;
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Each batch but the newest makes a segment of its own.
fn settings() -> LogSettings {
    LogSettings {
        compacts: true,
        deletes: false,
        dirty_ppm_min: 0,
        segment_bytes: 300,
        ..LogSettings::tiny()
    }
}

/// A batch with these keys and values.
fn pairs(options: &BatchOptions, pairs: &[(&str, Option<&str>)]) -> Vec<u8> {
    pairs_at(1000, options, pairs)
}

fn pairs_at(ms: i64, options: &BatchOptions, pairs: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 20);
    for (key, value) in pairs {
        let value = value.map(str::as_bytes);
        builder.try_append(TimestampMs(ms), Some(key.as_bytes()), value, &[]).expect("fits");
    }
    let mut out = Vec::new();
    builder.finish(options, &mut Scratch::default(), &mut out).expect("fits");
    out
}

fn put(log: &mut Log, of: &[(&str, Option<&str>)]) {
    append(log, &pairs(&BatchOptions::default(), of));
}

/// A segment that is closed, and another that grows.
fn roll(log: &mut Log) {
    append(log, &batch(&[1000], 200));
    log.flush(FlushScope::Checkpoint).expect("memory");
}

/// Offset, key and value of all records but those of [`roll`].
fn table(log: &Log) -> Vec<(i64, String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut found = Vec::new();
    let mut next = log.start();
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 1 << 20, true).expect("in range");
        for batch in batches(&read(&plan)) {
            let batch = batch.expect("good");
            let mut scratch = Scratch::default();
            if batch.header().records_count == 0 {
                continue;
            }
            for record in batch.records(&mut scratch).expect("readable") {
                let record = record.expect("readable");
                let key = text(record.key.expect("it has one"));
                let value = record.value.map(text);
                if key != "k" {
                    found.push((record.offset(batch.header()).0, key, value));
                }
            }
        }
        assert!(plan.next > next, "a read goes on");
        next = plan.next;
    }
    found
}

fn found(of: &[(i64, &str, Option<&str>)]) -> Vec<(i64, String, Option<String>)> {
    of.iter().map(|&(offset, key, value)| (offset, key.to_owned(), value.map(str::to_owned))).collect()
}

fn by_all(upto: Offset) -> Committed {
    Committed { upto, by_all: true }
}

fn compact_at(log: &mut Log, ms: i64) -> Option<crate::Compacted> {
    log.compact(now(ms), by_all(log.end()), MAP_BYTES).expect("memory")
}

#[test]
fn of_each_key_the_last_stays_and_then_goes_its_tombstone() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    put(&mut log, &[("a", Some("1")), ("b", Some("1"))]);
    roll(&mut log);
    put(&mut log, &[("a", Some("2")), ("b", None)]);
    put(&mut log, &[("c", Some("1"))]);
    roll(&mut log);
    let (before, end) = (log.size_bytes(), log.end());
    let compacted = compact_at(&mut log, 5000).expect("due");
    assert_eq!(table(&log), found(&[(3, "a", Some("2")), (4, "b", None), (5, "c", Some("1"))]));
    assert!(log.size_bytes() < before && log.end() == end);
    assert!(compacted.stats.written_bytes < compacted.stats.replaced_bytes);
    assert_eq!(compacted.stats.keys, 4);
    assert!(compact_at(&mut log, 5000).is_none(), "nothing is dirty");
    // The tombstone has got its time, and goes with the first compaction after it.
    for (at, tombstone) in [(5000 + DAY - 1, true), (5000 + DAY, false)] {
        put(&mut log, &[("c", Some("2"))]);
        roll(&mut log);
        compact_at(&mut log, at).expect("due");
        assert_eq!(table(&log).iter().any(|(_, key, _)| key == "b"), tombstone, "{at}");
    }
    // Every offset leads to the next record that is there.
    for offset in 0..log.end().0 {
        let plan = log.plan_read(Offset(offset), log.end(), 1, true).expect("in range");
        assert!(plan.next.0 > offset, "{offset}");
    }
    let before = table(&log);
    for clean in [true, false] {
        if clean {
            log.close().expect("memory");
        }
        let known = Known { clean, ..unclean(log.recovery_point()) };
        let (reopened, recovered) = open(&disk, settings(), known).expect("good");
        assert_eq!((recovered.clean, &recovered.cut), (clean, &None));
        assert_eq!((table(&reopened), reopened.end()), (before.clone(), log.end()));
        log = reopened;
    }
}

#[test]
fn a_map_that_is_full_is_gone_on_with_the_next_time() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    for value in ["1", "2"] {
        for key in ["a", "b", "c", "d", "e", "f", "g"] {
            put(&mut log, &[(key, Some(value))]);
        }
        roll(&mut log);
    }
    let mut runs = 0;
    let mut upto = Offset::ZERO;
    while log.compact(now(1), by_all(log.end()), 0).expect("memory").is_some() {
        assert!(log.clean_upto() > upto, "each goes on where the one before ended");
        upto = log.clean_upto();
        runs += 1;
    }
    assert!(runs > 3, "{runs}");
    let keys: Vec<_> = table(&log).into_iter().map(|(_, key, value)| (key, value)).collect();
    let last = ["a", "b", "c", "d", "e", "f", "g"].map(|key| (key.to_owned(), Some("2".to_owned())));
    // What was in no map together with its successor is still there, and goes when it is in one.
    assert!(last.iter().all(|pair| keys.contains(pair)), "{keys:?}");
    assert_eq!(keys, last);
}

#[test]
fn what_is_not_committed_or_too_new_or_too_little_waits() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    put(&mut log, &[("a", Some("1"))]);
    roll(&mut log);
    put(&mut log, &[("a", Some("2"))]);
    roll(&mut log);
    let waits = |log: &mut Log, settings: LogSettings, high_watermark: Offset, ms: i64| {
        log.reconfigure(settings);
        log.compaction_plan(now(ms), by_all(high_watermark), MAP_BYTES).expect("memory").is_none()
    };
    let end = log.end();
    assert!(waits(&mut log, settings(), Offset::ZERO, 5000), "not committed");
    let lag = LogSettings { compaction_lag_min: Duration::from_millis(500), ..settings() };
    assert!(waits(&mut log, lag.clone(), end, 1499), "too new");
    let ratio = LogSettings { dirty_ppm_min: 1_000_000, ..settings() };
    assert!(waits(&mut log, ratio.clone(), end, 1499), "too little");
    assert!(waits(&mut log, LogSettings { compacts: false, ..settings() }, end, 1499), "never");
    assert!(!waits(&mut log, lag, end, 1500));
    let old = LogSettings { compaction_lag_max: Some(Duration::from_millis(500)), ..ratio };
    assert!(waits(&mut log, old.clone(), end, 1500), "not old enough");
    let segments = log.segments_count();
    assert!(!waits(&mut log, old, end, 1501));
    assert_eq!(log.segments_count(), segments + 1, "what grows is old, too, and will not wait for a record");
    // A record that may be lost with the power takes nobody's place.
    let mut log = create(&MemoryDisk::new(), settings());
    put(&mut log, &[("a", Some("1"))]);
    append(&mut log, &batch(&[1000], 200));
    assert!(waits(&mut log, settings(), Offset(2), 5000), "not on media");
}

#[test]
fn a_log_to_which_nothing_more_is_written_does_not_wait_for_a_record() {
    let old = Some(Duration::from_millis(500));
    let settings = LogSettings { compaction_lag_max: old, dirty_ppm_min: 1_000_000, ..settings() };
    let mut log = create(&MemoryDisk::new(), settings);
    put(&mut log, &[("a", Some("1"))]);
    put(&mut log, &[("a", Some("2"))]);
    let is_due = |log: &mut Log, ms| log.dirt(now(ms), log.end()).expect("memory").is_overdue;
    assert!(!is_due(&mut log, 1501), "not on media");
    log.flush(FlushScope::Checkpoint).expect("memory");
    assert!(!is_due(&mut log, 1500), "not old enough");
    assert!(is_due(&mut log, 1501));
    assert_eq!(log.segments_count(), 1, "a look changes nothing");
    compact_at(&mut log, 1501).expect("due");
    assert_eq!(table(&log), found(&[(1, "a", Some("2"))]));
    assert!(!is_due(&mut log, 9000), "what grows is empty");
}

/// `cleanup.policy=compact,delete`.
#[test]
fn what_is_compacted_may_go_for_its_age_as_well() {
    let both = LogSettings {
        deletes: true,
        retention_age: Some(Duration::from_secs(10)),
        file_delete_delay: Duration::ZERO,
        ..settings()
    };
    let mut log = create(&MemoryDisk::new(), both);
    put(&mut log, &[("a", Some("1")), ("b", Some("1"))]);
    roll(&mut log);
    put(&mut log, &[("a", Some("2"))]);
    roll(&mut log);
    compact_at(&mut log, 5000).expect("due");
    assert_eq!(table(&log), found(&[(1, "b", Some("1")), (3, "a", Some("2"))]));
    // The last of its key is no reason to stay for what is too old.
    let later = |log: &mut Log, value| {
        append(log, &pairs_at(20_000, &BatchOptions::default(), &[("c", Some(value))]));
        roll(log);
    };
    later(&mut log, "1");
    assert!(log.retain(now(21_000), log.end()).expect("memory") > 0);
    assert_eq!((log.start(), table(&log)), (Offset(5), found(&[(5, "c", Some("1"))])));
    later(&mut log, "2");
    compact_at(&mut log, 21_000).expect("due");
    assert_eq!(table(&log), found(&[(7, "c", Some("2"))]), "and what is left is compacted on");
}

#[test]
fn what_was_aborted_takes_nobodys_place_and_markers_stay() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    put(&mut log, &[("a", Some("1")), ("b", Some("1"))]);
    roll(&mut log);
    let part = |id, sequence, value: &str| {
        let of = producer(id, 0, sequence);
        let options = BatchOptions { producer: of, transactional: true, ..BatchOptions::default() };
        pairs(&options, &[(if id == 7 { "a" } else { "b" }, Some(value))])
    };
    append(&mut log, &part(7, 0, "void"));
    append(&mut log, &part(8, 0, "2"));
    roll(&mut log);
    let upto = log.end();
    append(&mut log, &marker(7, 0, false, 0));
    append(&mut log, &marker(8, 0, true, 0));
    roll(&mut log);
    append(&mut log, &part(8, 1, "open"));
    roll(&mut log);
    log.on_high_watermark(log.end());
    compact_at(&mut log, 5000).expect("due");
    let left = [(0, "a", Some("1")), (3, "a", Some("void")), (4, "b", Some("2"))];
    assert_eq!(table(&log)[..3], found(&left)[..]);
    let aborted = log.aborted_transactions(Offset::ZERO, log.end()).expect("memory");
    assert_eq!(
        aborted.iter().map(|txn| (txn.producer_id.0, txn.first_offset.0)).collect::<Vec<_>>(),
        [(7, 3)]
    );
    assert!(log.clean_upto() >= upto && log.clean_upto() <= log.last_stable_offset(log.end()));
    // The index of aborted transactions has found its way into the segment that took their place.
    let known = unclean(log.recovery_point());
    let (mut log, _) = open(&disk, settings(), known).expect("good");
    assert_eq!(log.aborted_transactions(Offset::ZERO, log.end()).expect("memory"), aborted);
}

#[test]
fn producers_go_on_with_their_sequences() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    for sequence in 0..3 {
        let options = BatchOptions { producer: producer(7, 1, sequence), ..BatchOptions::default() };
        append(&mut log, &pairs(&options, &[("a", Some("1"))]));
    }
    put(&mut log, &[("a", Some("2"))]);
    roll(&mut log);
    compact_at(&mut log, 1).expect("due");
    assert_eq!(table(&log), found(&[(3, "a", Some("2"))]));
    // Snapshots are gone, so that only the batches tell.
    for entry in disk.list(log.dir()).expect("memory").iter().filter(|e| e.name.ends_with(".snapshot")) {
        disk.remove_file(&log.dir().join(&entry.name)).expect("memory");
    }
    let (mut log, _) = open(&disk, settings(), unclean(log.recovery_point())).expect("good");
    let seen = log.producers().next().expect("it is known");
    assert_eq!((seen.id, seen.epoch, seen.last_sequence), (ProducerId(7), ProducerEpoch(1), Sequence(2)));
    let again = BatchOptions { producer: producer(7, 1, 2), ..BatchOptions::default() };
    assert!(append(&mut log, &pairs(&again, &[("a", Some("1"))])).duplicate);
}

#[test]
fn a_gap_of_any_width_begins_a_segment_of_its_own() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    let far = Offset(3 << 31);
    let options = BatchOptions { base_offset: far, leader_epoch: LeaderEpoch(0), ..BatchOptions::default() };
    let raw = pairs(&options, &[("a", Some("1"))]);
    let batch = batches(&raw).next().expect("one").expect("good");
    log.append_fetched(now(1), &batch).expect("appended");
    assert_eq!((log.end(), table(&log).len(), log.segments_count()), (far.next(), 1, 2));
    let (log, recovered) = open(&disk, settings(), unclean(Offset::ZERO)).expect("good");
    assert_eq!((recovered.cut, log.end(), table(&log).len()), (None, far.next(), 1));
}

#[test]
fn the_power_takes_nothing_before_what_it_leaves_where_gaps_are_allowed() {
    let fetched: Vec<i64> = (0..4).chain(6..14).collect();
    for seed in 1..400_u32 {
        let mut state = seed;
        let mut chance = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let disk = PowerDisk::default();
        let dir = PathBuf::from(DIR);
        let log = Log::create(Arc::new(disk.clone()), dir.clone(), TOPIC, settings(), now(0));
        let mut log = log.expect("created");
        for &offset in &fetched {
            let options = BatchOptions { base_offset: Offset(offset), ..BatchOptions::default() };
            let raw = batch_of(&options, &[1000], if chance() % 2 == 0 { 200 } else { 10 });
            let batch = batches(&raw).next().expect("one").expect("good");
            log.append_fetched(now(1), &batch).expect("appended");
        }
        let after = Arc::new(disk.cut(&mut chance));
        let (log, _) = Log::open(after, dir, settings(), unclean(Offset::ZERO), now(2)).expect("good");
        let left: Vec<i64> = read_all(&log, log.start()).iter().map(|batch| batch.base).collect();
        assert_eq!(left, fetched[..left.len()], "seed {seed}");
        let next = fetched.get(left.len()).copied();
        assert!(next.is_none_or(|next| log.end() <= Offset(next)), "seed {seed}: {} of {next:?}", log.end());
    }
}

#[test]
fn a_cut_takes_back_what_was_about_to_take_its_place() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    for value in ["1", "2", "3"] {
        put(&mut log, &[("a", Some(value))]);
        roll(&mut log);
    }
    let plan = log.compaction_plan(now(1), by_all(log.end()), MAP_BYTES).expect("memory");
    let mut compaction = plan.expect("due");
    let rewritten = compaction.next(&mut |_| true).expect("memory").expect("something goes");
    let swap = log.on_rewritten(rewritten).expect("memory").expect("the log is as it was");
    log.truncate(now(1), ..Offset(1)).expect("memory");
    let names = || disk.list(log.dir()).expect("memory").into_iter().map(|entry| entry.name);
    assert!(!names().any(|name| name.ends_with(".swap")));
    let swapped = swap.run().expect("memory");
    assert!(!log.on_swapped(now(1), swapped).expect("memory"), "it is given up");
    assert!(!log.on_compacted(&compaction.finish()), "and does not count");
    assert_eq!((table(&log), log.clean_upto()), (found(&[(0, "a", Some("1"))]), Offset::ZERO));
    // A log that was cut before it heard of the segment gives it up, too.
    put(&mut log, &[("a", Some("4"))]);
    roll(&mut log);
    let plan = log.compaction_plan(now(1), by_all(log.end()), MAP_BYTES).expect("memory");
    let mut compaction = plan.expect("due");
    let rewritten = compaction.next(&mut |_| true).expect("memory").expect("something goes");
    log.truncate(now(1), ..Offset(1)).expect("memory");
    assert!(log.on_rewritten(rewritten).expect("memory").is_none());
}

#[test]
fn damage_stops_a_compaction_and_changes_nothing() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    put(&mut log, &[("a", Some("1"))]);
    roll(&mut log);
    put(&mut log, &[("a", Some("2"))]);
    roll(&mut log);
    let path = log.dir().join(file_name(FileKind::Log, Offset(0)));
    let good = disk.contents(&path).expect("there");
    for (at, what) in [(69, "bytes"), (7, "its place")] {
        let mut bad = good.clone();
        bad[at] ^= 1 << 5;
        disk.put(&path, bad);
        log.rest();
        log.rest();
        let error = log.compact(now(1), by_all(log.end()), MAP_BYTES).expect_err(what);
        assert!(matches!(error, CompactionError::Damaged { segment: Offset(0), .. }), "{error}");
        assert!(log.poison().is_none(), "{what}");
    }
    disk.put(&path, good);
    log.compact(now(1), by_all(log.end()), MAP_BYTES).expect("memory").expect("due");
    assert_eq!(table(&log), found(&[(2, "a", Some("2"))]));
}

#[test]
fn a_gap_that_nobody_wrote_down_is_damage() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, settings());
    for value in ["1", "2", "3"] {
        put(&mut log, &[("a", Some(value))]);
        roll(&mut log);
    }
    let gone = log.dir().join(file_name(FileKind::Log, Offset(2)));
    disk.remove_file(&gone).expect("memory");
    let error = open(&disk, settings(), unclean(log.recovery_point())).expect_err("a segment is missing");
    let OpenError::Quarantined { damage: Damage::Gap { expected, .. }, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(expected, Offset(2));
}
