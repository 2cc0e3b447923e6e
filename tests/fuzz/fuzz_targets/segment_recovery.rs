//! A log directory in which one file was damaged: opening it cuts, quarantines or mends, and what it
//! gives is a prefix of what was written. The first bytes say which file, where and how.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{LeaderEpoch, Now, Offset, TimestampMs, TopicId, Uuid};
use libfuzzer_sys::fuzz_target;
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch};
use storage::disk::Disk;
use storage::memory::MemoryDisk;
use storage::{FlushScope, Known, Log, LogSettings};

const DIR: &str = "fuzzed-0";

fn now() -> Now {
    Now::new(Duration::from_secs(1), TimestampMs(1_700_000_000_000))
}

/// A log of some segments, written once.
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
            builder.finish(&BatchOptions::default(), &mut scratch, &mut bytes).expect("a batch");
            let batch = CheckedBatch::check(&bytes, &BatchLimits::default(), &mut scratch).expect("a batch");
            log.append(now(), &batch, LeaderEpoch(0)).expect("memory");
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
    let recovery_point = Offset(i64::from(*known) % (end.0 + 1));
    let (clean, adopted) = (known & 0x80 != 0, known & 0x40 != 0);
    let known = Known { recovery_point, log_start: Offset::ZERO, clean, adopted };
    let opened = Log::open(Arc::new(disk), PathBuf::from(DIR), LogSettings::tiny(), known, now());
    if let Ok((mut log, _)) = opened {
        assert!(
            known.clean || log.end() >= recovery_point,
            "{} was durable, {} is left",
            recovery_point,
            log.end()
        );
        let _ = log.offset_for_timestamp(TimestampMs(0));
        let read = read_all(&log);
        // Tables say where to look, never what is true: damage to them changes nothing that is read.
        let whole = file.extension().is_none_or(|extension| extension != "log");
        assert!(!whole || read.as_ref().is_some_and(|read| written_bytes().starts_with(read)), "{file:?}");
    }
});
