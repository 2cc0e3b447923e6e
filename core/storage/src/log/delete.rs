//! What leaves a log at its front: deleted records, and segments whose time is over.
//!
//! ```text
//!   retain_plan ─▶ Removal ── run, outside the lock ──▶ Removed ─▶ on_removed
//!                                 │
//!                                 ▼ error: on_flush_failed
//! ```
//!
//! A segment is renamed while the log waits, which is quick; the barrier that makes it durable and the
//! removal of large files are not. One segment at a time, the lowest first, and the next only when the
//! one before is durable: what a crash leaves has no gap.

use std::path::PathBuf;

use base::{Now, Offset};

use crate::disk::DiskError;
use crate::home::Home;
use crate::index::table::Entry;
use crate::index::{OffsetEntry, TimeEntry};
use crate::layout::FileKind;
use crate::log::{Log, LookupError};

/// What is to be removed for good. Nothing is borrowed from the log.
#[derive(Debug)]
#[must_use = "nothing is removed until it is run"]
pub struct Removal {
    home: Home,
    /// Files that were put aside long enough ago.
    gone: Vec<PathBuf>,
    /// Whether its directory has to be made durable.
    sync: bool,
    proof: Removed,
}

/// The proof that a [`Removal`] was run.
#[derive(Debug)]
#[must_use = "the log has to hear of it"]
pub struct Removed {
    /// Segments that left the log with it: one or none.
    pub segments: usize,
    /// Bytes of batches in them.
    pub bytes: u64,
    /// Up to which change names are durable by it.
    names: u64,
}

impl Removal {
    /// Removes the files and makes the directory durable. May take long; needs no lock.
    pub fn run(self) -> Result<Removed, DiskError> {
        for path in &self.gone {
            self.home.disk.remove_file(path)?;
        }
        if self.sync {
            self.home.sync_dir()?;
        }
        Ok(self.proof)
    }
}

/// Why records could not be deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// The log does not reach that far.
    #[error("offset {upto} is beyond the end of the log, {end}")]
    OutOfRange {
        /// What was asked for.
        upto: Offset,
        /// Where the log ends.
        end: Offset,
    },
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Log {
    /// Makes `upto` the start of the log, if it is beyond it: readers see nothing before. The new
    /// start, which the caller keeps in a checkpoint; the bytes go with the next [`Log::retain`].
    pub fn delete_records(&mut self, upto: Offset) -> Result<Offset, DeleteError> {
        if upto > self.end {
            return Err(DeleteError::OutOfRange { upto, end: self.end });
        }
        if upto > self.start {
            self.advance_start(upto);
        }
        Ok(self.start)
    }

    /// Takes an old segment out of the log: before its start, too old, or too much, and below the high
    /// watermark; and files that were put aside long enough ago. `None` if there is nothing to do; else
    /// there may be more, once this was run and [`Log::on_removed`] heard of it.
    pub fn retain_plan(&mut self, now: Now, high_watermark: Offset) -> Result<Option<Removal>, LookupError> {
        if self.poison.is_some() {
            return Ok(None);
        }
        let mut proof = Removed { segments: 0, bytes: 0, names: 0 };
        // None may go before the one below it is gone.
        // Nor while a start would put something in the place of one.
        let may_go = self.names_retained <= self.names_synced && self.swapping.is_none();
        if may_go && self.is_first_due(now, high_watermark)? {
            if self.segments.len() == 1 {
                let roll = self.preparing(|log| log.prepare_roll(false))?;
                self.changing(|log| log.roll(now, Some(roll)))?;
            } else if self.segments[1].named <= self.names_synced {
                (proof.segments, proof.bytes) = (1, self.segments[0].bytes.into());
                self.changing(|log| log.delete_first(now))?;
            }
            // Else names come first: with that of the segment that takes over, a power cut would take the
            // whole log, and a start would miss records that were durable.
            self.names_retained = self.names_changed;
        }
        let sync = self.names_retained > self.names_synced;
        proof.names = if sync { self.names_changed } else { 0 };
        let due = self.aside.partition_point(|(when, _)| *when <= now.elapsed);
        if due == 0 && !sync {
            return Ok(None);
        }
        let gone = self.aside.drain(..due).map(|(_, path)| path).collect();
        Ok(Some(Removal { home: self.home.clone(), gone, sync, proof }))
    }

    /// Takes note that a removal was run.
    pub fn on_removed(&mut self, removed: &Removed) {
        self.names_synced = self.names_synced.max(removed.names);
    }

    /// Plans removals, runs them and takes note, as long as there are any. How many segments went.
    pub fn retain(&mut self, now: Now, high_watermark: Offset) -> Result<usize, LookupError> {
        let mut segments = 0;
        while let Some(removal) = self.retain_plan(now, high_watermark)? {
            let removed = removal.run().inspect_err(|error| self.on_flush_failed(error))?;
            self.on_removed(&removed);
            segments += removed.segments;
        }
        Ok(segments)
    }

    /// Whether the first segment may be deleted.
    fn is_first_due(&mut self, now: Now, high_watermark: Offset) -> Result<bool, LookupError> {
        let segment = &self.segments[0];
        let (base, bytes, was_open) = (segment.base, u64::from(segment.bytes), segment.is_open());
        let is_last = self.segments.len() == 1;
        if self.segment_end(0) > high_watermark || (is_last && bytes == 0) {
            return Ok(false);
        }
        let unreadable = !is_last && self.segment_end(0) <= self.start;
        let allowed = self.settings.retention_bytes.unwrap_or(u64::MAX);
        let excess = self.size_bytes().saturating_sub(allowed);
        if unreadable || (self.settings.deletes && excess > 0 && excess >= bytes) {
            return Ok(true);
        }
        let expired = self.is_expired(now, 0).map_err(LookupError::of(base));
        self.close_again(0, was_open);
        expired
    }

    /// A look at each of thousands of logs must not leave thousands of files open.
    pub(crate) fn close_again(&mut self, index: usize, was_open: bool) {
        if !was_open && let Some(segment) = self.segments.get_mut(index) {
            segment.rest();
        }
    }

    /// Whether the newest record of a segment is too old. In place of timestamps that are missing counts
    /// when it was last written to, or opened after a start.
    fn is_expired(&self, now: Now, index: usize) -> Result<bool, crate::scan::ScanError> {
        let Some(age_max) = self.settings.retention_age.filter(|_| self.settings.deletes) else {
            return Ok(false);
        };
        let largest = self.largest_of(index)?.map(|largest| largest.timestamp);
        let newest = largest.filter(|timestamp| timestamp.is_some());
        Ok(now.wall.saturating_since(newest.unwrap_or(self.segments[index].written)) > age_max)
    }

    fn delete_first(&mut self, now: Now) -> Result<(), DiskError> {
        self.set_aside(now, 0)?;
        self.segments.remove(0);
        let first = self.segments.first().map_or(self.end, |segment| segment.base);
        self.unsynced_from = self.unsynced_from.max(first);
        self.retain_snapshots(|at| at >= first)?;
        self.epochs.forget_before(first);
        if first > self.start {
            self.advance_start(first);
        }
        Ok(())
    }

    /// Takes the files of a segment out of the log.
    pub(crate) fn set_aside(&mut self, now: Now, index: usize) -> Result<(), DiskError> {
        let Self { home, segments, settings, aside, .. } = self;
        let segment = &segments[index];
        let path = home.set_aside(segment.base)?;
        aside.push((now.elapsed.saturating_add(settings.file_delete_delay), path));
        home.remove(<OffsetEntry as Entry>::KIND, segment.base)?;
        home.remove(<TimeEntry as Entry>::KIND, segment.base)?;
        if segment.aborted > 0 {
            home.remove(FileKind::TxnIndex, segment.base)?;
        }
        self.names_changed += 1;
        Ok(())
    }

    pub(crate) fn advance_start(&mut self, start: Offset) {
        self.start = start;
        self.epochs.advance_start(start);
        self.producers.advance_start(start);
    }
}
