//! Retention: what is old, or too much, goes.

use base::{Effects, Now};
use storage::disk::{DiskError, Failed};
use storage::{LookupError, Removal, Removed};

use crate::partition::{Effect, Partition};

impl Partition {
    /// Drops some of what retention no longer keeps, and files that were dropped a while ago. What is to be
    /// run outside any lock; `None` if there is nothing to drop.
    pub fn retain_plan(&mut self, now: Now, out: &mut Effects<Effect>) -> Option<Removal> {
        if self.failed {
            return None;
        }
        self.log.expire_producers(now);
        match self.log.retain_plan(now, self.high_watermark) {
            Ok(removal) => removal,
            Err(error) => {
                let is_of_log = !matches!(&error, LookupError::Disk(why) if why.failed != Failed::File);
                if is_of_log {
                    // Nobody may ever read what is oldest, and nothing would go any more.
                    out.push(Effect::Suspect(self.log.start()));
                }
                self.lookup_failed(error, out);
                None
            }
        }
    }

    /// A removal came back; whether to plan another.
    pub fn on_removed(&mut self, result: Result<Removed, DiskError>, out: &mut Effects<Effect>) -> bool {
        match result {
            Ok(removed) => {
                self.log.on_removed(&removed);
                true
            }
            Err(error) => {
                self.log.on_flush_failed(&error);
                self.fail(error, out);
                false
            }
        }
    }
}
