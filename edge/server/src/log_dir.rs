//! One log directory of a running node: its checkpoints, its flush threads, and whether it can still
//! be trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base::{Offset, PartitionIndex, TopicId, TopicPartition, Uuid};
use broker::lifecycle::DiskWait;
use broker::replication::PartitionKey;
use disk::{DirHealth, DirLock, FlushPool};
use parking_lot::Mutex;
use storage::dirs::{LogDir, remove_deleted};
use storage::disk::{Disk, DiskError};
use telemetry::Metrics;
use tracing::{error, info};

use crate::complaints::Complaints;
use crate::waits::{Flushes, Waits};

/// Who holds a partition for so long is taken to wait for a disk that hangs.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(5);

type WhenRetired = Box<dyn Fn(&DiskError) + Send + Sync>;

/// What a log directory has to say about compaction.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Logs that are set aside.
    pub(crate) aside: AtomicU64,
    /// Dirty bytes of the log that has most of them.
    pub(crate) dirty_bytes_max: AtomicU64,
}

/// How far replicas of a log directory were behind when it was looked at last, in records.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// Those here, at most.
    pub(crate) here: AtomicU64,
    /// Those that follow leaders here, at most.
    pub(crate) of_followers: AtomicU64,
}

/// See the module.
pub(crate) struct LogDirectory {
    /// As the settings name it; its files are named from within.
    pub(crate) path: PathBuf,
    pub(crate) id: Uuid,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) flushes: FlushPool,
    pub(crate) metrics: Arc<Metrics>,
    /// Partitions that live here, to place new ones evenly.
    pub(crate) partitions: AtomicUsize,
    /// Its checkpoints and marks. Whoever holds it may lock partitions, never the other way round.
    pub(crate) marks: Mutex<LogDir>,
    /// What its disk refused, for a while.
    pub(crate) complaints: Complaints,
    /// How compaction fares here.
    pub(crate) compaction: CompactionState,
    /// How far replicas are behind.
    pub(crate) lag: Lag,
    /// Partitions that somebody holds.
    pub(crate) held: Waits,
    /// Flushes without which nothing is acknowledged.
    pub(crate) flushing: Flushes,
    /// Since when that is counted.
    pub(crate) since: Instant,
    /// Directories of deleted partitions that can be removed when there is time.
    discarded: Mutex<Vec<String>>,
    health: Arc<DirHealth>,
    /// Partitions whose starts are to be written down soon; each once, so there are no more than partitions.
    starts_asked: Mutex<BTreeSet<(TopicId, PartitionIndex)>>,
    /// Where stored records may be damaged: one place of each partition.
    suspects: Mutex<BTreeMap<PartitionKey, Offset>>,
    /// Whether so little is free that no more records are taken.
    full: AtomicBool,
    /// Bytes of its file system: how many are free, and how many there are.
    space: [AtomicU64; 2],
    /// Whether it was said that the directory is retired.
    told: AtomicBool,
    on_retired: OnceLock<WhenRetired>,
    _lock: DirLock,
}

/// How much of a file system is kept free of records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskReserve(
    /// In bytes; `None` for what suits the file system.
    pub(crate) Option<u64>,
);

impl DiskReserve {
    const BYTES_MIN: u64 = 1 << 30;

    /// Two in a hundred, but at least a gibibyte; of a small file system no more than one in ten.
    fn bytes_of(self, total: u64) -> u64 {
        self.0.unwrap_or_else(|| (total / 50).max(Self::BYTES_MIN).min(total / 10))
    }

    /// Whether a directory with so much free takes no records. One that was full stays so until a quarter
    /// of the reserve more is free: near the reserve it would change with every batch and every removal.
    fn is_full(free: u64, reserve: u64, was_full: bool) -> bool {
        let margin = if was_full { reserve / 4 } else { 0 };
        free < reserve.saturating_add(margin)
    }
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    /// For whoever has no privileges.
    pub(crate) free: u64,
    pub(crate) total: u64,
}

/// What a [`LogDirectory`] is made of.
pub(crate) struct Parts {
    pub(crate) path: PathBuf,
    pub(crate) marks: LogDir,
    pub(crate) health: Arc<DirHealth>,
    pub(crate) flushes: FlushPool,
    pub(crate) lock: DirLock,
    pub(crate) metrics: Arc<Metrics>,
}

impl LogDirectory {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { path, marks, health, flushes, lock, metrics } = parts;
        Self {
            path,
            id: marks.id(),
            disk: Arc::clone(marks.disk()),
            flushes,
            metrics,
            partitions: AtomicUsize::new(0),
            marks: Mutex::new(marks),
            complaints: Complaints::default(),
            compaction: CompactionState::default(),
            lag: Lag::default(),
            held: Waits::default(),
            flushing: Flushes::default(),
            since: Instant::now(),
            discarded: Mutex::default(),
            health,
            starts_asked: Mutex::default(),
            suspects: Mutex::default(),
            full: AtomicBool::new(false),
            space: Default::default(),
            told: AtomicBool::new(false),
            on_retired: OnceLock::new(),
            _lock: lock,
        }
    }

    /// What else is to happen when it is given up. Set once, at start.
    pub(crate) fn when_retired(&self, act: impl Fn(&DiskError) + Send + Sync + 'static) {
        let _ = self.on_retired.set(Box::new(act));
    }

    /// Takes note of an error: if it is one after which nothing is known of the directory, the
    /// directory is given up for good, and so are the partitions in it. Not to be called by one who
    /// holds a partition. Whether the directory was at fault.
    pub(crate) fn on_error(&self, why: &DiskError) -> bool {
        if !why.is_of_directory() {
            return false;
        }
        if !self.told.swap(true, Ordering::AcqRel) {
            error!(
                dir = %self.path.display(), error = %why,
                "log directory given up after a failed write: its partitions are offline until the disk is \
                 repaired and the node started again"
            );
            if let Some(act) = self.on_retired.get() {
                act(why);
            }
        }
        true
    }

    /// Gives the directory up if its disk refuses every change since one has failed.
    pub(crate) fn look_at_disk(&self) {
        if let Some(why) = self.health.retired() {
            self.on_error(why);
        }
    }

    /// Whether the disk refuses every change since one has failed.
    pub(crate) fn is_retired(&self) -> bool {
        self.health.retired().is_some()
    }

    /// How long its disk has been waited for.
    pub(crate) fn disk_wait(&self) -> DiskWait {
        // Of a directory that was given up no flush ends any more.
        let flushing = if self.is_retired() { Duration::ZERO } else { self.flushing.longest() };
        DiskWait { held: self.held.longest(), flushing }
    }

    /// Whether its disk hangs.
    pub(crate) fn is_hung(&self) -> bool {
        self.disk_wait().is_over(HUNG_AFTER)
    }

    /// Whether it is on the media that a log here may count records before they are.
    pub(crate) fn is_noted_lax(&self, partition: &TopicPartition) -> bool {
        self.marks.lock().checkpoints().lax.contains_key(partition)
    }

    /// Does something with checkpoints and marks; `None` if it failed, which was told.
    pub(crate) fn mark<T>(&self, act: impl FnOnce(&mut LogDir) -> Result<T, DiskError>) -> Option<T> {
        let done = act(&mut self.marks.lock());
        if let Err(why) = &done
            && !self.on_error(why)
        {
            error!(dir = %self.path.display(), error = %why, "could not be written");
        }
        done.ok()
    }

    /// Has it written down soon where the log of a partition begins.
    pub(crate) fn ask_start(&self, topic: TopicId, partition: PartitionIndex) {
        self.starts_asked.lock().insert((topic, partition));
    }

    /// The partitions for which that was asked since the last call.
    pub(crate) fn take_starts_asked(&self) -> BTreeSet<(TopicId, PartitionIndex)> {
        std::mem::take(&mut self.starts_asked.lock())
    }

    /// Has the records of a partition at an offset looked at soon.
    pub(crate) fn suspect(&self, partition: PartitionKey, at: Offset) {
        self.suspects.lock().insert(partition, at);
    }

    /// One of the places to be looked at.
    pub(crate) fn next_suspect(&self) -> Option<(PartitionKey, Offset)> {
        self.suspects.lock().pop_first()
    }

    /// Whether there is room for more records.
    pub(crate) fn has_room(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    /// Whether more logs can be made here.
    pub(crate) fn takes_more(&self) -> bool {
        !self.is_retired() && self.has_room()
    }

    /// Whether there is room now for what compaction writes anew before it gives back what that replaces: it may
    /// take half of the reserve.
    pub(crate) fn has_room_to_compact(&self, reserve: DiskReserve) -> bool {
        self.space_now().is_none_or(|Space { free, total }| free >= reserve.bytes_of(total) / 2)
    }

    /// How much there is; `None` if the disk does not say.
    fn space_now(&self) -> Option<Space> {
        let space = rustix::fs::statvfs(&self.path).ok()?;
        let [free, total] =
            [space.f_bavail, space.f_blocks].map(|blocks| blocks.saturating_mul(space.f_frsize));
        Some(Space { free, total })
    }

    /// How much there was when it was looked at last: whoever asks does not wait for a disk.
    pub(crate) fn space(&self) -> Space {
        let [free, total] = [0, 1].map(|at: usize| self.space[at].load(Ordering::Relaxed));
        Space { free, total }
    }

    /// Looks how much is free; for one thread at a time. With less than the reserve no records are taken and no logs made, so that
    /// metadata, checkpoints and deletions still find room.
    pub(crate) fn look_at_space(&self, reserve: DiskReserve) {
        let Some(Space { free, total }) = self.space_now() else { return };
        for (kept, seen) in self.space.iter().zip([free, total]) {
            kept.store(seen, Ordering::Relaxed);
        }
        let reserve_bytes = reserve.bytes_of(total);
        let was_full = !self.has_room();
        let full = DiskReserve::is_full(free, reserve_bytes, was_full);
        if full == was_full {
            return;
        }
        self.full.store(full, Ordering::Relaxed);
        let Some(unsaid) = self.complaints.next(self.since.elapsed()) else { return };
        let dir = self.path.display();
        if full {
            error!(
                %dir, free_bytes = free, reserve_bytes, unsaid,
                "log directory is full: until there is room it takes no records, and its replicas fall behind their \
                 leaders; delete topics or records, shorten their retention, or give it a larger disk"
            );
        } else {
            info!(%dir, free_bytes = free, reserve_bytes, unsaid, "log directory has room again and takes records");
        }
    }

    /// Has the directory of a deleted partition removed when there is time.
    pub(crate) fn discard(&self, name: String) {
        self.discarded.lock().push(name);
    }

    /// Removes one partition of those that were discarded. May take long. Whether there was one and there
    /// may be more.
    pub(crate) fn remove_one_discarded(&self) -> bool {
        if self.is_retired() {
            return false;
        }
        let Some(name) = self.discarded.lock().pop() else { return false };
        match remove_deleted(self.disk.as_ref(), Path::new(""), &name) {
            Ok(()) => info!(dir = %self.path.display(), name, "removed a deleted partition"),
            Err(why) if self.on_error(&why) => return false,
            Err(why) => {
                error!(dir = %self.path.display(), error = %why, "a deleted partition stays until the next start");
            }
        }
        true
    }

    /// As DescribeLogDirs shows it, without its partitions.
    pub(crate) fn describe(&self) -> broker::host::LogDir {
        let space = self.space_now();
        broker::host::LogDir {
            path: self.path.display().to_string(),
            failed: self.is_retired(),
            bytes_total: space.map(|space| space.total),
            bytes_usable: space.map(|space| space.free),
            replicas: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_free_suits_the_file_system() {
        let kept = |total| DiskReserve(None).bytes_of(total);
        assert_eq!(kept(1 << 40), (1 << 40) / 50);
        assert_eq!(kept(20 << 30), 1 << 30);
        assert_eq!(kept(1 << 30), (1 << 30) / 10);
        assert_eq!(DiskReserve(Some(7)).bytes_of(1 << 40), 7);
        assert_eq!(DiskReserve(Some(0)).bytes_of(1 << 40), 0);
    }

    #[test]
    fn what_was_full_stays_so_until_there_is_some_more_room() {
        assert!(!DiskReserve::is_full(100, 100, false));
        assert!(DiskReserve::is_full(99, 100, false));
        assert!(DiskReserve::is_full(124, 100, true));
        assert!(!DiskReserve::is_full(125, 100, true));
        assert!(DiskReserve::is_full(u64::MAX - 1, u64::MAX, true));
        assert!(!DiskReserve::is_full(0, 0, true), "nothing is kept free");
    }
}
