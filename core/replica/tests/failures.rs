//! How far an error of the disk reaches: one request, one partition, or its whole directory.

mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, LeaderEpoch, Now, Offset, TimestampMs, TopicId, Uuid};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch};
use storage::dirs::CutNotes;
use storage::disk::{DiskError, Failed};
use storage::memory::MemoryDisk;
use storage::{Check, FlushScope, Known, Log, LogSettings, LookupError};
use vltava_replica::{
    AppendError, Assignment, Effect, Fetch, FetchError, Fetched, FlushPolicy, FollowError, FromLeader,
    NextFetch, OffsetSpec, Partition,
};
use world::lead;

const NOW: Now = Now::new(Duration::ZERO, TimestampMs(1));

/// Where the header of a batch says in which format it is.
const FORMAT_AT: usize = 16;

struct Story {
    disk: MemoryDisk,
    partition: Partition,
    out: Effects<Effect>,
}

impl Story {
    fn new(policy: FlushPolicy) -> Self {
        let (disk, dir) = (MemoryDisk::new(), PathBuf::from("/data/events-0"));
        let topic = TopicId(Uuid([7; 16]));
        let log = Log::create(Arc::new(disk.clone()), dir, topic, LogSettings::tiny(), NOW).expect("memory");
        Self { disk, partition: lead(log, 0, policy), out: Effects::new() }
    }

    fn append(&mut self) -> Result<Offset, AppendError> {
        let mut builder = BatchBuilder::new(4000);
        builder.try_append(TimestampMs(1), None, Some(&[7; 1500]), &[]).expect("it fits");
        let (mut raw, mut scratch) = (Vec::new(), Scratch::default());
        builder.finish(&BatchOptions::default(), &mut scratch, &mut raw).expect("it is small");
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).expect("a good batch");
        self.partition.append(NOW, &batch, true, &mut self.out).map(|appended| appended.base_offset)
    }

    /// Another leads from here on, elected uncleanly.
    fn follow(&mut self) {
        self.follow_in(1);
    }

    fn follow_in(&mut self, epoch: i32) {
        let assignment = Assignment {
            leader: Some(BrokerId(2)),
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: epoch,
            replicas: vec![BrokerId(1), BrokerId(2)],
            isr: vec![BrokerId(2)],
            unclean_epoch: LeaderEpoch(epoch),
        };
        self.partition.assign(NOW, &assignment, &mut self.out);
        self.out.drain().for_each(drop);
    }

    /// The leader of this epoch has nothing of what is here from there on. The recovery point that the cut needs.
    fn is_told_to_cut(&mut self, epoch: i32, at: i64) -> Option<Offset> {
        let (epoch, high_watermark) = (LeaderEpoch(epoch), Offset(at));
        let diverging = Some((LeaderEpoch(0), Offset(at)));
        let said = FromLeader { epoch, high_watermark, log_start: Offset(0), diverging, records: &[] };
        self.partition.on_fetched(NOW, &said, &mut self.out).expect("it was elected without having them");
        self.out.drain().find_map(|effect| match effect {
            Effect::LowerRecoveryPoint(upto) => Some(upto),
            _ => None,
        })
    }

    fn flush(&mut self) {
        self.flush_of(FlushScope::Records);
    }

    fn flush_of(&mut self, scope: FlushScope) {
        if let Some(flush) = self.partition.flush_plan(scope, &mut self.out) {
            let result = flush.run();
            self.partition.on_flushed(result, &mut self.out);
        }
    }

    /// One batch from an offset.
    fn fetch(&mut self, from: i64) -> Fetched {
        let fetch = Fetch {
            reader: vltava_replica::Reader::Consumer,
            from: Offset(from),
            current_epoch: LeaderEpoch::NONE,
            last_epoch: LeaderEpoch::NONE,
            bytes_max: 1,
            at_least_one: true,
            committed_only: true,
            log_start: Offset::NONE,
            is_again: false,
        };
        self.partition.fetch(NOW, &fetch, &mut self.out).expect("in range")
    }

    /// The errors among the effects since the last look, in words.
    fn errors(&mut self) -> Vec<String> {
        let name = |effect: Effect| match effect {
            Effect::Retire(error) => Some(format!("retire: {}", error.operation)),
            Effect::Offline(error) => Some(format!("offline: {}", error.operation)),
            Effect::Refused(error) => Some(format!("refused: {}", error.operation)),
            _ => None,
        };
        self.out.drain().filter_map(name).collect()
    }
}

#[test]
fn a_failed_write_retires_the_directory() {
    let mut story = Story::new(FlushPolicy::Os);
    story.disk.fail(Some("write"));
    story.append().expect_err("told to fail");
    assert_eq!(story.errors(), ["retire: write"]);
    story.disk.fail(None);
    assert!(matches!(story.append(), Err(AppendError::Retired)));
    assert_eq!(story.errors(), Vec::<String>::new(), "once");
}

#[test]
fn without_descriptors_an_append_is_refused_and_the_next_goes_well() {
    let mut story = Story::new(FlushPolicy::Os);
    story.append().expect("memory");
    story.append().expect("memory");
    story.disk.fail(Some("open"));
    assert!(
        matches!(story.append(), Err(AppendError::Log(storage::AppendError::Disk(_)))),
        "it needs a segment"
    );
    assert_eq!(story.errors(), ["refused: open"]);
    story.disk.fail(None);
    assert_eq!(story.append().expect("memory"), Offset(2));
    assert!(!story.partition.is_failed());
}

#[test]
fn a_reader_of_many_segments_leaves_few_files_open() {
    let mut story = Story::new(FlushPolicy::Os);
    for _ in 0..100 {
        story.append().expect("memory");
    }
    story.flush();
    story.flush_of(FlushScope::Checkpoint);
    (0..2).for_each(|_| story.partition.log_mut().rest());
    assert_eq!(story.disk.open_files(), 0);
    // Two batches fill a segment.
    let first = story.fetch(0);
    for from in 1..100 {
        let fetched = story.fetch(from);
        assert_eq!(fetched.slices.len(), 1);
        drop(fetched);
        assert!(story.disk.open_files() <= 8, "{} at {from}", story.disk.open_files());
    }
    // What was planned stays readable.
    let slice = &first.slices[0];
    let mut bytes = vec![0; slice.len as usize];
    assert_eq!(slice.file.read_at(&mut bytes, slice.position).expect("memory"), bytes.len());
    // Those who follow a segment each find its files open.
    let opened = story.disk.count("open");
    for _ in 0..10 {
        story.fetch(96);
        story.fetch(98);
        story.fetch(99);
    }
    assert!(story.disk.count("open") - opened <= 4, "once each");
}

#[test]
fn a_flush_without_descriptors_is_made_good_by_the_next() {
    let mut story = Story::new(FlushPolicy::Ack);
    story.append().expect("memory");
    let flush = story.partition.flush_plan(FlushScope::Records, &mut story.out).expect("something");
    drop(flush);
    let (operation, reason) = ("open", "too many open files".to_owned());
    let error = DiskError { operation, path: PathBuf::new(), reason, failed: Failed::Process };
    story.partition.on_flushed(Err(error), &mut story.out);
    assert_eq!((story.errors(), story.partition.high_watermark()), (vec!["refused: open".into()], Offset(0)));
    story.flush();
    assert_eq!(story.partition.high_watermark(), Offset(1));
}

#[test]
fn a_file_that_cannot_be_read_fails_one_look() {
    let mut story = Story::new(FlushPolicy::Os);
    for _ in 0..4 {
        story.append().expect("memory");
    }
    story.disk.fail(Some("read_at"));
    let look = |story: &mut Story| {
        let spec = OffsetSpec::At(TimestampMs(1));
        story.partition.offset_for(spec, LeaderEpoch::NONE, false, &mut story.out)
    };
    assert!(matches!(look(&mut story), Err(FetchError::Disk(_))));
    assert_eq!(story.errors(), ["refused: read_at"]);
    story.disk.fail(None);
    assert!(look(&mut story).is_ok_and(|found| found.is_some()));
    story.append().expect("memory");
}

/// After a start an append looks at what was there before. Nobody else reads that: what is appended would be refused for
/// ever, and no other that has everything would lead.
#[test]
fn a_file_that_fails_one_append_after_the_other_has_the_log_given_up() {
    let started = |known| {
        let mut story = Story::new(FlushPolicy::Os);
        (0..known).for_each(|at| assert_eq!(story.append().expect("memory"), Offset(at)));
        story.partition.log_mut().close().expect("memory");
        let (disk, dir) = (Arc::new(story.disk.clone()), PathBuf::from("/data/events-0"));
        let known =
            Known { recovery_point: Offset(known), log_start: Offset(0), clean: true, adopted: false };
        let (log, _) = Log::open(disk, dir, LogSettings::tiny(), known, NOW).expect("it was closed");
        story.partition = lead(log, 0, FlushPolicy::Os);
        story.disk.fail(Some("read_at"));
        story
    };
    let suspects = |story: &mut Story| -> Vec<Effect> {
        story.append().expect_err("one of its files cannot be read");
        story.out.drain().filter(|effect| matches!(effect, Effect::Suspect(_))).collect()
    };
    let mut story = started(2);
    assert!(suspects(&mut story).is_empty(), "once may be by chance");
    assert!(matches!(suspects(&mut story)[..], [Effect::Suspect(Offset(2))]));
    let look = |story: &mut Story| story.partition.check_plan(Offset(2)).and_then(Check::run);
    let why = look(&mut story).expect_err("it was refused twice");
    assert!(!story.partition.on_damage(&why, false, &mut story.out), "nobody else has it");
    story.disk.fail(None);
    story.append().expect("it passed after all");
    assert_eq!(look(&mut story), Ok(()));
    let mut story = started(2);
    (0..2).for_each(|_| drop(suspects(&mut story)));
    let why = look(&mut story).expect_err("it was refused twice");
    assert!(story.partition.on_damage(&why, true, &mut story.out) && story.partition.is_failed());
}

#[test]
fn a_file_that_fails_a_change_takes_its_partition_offline() {
    let mut story = Story::new(FlushPolicy::Os);
    story.append().expect("memory");
    let (operation, reason) = ("rename", "permission denied".to_owned());
    let error = DiskError { operation, path: PathBuf::new(), reason, failed: Failed::File };
    story.partition.on_flushed(Err(error), &mut story.out);
    assert_eq!(story.errors(), ["offline: rename"]);
    assert!(matches!(story.append(), Err(AppendError::Retired)));
    assert!(story.partition.is_failed());
}

#[test]
fn a_cut_that_fails_midway_leaves_nothing_committed_beyond_the_end() {
    let mut story = Story::new(FlushPolicy::Os);
    (0..3).for_each(|_| {
        story.append().expect("memory");
    });
    assert_eq!(story.partition.high_watermark(), Offset(3));
    let (me, other) = (BrokerId(1), BrokerId(2));
    let by_another = |partition_epoch| Assignment {
        leader: Some(other),
        leader_epoch: LeaderEpoch(1),
        partition_epoch,
        replicas: vec![me, other],
        isr: vec![other],
        unclean_epoch: LeaderEpoch(1),
    };
    story.partition.assign(NOW, &by_another(1), &mut story.out);
    let said = FromLeader {
        epoch: LeaderEpoch(1),
        high_watermark: Offset(1),
        log_start: Offset(0),
        diverging: Some((LeaderEpoch(0), Offset(1))),
        records: &[],
    };
    story.partition.on_fetched(NOW, &said, &mut story.out).expect("it was elected without having them");
    assert_eq!(story.errors(), Vec::<String>::new());
    story.disk.fail(Some("set_len"));
    story.partition.cut(NOW, Offset(0), &mut story.out).expect_err("told to fail");
    assert_eq!(story.errors(), ["retire: set_len"]);
    assert_eq!((story.partition.log().end(), story.partition.high_watermark()), (Offset(1), Offset(1)));
    // What comes after checks that it is so.
    story.partition.assign(NOW, &by_another(2), &mut story.out);
}

#[test]
fn a_cut_that_cannot_be_read_is_made_when_the_leader_says_so_again() {
    let mut story = Story::new(FlushPolicy::Os);
    (0..3).for_each(|_| {
        story.append().expect("memory");
    });
    story.follow();
    let told_where_to_cut = |story: &mut Story| {
        let (high_watermark, log_start) = (Offset(3), Offset(0));
        let diverging = Some((LeaderEpoch(0), Offset(1)));
        let said = FromLeader { epoch: LeaderEpoch(1), high_watermark, log_start, diverging, records: &[] };
        story.partition.on_fetched(NOW, &said, &mut story.out)
    };
    let fetches_on = |story: &mut Story| story.out.drain().any(|effect| matches!(effect, Effect::FetchOn));
    told_where_to_cut(&mut story).expect("it was elected without having them");
    assert!(!fetches_on(&mut story), "not before it is cut");
    story.disk.fail(Some("read_at"));
    story.partition.cut(NOW, Offset(0), &mut story.out).expect_err("told to fail");
    assert!(fetches_on(&mut story), "else nobody would ever ask again");
    assert_eq!(story.partition.next_fetch().ask().map(|fetch| fetch.from), Some(Offset(3)));
    story.disk.fail(None);
    let look = |story: &mut Story| story.partition.check_plan(Offset(1)).and_then(Check::run);
    look(&mut story).expect_err("nobody could read it");
    told_where_to_cut(&mut story).expect("it goes on");
    story.partition.cut(NOW, Offset(0), &mut story.out).expect("memory");
    assert_eq!((story.errors(), story.partition.log().end()), (Vec::new(), Offset(1)));
    look(&mut story).expect("it could be read");
}

/// Who asked was told that it is gone, and a crash may come before the start is written down anew.
#[test]
fn what_was_deleted_stays_deleted_when_all_behind_it_is_cut() {
    let mut story = Story::new(FlushPolicy::Os);
    (0..9).for_each(|at| assert_eq!(story.append().expect("memory"), Offset(at)));
    story.flush_of(FlushScope::Checkpoint);
    story.partition.delete_records(Some(Offset(5)), &mut story.out).expect("it is committed");
    story.partition.on_start_saved(Offset(5), &mut story.out);
    story.follow();
    assert_eq!(story.is_told_to_cut(1, 5), Some(Offset(0)));
    let notes = story.partition.notes_of_cut().expect("it is to be cut");
    assert_eq!((notes.recovery_point, notes.start), (Offset(0), Offset(5)));
    for is_cut in [false, true] {
        if is_cut {
            story.partition.cut(NOW, Offset(0), &mut story.out).expect("memory");
            assert_eq!(
                (story.partition.log().start(), story.partition.start_saved()),
                (Offset(5), Offset(5))
            );
        }
        let (recovery_point, log_start) = (notes.recovery_point, notes.start);
        let known = Known { recovery_point, log_start, clean: false, adopted: false };
        let (disk, dir) = (Arc::new(story.disk.copy()), PathBuf::from("/data/events-0"));
        let (log, _) = Log::open(disk, dir, LogSettings::tiny(), known, NOW).expect("it is whole");
        assert_eq!(log.start(), Offset(5), "cut: {is_cut}");
    }
}

#[test]
fn a_cut_is_not_made_under_a_recovery_point_that_was_noted_for_another() {
    let mut story = Story::new(FlushPolicy::Os);
    (0..9).for_each(|at| assert_eq!(story.append().expect("memory"), Offset(at)));
    story.flush_of(FlushScope::Checkpoint);
    story.follow();
    assert_eq!(story.is_told_to_cut(1, 6), Some(Offset(6)));
    // Whoever notes that has not come to the cut when somebody else leads, who has less.
    story.follow_in(2);
    assert_eq!(story.partition.notes_of_cut(), None);
    assert_eq!(story.is_told_to_cut(2, 3), Some(Offset(3)));
    let notes = CutNotes { recovery_point: Offset(3), end: Offset(3), start: Offset(3) };
    assert_eq!(story.partition.notes_of_cut(), Some(notes));
    story.partition.cut(NOW, Offset(6), &mut story.out).expect("nothing is done");
    assert_eq!(
        story.partition.log().end(),
        Offset(9),
        "a crash would find less than was noted to be durable"
    );
    assert_eq!(story.partition.next_fetch(), NextFetch::AfterItsDisk(BrokerId(2)));
    story.partition.cut(NOW, Offset(3), &mut story.out).expect("memory");
    assert_eq!((story.partition.log().end(), story.partition.notes_of_cut()), (Offset(3), None));
    assert_eq!(story.partition.next_fetch().ask().map(|fetch| fetch.from), Some(Offset(3)));
    // A point that is lower than it needs to be does.
    assert_eq!(story.is_told_to_cut(2, 2), Some(Offset(2)));
    story.partition.cut(NOW, Offset(1), &mut story.out).expect("memory");
    assert_eq!(story.partition.log().end(), Offset(2));
}

/// All that a replica has was deleted at its leader's, and a crash comes while it drops its own.
#[test]
fn a_log_that_a_crash_left_half_emptied_is_not_taken_for_damaged() {
    for operation in ["rename", "replace", "open"] {
        for well in 0.. {
            let mut story = Story::new(FlushPolicy::Os);
            (0..9).for_each(|at| assert_eq!(story.append().expect("memory"), Offset(at)));
            story.flush_of(FlushScope::Checkpoint);
            // It is not written down yet where the log starts.
            story.partition.delete_records(Some(Offset(4)), &mut story.out).expect("it leads");
            while let Some(removal) = story.partition.retain_plan(NOW, &mut story.out) {
                story.partition.on_removed(removal.run(), &mut story.out);
            }
            let mut recovery_point = story.partition.log().recovery_point();
            assert_eq!((story.partition.log().start(), recovery_point), (Offset(4), Offset(9)));
            story.follow();
            story.disk.fail_once(operation, well);
            let bounds = (Offset(500), Offset(600));
            let mut done = story.partition.on_out_of_range(LeaderEpoch(1), bounds, &mut story.out);
            for effect in story.out.drain().collect::<Vec<_>>() {
                if let Effect::LowerRecoveryPoint(upto) = effect {
                    recovery_point = upto;
                    done = story.partition.cut(NOW, upto, &mut story.out);
                }
            }
            let known = Known { recovery_point, log_start: Offset::ZERO, clean: false, adopted: false };
            let (disk, dir) = (Arc::new(story.disk.copy()), PathBuf::from("/data/events-0"));
            let opened = Log::open(disk, dir, LogSettings::tiny(), known, NOW);
            let (log, _) = opened.unwrap_or_else(|why| panic!("{operation} {well}: {why}"));
            if done.is_ok() {
                assert_eq!((log.start(), log.end()), (Offset(500), Offset(500)));
                assert_eq!(story.partition.high_watermark(), Offset(500));
                let asks = story.partition.next_fetch().ask().expect("it goes on");
                assert_eq!((asks.from, asks.log_start), (Offset(500), Offset(500)));
                assert!(well > 0, "{operation} was asked for");
                break;
            }
        }
    }
}

#[test]
fn so_many_records_wait_for_a_flush_and_no_more() {
    let mut story = Story::new(FlushPolicy::Interval { every: Duration::MAX, bytes: u64::MAX, records: 3 });
    let mut flushes = Vec::new();
    for at in 0..7 {
        story.append().expect("memory");
        if story.out.drain().any(|effect| matches!(effect, Effect::Flush)) {
            flushes.push(at);
            story.flush();
        }
    }
    assert_eq!(flushes, [2, 5]);
}

/// Who asks for the same again and again cannot use what he is given.
#[test]
fn records_that_nobody_can_use_are_looked_at_and_given_up_if_another_has_them() {
    let mut story = Story::new(FlushPolicy::Os);
    for _ in 0..3 {
        story.append().expect("memory");
    }
    story.flush_of(FlushScope::Checkpoint);
    let suspects = |story: &mut Story| -> Vec<Offset> {
        let at = |effect| if let Effect::Suspect(at) = effect { Some(at) } else { None };
        story.out.drain().filter_map(at).collect()
    };
    for from in [0, 1, 0, 0, 1, 1] {
        story.fetch(from);
    }
    assert_eq!(suspects(&mut story), [], "others ask for it, too");
    (0..7).for_each(|_| drop(story.fetch(1)));
    assert_eq!(suspects(&mut story), [Offset(1); 3], "it was asked for twice before");
    let path = PathBuf::from("/data/events-0/00000000000000000000.log");
    let mut bytes = story.disk.contents(&path).expect("it is there");
    let plan = |story: &mut Story, at| story.partition.check_plan(Offset(at)).and_then(Check::run);
    assert_eq!(plan(&mut story, 1), Ok(()));
    bytes[2_000] ^= 1;
    story.disk.put(&path, bytes);
    (0..2).for_each(|_| story.partition.log_mut().rest());
    let why = plan(&mut story, 1).expect_err("it is damaged");
    // As long as nobody else has it, it is better than nothing.
    assert!(!story.partition.on_damage(&why, false, &mut story.out));
    story.append().expect("it goes on");
    let mut busy = DiskError { operation: "open", path, reason: String::new(), failed: Failed::Process };
    assert!(
        !story.partition.on_damage(&busy.clone().into(), true, &mut story.out),
        "that says nothing of it"
    );
    story.out.drain().for_each(drop);
    busy.failed = Failed::File;
    assert!(story.partition.on_damage(&why, true, &mut story.out));
    assert!(story.out.drain().any(|effect| matches!(effect, Effect::Damaged(told) if told == why)));
    assert!(story.partition.is_failed());
    assert!(!story.partition.on_damage(&busy.into(), true, &mut story.out), "once");
}

/// A cut reads what it keeps. A log that is found damaged midway is of no use any more; one that was not changed yet is
/// given up if another has what it has, and served otherwise.
#[test]
fn a_log_that_its_cut_finds_damaged_is_looked_at_or_given_up() {
    // The batch that is kept, and the one that is to go.
    for (damaged, is_midway) in [(0, true), (1, false)] {
        let mut story = Story::new(FlushPolicy::Os);
        (0..9).for_each(|at| assert_eq!(story.append().expect("memory"), Offset(at)));
        story.flush_of(FlushScope::Checkpoint);
        let path = PathBuf::from("/data/events-0/00000000000000000000.log");
        let mut bytes = story.disk.contents(&path).expect("it is there");
        let batch_bytes = bytes.len() / 2;
        bytes[damaged * batch_bytes + FORMAT_AT] ^= 1;
        story.disk.put(&path, bytes);
        (0..2).for_each(|_| story.partition.log_mut().rest());
        story.follow();
        let noted = story.is_told_to_cut(1, 1).expect("it is noted before");
        let done = story.partition.cut(NOW, noted, &mut story.out);
        assert!(matches!(done, Err(FollowError::Unusable(_))), "{damaged}: {done:?}");
        let out: Vec<_> = story.out.drain().collect();
        assert_eq!(out.iter().any(|effect| matches!(effect, Effect::Damaged(_))), is_midway);
        assert_eq!(out.iter().any(|effect| matches!(effect, Effect::Suspect(Offset(1)))), !is_midway);
        assert_eq!(story.partition.is_failed(), is_midway);
        let end = if is_midway { Offset(1) } else { Offset(9) };
        assert_eq!(story.partition.log().end(), end);
        if !is_midway {
            // No reader need come by: what the cut said is what the look says.
            let why = story.partition.check_plan(Offset(1)).and_then(Check::run).expect_err("it is damaged");
            assert!(matches!(why, LookupError::Damaged { .. }), "{why}");
            assert!(!story.partition.on_damage(&why, false, &mut story.out));
            assert!(story.partition.on_damage(&why, true, &mut story.out));
        }
    }
}
