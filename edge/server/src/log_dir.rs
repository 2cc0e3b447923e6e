//! One log directory of a running node: its checkpoints, its flush threads, and whether it can still
//! be trusted.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use base::Uuid;
use disk::{DirLock, FlushPool};
use parking_lot::Mutex;
use storage::dirs::LogDir;
use storage::disk::{Disk, DiskError};
use telemetry::Metrics;
use tracing::error;

use crate::complaints::Complaints;

type WhenRetired = Box<dyn Fn(&DiskError) + Send + Sync>;

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
    /// Its checkpoints and marks.
    pub(crate) marks: Mutex<LogDir>,
    /// What its disk refused, for a while.
    pub(crate) complaints: Complaints,
    /// Since when that is counted.
    pub(crate) since: Instant,
    retired: AtomicBool,
    on_retired: OnceLock<WhenRetired>,
    _lock: DirLock,
}

impl LogDirectory {
    pub(crate) fn new(
        path: PathBuf,
        marks: LogDir,
        flushes: FlushPool,
        lock: DirLock,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            path,
            id: marks.id(),
            disk: Arc::clone(marks.disk()),
            flushes,
            metrics,
            partitions: AtomicUsize::new(0),
            marks: Mutex::new(marks),
            complaints: Complaints::default(),
            since: Instant::now(),
            retired: AtomicBool::new(false),
            on_retired: OnceLock::new(),
            _lock: lock,
        }
    }

    /// What else is to happen when it is given up. Set once, at start.
    pub(crate) fn when_retired(&self, act: impl Fn(&DiskError) + Send + Sync + 'static) {
        let _ = self.on_retired.set(Box::new(act));
    }

    /// Gives the directory up for good, the first time: nothing that lies in it is written any more.
    pub(crate) fn retire(&self, why: &DiskError) {
        if self.retired.swap(true, Ordering::AcqRel) {
            return;
        }
        error!(
            dir = %self.path.display(), error = %why,
            "log directory given up after a failed write: its partitions are offline until the disk is \
             repaired and the node started again"
        );
        if let Some(act) = self.on_retired.get() {
            act(why);
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Does something with checkpoints and marks; an error retires the directory.
    pub(crate) fn mark<T>(&self, act: impl FnOnce(&mut LogDir) -> Result<T, DiskError>) -> Option<T> {
        let done = act(&mut self.marks.lock());
        done.inspect_err(|why| self.retire(why)).ok()
    }

    /// As DescribeLogDirs shows it, without its partitions.
    pub(crate) fn describe(&self) -> broker::host::LogDir {
        let space = rustix::fs::statvfs(&self.path).ok();
        broker::host::LogDir {
            path: self.path.display().to_string(),
            failed: self.is_retired(),
            bytes_total: space.as_ref().map(|space| space.f_blocks.saturating_mul(space.f_frsize)),
            bytes_usable: space.as_ref().map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
            partitions: Vec::new(),
        }
    }
}
