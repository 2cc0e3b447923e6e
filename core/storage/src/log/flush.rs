//! From the page cache to the media.
//!
//! ```text
//!   flush_plan ─▶ Flush ── run, outside the lock ──▶ Flushed ─▶ on_flushed
//!                              │
//!                              ▼ error: on_flush_failed, and the log takes no changes any more
//! ```
//!
//! Flushes of one log are run one at a time.
//!
//! A flush covers every file that holds something up to its end, also those of segments that were
//! closed meanwhile, and the names of new files: "durable up to X" needs all of them. Barriers go
//! through the handles that wrote: another handle would not be told of an error.

use std::path::PathBuf;
use std::sync::Arc;

use base::{LeaderEpoch, Offset};

use crate::checkpoint::format_epochs;
use crate::disk::{Disk, DiskError, DiskFile, Failed};
use crate::layout::EPOCHS_FILE;
use crate::log::Log;
use crate::segment::Segment;

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
}

/// What must reach the media. Nothing is borrowed from the log.
#[derive(Debug)]
#[must_use = "a flush does nothing until it is run"]
pub struct Flush {
    files: Vec<Arc<dyn DiskFile>>,
    disk: Arc<dyn Disk>,
    /// The file of epochs and what it has to hold.
    epochs: Option<(PathBuf, String)>,
    /// Whose names have changed.
    dir: Option<PathBuf>,
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
    /// The newest epoch in the file of epochs, if that was written.
    epochs: Option<LeaderEpoch>,
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
        if let Some((path, text)) = &self.epochs {
            self.disk.replace(path, text.as_bytes())?;
        }
        if let Some(dir) = &self.dir {
            self.disk.sync_dir(dir)?;
        }
        Ok(self.proof)
    }
}

impl Log {
    /// What has to be brought to the media; `None` if that is all there.
    pub fn flush_plan(&mut self, scope: FlushScope) -> Result<Option<Flush>, DiskError> {
        match scope {
            FlushScope::Records if self.durable_end == self.end => Ok(None),
            FlushScope::Checkpoint if self.recovery_point == self.end => Ok(None),
            FlushScope::Records => self.changing(|log| Ok(Some(log.plan(scope)))),
            FlushScope::Checkpoint => {
                let snapshot = self.preparing(Self::prepare_tables)?;
                self.changing(|log| {
                    log.save_tables(snapshot)?;
                    Ok(Some(log.plan(scope)))
                })
            }
        }
    }

    /// Takes note that a flush was run.
    pub fn on_flushed(&mut self, flushed: Flushed) {
        // A barrier that comes behind one that failed says yes to pages that are gone.
        if self.poison.is_some() {
            return;
        }
        self.names_synced = self.names_synced.max(flushed.names);
        self.unsynced_snapshots.retain(|(made, _)| *made > flushed.names);
        // What was cut since may have come again with other bytes.
        if flushed.cuts == self.cuts {
            self.durable_end = self.durable_end.max(flushed.upto);
            self.recovery_point = self.recovery_point.max(flushed.recovery_point);
            let before = self.unsynced_from;
            self.unsynced_from = self.unsynced_from.max(flushed.active);
            self.rest_synced(before);
            if let Some(saved) = flushed.epochs {
                // One that began meanwhile is not in the file, even if it was put there before this was.
                self.epochs_unsaved = self.epochs.first_after(saved);
            }
        } else if flushed.epochs.is_some() {
            // The file may have got epochs that were cut meanwhile.
            self.epochs_unsaved = Some(LeaderEpoch::NONE);
        }
        self.check();
    }

    /// Takes note that a flush or a removal failed: the log takes no changes any more, unless the process
    /// had no descriptors left. Then nothing is durable that was not, and the next may go well.
    pub fn on_flush_failed(&mut self, error: &DiskError) {
        if error.failed != Failed::Process {
            self.poison.get_or_insert_with(|| Box::new(error.clone()));
        }
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

    /// Brings all records and names to the media, where a start would take for a gap what the power took from the
    /// end of a segment: the next one must not be there before. Another flush may be under way, so that nothing
    /// counts as durable by this one.
    pub(crate) fn sync_before_gap(&mut self) -> Result<(), DiskError> {
        let unsynced = self.segments.partition_point(|segment| segment.base < self.unsynced_from);
        let files: Vec<_> = self.segments[unsynced..].iter().flat_map(Segment::opened_records).collect();
        let synced = files.iter().try_for_each(|file| file.sync());
        let synced = synced.and_then(|()| self.sync_names());
        if let Err(error) = &synced {
            self.on_flush_failed(error);
        }
        synced
    }

    /// Opens what [`Log::save_tables`] writes; the snapshot's file if one is due.
    fn prepare_tables(&mut self) -> Result<Option<Arc<dyn DiskFile>>, DiskError> {
        let Self { home, segments, growth, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        if segment.bytes == 0 {
            return Ok(None);
        }
        segment.prepare_to_write_tables(home)?;
        let unsaved = segment.bytes.saturating_sub(growth.saved_at);
        if unsaved >= SNAPSHOT_EVERY_BYTES { self.open_snapshot() } else { Ok(None) }
    }

    /// Brings the tables of the growing segment into their files, and the producers if they are worth
    /// it.
    fn save_tables(&mut self, snapshot: Option<Arc<dyn DiskFile>>) -> Result<(), DiskError> {
        let Self { home, segments, growth, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        if segment.bytes == 0 {
            return Ok(());
        }
        growth.index_time(home, segment)?;
        segment.offsets.write_out(home)?;
        segment.times.write_out(home)?;
        self.save_producers(snapshot)
    }

    fn plan(&mut self, scope: FlushScope) -> Flush {
        let active = self.active().base;
        let unsynced = self.segments.partition_point(|segment| segment.base < self.unsynced_from);
        let made = self.segments[unsynced..].iter_mut().fold(false, |made, s| s.take_made() | made);
        self.names_changed += u64::from(made);
        let mut files: Vec<_> = self.unsynced_snapshots.iter().map(|(_, file)| file.clone()).collect();
        for segment in &self.segments[unsynced..] {
            match scope {
                FlushScope::Records if segment.base == active => {
                    files.extend(segment.opened_records().cloned());
                }
                FlushScope::Records | FlushScope::Checkpoint => files.extend(segment.opened().cloned()),
            }
        }
        let recovery_point = match scope {
            FlushScope::Records => active,
            FlushScope::Checkpoint => self.end,
        };
        let names = self.names_changed;
        let dir = (names > self.names_synced).then(|| self.home.dir.clone());
        let epochs = self.are_epochs_due(recovery_point);
        let proof = Flushed {
            upto: self.end,
            recovery_point,
            active,
            cuts: self.cuts,
            names,
            epochs: epochs.then(|| self.epochs.last().unwrap_or(LeaderEpoch::NONE)),
        };
        let epochs = epochs.then(|| (self.home.child(EPOCHS_FILE), format_epochs(self.epochs.kept())));
        Flush { files, disk: self.home.disk.clone(), epochs, dir, proof }
    }

    /// Whether the file of epochs lacks one that begins below this recovery point.
    fn are_epochs_due(&self, recovery_point: Offset) -> bool {
        let Some(unsaved) = self.epochs_unsaved else { return false };
        let from = self.epochs.begin_of(unsaved);
        unsaved == LeaderEpoch::NONE || from.is_some_and(|from| from < recovery_point)
    }
}
