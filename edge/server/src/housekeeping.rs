//! What is done now and then in one log directory: flushes by time, checkpoints, retention, removing
//! what was deleted, and looking how much is free.
//!
//! Each directory has threads of its own, so that a disk that hangs stops nobody else. What has to be in
//! time has a thread to itself: flushes keep their bound, and a disk that fills up is seen, while another
//! works its way through thousands of logs or waits for one of them.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{PartitionIndex, TopicId};
use broker::host::HostedPartition;
use broker::partition::flush_policy;
use metadata::Image;
use replica::FlushPolicy;
use storage::dirs::Checkpoints;

use crate::clock::Clock;
use crate::log_dir::{DiskReserve, LogDirectory};
use crate::partition::PartitionCell;
use crate::table::PartitionTable;

/// How often it looks around. `flush.interval.ms` cannot be kept better than this, and what is written in
/// between must fit into the reserve of a disk.
const TICK: Duration = Duration::from_millis(50);

/// How long after the flushes that a checkpoint asks for it is written: most have ended by then, and
/// those that have not count with the next one.
const WRITE_AFTER: Duration = Duration::from_millis(500);

/// How often the files of logs that nobody uses are closed.
const REST_EVERY: Duration = Duration::from_secs(60);

/// How often it is counted what cannot be served.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// What a node spends on compaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionLimits {
    /// Memory for the keys of a log, for each log directory.
    pub(crate) map_bytes_max: usize,
    /// How long it rests when nothing is due.
    pub(crate) backoff: Duration,
    /// How fast records are read for it; `None` for no limit.
    pub(crate) bytes_per_second_max: Option<u64>,
}

/// The work of one directory's house-keeping threads.
#[derive(Clone)]
pub(crate) struct Housekeeping {
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) dir: Arc<LogDirectory>,
    /// What the cluster is.
    pub(crate) image: Arc<ArcSwap<Image>>,
    pub(crate) retention_every: Duration,
    /// How often recovery points move. After a crash at most what was appended since has to be read
    /// again: at 1 GB/s of reading, a second's worth of starting time allows for some seconds of writing.
    pub(crate) checkpoint_every: Duration,
    /// With more logs than this on the node, the files of each are closed as soon as all of it is on the
    /// disk: they would soon be more than a process may have open.
    pub(crate) open_logs_max: usize,
    /// What is kept free of records.
    pub(crate) reserve: DiskReserve,
    pub(crate) compaction: CompactionLimits,
    pub(crate) clock: Clock,
}

/// What one of the threads does until the other end of the channel is dropped.
type Run = fn(Housekeeping, &mpsc::Receiver<()>);

/// When each kind of work is due, by `Now::elapsed`.
struct Due {
    checkpoint: Duration,
    /// When a checkpoint that was begun is written.
    write: Option<Duration>,
    rest: Duration,
    retention: Duration,
    count: Duration,
}

impl Housekeeping {
    /// The threads of each directory, by name.
    pub(crate) const THREADS: [(&str, Run); 6] = [
        ("housekeeping", Self::run),
        ("flush-timer", Self::run_flushes),
        ("disk-space", Self::run_space),
        ("removal", Self::run_removals),
        ("compaction", Self::run_compaction),
        ("check", Self::run_checks),
    ];

    /// Looks how much is free. Waits for no partition: what is written until it looks again must fit into
    /// the reserve.
    fn run_space(self, stop: &mpsc::Receiver<()>) {
        while goes_on(stop, TICK) {
            self.dir.look_at_space(self.reserve);
        }
    }

    /// Asks for flushes whose time has come.
    fn run_flushes(self, stop: &mpsc::Receiver<()>) {
        while goes_on(stop, TICK) {
            let now = self.clock.now();
            // Most have no time to keep, and are not held up by a question: by default none has.
            let is_timed =
                |cell: &PartitionCell| matches!(flush_policy(&cell.settings()), FlushPolicy::Interval { .. });
            for cell in self.table.some_in_dir(self.dir.id, is_timed) {
                if cell.with(|partition| partition.flush_is_due(now)) {
                    cell.ask_flush();
                }
            }
        }
    }

    /// Removes what was deleted. It can take minutes, and what is left at the end goes at the next start.
    fn run_removals(self, stop: &mpsc::Receiver<()>) {
        let mut pause = TICK;
        while goes_on(stop, pause) {
            pause = if self.dir.remove_one_discarded() { Duration::ZERO } else { TICK };
        }
    }

    /// Does everything else.
    fn run(self, stop: &mpsc::Receiver<()>) {
        let now = self.clock.now().elapsed;
        let mut due = Due {
            // Recovery brought everything to the disk: said at once, the next crash need not read it again.
            checkpoint: now,
            write: None,
            rest: now + REST_EVERY,
            retention: now + self.retention_every.min(Duration::from_secs(30)),
            count: now,
        };
        while goes_on(stop, TICK) {
            self.tick(&mut due);
        }
    }

    fn tick(&self, due: &mut Due) {
        let now = self.clock.now().elapsed;
        if now >= due.count {
            due.count = now + COUNT_EVERY;
            self.dir.metrics.state.partitions_offline.set(self.table.offline_count() as u64);
        }
        if self.dir.is_retired() {
            return;
        }
        if now >= due.checkpoint {
            due.checkpoint = now + self.checkpoint_every;
            due.write.get_or_insert(now + WRITE_AFTER);
            self.table.in_dir(self.dir.id).iter().for_each(|cell| cell.ask_checkpoint());
        }
        let asked = self.dir.take_starts_asked();
        if !asked.is_empty() {
            write_starts(&self.table, &self.dir, &asked);
        }
        if due.write.is_some_and(|write| now >= write) {
            due.write = None;
            write_checkpoints(&self.table, &self.dir);
            if self.table.len() > self.open_logs_max {
                // The first call only asks whether the log was used since the last.
                (0..2).for_each(|_| self.rest());
            }
        }
        if now >= due.retention {
            due.retention = now + self.retention_every;
            self.retain();
        }
        if now >= due.rest {
            due.rest = now + REST_EVERY;
            self.rest();
        }
    }

    fn rest(&self) {
        let cells = self.table.in_dir(self.dir.id);
        cells.iter().for_each(|cell| cell.with(|partition| partition.log_mut().rest()));
    }

    fn retain(&self) {
        let now = self.clock.now();
        for cell in self.table.in_dir(self.dir.id) {
            while let Some(removal) = cell.act(|partition, out| partition.retain_plan(now, out)) {
                let result = removal.run();
                if !cell.act(|partition, out| partition.on_removed(result, out)) {
                    break;
                }
            }
        }
    }
}

/// Rests for a while; whether the other end of `stop` is still there then.
pub(crate) fn goes_on(stop: &mpsc::Receiver<()>, pause: Duration) -> bool {
    matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout))
}

/// Writes down where some logs of a directory begin. If it fails, that goes with the next checkpoint.
fn write_starts(table: &PartitionTable, dir: &LogDirectory, asked: &BTreeSet<(TopicId, PartitionIndex)>) {
    dir.mark(|marks| {
        // Looked up, and told, while nobody else can write, as below.
        let cells = asked.iter().filter_map(|(topic, partition)| table.get(*topic, *partition));
        let start = |cell: Arc<PartitionCell>| {
            let start = cell.with(|partition| partition.log().start());
            (cell, start)
        };
        let starts: Vec<_> = cells.map(start).collect();
        marks.save_starts(starts.iter().map(|(cell, start)| (cell.name.clone(), *start)).collect())?;
        starts.iter().for_each(|(cell, start)| cell.on_start_saved(*start));
        Ok(())
    });
}

/// Writes down again which logs are to count records before they are durable, where it failed before.
fn note_lax_again(table: &PartitionTable, dir: &LogDirectory) {
    let wait = || table.some_in_dir(dir.id, PartitionCell::waits_for_note);
    if wait().is_empty() {
        return;
    }
    let mut noted = Vec::new();
    let saved = dir.mark(|marks| {
        // Looked up while nobody else can write, as above.
        noted = wait();
        marks.note_lax(noted.iter().map(|cell| cell.name.clone()))
    });
    if saved.is_some() {
        noted.iter().for_each(|cell| cell.on_noted());
    }
}

/// Writes the three offset checkpoints of a directory, where they changed, and what could not be noted before.
/// Whether the checkpoints are there.
pub(crate) fn write_checkpoints(table: &PartitionTable, dir: &LogDirectory) -> bool {
    note_lax_again(table, dir);
    let saved = dir.mark(|marks| {
        // Looked up while nobody else can write: what is deleted meanwhile must not come back. Nor is anybody told later
        // where a log starts, which may have been cut by then.
        let (mut served, mut starts) = (Checkpoints::default(), Vec::new());
        // Of one that failed it is not known what is durable: what was written down of it stays.
        for cell in table.in_dir(dir.id).into_iter().filter(|cell| !cell.is_offline()) {
            let (recovery_point, start, high_watermark) = cell.with(|partition| {
                let log = partition.log();
                (log.recovery_point(), log.start(), partition.high_watermark())
            });
            served.recovery_points.insert(cell.name.clone(), recovery_point);
            served.log_starts.insert(cell.name.clone(), start);
            served.high_watermarks.insert(cell.name.clone(), high_watermark);
            if cell.start_saved() < start {
                starts.push((cell, start));
            }
        }
        marks.save(served)?;
        starts.iter().for_each(|(cell, start)| cell.on_start_saved(*start));
        Ok(())
    });
    saved.is_some()
}
