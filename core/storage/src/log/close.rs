//! Rest and orderly end.

use base::Offset;

use crate::disk::DiskError;
use crate::log::{FlushScope, Log};
use crate::segment::Segment;

/// How many of its segments that do not grow a log keeps open for readers. One is read by who follows it
/// from end to end; with two, a pair of such readers do not close each other's files.
pub(crate) const READ_OPEN_MAX: usize = 2;

impl Log {
    /// Everything to the media, in the form in which [`Log::open`] needs no look at the records.
    pub fn close(&mut self) -> Result<(), DiskError> {
        if self.size_bytes() > 0 {
            let snapshot = self.preparing(|log| log.open_snapshot())?;
            self.changing(|log| log.save_producers(snapshot))?;
        }
        self.flush(FlushScope::Checkpoint)?;
        self.changing(|log| {
            let snapshots = std::mem::take(&mut log.unsynced_snapshots);
            snapshots.iter().try_for_each(|(_, file)| file.sync())?;
            log.save_epochs()?;
            log.sync_names()
        })?;
        // Many logs end one after the other: together their files may be more than a process may have open.
        self.segments.iter_mut().for_each(Segment::rest);
        Ok(())
    }

    /// Closes the files of segments that were not used since the last call; they open again when they
    /// are needed.
    pub fn rest(&mut self) {
        if self.poison.is_some() {
            return;
        }
        // Handles that have something to bring to the media yet must stay: only they are told of
        // errors.
        let everything = self.recovery_point == self.end;
        let synced = self.segments.partition_point(|segment| segment.base < self.unsynced_from);
        let closable = if everything { self.segments.len() } else { synced };
        self.segments[..closable].iter_mut().for_each(Segment::rest_if_idle);
        if everything && !self.active().is_open() {
            self.growth.recent.clear();
        }
    }

    /// Closes segments from `from` on that do not grow any more and were brought to the media, but for those
    /// that are read: short ones could use up the descriptors.
    pub(crate) fn rest_synced(&mut self, from: Offset) {
        let Self { segments, read, unsynced_from, .. } = self;
        let first = segments.partition_point(|segment| segment.base < from);
        let closed = segments[first..].iter_mut().take_while(|segment| segment.base < *unsynced_from);
        closed.filter(|segment| !read.contains(&segment.base)).for_each(Segment::rest);
    }

    /// Takes note that readers have a segment open that does not grow; closes the one that was read least
    /// lately, if there are too many.
    pub(crate) fn note_read(&mut self, base: Offset) {
        if let Some(at) = self.read.iter().position(|&read| read == base) {
            self.read.remove(at);
        }
        if self.read.len() == READ_OPEN_MAX {
            let idle = self.read.remove(0);
            self.close_read(idle);
        }
        self.read.push(base);
    }

    /// Closes a segment that was read, if there still is one and its handles have nothing to bring to the
    /// media.
    fn close_read(&mut self, base: Offset) {
        let index = self.segment_of(base);
        let closable = base < self.unsynced_from && self.poison.is_none();
        if closable && self.segments[index].base == base {
            self.segments[index].rest();
        }
    }

    pub(crate) fn sync_names(&mut self) -> Result<(), DiskError> {
        if self.names_changed > self.names_synced {
            self.home.sync_dir()?;
            self.names_synced = self.names_changed;
        }
        Ok(())
    }
}
