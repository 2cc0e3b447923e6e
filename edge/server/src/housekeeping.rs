//! What is done now and then: flushes by time, checkpoints, retention, removing what was deleted.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use storage::FlushScope;
use storage::checkpoint::PartitionOffsets;
use tracing::debug;

use crate::clock::Clock;
use crate::hosting::Discarded;
use crate::log_dir::LogDirectory;
use crate::partition::PartitionCell;
use crate::table::PartitionTable;

/// How often it looks around. `flush.interval.ms` cannot be kept better than this.
const TICK: Duration = Duration::from_millis(50);

/// How often recovery points move. After a crash at most what was appended since has to be read
/// again: at 1 GB/s of reading, a second's worth of starting time allows for some seconds of writing.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(3);

/// How often the files of logs that nobody uses are closed.
const REST_EVERY: Duration = Duration::from_secs(60);

/// With more logs than this, the files of each are closed as soon as all of it is on the disk: three
/// files a log would soon be more than a process may have open.
const OPEN_LOGS_MAX: usize = 1000;

/// The house-keeping thread's work.
pub(crate) struct Housekeeping {
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) dirs: Vec<Arc<LogDirectory>>,
    pub(crate) discarded: mpsc::Receiver<Discarded>,
    pub(crate) retention_every: Duration,
    pub(crate) clock: Clock,
}

/// When each kind of work is due, by `Now::elapsed`.
struct Due {
    flush: Duration,
    checkpoint: Duration,
    rest: Duration,
    retention: Duration,
}

impl Housekeeping {
    /// Works until the other end of `stop` is dropped.
    pub(crate) fn run(self, stop: &mpsc::Receiver<()>) {
        let now = self.clock.now().elapsed;
        let mut due = Due {
            flush: now,
            // Recovery brought everything to the disk: said at once, the next crash need not read it again.
            checkpoint: now,
            rest: now + REST_EVERY,
            retention: now + self.retention_every.min(Duration::from_secs(30)),
        };
        while matches!(stop.recv_timeout(TICK), Err(mpsc::RecvTimeoutError::Timeout)) {
            self.tick(&mut due);
        }
    }

    fn tick(&self, due: &mut Due) {
        let now = self.clock.now();
        self.remove_discarded();
        if now.elapsed >= due.flush {
            due.flush = now.elapsed + TICK;
            let is_due = |cell: &&Arc<PartitionCell>| cell.with(|partition| partition.flush_is_due(now));
            self.table.all().iter().filter(is_due).for_each(|cell| cell.ask_flush());
        }
        if now.elapsed >= due.checkpoint {
            due.checkpoint = now.elapsed + CHECKPOINT_EVERY;
            let cells = self.table.all();
            for cell in cells.iter().filter(|cell| !cell.dir.is_retired()) {
                cell.flush_now(FlushScope::Checkpoint);
                if cells.len() > OPEN_LOGS_MAX {
                    // The first call only asks whether the log was used since the last.
                    (0..2).for_each(|_| cell.with(|partition| partition.log_mut().rest()));
                }
            }
            write_checkpoints(&self.table, &self.dirs);
        }
        if now.elapsed >= due.retention {
            due.retention = now.elapsed + self.retention_every;
            self.retain();
        }
        if now.elapsed >= due.rest {
            due.rest = now.elapsed + REST_EVERY;
            self.table.all().iter().for_each(|cell| cell.with(|partition| partition.log_mut().rest()));
        }
    }

    fn retain(&self) {
        let now = self.clock.now();
        for cell in self.table.all() {
            while let Some(removal) = cell.act(|partition, out| partition.retain_plan(now, out)) {
                let result = removal.run();
                if !cell.act(|partition, out| partition.on_removed(result, out)) {
                    break;
                }
            }
        }
    }

    fn remove_discarded(&self) {
        while let Ok(Discarded { dir, name }) = self.discarded.try_recv() {
            dir.mark(|marks| marks.remove(&name));
            debug!(dir = %dir.path.display(), name, "removed");
        }
    }
}

/// Writes the three offset checkpoints of every directory, where they changed.
pub(crate) fn write_checkpoints(table: &PartitionTable, dirs: &[Arc<LogDirectory>]) {
    let cells = table.all();
    for dir in dirs.iter().filter(|dir| !dir.is_retired()) {
        let mut offsets = [PartitionOffsets::new(), PartitionOffsets::new(), PartitionOffsets::new()];
        for cell in cells.iter().filter(|cell| Arc::ptr_eq(&cell.dir, dir)) {
            let places = cell.with(|partition| {
                let log = partition.log();
                [log.recovery_point(), log.start(), partition.high_watermark()]
            });
            for (map, offset) in offsets.iter_mut().zip(places) {
                map.insert(cell.name.clone(), offset);
            }
        }
        let [recovery_points, log_starts, high_watermarks] = offsets;
        dir.mark(|marks| {
            marks.save_recovery_points(recovery_points)?;
            marks.save_log_starts(log_starts)?;
            marks.save_high_watermarks(high_watermarks)
        });
    }
}
