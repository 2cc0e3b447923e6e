//! Readers, whom the disk may fail.

use base::{Offset, TimestampMs};

use crate::trace::hash;
use crate::world::World;

impl World {
    /// Reads from somewhere on and looks a time up. If the disk fails that, the answer is an error, and
    /// the log goes on.
    pub(super) fn read(&mut self) {
        let len = (self.model.end - self.model.start) as u64;
        let from = Offset(self.model.start.0 + self.random.between(0, len) as i64);
        let bytes_max = self.random.pick(&[0, 500, 1 << 20]);
        let time = TimestampMs(self.clock.now().wall.0 - self.random.below(100_000) as i64);
        let poisoned = self.log().poison().is_some();
        let log = self.log.as_mut().expect("the log is open between restarts");
        let read = World::read_all(log, from, bytes_max);
        let at_time = log.offset_for_timestamp(time);
        let aborted = log.aborted_transactions(from, log.end());
        log.on_read(from);
        let bytes = match &read {
            Ok(bytes) => format!("{} bytes {:x}", bytes.len(), hash(0, bytes)),
            Err(error) => error.to_string(),
        };
        self.trace.event(format!("read from {from}: {bytes}; {time}: {at_time:?}; aborted {aborted:?}"));
        if read.as_ref().is_ok_and(|bytes| *bytes != self.model.bytes(from, self.model.end)) {
            self.complain("read", format!("from {from}: other bytes than were appended"));
        }
        if let Err(error) = &read {
            self.failed("read", error);
        }
        if let Err(error) = &at_time {
            self.failed("look a time up", error);
        }
        if let Err(error) = &aborted {
            self.failed("look aborted transactions up", error);
        }
        if !poisoned && self.log().poison().is_some() {
            self.complain("poison", "the log gave up although it was only read".to_owned());
        }
    }
}
