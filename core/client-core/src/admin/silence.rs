//! Brokers that say nothing: cut off, stopped, or hung.
//!
//! What any broker can answer is asked of another; who is late may still answer first. What is a certain broker's to
//! answer waits for it, and others are asked meanwhile whether it is another's by now.

use base::Now;

use super::{Admin, Asked, World};
use crate::links::ASK_EVERY;

impl Admin {
    /// Asks others what those that are silent were asked, and leaves those that others answer for by now.
    pub(super) fn leave_the_silent(&mut self, now: Now) {
        let silent = self.world.links.silent(now);
        if silent.is_empty() {
            return;
        }
        let World { links, metadata, coordinators, told_at, .. } = &mut self.world;
        metadata.is_asked &= links.is_owed(now, |asked| matches!(asked, Asked::Metadata));
        coordinators.inquiry.is_asked &= links.is_owed(now, |asked| matches!(asked, Asked::Coordinators(_)));
        let is_time = *told_at + ASK_EVERY <= now.elapsed;
        for (connection, peer) in silent {
            let mut is_replaced = false;
            for call in self.calls.values_mut() {
                is_replaced |= call.leave(peer, &self.world);
                if is_time {
                    call.doubt(peer, &mut self.world);
                }
            }
            if is_replaced {
                self.close_late(connection, now);
            }
        }
    }
}
