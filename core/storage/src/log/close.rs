//! Rest and orderly end.

use std::sync::atomic::Ordering;

use crate::disk::DiskError;
use crate::log::{FlushScope, Log};

impl Log {
    /// Everything to the media, in the form in which [`Log::open`] needs no look at the records.
    pub fn close(&mut self) -> Result<(), DiskError> {
        let saved = self.snapshots.last() == Some(&self.end) || self.size_bytes() == 0;
        if !saved {
            self.changing(Self::save_producers)?;
        }
        self.flush(FlushScope::Checkpoint)?;
        let snapshots = std::mem::take(&mut self.unsynced_snapshots);
        self.changing(|log| {
            snapshots.iter().try_for_each(|file| file.sync())?;
            log.sync_names()
        })
    }

    /// Closes the files of a log that was not used since the last call; they open again when they are
    /// needed.
    pub fn rest(&mut self) {
        if self.used.swap(false, Ordering::Relaxed) || self.poison.is_some() {
            return;
        }
        // Handles that have something to bring to the media yet must stay: only they are told of
        // errors.
        let synced = if self.recovery_point == self.end { self.segments.len() } else { 0 };
        for segment in &mut self.segments[..synced] {
            segment.rest();
        }
        self.growth.recent.clear();
    }

    pub(crate) fn sync_names(&mut self) -> Result<(), DiskError> {
        if self.names_changed > self.names_synced {
            self.home.sync_dir()?;
            self.names_synced = self.names_changed;
        }
        Ok(())
    }

    pub(crate) fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
    }
}
