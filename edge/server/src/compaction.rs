//! Compaction in one log directory: of the logs that are due, the dirtiest, one after the other.
//!
//! ```text
//!   dirt of each log ─▶ the dirtiest that is due ─▶ plan │ next … swap … │ end ─▶ cleaner-offset-checkpoint
//!                              ▲                     lock │ lock for each │ lock
//!                              └── not one that failed a short while ago
//! ```
//!
//! A log that cannot be compacted is set aside, for longer each time, and the others go on. What is written anew
//! needs room before it makes room: with less than half of the reserve free, nothing is compacted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use base::{Offset, PartitionIndex, TopicId};
use broker::host::HostedPartition;
use storage::checkpoint::PartitionOffsets;
use storage::{Compacted, CompactionError, CompactionStats, Dirt, LookupError};
use telemetry::CompactionMetrics;
use tracing::{debug, error};

use crate::housekeeping::Housekeeping;
use crate::partition::PartitionCell;

/// How long a log is left alone that could not be compacted, the first time: twice as long each time after.
const ASIDE_MIN: Duration = Duration::from_secs(60);
const ASIDE_MAX: Duration = Duration::from_secs(60 * 60);

/// How often it is looked whether the node stops and whether there is room, in bytes.
const PACE_BYTES: u64 = 1 << 20;

type Key = (TopicId, PartitionIndex);

/// A log that could not be compacted.
struct Aside {
    until: Duration,
    pause: Duration,
}

/// How a compaction ended that did not fail.
#[derive(Debug)]
pub(crate) enum Ended {
    Compacted(Compacted),
    /// Nothing was due any more, or the log was cut meanwhile.
    GivenUp,
    /// The disk has no room for what is written anew. What was written so far is gone again.
    NoRoom,
}

impl Housekeeping {
    /// Compacts what is due until the other end of the channel is dropped.
    pub(crate) fn run_compaction(self, stop: &mpsc::Receiver<()>) {
        let mut aside = SetAside::default();
        let mut pause = self.compaction.backoff;
        while let Err(mpsc::RecvTimeoutError::Timeout) = stop.recv_timeout(pause) {
            pause = match self.compact_dirtiest(&mut aside, stop) {
                true => Duration::ZERO,
                false => self.compaction.backoff,
            };
        }
    }

    /// Compacts one log; whether there may be more to do.
    pub(crate) fn compact_dirtiest(&self, aside: &mut SetAside, stop: &mpsc::Receiver<()>) -> bool {
        let now = self.clock.now();
        if self.dir.is_retired() {
            return false;
        }
        let cells = self.table.some_in_dir(self.dir.id, |cell| cell.settings().cleanup.compact);
        aside.0.retain(|key, _| cells.iter().any(|cell| key_of(cell) == *key));
        let mut due: Vec<(Dirt, Arc<PartitionCell>)> = Vec::new();
        for cell in cells.into_iter().filter(|cell| !cell.is_offline()) {
            match cell.with(|partition| partition.dirt(now)) {
                Ok(dirt) => due.extend(dirt.map(|dirt| (dirt, cell))),
                Err(why) => aside.add(&cell, now.elapsed, &why.to_string()),
            }
        }
        let dirty_bytes_max = due.iter().map(|(dirt, _)| dirt.bytes).max().unwrap_or(0);
        self.dir.compaction.dirty_bytes_max.store(dirty_bytes_max, Ordering::Relaxed);
        self.dir.compaction.aside.store(aside.0.len() as u64, Ordering::Relaxed);
        due.retain(|(_, cell)| aside.allows(cell, now.elapsed));
        due.sort_by_key(|(dirt, _)| Reverse((dirt.is_overdue, dirt.ratio_ppm())));
        let has_room = || self.dir.has_room_to_compact(self.reserve);
        if !due.is_empty() && !has_room() {
            self.say_no_room();
            return false;
        }
        for (_, cell) in due {
            let ended = catch_unwind(AssertUnwindSafe(|| self.compact(&cell, stop, &has_room)));
            let failed = match ended {
                Ok(Ok(Ended::Compacted(compacted))) => {
                    self.save_clean_offset(&cell);
                    debug!(partition = %cell.name, stats = ?compacted.stats, "compacted");
                    aside.0.remove(&key_of(&cell));
                    return true;
                }
                // It is looked at again when all are; meanwhile it keeps nobody waiting.
                Ok(Ok(Ended::GivenUp)) => continue,
                Ok(Ok(Ended::NoRoom)) => {
                    "the disk has no room for what is written anew, which takes half of the reserve at most"
                        .to_owned()
                }
                Ok(Err(CompactionError::Stopped)) => return false,
                // It was deleted, or its disk failed, which was told.
                Ok(Err(_)) if cell.is_offline() => return true,
                Ok(Err(why)) => {
                    if let CompactionError::Damaged { segment, position, damage } = &why {
                        let (segment, position, damage) = (*segment, *position, damage.clone());
                        self.on_damage(&cell, &LookupError::Damaged { segment, position, damage });
                    }
                    why.to_string()
                }
                Err(_) => "a panic, see above".to_owned(),
            };
            self.metrics().failures.inc();
            aside.add(&cell, self.clock.now().elapsed, &failed);
            return true;
        }
        false
    }

    fn say_no_room(&self) {
        if let Some(unsaid) = self.dir.complaints.next(self.dir.since.elapsed()) {
            error!(
                dir = %self.dir.path.display(), unsaid,
                "less than half of the reserve is free: no log is compacted until there is more; delete topics or \
                 records, or give the log directory a larger disk"
            );
        }
    }

    /// Compacts one log while there is room for it.
    pub(crate) fn compact(
        &self,
        cell: &PartitionCell,
        stop: &mpsc::Receiver<()>,
        has_room: &dyn Fn() -> bool,
    ) -> Result<Ended, CompactionError> {
        let began = Instant::now();
        let (now, map_bytes_max) = (self.clock.now(), self.compaction.map_bytes_max);
        let plan = cell.act(|partition, out| partition.compaction_plan(now, map_bytes_max, out))?;
        let Some(mut compaction) = plan else { return Ok(Ended::GivenUp) };
        let limit = self.compaction.bytes_per_second_max;
        let mut pace = Pace { limit, began, bytes: 0, looked: 0, has_room, is_cramped: false };
        loop {
            let next = compaction.next(&mut |bytes| pace.allows(bytes, stop));
            let next = match next {
                Ok(Some(rewritten)) => cell.act(|partition, out| partition.on_rewritten(rewritten, out))?,
                Ok(None) => break,
                Err(error) => {
                    self.count(compaction.stats(), began);
                    if pace.is_cramped {
                        return Ok(Ended::NoRoom);
                    }
                    return Err(cell.act(|partition, out| partition.compaction_failed(error, out)));
                }
            };
            let Some(swap) = next else { return Ok(Ended::GivenUp) };
            let (now, swapped) = (self.clock.now(), swap.run());
            if !cell.act(|partition, out| partition.on_swapped(now, swapped, out))? {
                return Ok(Ended::GivenUp);
            }
        }
        self.count(compaction.stats(), began);
        let compacted = compaction.finish();
        let counts = cell.with(|partition| partition.on_compacted(&compacted));
        Ok(if counts { Ended::Compacted(compacted) } else { Ended::GivenUp })
    }

    /// Writes down how far a log was compacted. If it fails, the same is compacted again after a start.
    fn save_clean_offset(&self, cell: &PartitionCell) {
        self.dir.mark(|marks| {
            // What was taken away may have left its name to another log by now.
            let upto: Option<Offset> =
                (!cell.is_offline()).then(|| cell.with(|partition| partition.log().clean_upto()));
            marks.save_clean_offsets(PartitionOffsets::from_iter(upto.map(|upto| (cell.name.clone(), upto))))
        });
    }

    fn count(&self, stats: CompactionStats, began: Instant) {
        let metrics = self.metrics();
        metrics.runs.observe(began.elapsed());
        metrics.read_bytes.add(stats.read_bytes);
        metrics.written_bytes.add(stats.written_bytes);
        metrics.replaced_bytes.add(stats.replaced_bytes);
    }

    fn metrics(&self) -> &CompactionMetrics {
        &self.dir.metrics.compaction
    }
}

fn key_of(cell: &PartitionCell) -> Key {
    (cell.topic, cell.name.partition)
}

/// The logs that are set aside.
#[derive(Default)]
pub(crate) struct SetAside(BTreeMap<Key, Aside>);

impl SetAside {
    fn add(&mut self, cell: &PartitionCell, now: Duration, why: &str) {
        let before = self.0.get(&key_of(cell));
        if before.is_some_and(|before| now < before.until) {
            return;
        }
        let pause = before.map_or(ASIDE_MIN, |before| (before.pause * 2).min(ASIDE_MAX));
        error!(
            partition = %cell.name, why, again_in_s = pause.as_secs(),
            "the log cannot be compacted and grows on; the others are compacted as before"
        );
        self.0.insert(key_of(cell), Aside { until: now.saturating_add(pause), pause });
    }

    fn allows(&self, cell: &PartitionCell, now: Duration) -> bool {
        self.0.get(&key_of(cell)).is_none_or(|aside| now >= aside.until)
    }
}

/// Keeps to a speed, and sees that the node stops or that there is no more room.
struct Pace<'a> {
    limit: Option<u64>,
    began: Instant,
    bytes: u64,
    /// How many bytes there were when it was last looked.
    looked: u64,
    has_room: &'a dyn Fn() -> bool,
    is_cramped: bool,
}

impl Pace<'_> {
    /// Takes note of bytes that were read, and waits; `false` if the node stops or there is no room.
    fn allows(&mut self, bytes: u64, stop: &mpsc::Receiver<()>) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes - self.looked < PACE_BYTES {
            return true;
        }
        self.looked = self.bytes;
        self.is_cramped = !(self.has_room)();
        if self.is_cramped {
            return false;
        }
        let due = self
            .limit
            .map_or(Duration::ZERO, |limit| Duration::from_secs_f64(self.bytes as f64 / limit.max(1) as f64));
        let pause = due.saturating_sub(self.began.elapsed());
        matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout))
    }
}
