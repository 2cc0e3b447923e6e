//! Rest and orderly end.

use crate::disk::DiskError;
use crate::log::{FlushScope, Log};
use crate::segment::Segment;

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

    pub(crate) fn sync_names(&mut self) -> Result<(), DiskError> {
        if self.names_changed > self.names_synced {
            self.home.sync_dir()?;
            self.names_synced = self.names_changed;
        }
        Ok(())
    }
}
