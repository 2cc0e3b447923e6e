//! A log whose disk has failed: it gives up, says so, and touches nothing any more.

use base::{LeaderEpoch, Offset};
use storage::disk::Failed;
use storage::{FlushScope, Log};

use crate::world::World;

impl World {
    /// A write or a barrier of the log that failed must have poisoned it, and whatever is then asked of
    /// it changes nothing, neither in it nor on the disk.
    pub(super) fn check_poison(&mut self) {
        let dir = self.keeper.partition_dir();
        let of_log = |path: &std::path::Path| path.starts_with(&dir);
        let strikes = self.disk.strikes();
        let wrote = strikes.iter().find(|(on, path)| on.breaks() == Failed::Directory && of_log(path));
        if self.log().poison().is_none() {
            if let Some((on, path)) = wrote {
                let what = format!("{} {} failed, and the log goes on", on.name(), path.display());
                self.complain("poison", what);
            }
            return;
        }
        let before = known(self.log());
        // It was planned before the error, and may come through: the pages that the error took with it
        // are not dirty any more.
        if let Some(flush) = self.flush.take()
            && let Ok(flushed) = flush.run()
        {
            self.log().on_flushed(flushed);
        }
        let changes = self.disk.changes();
        let tried = self.try_everything();
        let after = known(self.log());
        if before != after {
            let what = format!("a log that gave up went from {before:?} to {after:?} ({tried})");
            self.complain("poison", what);
        }
        if self.disk.changes() != changes {
            self.complain("poison", format!("a log that gave up changes files ({tried})"));
        }
    }

    /// Asks a log that gave up for everything it could do; what it did, in words.
    fn try_everything(&mut self) -> String {
        let now = self.clock.now();
        let (end, high_watermark) = (self.log().end(), self.high_watermark);
        let mut tried = vec![format!("append: {}", self.try_append())];
        let log = self.log();
        for scope in [FlushScope::Records, FlushScope::Checkpoint] {
            tried.push(format!("flush: {:?}", log.flush(scope)));
        }
        tried.push(format!("epoch: {:?}", log.begin_epoch(LeaderEpoch(i32::MAX))));
        tried.push(format!("truncate: {:?}", log.truncate(now, ..Offset(end.0 - 1).max(Offset::ZERO))));
        tried.push(format!("start over: {:?}", log.truncate_fully_and_start_at(now, end)));
        tried.push(format!("retain: {:?}", log.retain(now, high_watermark)));
        log.rest();
        tried.push(format!("close: {:?}", log.close()));
        // Readers are served on, and may be told of an error.
        let _ = World::read_all(log, log.start(), 1 << 20);
        let _ = log.max_timestamp();
        tried.join("; ")
    }
}

/// What may not change any more: edges, and up to where the log vouches for records.
fn known(log: &Log) -> [Offset; 4] {
    [log.start(), log.end(), log.durable_end(), log.recovery_point()]
}
