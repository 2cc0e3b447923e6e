use base::{LeaderEpoch, Offset, TimestampMs};
use records::{StoredBatch, TimestampType};

use super::*;
use crate::layout::{FileKind, file_name};
use crate::memory::MemoryDisk;
use crate::read::ReadError;
use crate::recovery::Known;
use crate::testing::*;

mod check;
mod compact;
mod compact_model;
mod model;

fn file(log: &Log, kind: FileKind, base: i64) -> PathBuf {
    log.dir().join(file_name(kind, Offset(base)))
}

#[test]
fn batches_get_their_offsets_and_come_back() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    let first = append(&mut log, &batch(&[5, 6, 7], 100));
    assert_eq!((first.base_offset, first.last_offset), (Offset(0), Offset(2)));
    let second = append(&mut log, &batch(&[8], 100));
    assert_eq!((second.base_offset, second.last_offset), (Offset(3), Offset(3)));
    assert_eq!(log.end(), Offset(4));
    assert_eq!(log.durable_end(), Offset(0));
    let found = read_all(&log, Offset(0));
    assert_eq!(found.iter().map(|b| (b.base, b.last)).collect::<Vec<_>>(), [(0, 2), (3, 3)]);
    // A read begins with the batch that has the offset.
    let plan = log.plan_read(Offset(2), log.end(), 10_000, false).expect("in range");
    assert_eq!((plan.first, plan.next), (Offset(0), Offset(4)));
}

#[test]
fn a_read_has_whole_batches_within_its_bounds() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    let raw = batch(&[1, 1], 100);
    let size = u32::try_from(raw.len()).expect("small");
    for _ in 0..10 {
        append(&mut log, &raw);
    }
    let plan = |from, upto, max, one| {
        let plan = log.plan_read(Offset(from), Offset(upto), max, one).expect("in range");
        (plan.first.0, plan.next.0, plan.bytes / size)
    };
    assert_eq!(plan(0, 20, 10 * size, false), (0, 20, 10));
    assert_eq!(plan(3, 20, 3 * size, false), (2, 8, 3));
    assert_eq!(plan(3, 20, 3 * size + 5, false), (2, 8, 3));
    assert_eq!(plan(4, 11, 99 * size, false), (4, 10, 3), "upto lies within a batch");
    assert_eq!(plan(4, 4, 99 * size, true), (4, 4, 0), "nothing may be read");
    assert_eq!(plan(4, 20, size - 1, false), (4, 4, 0), "no room");
    assert_eq!(plan(4, 20, size - 1, true), (4, 6, 1), "the first does not count");
    assert_eq!(plan(4, 20, 0, true), (4, 6, 1));
    assert_eq!(plan(20, 20, size, true), (20, 20, 0), "the end");
    let outside = ReadError::OutOfRange { from: Offset(21), start: Offset(0), end: Offset(20) };
    assert_eq!(log.plan_read(Offset(21), Offset(20), 1, true).expect_err("outside"), outside);
}

#[test]
fn a_full_segment_is_closed_and_its_tables_are_kafkas() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..60 {
        append(&mut log, &batch(&[100 + i], 100));
    }
    assert!(log.segments_count() > 1);
    let base = log.segments[1].base;
    let index = disk.contents(&file(&log, FileKind::OffsetIndex, 0)).expect("written");
    let times = disk.contents(&file(&log, FileKind::TimeIndex, 0)).expect("written");
    assert_eq!(index.len() % 8, 0);
    assert_eq!(times.len() % 12, 0);
    // The last entry of a closed time index is the largest timestamp: one less than the next base.
    assert_eq!(times[times.len() - 12..times.len() - 4], (100 + base.0 - 1).to_be_bytes());
    assert!(disk.contents(&file(&log, FileKind::Snapshot, base.0)).is_some());
    assert_eq!(read_all(&log, Offset(0)).len(), 60);
    // One plan reaches over segments.
    let plan = log.plan_read(Offset(0), log.end(), u32::MAX, true).expect("in range");
    assert!(plan.slices.len() > 1);
    assert_eq!(stored(&read(&plan)).len(), 60);
}

#[test]
fn a_segment_is_closed_when_its_first_record_is_too_old() {
    let disk = MemoryDisk::new();
    let settings = LogSettings { segment_age_max: Duration::from_millis(100), ..LogSettings::default() };
    let mut log = create(&disk, settings);
    append(&mut log, &batch(&[1000], 10));
    append(&mut log, &batch(&[1100], 10));
    assert_eq!(log.segments_count(), 1);
    append(&mut log, &batch(&[1101], 10));
    assert_eq!(log.segments_count(), 2);
}

#[test]
fn a_flush_vouches_for_what_it_covered_and_no_more() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    append(&mut log, &batch(&[1], 10));
    let flush = log.flush_plan(FlushScope::Records).expect("planned").expect("something");
    append(&mut log, &batch(&[2], 10));
    let flushed = flush.run().expect("memory");
    log.on_flushed(flushed);
    assert_eq!((log.durable_end(), log.recovery_point()), (Offset(1), Offset(0)));
    log.flush(FlushScope::Checkpoint).expect("memory");
    assert_eq!((log.durable_end(), log.recovery_point()), (Offset(2), Offset(2)));
    assert!(log.flush_plan(FlushScope::Records).expect("planned").is_none());
    // What is cut while a flush runs is not durable, even if the same offsets come again.
    append(&mut log, &batch(&[3], 10));
    let flush = log.flush_plan(FlushScope::Records).expect("planned").expect("something");
    log.truncate(now(1), ..Offset(2)).expect("memory");
    append(&mut log, &batch(&[4], 10));
    let flushed = flush.run().expect("memory");
    log.on_flushed(flushed);
    assert_eq!(log.durable_end(), Offset(2));
}

#[test]
fn nothing_is_written_after_the_first_error() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    append(&mut log, &batch(&[1], 10));
    disk.fail(Some("write"));
    assert!(matches!(append_at(&mut log, now(1), &batch(&[2], 10), 0), Err(AppendError::Disk(_))));
    disk.fail(None);
    let writes = disk.count("write");
    assert!(matches!(append_at(&mut log, now(1), &batch(&[2], 10), 0), Err(AppendError::Poisoned(_))));
    log.flush(FlushScope::Checkpoint).expect_err("poisoned");
    log.truncate(now(1), ..Offset(0)).expect_err("poisoned");
    log.close().expect_err("poisoned");
    assert_eq!(disk.count("write"), writes);
    assert_eq!(read_all(&log, Offset(0)).len(), 1, "what was there can be read");
}

#[test]
fn a_failed_barrier_is_never_tried_again() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    append(&mut log, &batch(&[1], 10));
    disk.fail(Some("sync"));
    log.flush(FlushScope::Records).expect_err("told to fail");
    disk.fail(None);
    let syncs = disk.count("sync");
    log.flush(FlushScope::Records).expect_err("poisoned");
    assert_eq!((disk.count("sync"), log.durable_end()), (syncs, Offset(0)));
}

#[test]
fn one_append_is_one_write() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    append(&mut log, &batch(&[1], 10));
    let (writes, reads) = (disk.count("write"), disk.count("read_at"));
    for i in 0..100 {
        append(&mut log, &batch(&[i], 1000));
        let plan = log.plan_read(log.end().before(1), log.end(), 1 << 20, true).expect("in range");
        assert_eq!(plan.next, log.end());
    }
    assert_eq!(disk.count("write") - writes, 100);
    assert_eq!(disk.count("read_at"), reads, "readers at the tail need no look at the disk");
}

trait Before {
    fn before(self, by: i64) -> Self;
}

impl Before for Offset {
    fn before(self, by: i64) -> Self {
        Self(self.0 - by)
    }
}

#[test]
fn append_time_stamps_and_seals_the_batch() {
    let disk = MemoryDisk::new();
    let settings = LogSettings { timestamp_type: TimestampType::LogAppendTime, ..LogSettings::tiny() };
    let mut log = create(&disk, settings);
    let appended = append_at(&mut log, now(777), &batch(&[5, 900], 10), 3).expect("appended");
    assert_eq!(appended.log_append_time, TimestampMs(777));
    let bytes = read(&log.plan_read(Offset(0), Offset(2), 10_000, true).expect("in range"));
    let stored = StoredBatch::check(&bytes).expect("the checksum fits");
    assert_eq!(stored.header().max_timestamp, TimestampMs(777));
    assert_eq!(stored.leader_epoch(), LeaderEpoch(3));
    let found = log.offset_for_timestamp(TimestampMs(100)).expect("memory").expect("later");
    assert_eq!((found.timestamp, found.offset), (TimestampMs(777), Offset(0)));
}

#[test]
fn a_follower_takes_batches_as_they_are() {
    let disk = MemoryDisk::new();
    let mut leader = create(&disk, LogSettings::tiny());
    for epoch in [0, 0, 2, 5] {
        append_at(&mut leader, now(1), &batch(&[1, 2], 200), epoch).expect("appended");
    }
    let bytes = read(&leader.plan_read(Offset(0), leader.end(), 1 << 20, true).expect("in range"));
    let mut follower = create(&MemoryDisk::new(), LogSettings::tiny());
    for batch in records::batches(&bytes) {
        follower.append_stored(now(1), &batch.expect("good")).expect("goes on");
    }
    assert_eq!(read_all(&follower, Offset(0)), read_all(&leader, Offset(0)));
    assert!(follower.epochs().eq(leader.epochs()));
    let again = records::batches(&bytes).next().expect("one").expect("good");
    let error = follower.append_stored(now(1), &again).expect_err("an older epoch");
    assert!(matches!(error, AppendError::Fenced { .. }), "{error}");
}

#[test]
fn a_replaced_leader_is_fenced() {
    let mut log = create(&MemoryDisk::new(), LogSettings::tiny());
    log.begin_epoch(LeaderEpoch(4)).expect("memory");
    let error = append_at(&mut log, now(1), &batch(&[1], 1), 3).expect_err("older");
    assert_eq!(error, AppendError::Fenced { got: LeaderEpoch(3), current: LeaderEpoch(4) });
    append_at(&mut log, now(1), &batch(&[1], 1), 4).expect("the same");
    assert_eq!(log.epoch_end(LeaderEpoch(4)), (LeaderEpoch(4), Offset(1)));
}

#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    let mut log = create(&MemoryDisk::new(), LogSettings::tiny());
    let error = append_at(&mut log, now(1), &batch(&[1], 5000), 0).expect_err("too large");
    assert!(matches!(error, AppendError::TooLarge { max: 4096, .. }));
    append(&mut log, &batch(&[1], 10));
}

/// Its leader took it when segments might be larger, or larger on that broker.
#[test]
fn a_stored_batch_may_be_larger_than_a_segment() {
    let mut leader = create(&MemoryDisk::new(), LogSettings::default());
    let disk = MemoryDisk::new();
    let mut follower = create(&disk, LogSettings::tiny());
    for bytes in [10, 5000, 10] {
        append(&mut leader, &batch(&[1], bytes));
    }
    let bytes = read(&leader.plan_read(Offset(0), leader.end(), 1 << 20, true).expect("in range"));
    for batch in records::batches(&bytes) {
        follower.append_stored(now(1), &batch.expect("good")).expect("goes on");
    }
    assert_eq!((follower.end(), follower.segments_count()), (Offset(3), 3));
    let (follower, _) = open(&disk.copy(), LogSettings::tiny(), unclean(Offset(0))).expect("good");
    assert_eq!(read_all(&follower, Offset(0)), read_all(&leader, Offset(0)));
}

#[test]
fn what_was_cut_is_never_written_over() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    for i in 0..10 {
        append(&mut log, &batch(&[i], 100));
    }
    let in_flight = log.plan_read(Offset(0), log.end(), 1 << 20, true).expect("in range");
    let before = read(&in_flight);
    let kept = before.len() / 2;
    assert_eq!(log.truncate(now(1), ..Offset(5)).expect("memory"), Offset(5));
    assert_eq!(log.segments_count(), 2, "the log goes on in a new file");
    for i in 0..5 {
        append(&mut log, &batch(&[100 + i], 100));
    }
    let mut after = vec![0; before.len()];
    let slice = &in_flight.slices[0];
    let count = slice.file.read_at(&mut after, slice.position).expect("memory");
    assert_eq!(after[..count], before[..kept], "the file got shorter and that was all");
    assert_eq!(read_all(&log, Offset(0)).len(), 10);
    // All of it: the old file keeps its name no longer, but its bytes.
    let in_flight = log.plan_read(Offset(5), log.end(), 1 << 20, true).expect("in range");
    let before = read(&in_flight);
    log.truncate_fully_and_start_at(now(1), Offset(5)).expect("memory");
    append(&mut log, &batch(&[7], 100));
    assert_eq!(read(&in_flight), before);
    assert_eq!((log.start(), log.end()), (Offset(5), Offset(6)));
}

#[test]
fn a_cut_within_a_batch_drops_it_whole() {
    let mut log = create(&MemoryDisk::new(), LogSettings::tiny());
    append_at(&mut log, now(1), &batch(&[1, 2, 3], 10), 1).expect("appended");
    append_at(&mut log, now(1), &batch(&[4, 5, 6], 10), 2).expect("appended");
    assert_eq!(log.truncate(now(1), ..Offset(5)).expect("memory"), Offset(3));
    assert!(log.epochs().eq([(LeaderEpoch(1), Offset(0))]));
    assert_eq!(log.max_timestamp().expect("memory").map(|found| found.offset), Some(Offset(2)));
    assert_eq!(log.truncate(now(1), ..Offset(9)).expect("beyond"), Offset(3));
    assert_eq!(log.truncate(now(1), ..Offset(0)).expect("memory"), Offset(0));
    assert_eq!((log.start(), log.size_bytes(), log.epochs().count()), (Offset(0), 0, 0));
}

#[test]
fn deleted_records_cannot_be_read_and_their_segments_go() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..100 {
        append(&mut log, &batch(&[i], 100));
    }
    let second = log.segments[1].base;
    assert_eq!(log.delete_records(second.before(3)).expect("in range"), second.before(3));
    assert_eq!(log.delete_records(Offset(1)).expect("in range"), second.before(3), "never back");
    assert!(log.delete_records(Offset(101)).is_err());
    assert!(log.plan_read(second.before(4), log.end(), 100, true).is_err());
    assert_eq!(log.retain(now(5), log.end()).expect("memory"), 0, "still in use");
    log.delete_records(second).expect("in range");
    let held = log.plan_read(second, log.end(), 100, true).expect("in range");
    assert_eq!(log.retain(now(5), log.end()).expect("memory"), 1);
    assert_eq!(log.segments[0].base, second);
    assert!(disk.contents(&file(&log, FileKind::Log, 0)).is_none());
    assert!(disk.contents(&file(&log, FileKind::OffsetIndex, 0)).is_none());
    let aside = log.dir().join(format!("{:020}.log.deleted", 0));
    assert!(disk.contents(&aside).is_some(), "it stays for those who read it");
    assert!(log.retain_plan(now(14), log.end()).expect("memory").is_none());
    assert_eq!(log.retain(now(15), log.end()).expect("memory"), 0);
    assert!(disk.contents(&aside).is_none());
    read(&held);
}

#[test]
fn retention_takes_what_is_too_old_or_too_much() {
    let disk = MemoryDisk::new();
    let settings = LogSettings {
        retention_age: Some(Duration::from_millis(1000)),
        file_delete_delay: Duration::ZERO,
        ..LogSettings::tiny()
    };
    let mut log = create(&disk, settings.clone());
    for i in 0..100 {
        append(&mut log, &batch(&[i * 10], 100));
    }
    // Nothing above the high watermark goes, whatever its age.
    let first_end = log.segments[1].base;
    assert_eq!(log.retain(now(9000), first_end.before(1)).expect("memory"), 0);
    assert_eq!(log.retain(now(9000), first_end).expect("memory"), 1);
    // The newest record of a segment decides.
    let newest = (log.segments[1].base.0 - 1) * 10;
    assert_eq!(log.retain(now(newest + 1000), log.end()).expect("memory"), 0);
    assert_eq!(log.retain(now(newest + 1001), log.end()).expect("memory"), 1);
    // Sizes: as long as what is left is not less than what may stay.
    let size = log.size_bytes();
    let oldest = u64::from(log.segments[0].bytes);
    log.reconfigure(LogSettings { retention_bytes: Some(size - oldest + 1), ..settings.clone() });
    assert_eq!(log.retain(now(0), log.end()).expect("memory"), 0);
    log.reconfigure(LogSettings { retention_bytes: Some(size - oldest), ..settings.clone() });
    assert_eq!(log.retain(now(0), log.end()).expect("memory"), 1);
    log.reconfigure(LogSettings { deletes: false, retention_bytes: Some(0), ..settings.clone() });
    assert_eq!(log.retain(now(99_000), log.end()).expect("memory"), 0);
    // When everything is too old the growing segment goes, too, and the offsets stay.
    log.reconfigure(settings);
    let end = log.end();
    assert!(log.retain(now(99_000), end).expect("memory") > 0);
    assert_eq!((log.start(), log.end(), log.size_bytes(), log.segments_count()), (end, end, 0, 1));
    assert_eq!(log.retain(now(99_000), end).expect("memory"), 0);
    append(&mut log, &batch(&[1], 10));
    assert_eq!(read_all(&log, end).len(), 1);
}

#[test]
fn a_log_at_rest_has_no_file_open_and_wakes_up() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..60 {
        append(&mut log, &batch(&[i], 100));
    }
    log.flush(FlushScope::Checkpoint).expect("memory");
    log.rest();
    assert!(log.active().is_open(), "it was in use a moment ago");
    log.rest();
    assert_eq!(log.segments.iter().flat_map(Segment::opened).count(), 0);
    log.reconfigure(LogSettings { retention_age: Some(Duration::from_secs(9)), ..LogSettings::tiny() });
    log.retain(now(1), log.end()).expect("memory");
    assert_eq!(log.segments.iter().flat_map(Segment::opened).count(), 0, "a look leaves none open");
    assert_eq!(read_all(&log, Offset(0)).len(), 60);
    append(&mut log, &batch(&[1], 100));
    log.rest();
    append(&mut log, &batch(&[1], 100));
    log.rest();
    assert!(!log.segments[0].is_open() && log.active().is_open(), "each for itself");
    log.rest();
    assert!(log.active().opened().next().is_some(), "a handle with something unsynced stays");
}

#[test]
fn an_orderly_stop_leaves_nothing_to_scan() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    log.begin_epoch(LeaderEpoch(0)).expect("memory");
    for i in 0..60 {
        append(&mut log, &batch(&[i], 100));
    }
    log.close().expect("memory");
    assert_eq!(log.recovery_point(), log.end());
    let before = read_all(&log, Offset(0));
    let reads = disk.count("read_at");
    let known = Known { recovery_point: log.end(), log_start: Offset(0), clean: true, adopted: false };
    let (reopened, recovered) = open(&disk, LogSettings::tiny(), known).expect("good");
    assert!(recovered.clean && recovered.scanned_bytes == 0 && recovered.cut.is_none());
    assert!(disk.count("read_at") - reads <= 4, "a look at the last entries, not at the records");
    assert_eq!((reopened.end(), reopened.durable_end()), (log.end(), log.end()));
    assert_eq!(reopened.topic_id(), TOPIC);
    assert!(reopened.epochs().eq(log.epochs()));
    assert_eq!(read_all(&reopened, Offset(0)), before);
}

#[test]
fn idle_logs_are_small() {
    // Ten thousand of them have to fit into 256 MiB with everything else.
    assert!(size_of::<Log>() + size_of::<Segment>() < 1536, "{}", size_of::<Log>());
}

#[test]
fn without_descriptors_a_change_is_refused_and_changes_nothing() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    let (mut refused, mut files) = (0, 0);
    for i in 0..60 {
        let before = (log.end(), log.segments_count(), read_all(&log, Offset(0)));
        disk.fail(Some("open"));
        match append_at(&mut log, now(1), &batch(&[i], 100), 0) {
            Ok(_) => {}
            Err(AppendError::Disk(error)) => {
                assert_eq!(error.failed, Failed::Process);
                assert_eq!((log.end(), log.segments_count(), read_all(&log, Offset(0))), before);
                disk.fail(None);
                append(&mut log, &batch(&[i], 100));
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
        disk.fail(Some("open"));
        if i % 7 == 0 && log.flush_plan(FlushScope::Checkpoint).is_err() {
            disk.fail(None);
            log.flush(FlushScope::Checkpoint).expect("memory");
            assert_eq!(log.recovery_point(), log.end());
            files += 1;
        }
        disk.fail(None);
    }
    assert!(refused >= 2 && files >= 1, "{refused} rolls, {files} tables");
    assert_eq!((log.end(), log.poison()), (Offset(60), None));
    let known = unclean(log.recovery_point());
    let (again, recovered) = open(&disk, LogSettings::tiny(), known).expect("good");
    assert_eq!((again.end(), recovered.cut), (Offset(60), None));
}

#[test]
fn a_flush_that_found_no_descriptor_leaves_everything_to_the_next() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..60 {
        append(&mut log, &batch(&[i], 100));
    }
    let error = DiskError {
        operation: "open",
        path: PathBuf::new(),
        reason: "too many open files".to_owned(),
        failed: Failed::Process,
    };
    drop(log.flush_plan(FlushScope::Records).expect("planned"));
    log.on_flush_failed(&error);
    assert_eq!((log.poison(), log.durable_end()), (None, Offset(0)));
    let before = disk.count("sync");
    log.flush(FlushScope::Records).expect("memory");
    assert_eq!(log.durable_end(), log.end());
    // Each segment but the last with its two tables, and the snapshot between each two.
    let segments = log.segments_count();
    assert_eq!(disk.count("sync") - before, (segments - 1) * 4 + 1);
}

#[test]
fn one_file_that_cannot_be_read_fails_a_look_and_not_the_log() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..60 {
        append(&mut log, &batch(&[i], 100));
    }
    disk.fail(Some("read_at"));
    let error = log.offset_for_timestamp(TimestampMs(5)).expect_err("told to fail");
    assert!(matches!(error, LookupError::Disk(DiskError { failed: Failed::File, .. })), "{error}");
    log.plan_read(Offset(0), Offset(1), 100, true).expect_err("told to fail");
    disk.fail(None);
    assert_eq!(log.poison(), None);
    append(&mut log, &batch(&[1], 10));
    assert_eq!(read_all(&log, Offset(0)).len(), 61);
}

#[test]
fn a_look_at_many_segments_leaves_none_open() {
    let disk = MemoryDisk::new();
    let settings = LogSettings::tiny();
    let mut log = create(&disk, settings.clone());
    for i in 0..60 {
        append(&mut log, &batch(&[i], 100));
    }
    log.close().expect("memory");
    let known = Known { clean: true, ..unclean(log.end()) };
    let (mut log, _) = open(&disk, settings, known).expect("good");
    assert_eq!(log.max_timestamp().expect("memory").map(|found| found.offset), Some(Offset(59)));
    assert_eq!(log.offset_for_timestamp(TimestampMs(9)).expect("memory").map(|f| f.offset), Some(Offset(9)));
    assert_eq!(log.segments.iter().flat_map(Segment::opened).count(), 0);
}

#[test]
fn an_epoch_costs_no_barrier_of_its_own() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    let replaced = disk.count("replace");
    let stored = |disk: &MemoryDisk| disk.contents(&log_path(EPOCHS_FILE));
    for epoch in [0, 0, 3] {
        append_at(&mut log, now(1), &batch(&[1], 10), epoch).expect("appended");
    }
    log.flush(FlushScope::Records).expect("memory");
    assert_eq!((disk.count("replace"), stored(&disk)), (replaced, None));
    // Both are above the recovery point, where the batches tell of them.
    let (again, _) = open(&disk.copy(), LogSettings::default(), unclean(log.recovery_point())).expect("good");
    assert!(again.epochs().eq(log.epochs()));
    assert_eq!(again.recovery_point(), Offset(0), "the file has to follow first");
    log.flush(FlushScope::Checkpoint).expect("memory");
    assert_eq!(stored(&disk).as_deref(), Some(&b"0\n2\n0 0\n3 2\n"[..]));
    assert_eq!(disk.count("replace"), replaced + 1);
    append_at(&mut log, now(1), &batch(&[1], 10), 3).expect("appended");
    log.flush(FlushScope::Checkpoint).expect("memory");
    assert_eq!(disk.count("replace"), replaced + 1, "once");
}

fn log_path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

#[test]
fn segments_go_one_by_one_each_durable_before_the_next() {
    let disk = MemoryDisk::new();
    let settings = LogSettings { file_delete_delay: Duration::ZERO, ..LogSettings::tiny() };
    let mut log = create(&disk, settings);
    for i in 0..100 {
        append(&mut log, &batch(&[i], 100));
    }
    log.flush(FlushScope::Checkpoint).expect("memory");
    let (end, first, second) = (log.end(), log.segments[1].base, log.segments[2].base);
    log.delete_records(second).expect("in range");
    let syncs = disk.count("sync_dir");
    let removal = log.retain_plan(now(1), end).expect("memory").expect("two segments");
    assert_eq!(disk.count("sync_dir"), syncs, "not while the log waits");
    assert_eq!(log.segments[0].base, first);
    // Another look before it was run may do the barrier again, but takes no further segment.
    drop(log.retain_plan(now(1), end).expect("memory"));
    assert_eq!(log.segments[0].base, first);
    let removed = removal.run().expect("memory");
    assert_eq!((removed.segments, disk.count("sync_dir")), (1, syncs + 1));
    log.on_removed(&removed);
    assert_eq!(log.retain(now(1), end).expect("memory"), 1);
    assert_eq!(log.segments[0].base, second);
    let names: Vec<_> = disk.list(log.dir()).expect("there").into_iter().map(|e| e.name).collect();
    assert!(names.iter().filter(|name| name.ends_with(".log.deleted")).count() <= 1, "{names:?}");
}

#[test]
fn no_segment_goes_before_the_name_of_the_one_behind_it_is_on_media() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    append(&mut log, &batch(&[1], 100));
    log.flush(FlushScope::Checkpoint).expect("memory");
    while log.segments_count() == 1 {
        append(&mut log, &batch(&[1], 100));
    }
    let (end, first, second) = (log.end(), log.segments[0].base, log.segments[1].base);
    log.delete_records(second).expect("in range");
    let names = log.retain_plan(now(1), end).expect("memory").expect("names come first");
    assert_eq!(log.segments[0].base, first);
    let removed = names.run().expect("memory");
    assert_eq!(removed.segments, 0);
    log.on_removed(&removed);
    assert_eq!(log.retain(now(1), end).expect("memory"), 1);
    assert_eq!(log.segments[0].base, second);
}

#[test]
fn segments_without_timestamps_grow_old_too() {
    let disk = MemoryDisk::new();
    let age = Some(Duration::from_millis(1000));
    let mut log = create(&disk, LogSettings { retention_age: age, ..LogSettings::default() });
    append_at(&mut log, now(500), &batch(&[-1], 10), 0).expect("appended");
    assert_eq!(log.retain(now(1500), log.end()).expect("memory"), 0);
    assert_eq!(log.retain(now(1501), log.end()).expect("memory"), 1);
    assert_eq!(log.size_bytes(), 0);
}

#[test]
fn segments_of_many_logs_are_not_closed_at_once() {
    let ages: std::collections::BTreeSet<_> = (0..20)
        .map(|partition| {
            let settings = LogSettings {
                segment_age_max: Duration::from_millis(1000),
                segment_jitter_max: Duration::from_millis(400),
                ..LogSettings::default()
            };
            let dir = PathBuf::from(format!("/data/events-{partition}"));
            let disk = Arc::new(MemoryDisk::new());
            let mut log = Log::create(disk, dir, TOPIC, settings, now(0)).expect("created");
            append_at(&mut log, now(0), &batch(&[0], 10), 0).expect("appended");
            let mut age = 500;
            while log.segments_count() == 1 {
                age += 1;
                append_at(&mut log, now(age), &batch(&[age], 10), 0).expect("appended");
            }
            age
        })
        .collect();
    assert!(ages.iter().all(|age| (601..=1001).contains(age)), "{ages:?}");
    assert!(ages.len() > 10, "{ages:?}");
}

#[test]
fn whichever_file_finds_no_descriptor_nothing_is_lost() {
    for well in 0..4 {
        let disk = MemoryDisk::new();
        let settings = LogSettings { file_delete_delay: Duration::ZERO, ..LogSettings::tiny() };
        let mut log = create(&disk, settings.clone());
        let mut refused = 0;
        for i in 0..120 {
            let raw = match i % 3 {
                0 => batch(&[i], 100),
                1 => transactional(producer(1, 0, i32::try_from(i / 3).expect("small")), 1),
                _ => marker(1, 0, i % 2 == 0, 1),
            };
            let epoch = i32::try_from(i / 50).expect("small");
            // Now and then everything is closed, so that everything has to be opened again.
            if i % 11 == 0 {
                log.flush(FlushScope::Checkpoint).expect("memory");
                (0..2).for_each(|_| log.rest());
            }
            disk.fail_once("open", well);
            match append_at(&mut log, now(1), &raw, epoch) {
                Ok(appended) => assert_eq!(appended.base_offset, Offset(i)),
                Err(error) => {
                    assert!(matches!(error, AppendError::Disk(_)), "{error}");
                    assert_eq!((log.end(), log.poison()), (Offset(i), None));
                    append_at(&mut log, now(1), &raw, epoch).expect("again");
                    refused += 1;
                }
            }
            disk.fail_once("open", well);
            if log.flush(FlushScope::Checkpoint).is_err() {
                log.flush(FlushScope::Checkpoint).expect("again");
            }
            disk.fail_once("open", usize::MAX);
        }
        assert!(refused > 0 || well > 1, "{well}");
        let known = unclean(log.recovery_point());
        let (mut again, recovered) = open(&disk, settings, known).expect("good");
        assert_eq!((again.end(), recovered.cut), (Offset(120), None));
        let aborted = |log: &mut Log| log.aborted_transactions(Offset(0), log.end()).expect("memory");
        assert_eq!(aborted(&mut again), aborted(&mut log));
        assert!(again.epochs().eq(log.epochs()));
        assert_eq!(read_all(&again, Offset(0)), read_all(&log, Offset(0)));
    }
}

#[test]
fn a_reader_under_a_long_transaction_leaves_few_files_open() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    append(&mut log, &transactional(producer(9, 0, 0), 1));
    // While it is open, others abort theirs in segment after segment.
    for i in 0..60 {
        append(&mut log, &transactional(producer(1, 0, i), 1));
        append(&mut log, &marker(1, 0, false, 1));
        append(&mut log, &batch(&[1], 1000));
    }
    append(&mut log, &marker(9, 0, true, 1));
    log.flush(FlushScope::Checkpoint).expect("memory");
    (0..2).for_each(|_| log.rest());
    assert!(log.segments.iter().filter(|segment| segment.aborted > 0).count() > 10);
    let aborted = log.aborted_transactions(Offset(0), Offset(1)).expect("memory");
    assert!(aborted.is_empty(), "none of them begins so early");
    assert!(disk.open_files() <= 1, "{}", disk.open_files());
}

#[test]
fn a_batch_that_is_looked_into_is_read_once() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    append(&mut log, &batch(&[1, 2, 3], 10_000));
    let reads = disk.count("read_at");
    let found = log.offset_for_timestamp(TimestampMs(2)).expect("memory").map(|found| found.offset);
    assert_eq!(found, Some(Offset(1)));
    assert_eq!(disk.count("read_at") - reads, 2, "its header, and all of it");
}

#[test]
fn segments_that_are_on_the_media_do_not_stay_open() {
    let disk = MemoryDisk::new();
    // An index without room for an entry: a segment for each batch.
    let mut log = create(&disk, LogSettings { index_bytes_max: 4, ..LogSettings::tiny() });
    for i in 0..40 {
        append(&mut log, &batch(&[i], 10));
        if i % 10 == 9 {
            log.flush(FlushScope::Records).expect("memory");
            log.on_read(Offset(0));
        }
    }
    assert_eq!(log.segments_count(), 40);
    assert!(disk.open_files() <= 8, "{}", disk.open_files());
}
