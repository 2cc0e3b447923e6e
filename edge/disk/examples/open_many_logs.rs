//! How long thousands of logs take to come back after a kill: made, killed and opened on a real disk.
//!
//! ```text
//!   cargo run --release -p vltava-disk --example open_many_logs -- 10000
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base::{LeaderEpoch, Now, Offset, TimestampMs, TopicId, Uuid};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch};
use storage::disk::Disk;
use storage::{FlushScope, Known, Log, LogSettings};
use vltava_disk::FsDisk;

/// As many as the broker opens logs with.
const THREADS: usize = 8;
const NOW: Now = Now::new(Duration::ZERO, TimestampMs(1_700_000_000_000));

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let root = tempfile::tempdir().expect("a directory for the logs");
    let disk: Arc<dyn Disk> = Arc::new(FsDisk::new(root.path()));
    let dir = |index: usize| PathBuf::from(format!("events-{index}"));
    let raw = batch();
    let points = on_threads(count, |index| {
        let mut log =
            Log::create(disk.clone(), dir(index), topic(), LogSettings::default(), NOW).expect("made");
        let mut scratch = Scratch::default();
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).expect("a good batch");
        log.append(NOW, &batch, LeaderEpoch(0)).expect("appended");
        // The first half was checkpointed before the kill, the other half had no time for it.
        if index < count / 2 {
            log.flush(FlushScope::Checkpoint).expect("flushed");
        }
        log.recovery_point()
    });
    for (what, range) in [("checkpointed", 0..count / 2), ("not checkpointed", count / 2..count)] {
        let began = Instant::now();
        let ends = on_threads(range.len(), |place| {
            let index = range.start + place;
            let recovery_point = points[index];
            let known = Known { recovery_point, log_start: Offset::ZERO, clean: false, adopted: false };
            Log::open(disk.clone(), dir(index), LogSettings::default(), known, NOW).expect("opened").0.end()
        });
        assert!(ends.iter().all(|&end| end == Offset(1)));
        #[expect(clippy::print_stdout, reason = "it is what this is run for")]
        {
            println!("{} logs, {what}: {:.2?}", range.len(), began.elapsed());
        }
    }
}

fn topic() -> TopicId {
    TopicId(Uuid([7; 16]))
}

fn batch() -> Vec<u8> {
    let mut builder = BatchBuilder::new(4096);
    builder.try_append(TimestampMs(1), None, Some(b"value"), &[]).expect("it fits");
    let mut raw = Vec::new();
    builder.finish(&BatchOptions::default(), &mut Scratch::default(), &mut raw).expect("it is small");
    raw
}

/// Does it for every index, in order of the answers.
fn on_threads<T: Send>(count: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let work = || {
            let indexes = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            indexes.take_while(|&index| index < count).map(|index| (index, act(index))).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, done)| done).collect()
}
