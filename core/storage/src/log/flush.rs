//! From the page cache to the media.
//!
//! ```text
//!   flush_plan ─▶ Flush ── run, outside the lock ──▶ Flushed ─▶ on_flushed
//!                              │
//!                              ▼ error: on_flush_failed, and the log takes no changes any more
//! ```
//!
//! A flush covers every file that holds something up to its end, also those of segments that were
//! closed meanwhile, and the names of new files: "durable up to X" needs all of them. Barriers go
//! through the handles that wrote: another handle would not be told of an error.

use std::path::PathBuf;
use std::sync::Arc;

use base::Offset;

use crate::disk::{Disk, DiskError, DiskFile};
use crate::log::Log;

/// A new snapshot of the producers is worth its while after as many bytes: what has to be read again
/// at most to know them after a crash.
const SNAPSHOT_EVERY_BYTES: u32 = 16 << 20;

/// What a flush is to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushScope {
    /// All records: for those who wait for them to be durable.
    Records,
    /// All records and the tables that find them again: moves the recovery point to the end.
    Checkpoint,
    /// Segments that were closed: what Kafka flushes without being asked.
    Closed,
}

/// What must reach the media. Nothing is borrowed from the log.
#[derive(Debug)]
#[must_use = "a flush does nothing until it is run"]
pub struct Flush {
    files: Vec<Arc<dyn DiskFile>>,
    dir: Option<(Arc<dyn Disk>, PathBuf)>,
    proof: Flushed,
}

/// The proof that a [`Flush`] was run.
#[derive(Debug)]
#[must_use = "the log has to hear of it"]
pub struct Flushed {
    upto: Offset,
    recovery_point: Offset,
    active: Offset,
    cuts: u64,
    names: u64,
}

impl Flush {
    /// Up to where records will be durable.
    pub fn upto(&self) -> Offset {
        self.proof.upto
    }

    /// Brings everything to the media. May take long; needs no lock.
    pub fn run(self) -> Result<Flushed, DiskError> {
        for file in &self.files {
            file.sync()?;
        }
        if let Some((disk, dir)) = &self.dir {
            disk.sync_dir(dir)?;
        }
        Ok(self.proof)
    }
}

impl Log {
    /// What has to be brought to the media; `None` if that is all there.
    pub fn flush_plan(&mut self, scope: FlushScope) -> Result<Option<Flush>, DiskError> {
        match scope {
            FlushScope::Records if self.durable_end == self.end => Ok(None),
            FlushScope::Closed if self.unsynced_from >= self.active().base => Ok(None),
            FlushScope::Checkpoint if self.recovery_point == self.end => Ok(None),
            FlushScope::Records | FlushScope::Closed => self.changing(|log| log.plan(scope).map(Some)),
            FlushScope::Checkpoint => self.changing(|log| {
                log.save_tables()?;
                log.plan(scope).map(Some)
            }),
        }
    }

    /// Takes note that a flush was run.
    pub fn on_flushed(&mut self, flushed: Flushed) {
        self.names_synced = self.names_synced.max(flushed.names);
        // What was cut since may have come again with other bytes.
        if flushed.cuts == self.cuts {
            self.durable_end = self.durable_end.max(flushed.upto);
            self.recovery_point = self.recovery_point.max(flushed.recovery_point);
            self.unsynced_from = self.unsynced_from.max(flushed.active);
        }
        self.check();
    }

    /// Takes note that a flush failed: the log takes no changes any more.
    pub fn on_flush_failed(&mut self, error: &DiskError) {
        self.poison.get_or_insert_with(|| Box::new(error.clone()));
    }

    /// Plans a flush, runs it, and takes note.
    pub fn flush(&mut self, scope: FlushScope) -> Result<(), DiskError> {
        let Some(flush) = self.flush_plan(scope)? else { return Ok(()) };
        match flush.run() {
            Ok(flushed) => {
                self.on_flushed(flushed);
                Ok(())
            }
            Err(error) => {
                self.on_flush_failed(&error);
                Err(error)
            }
        }
    }

    /// Brings the tables of the growing segment into their files, and the producers if they are worth
    /// it.
    fn save_tables(&mut self) -> Result<(), DiskError> {
        let Self { home, segments, growth, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        if segment.bytes == 0 {
            return Ok(());
        }
        growth.index_time(home, segment)?;
        segment.offsets.write_out(home)?;
        segment.times.write_out(home)?;
        let unsaved = segment.bytes.saturating_sub(growth.saved_at);
        if unsaved >= SNAPSHOT_EVERY_BYTES { self.save_producers() } else { Ok(()) }
    }

    fn plan(&mut self, scope: FlushScope) -> Result<Flush, DiskError> {
        let active = self.active().base;
        let unsynced = self.segments.partition_point(|segment| segment.base < self.unsynced_from);
        let made = self.segments[unsynced..].iter_mut().fold(false, |made, s| s.take_made() | made);
        self.names_changed += u64::from(made);
        let mut files: Vec<_> = std::mem::take(&mut self.unsynced_snapshots);
        for segment in &self.segments[unsynced..] {
            match scope {
                _ if segment.base < active => files.extend(segment.opened().cloned()),
                FlushScope::Checkpoint => files.extend(segment.opened().cloned()),
                FlushScope::Records => files.extend(segment.opened_records().cloned()),
                FlushScope::Closed => {}
            }
        }
        let (upto, recovery_point) = match scope {
            FlushScope::Records => (self.end, active),
            FlushScope::Checkpoint => (self.end, self.end),
            FlushScope::Closed => (active, active),
        };
        let names = self.names_changed;
        let dir = (names > self.names_synced).then(|| (self.home.disk.clone(), self.home.dir.clone()));
        let proof = Flushed { upto, recovery_point, active, cuts: self.cuts, names };
        Ok(Flush { files, dir, proof })
    }
}
