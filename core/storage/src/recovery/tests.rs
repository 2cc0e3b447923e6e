use std::path::{Path, PathBuf};

use base::{LeaderEpoch, Offset, TimestampMs};
use proptest::prelude::*;

use super::*;
use crate::layout::{FileKind, file_name};
use crate::log::FlushScope;
use crate::memory::MemoryDisk;
use crate::testing::*;

mod damage;
mod hostile;

fn path(kind: FileKind, base: i64) -> PathBuf {
    Path::new(DIR).join(file_name(kind, Offset(base)))
}

/// One segment of ten batches of one record, the first five durable. Position of each batch and end.
fn ten_batches() -> (MemoryDisk, Vec<usize>) {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    let raw = batch(&[1], 400);
    for i in 0..10 {
        append(&mut log, &raw);
        if i == 4 {
            log.flush(FlushScope::Checkpoint).expect("memory");
        }
    }
    (disk, (0..=10).map(|i| i * raw.len()).collect())
}

fn change(disk: &MemoryDisk, kind: FileKind, base: i64, change: impl FnOnce(&mut Vec<u8>)) {
    let path = path(kind, base);
    let mut bytes = disk.contents(&path).expect("there");
    change(&mut bytes);
    disk.put(&path, bytes);
}

/// What a file of records can look like after a crash, and what becomes of it.
struct Case {
    name: &'static str,
    damage: fn(&mut Vec<u8>, &[usize]),
    /// Where the log ends then; `None` if it is quarantined.
    end: Option<i64>,
}

const fn case(name: &'static str, end: Option<i64>, damage: fn(&mut Vec<u8>, &[usize])) -> Case {
    Case { name, damage, end }
}

const CASES: &[Case] = &[
    case("whole", Some(10), |_, _| {}),
    case("torn in the last batch", Some(9), |b, at| b.truncate(at[10] - 1)),
    case("torn in a header", Some(8), |b, at| b.truncate(at[8] + 13)),
    case("cut at a batch", Some(7), |b, at| b.truncate(at[7])),
    case("cut at the recovery point", Some(5), |b, at| b.truncate(at[5])),
    case("cut below the recovery point", None, |b, at| b.truncate(at[4])),
    case("torn below the recovery point", None, |b, at| b.truncate(at[5] - 1)),
    case("empty", None, |b, _| b.clear()),
    case("zeroes behind", Some(10), |b, _| b.extend([0; 4096])),
    case("zeroes within, a good batch behind", Some(7), |b, at| b[at[7]..at[8]].fill(0)),
    case("a flipped bit above", Some(6), |b, at| b[at[6] + 100] ^= 1),
    case("a flipped bit below", None, |b, at| b[at[4] + 100] ^= 1),
    case("an old page once more", Some(8), |b, at| b.copy_within(at[2]..at[4], at[8])),
    case("a batch twice", Some(10), |b, at| b.extend_from_within(at[9]..at[10])),
    case("a batch missing", Some(7), |b, at| drop(b.drain(at[7]..at[8]))),
    case("a length that goes past the file", Some(7), |b, at| {
        b[at[7] + 8..at[7] + 12].copy_from_slice(&i32::MAX.to_be_bytes());
    }),
    case("a negative length", Some(7), |b, at| {
        b[at[7] + 8..at[7] + 12].copy_from_slice(&(-1i32).to_be_bytes());
    }),
    case("an offset at the end of the range", Some(7), |b, at| {
        b[at[7]..at[7] + 8].copy_from_slice(&i64::MAX.to_be_bytes());
    }),
    case("a batch that says it reaches further", Some(9), |b, at| b[at[9] + 24] ^= 0x40),
    case("text behind", Some(10), |b, _| b.extend(b"segmentation fault")),
];

#[test]
fn a_torn_end_is_cut_and_damage_below_is_quarantined() {
    for Case { name, damage, end } in CASES {
        let (disk, at) = ten_batches();
        change(&disk, FileKind::Log, 0, |bytes| damage(bytes, &at));
        let before = disk.contents(&path(FileKind::Log, 0));
        let opened = open(&disk, LogSettings::default(), unclean(Offset(5)));
        let Some(end) = end else {
            assert!(matches!(opened, Err(OpenError::Quarantined { .. })), "{name}");
            assert_eq!(disk.contents(&path(FileKind::Log, 0)), before, "{name}: nothing is changed");
            continue;
        };
        let (mut log, recovered) = opened.expect(name);
        assert_eq!((log.end(), log.durable_end()), (Offset(*end), Offset(*end)), "{name}");
        let kept = at[usize::try_from(*end).expect("small")];
        let dropped = before.expect("there").len() - kept;
        assert_eq!(recovered.cut.map_or(0, |cut| cut.bytes), dropped as u64, "{name}");
        assert_eq!(disk.contents(&path(FileKind::Log, 0)).map(|b| b.len()), Some(kept), "{name}");
        append(&mut log, &batch(&[1], 10));
        assert_eq!(read_all(&log, Offset(0)).len(), usize::try_from(*end + 1).expect("small"));
        let again = open(&disk, LogSettings::default(), unclean(Offset(*end))).expect(name);
        assert_eq!((again.0.end(), again.1.cut), (Offset(end + 1), None), "{name}");
    }
}

#[test]
fn an_orderly_stop_is_believed_only_if_the_files_look_like_it() {
    for Case { name, damage, end } in CASES {
        let (disk, at) = ten_batches();
        change(&disk, FileKind::Log, 0, |bytes| damage(bytes, &at));
        let known = Known { clean: true, ..unclean(Offset(10)) };
        let opened = open(&disk, LogSettings::default(), known);
        // Flipped bits within a batch are not seen without its checksum: readers see them.
        let believed = opened.as_ref().is_ok_and(|(_, recovered)| recovered.clean);
        if believed {
            assert!(name.contains("flipped") || *name == "whole", "{name}");
        }
        let whole = believed.then_some(10).or(end.filter(|&end| end == 10));
        assert_eq!(opened.ok().map(|(log, _)| log.end().0), whole, "{name}");
    }
    // Without a recovery point, as where its file was taken away, there is nothing to compare with.
    let known = Known { clean: true, ..unclean(Offset::ZERO) };
    let (log, recovered) = open(&ten_batches().0, LogSettings::default(), known).expect("good");
    assert_eq!((log.end(), recovered), (Offset(10), Recovered { clean: true, ..Recovered::default() }));
}

#[test]
fn only_what_lies_above_the_recovery_point_is_scanned() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    let raw = batch(&[1], 1000);
    for _ in 0..1000 {
        append(&mut log, &raw);
    }
    log.flush(FlushScope::Checkpoint).expect("memory");
    let point = log.recovery_point();
    append(&mut log, &raw);
    let (log, recovered) = open(&disk, LogSettings::default(), unclean(point)).expect("good");
    assert_eq!(log.end(), Offset(1001));
    // From the last index entry below it: one interval and the batches at its ends.
    assert!(recovered.scanned_bytes < 4096 + 3 * 1100, "{}", recovered.scanned_bytes);
}

/// A log of several tiny segments, and the base offsets of those.
fn many_segments() -> (MemoryDisk, Vec<i64>) {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..120 {
        append_at(&mut log, now(1), &batch(&[i], 100), i32::try_from(i / 40).expect("small"))
            .expect("appended");
    }
    log.flush(FlushScope::Records).expect("memory");
    let bases = log.segments.iter().map(|segment| segment.base.0).collect();
    (disk, bases)
}

#[test]
fn everything_behind_a_bad_batch_goes() {
    let (disk, bases) = many_segments();
    change(&disk, FileKind::Log, bases[1], |bytes| bytes[300] ^= 1);
    let (log, recovered) = open(&disk, LogSettings::tiny(), unclean(Offset(bases[1]))).expect("torn");
    let cut = recovered.cut.expect("cut");
    assert!(cut.at >= Offset(bases[1]) && cut.at < Offset(bases[2]));
    assert_eq!(log.segments_count(), 2);
    for base in &bases[2..] {
        assert!(disk.contents(&path(FileKind::Log, *base)).is_none());
        assert!(disk.contents(&path(FileKind::OffsetIndex, *base)).is_none());
        assert!(disk.contents(&path(FileKind::Snapshot, *base)).is_none());
    }
    assert_eq!(read_all(&log, Offset(0)).last().map(|b| b.last + 1), Some(cut.at.0));
    assert!(log.epochs().all(|(_, from)| from < cut.at));
}

#[test]
fn a_segment_that_is_gone_is_noticed() {
    let (disk, bases) = many_segments();
    disk.remove_file(&path(FileKind::Log, bases[1])).expect("memory");
    // Above the recovery point its creation may not have been durable: the rest goes.
    let copy = disk.copy();
    let (log, _) = open(&copy, LogSettings::tiny(), unclean(Offset(3))).expect("torn");
    assert_eq!(log.end(), Offset(bases[1]));
    let lost = open(&disk, LogSettings::tiny(), unclean(Offset(bases[2])));
    assert!(matches!(lost, Err(OpenError::Quarantined { .. })), "{lost:?}");
    // The last one, or all of them.
    let (disk, bases) = many_segments();
    let end = Offset(120);
    disk.remove_file(&path(FileKind::Log, *bases.last().expect("many"))).expect("memory");
    assert!(matches!(open(&disk, LogSettings::tiny(), unclean(end)), Err(OpenError::Quarantined { .. })));
    for base in &bases {
        disk.remove_file(&path(FileKind::Log, *base)).expect("memory");
    }
    assert!(matches!(open(&disk, LogSettings::tiny(), unclean(end)), Err(OpenError::Quarantined { .. })));
    let (log, _) = open(&disk, LogSettings::tiny(), unclean(Offset(0))).expect("nothing was durable");
    assert_eq!((log.end(), log.segments_count()), (Offset(0), 1));
}

type Change = fn(&mut Vec<u8>);

/// What a table can look like after a crash.
const TABLES: &[(&str, Change)] = &[
    ("empty", Vec::clear),
    ("half an entry", |bytes| bytes.truncate(bytes.len() - 1)),
    ("zeroes", |bytes| bytes.fill(0)),
    ("made long in advance", |bytes| bytes.resize(bytes.len() * 40, 0)),
    ("noise", |bytes| bytes.iter_mut().for_each(|b| *b = b.wrapping_mul(31) ^ 0xa5)),
    ("backwards", |bytes| bytes.reverse()),
    ("half of it", |bytes| bytes.truncate(bytes.len() / 24 * 12)),
];

#[test]
fn tables_are_built_again() {
    for (name, damage) in TABLES {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
            for clean in [false, true] {
                let (disk, bases) = many_segments();
                for base in &bases {
                    if disk.contents(&path(kind, *base)).is_some() {
                        change(&disk, kind, *base, damage);
                    }
                }
                let active = *bases.last().expect("many");
                let known = Known { clean, ..unclean(Offset(active)) };
                let (mut log, _) = open(&disk, LogSettings::tiny(), known).expect(name);
                assert_eq!(read_all(&log, Offset(0)).len(), 120, "{name} {kind:?} clean {clean}");
                for timestamp in 0..120 {
                    // A closed time index that lost its end says that its segment is older than it is.
                    if *name == "half of it" && kind == FileKind::TimeIndex {
                        continue;
                    }
                    let found = log.offset_for_timestamp(TimestampMs(timestamp)).expect(name);
                    let found = found.map(|found| found.offset);
                    assert_eq!(found, Some(Offset(timestamp)), "{name} {kind:?} clean {clean}");
                }
            }
        }
    }
}

#[test]
fn lost_tables_snapshots_and_epochs_are_found_again() {
    let (disk, bases) = many_segments();
    let (log, _) = open(&disk.copy(), LogSettings::tiny(), unclean(Offset(0))).expect("good");
    let epochs: Vec<_> = log.epochs().collect();
    assert_eq!(
        epochs,
        [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(1), Offset(40)), (LeaderEpoch(2), Offset(80))]
    );
    for base in &bases {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::Snapshot] {
            disk.remove_file(&path(kind, *base)).expect("memory");
        }
    }
    for lost in [true, false] {
        let epochs_file = Path::new(DIR).join(EPOCHS_FILE);
        match lost {
            true => disk.remove_file(&epochs_file).expect("memory"),
            false => disk.put(&epochs_file, b"0\n1\nx".to_vec()),
        }
        let known = Known { clean: lost, ..unclean(Offset(bases[2])) };
        let (mut log, recovered) = open(&disk, LogSettings::tiny(), known).expect("good");
        assert_eq!(recovered.tables_rebuilt > 0, lost, "once");
        assert_eq!(log.epochs().collect::<Vec<_>>(), epochs);
        assert_eq!(read_all(&log, Offset(0)).len(), 120);
        let found = log.max_timestamp().expect("memory").map(|found| found.offset);
        assert_eq!(found, Some(Offset(119)));
    }
}

#[test]
fn aborted_transactions_are_found_again() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for i in 0..30 {
        append(&mut log, &transactional(producer(1, 0, i), 1));
        append(&mut log, &marker(1, 0, i % 3 == 0, 1));
        append(&mut log, &batch(&[1], 200));
    }
    log.close().expect("memory");
    let aborted = log.aborted_transactions(Offset(0), log.end()).expect("memory");
    assert_eq!(aborted.len(), 20);
    let wrong: [Change; 3] = [|b| b[1] = 9, |b| b[20] ^= 0x7f, |b| b.copy_within(0..34, 34)];
    for damage in wrong {
        for clean in [true, false] {
            let disk = disk.copy();
            change(&disk, FileKind::TxnIndex, log.segments[1].base.0, damage);
            let known = Known { clean, ..unclean(log.end()) };
            let (mut log, _) = open(&disk, LogSettings::tiny(), known).expect("good");
            assert_eq!(log.aborted_transactions(Offset(0), log.end()).expect("memory"), aborted);
        }
    }
}

#[test]
fn leftovers_go_and_swaps_are_completed() {
    let (disk, bases) = many_segments();
    let at = |name: &str| Path::new(DIR).join(name);
    disk.put(&at("00000000000000000000.log.deleted"), vec![1]);
    disk.put(&at("00000000000000000000.index.cleaned"), vec![1]);
    disk.put(&at("leader-epoch-checkpoint.tmp"), vec![1]);
    disk.put(&at("00000000000000009999.timeindex"), vec![1]);
    disk.put(&at("notes.txt"), vec![1]);
    let (log, _) = open(&disk, LogSettings::tiny(), unclean(Offset(0))).expect("good");
    assert_eq!(log.end(), Offset(120));
    let names: Vec<_> = disk.list(Path::new(DIR)).expect("there").into_iter().map(|e| e.name).collect();
    assert!(
        names.iter().all(|n| !n.ends_with(".deleted") && !n.ends_with(".cleaned") && !n.ends_with(".tmp"))
    );
    assert!(!names.contains(&"00000000000000009999.timeindex".to_owned()));
    assert!(names.contains(&"notes.txt".to_owned()), "not ours");
    // The first two segments were rewritten as one that has only their first and last batch.
    let first = disk.contents(&path(FileKind::Log, 0)).expect("there");
    let second = disk.contents(&path(FileKind::Log, bases[1])).expect("there");
    let size = first.len() / usize::try_from(bases[1]).expect("small");
    let swap = [&first[..size], &second[second.len() - size..]].concat();
    disk.put(&at("00000000000000000000.log.swap"), swap);
    let adopted = Known { adopted: true, ..unclean(Offset(0)) };
    let (log, _) = open(&disk, LogSettings::tiny(), adopted).expect("good");
    assert_eq!(log.segments_count(), bases.len() - 1);
    let read: Vec<_> = read_all(&log, Offset(0)).into_iter().take(3).map(|b| b.base).collect();
    assert_eq!(read, [0, bases[2] - 1, bases[2]]);
}

#[test]
fn everything_may_have_been_deleted() {
    let (disk, _) = many_segments();
    let known = Known { log_start: Offset(500), ..unclean(Offset(0)) };
    let (mut log, _) = open(&disk, LogSettings::tiny(), known).expect("good");
    assert_eq!((log.start(), log.end()), (Offset(500), Offset(500)));
    assert_eq!(append(&mut log, &batch(&[1], 10)).base_offset, Offset(500));
    let known = Known { log_start: Offset(40), ..unclean(Offset(0)) };
    let (log, _) = open(&many_segments().0, LogSettings::tiny(), known).expect("good");
    assert_eq!((log.start(), log.end()), (Offset(40), Offset(120)));
    assert_eq!(log.epochs().next(), Some((LeaderEpoch(1), Offset(40))));
}

/// It was durable, so it is not torn; behind it lies what others count on.
#[test]
fn what_rots_below_the_recovery_point_takes_nothing_along_although_it_was_deleted() {
    let (disk, _) = ten_batches();
    change(&disk, FileKind::Log, 0, |bytes| bytes[70] ^= 1);
    let known = Known { log_start: Offset(1), ..unclean(Offset(1)) };
    let found = open(&disk, LogSettings::default(), known);
    assert!(matches!(found, Err(OpenError::Quarantined { .. })), "{found:?}");
}

#[test]
fn a_directory_without_records_becomes_an_empty_log() {
    let disk = MemoryDisk::new();
    disk.create_dir(Path::new(DIR)).expect("memory");
    let known = Known { log_start: Offset(7), ..unclean(Offset(7)) };
    let (log, _) = open(&disk, LogSettings::tiny(), known).expect("empty");
    assert_eq!((log.start(), log.end(), log.topic_id()), (Offset(7), Offset(7), TopicId(Uuid::ZERO)));
    disk.put(&Path::new(DIR).join("partition.metadata"), b"version: 9".to_vec());
    assert!(matches!(open(&disk, LogSettings::tiny(), known), Err(OpenError::Metadata(_))));
}

#[test]
fn what_is_on_media_is_not_written_again() {
    for size in [10, 3000] {
        let disk = MemoryDisk::new();
        let mut log = create(&disk, LogSettings::default());
        for i in 0..20 {
            append(&mut log, &batch(&[i], size));
        }
        log.flush(FlushScope::Checkpoint).expect("memory");
        let known = unclean(log.recovery_point());
        let changes = || ["write", "set_len", "sync", "sync_dir", "replace"].map(|change| disk.count(change));
        let before = changes();
        let (mut again, _) = open(&disk, LogSettings::default(), known).expect("good");
        let [write, set_len, sync, sync_dir, replace] = before;
        assert_eq!(changes(), [write, set_len, sync + 1, sync_dir, replace], "but its end may have been cut");
        let found = |log: &mut Log| {
            let at = |i| log.offset_for_timestamp(TimestampMs(i)).expect("memory").map(|found| found.offset);
            (0..21).map(at).collect::<Vec<_>>()
        };
        assert_eq!(found(&mut again), found(&mut log));
    }
}

#[test]
fn a_name_that_a_crash_left_is_made_durable_with_the_next_flush() {
    let disk = MemoryDisk::new();
    drop(create(&disk, LogSettings::default()));
    let (mut log, _) = open(&disk, LogSettings::default(), unclean(Offset(0))).expect("good");
    let before = disk.count("sync_dir");
    append(&mut log, &batch(&[1], 10));
    log.flush(FlushScope::Records).expect("memory");
    assert_eq!(disk.count("sync_dir"), before + 1);
    append(&mut log, &batch(&[1], 10));
    log.flush(FlushScope::Records).expect("memory");
    assert_eq!(disk.count("sync_dir"), before + 1, "once");
}

#[test]
fn the_name_of_a_table_that_grew_out_of_memory_is_made_durable() {
    let disk = MemoryDisk::new();
    let settings = LogSettings { index_interval_bytes: 0, ..LogSettings::default() };
    let mut log = create(&disk, settings);
    append(&mut log, &batch(&[1], 10));
    log.flush(FlushScope::Records).expect("memory");
    for i in 0..600 {
        append(&mut log, &batch(&[i], 10));
    }
    assert!(disk.contents(&path(FileKind::OffsetIndex, 0)).is_some(), "written before any flush");
    let before = disk.count("sync_dir");
    log.flush(FlushScope::Checkpoint).expect("memory");
    assert_eq!(disk.count("sync_dir"), before + 1);
}

/// A log from which compaction took every third batch and a segment, as another program left it.
fn compacted_elsewhere() -> (MemoryDisk, Vec<i64>, Offset) {
    let (disk, bases) = many_segments();
    for base in &bases {
        change(&disk, FileKind::Log, *base, |bytes| {
            let all: Vec<_> = records::batches(bytes).map(|batch| batch.expect("good")).collect();
            let kept = all.iter().filter(|batch| batch.base_offset().0 % 3 != 1);
            let kept = kept.flat_map(|batch| batch.bytes().to_vec()).collect();
            *bytes = kept;
        });
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::Snapshot] {
            disk.remove_file(&path(kind, *base)).expect("memory");
        }
    }
    disk.remove_file(&path(FileKind::Log, bases[1])).expect("memory");
    let next = bases[2];
    let kept = (0..120).filter(|at| at % 3 != 1 && !(bases[1]..next).contains(at)).collect();
    (disk, kept, Offset(120))
}

#[test]
fn gaps_in_an_adopted_log_are_no_damage() {
    let offsets = |log: &Log| read_all(log, Offset(0)).iter().map(|batch| batch.base).collect::<Vec<_>>();
    let (disk, kept, end) = compacted_elsewhere();
    let adopted = Known { adopted: true, ..unclean(Offset(0)) };
    let (mut log, recovered) = open(&disk, LogSettings::tiny(), adopted).expect("good");
    assert_eq!((recovered.cut, log.end()), (None, end));
    assert_eq!(offsets(&log), kept);
    // It is one of ours from here on: its old gaps stay, and a hole in what is new is damage.
    for i in 0..60 {
        append_at(&mut log, now(1), &batch(&[i], 100), 2).expect("appended");
    }
    let (known, added) = (log.recovery_point(), log.segments.last().expect("one").base);
    for known in [unclean(Offset(0)), unclean(known)] {
        let (log, recovered) = open(&disk.copy(), LogSettings::tiny(), known).expect("good");
        assert_eq!((recovered.cut, log.end()), (None, Offset(180)));
        assert_eq!(offsets(&log)[..kept.len()], kept);
    }
    assert!(added > end);
    change(&disk, FileKind::Log, added.0, |bytes| {
        let size = records::batches(bytes).next().expect("one").expect("good").bytes().len();
        bytes.drain(size..2 * size);
    });
    let (log, recovered) = open(&disk, LogSettings::tiny(), unclean(Offset(0))).expect("good");
    assert!(recovered.cut.is_some());
    assert_eq!(log.end(), Offset(added.0 + 1));
}

#[test]
fn a_snapshot_that_cannot_be_used_is_made_again_from_the_log() {
    for damage in [Vec::clear as fn(&mut Vec<u8>), |bytes| bytes.resize(65 << 20, 0)] {
        let disk = MemoryDisk::new();
        let mut log = create(&disk, LogSettings::tiny());
        for i in 0..40 {
            append(&mut log, &idempotent(producer(1, 0, i * 5), 5));
        }
        log.close().expect("memory");
        let producers: Vec<_> = log.producers().collect();
        for at in log.snapshots.clone() {
            change(&disk, FileKind::Snapshot, at.0, damage);
        }
        let known = Known { clean: true, ..unclean(log.end()) };
        let (log, _) = open(&disk, LogSettings::tiny(), known).expect("good");
        assert_eq!(log.producers().collect::<Vec<_>>(), producers);
    }
}

#[test]
fn a_length_that_is_damaged_makes_room_for_nothing() {
    // Not a test of memory, but of the walk that comes in pieces: a batch of several, whole and damaged.
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::default());
    append(&mut log, &batch(&[1, 2, 3, 4, 5, 6, 7], 100_000));
    let limits = records::BatchLimits { batch_bytes_max: 8 << 20, ..records::BatchLimits::default() };
    let mut builder = records::BatchBuilder::new(8 << 20);
    let value = vec![7; 5 << 20];
    builder.try_append(TimestampMs(1), None, Some(&value), &[]).expect("fits");
    let (mut raw, mut scratch) = (Vec::new(), records::Scratch::default());
    builder.finish(&records::BatchOptions::default(), &mut scratch, &mut raw).expect("fits");
    let large = records::CheckedBatch::check(&raw, &limits, &mut scratch).expect("good");
    log.append(now(1), &large, LeaderEpoch(0)).expect("appended");
    append(&mut log, &batch(&[1], 10));
    let (again, recovered) = open(&disk.copy(), LogSettings::default(), unclean(Offset(0))).expect("good");
    assert_eq!((again.end(), recovered.cut), (Offset(9), None));
    change(&disk, FileKind::Log, 0, |bytes| {
        let at = bytes.len() - 1_000_000;
        bytes[at] ^= 1;
    });
    let (log, _) = open(&disk, LogSettings::default(), unclean(Offset(0))).expect("torn");
    assert_eq!(log.end(), Offset(7));
}
