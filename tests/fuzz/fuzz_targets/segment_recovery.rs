//! A log directory in which one file was damaged: opening it cuts, quarantines or mends, and what it
//! gives is a prefix of what was written. The first bytes say which file, where and how.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{LeaderEpoch, Now, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicId, Uuid};
use libfuzzer_sys::fuzz_target;
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Producer, Scratch};
use storage::disk::Disk;
use storage::memory::MemoryDisk;
use storage::{FlushScope, Known, Log, LogSettings};
use vltava_fuzz::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const DIR: &str = "fuzzed-0";

fn now() -> Now {
    Now::new(Duration::from_secs(1), TimestampMs(1_700_000_000_000))
}

/// Far more than the log, which has some 20 KiB: what is declared in a file may not be allocated.
const BYTES_MAX: usize = 8 << 20;
const PRODUCERS: i64 = 3;

/// A log of some segments, of several producers and leader epochs, written once.
fn written() -> &'static (MemoryDisk, Offset) {
    static WRITTEN: OnceLock<(MemoryDisk, Offset)> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let disk = MemoryDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let topic = TopicId(Uuid([7; 16]));
        let mut log =
            Log::create(shared, PathBuf::from(DIR), topic, LogSettings::tiny(), now()).expect("memory");
        let (mut scratch, mut bytes) = (Scratch::default(), Vec::new());
        for i in 0..60 {
            let mut builder = BatchBuilder::new(1 << 16);
            let value = vec![i as u8; 100 + i];
            builder.try_append(now().wall, None, Some(&value), &[]).expect("room");
            bytes.clear();
            let (id, before) = (i as i64 % PRODUCERS, i as i64 / PRODUCERS);
            let producer = Producer {
                id: ProducerId(id),
                epoch: ProducerEpoch(0),
                base_sequence: Sequence(before as i32),
            };
            let options = BatchOptions { producer, ..BatchOptions::default() };
            builder.finish(&options, &mut scratch, &mut bytes).expect("a batch");
            let batch = CheckedBatch::check(&bytes, &BatchLimits::default(), &mut scratch).expect("a batch");
            log.append(now(), &batch, LeaderEpoch(i as i32 / 7)).expect("memory");
        }
        log.flush(FlushScope::Checkpoint).expect("memory");
        let end = log.end();
        drop(log);
        (disk, end)
    })
}

/// All records of a log, if they can be read.
fn read_all(log: &Log) -> Option<Vec<u8>> {
    let (mut bytes, mut next) = (Vec::new(), log.start());
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 1 << 20, true).ok()?;
        for slice in &plan.slices {
            let from = bytes.len();
            bytes.resize(from + slice.len as usize, 0);
            slice.file.read_at(&mut bytes[from..], slice.position).expect("memory");
        }
        if plan.next <= next {
            return None;
        }
        next = plan.next;
    }
    Some(bytes)
}

/// The records as they were written.
fn written_bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let disk = written().0.copy();
        let mut names = disk.list(Path::new(DIR)).expect("memory");
        names.retain(|entry| entry.name.ends_with(".log"));
        names
            .iter()
            .flat_map(|entry| disk.contents(&Path::new(DIR).join(&entry.name)).expect("listed"))
            .collect()
    })
}

fuzz_target!(|input: &[u8]| {
    written_bytes();
    ALLOCATOR.within(BYTES_MAX + 4 * input.len(), || examine(input));
});

fn examine(input: &[u8]) {
    let [which, at_high, at_low, how, known, patch @ ..] = input else { return };
    let (disk, end) = written();
    let disk = disk.copy();
    let files = disk.list(Path::new(DIR)).expect("memory");
    let file = Path::new(DIR).join(&files[usize::from(*which) % files.len()].name);
    let mut bytes = disk.contents(&file).expect("it was listed");
    let at = usize::from(u16::from_be_bytes([*at_high, *at_low])) % (bytes.len() + 1);
    match how % 4 {
        0 => bytes.truncate(at),
        1 => bytes.extend_from_slice(patch),
        2 => bytes.iter_mut().skip(at).zip(patch).for_each(|(byte, new)| *byte = *new),
        _ => bytes.iter_mut().skip(at).zip(patch).for_each(|(byte, flips)| *byte ^= flips),
    }
    disk.put(&file, bytes);
    let recovery_point = Offset(i64::from(*known & 0x3f) % (end.0 + 1));
    let (clean, adopted) = (known & 0x80 != 0, known & 0x40 != 0);
    let known = Known { recovery_point, log_start: Offset::ZERO, clean, adopted };
    let opened = Log::open(Arc::new(disk), PathBuf::from(DIR), LogSettings::tiny(), known, now());
    let Ok((mut log, _)) = opened else { return };
    let log_end = log.end();
    assert!(clean || log_end >= recovery_point, "{recovery_point} was durable, {log_end} is left");
    let _ = log.offset_for_timestamp(TimestampMs(0));
    let read = read_all(&log);
    let of_records = file.extension().is_some_and(|extension| extension == "log");
    if !of_records {
        // Tables say where to look, never what is true: damage to them changes nothing that is read.
        assert!(read.as_ref().is_some_and(|read| written_bytes().starts_with(read)), "{file:?}");
    } else if !clean && !adopted && at >= bytes_below(&file, recovery_point) {
        // What lies above the recovery point was scanned: it is what was written, or it is gone. Damage
        // below it may be met by nobody, and lead a reader astray that comes by. In an adopted log a
        // base offset that is higher than it was is a gap.
        check_scanned(&log, recovery_point);
    }
}

/// How many bytes of a file of records lie below an offset.
fn bytes_below(file: &Path, offset: Offset) -> usize {
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let base = Offset(name.parse().expect("a file of records is called by its first offset"));
    let in_it = records::batches(written_bytes()).flatten().filter(|batch| batch.base_offset() >= base);
    in_it.take_while(|batch| batch.next_offset() <= offset).map(|batch| batch.bytes().len()).sum()
}

/// Every batch from the recovery point on is as it was written, but for the leader epoch, which no
/// checksum covers.
fn check_scanned(log: &Log, recovery_point: Offset) {
    const LEADER_EPOCH: std::ops::Range<usize> = 12..16;
    let expected: Vec<_> = records::batches(written_bytes()).flatten().collect();
    let mut next = recovery_point.max(log.start());
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 0, true).expect("it was scanned");
        assert!(plan.next > next, "nothing to read at {next}");
        let mut bytes = Vec::new();
        for slice in &plan.slices {
            let from = bytes.len();
            bytes.resize(from + slice.len as usize, 0);
            slice.file.read_at(&mut bytes[from..], slice.position).expect("memory");
        }
        let written = expected.iter().find(|batch| batch.next_offset() == plan.next).expect("a batch");
        let mut written = written.bytes().to_vec();
        written[LEADER_EPOCH].copy_from_slice(&bytes[LEADER_EPOCH]);
        assert_eq!(bytes, written, "at {next}");
        next = plan.next;
    }
}
