//! Compaction of a replica's log: each replica compacts its own, up to its own high watermark.

use base::{Effects, Now};
use storage::disk::DiskError;
use storage::{Committed, Compacted, Compaction, CompactionError, Dirt, Rewritten, Swap, Swapped};

use crate::partition::{Effect, Partition};
use crate::role::Role;

impl Partition {
    /// What of the log could be compacted, if a compaction is due.
    pub fn dirt(&mut self, now: Now) -> Result<Option<Dirt>, CompactionError> {
        if self.failed || !self.log.settings().compacts {
            return Ok(None);
        }
        let dirt = self.log.dirt(now, self.high_watermark)?;
        let is_due = dirt.is_overdue || dirt.ratio_ppm() > self.log.settings().dirty_ppm_min;
        Ok(Some(dirt).filter(|dirt| is_due && dirt.bytes > 0))
    }

    /// Begins a compaction if one is due. What it returns is run outside any lock, and only one at a time.
    pub fn compaction_plan(
        &mut self,
        now: Now,
        map_bytes_max: usize,
        out: &mut Effects<Effect>,
    ) -> Result<Option<Compaction>, CompactionError> {
        if self.failed {
            return Ok(None);
        }
        let committed = Committed { upto: self.high_watermark, by_all: self.is_with_all() };
        let plan = self.log.compaction_plan(now, committed, map_bytes_max);
        plan.map_err(|error| self.compaction_failed(error.into(), out))
    }

    /// Whether all replicas have what is committed. A leader knows first when one falls out of sync.
    fn is_with_all(&self) -> bool {
        let has_left = match &self.role {
            Role::Leader(leader) => !leader.is_whole(),
            Role::Follower(_) | Role::None => false,
        };
        self.is_whole && !has_left
    }

    /// A segment was written anew. What is to be run before it takes its place; `None` if the log has changed
    /// since, and the compaction is to be given up.
    pub fn on_rewritten(
        &mut self,
        rewritten: Rewritten,
        out: &mut Effects<Effect>,
    ) -> Result<Option<Swap>, CompactionError> {
        if self.failed {
            return Ok(None);
        }
        self.log.on_rewritten(rewritten).map_err(|error| self.compaction_failed(error.into(), out))
    }

    /// The segment takes its place. Whether it did; if not, the log has changed, and the compaction is to be given
    /// up.
    pub fn on_swapped(
        &mut self,
        now: Now,
        result: Result<Swapped, DiskError>,
        out: &mut Effects<Effect>,
    ) -> Result<bool, CompactionError> {
        if self.failed {
            return Ok(false);
        }
        let swapped = result.and_then(|swapped| self.log.on_swapped(now, swapped));
        swapped.map_err(|error| self.compaction_failed(error.into(), out))
    }

    /// A compaction came to its end. Whether it counts.
    pub fn on_compacted(&mut self, compacted: &Compacted) -> bool {
        self.log.on_compacted(compacted)
    }

    /// A compaction failed. The partition fails with it only if the disk can be believed no more.
    pub fn compaction_failed(
        &mut self,
        error: CompactionError,
        out: &mut Effects<Effect>,
    ) -> CompactionError {
        if let CompactionError::Disk(why) = &error {
            self.log.on_compaction_failed(why);
            if self.log.poison().is_some() {
                self.fail(why.clone(), out);
            }
        }
        error
    }
}
