//! What leaves a log at its front: deleted records, and segments whose time is over.

use base::{Now, Offset};

use crate::disk::DiskError;
use crate::index::table::Entry;
use crate::index::{OffsetEntry, TimeEntry};
use crate::layout::FileKind;
use crate::log::{Log, LookupError};

/// How many segments one call deletes at most: each costs a barrier on the directory while the log
/// waits.
const SEGMENTS_PER_CALL: usize = 16;

/// What retention did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// Segments deleted.
    pub segments: usize,
    /// Bytes of batches in them.
    pub bytes: u64,
    /// Whether there is more to delete: call again.
    pub more: bool,
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

    /// Deletes old segments below the high watermark: those before the start of the log, those that
    /// are too old, and those that are too much.
    pub fn retain(&mut self, now: Now, high_watermark: Offset) -> Result<Retained, LookupError> {
        let (count, more) = self.deletable(now, high_watermark)?;
        if count == 0 {
            return Ok(Retained::default());
        }
        let bytes = self.segments[..count].iter().map(|segment| u64::from(segment.bytes)).sum();
        self.changing(|log| {
            if count == log.segments.len() {
                log.roll(now)?;
                // The segment that takes over must be there before the last of the others goes.
                log.sync_names()?;
            }
            log.delete_front(now, count)
        })?;
        Ok(Retained { segments: count, bytes, more })
    }

    /// Removes files that were given up long enough ago. How many.
    pub fn sweep(&mut self, now: Now) -> Result<usize, DiskError> {
        let due = self.aside.partition_point(|(when, _)| *when <= now.elapsed);
        if due == 0 {
            return Ok(0);
        }
        let gone: Vec<_> = self.aside.drain(..due).collect();
        self.changing(|log| {
            for (_, path) in &gone {
                log.home.disk.remove_file(path)?;
            }
            Ok(gone.len())
        })
    }

    /// When [`Log::sweep`] has something to do next.
    pub fn sweep_due(&self) -> Option<std::time::Duration> {
        self.aside.first().map(|(when, _)| *when)
    }

    /// How many segments from the first on may be deleted, and whether there are more of them.
    fn deletable(&mut self, now: Now, high_watermark: Offset) -> Result<(usize, bool), LookupError> {
        let allowed = self.settings.retention_bytes.unwrap_or(u64::MAX);
        let mut excess = self.size_bytes().saturating_sub(allowed);
        let mut count = 0;
        for index in 0..self.segments.len() {
            let segment = &self.segments[index];
            let (base, bytes) = (segment.base, u64::from(segment.bytes));
            let (is_last, was_open) = (index + 1 == self.segments.len(), segment.is_open());
            if self.segment_end(index) > high_watermark || (is_last && bytes == 0) {
                break;
            }
            let unreadable = !is_last && self.segment_end(index) <= self.start;
            let oversize = self.settings.deletes && excess > 0 && excess >= bytes;
            let due = unreadable || oversize || self.is_expired(now, index).map_err(LookupError::of(base))?;
            self.close_again(index, was_open);
            if !due {
                break;
            }
            if count == SEGMENTS_PER_CALL {
                return Ok((count, true));
            }
            excess = excess.saturating_sub(bytes);
            count += 1;
        }
        Ok((count, false))
    }

    /// A look at each of thousands of logs must not leave thousands of files open.
    fn close_again(&mut self, index: usize, was_open: bool) {
        if !was_open && let Some(segment) = self.segments.get_mut(index) {
            segment.rest();
        }
    }

    /// Whether the newest record of a segment is too old. One without timestamps never is.
    fn is_expired(&self, now: Now, index: usize) -> Result<bool, crate::scan::ScanError> {
        let Some(age_max) = self.settings.retention_age.filter(|_| self.settings.deletes) else {
            return Ok(false);
        };
        let largest = self.largest_of(index)?;
        Ok(largest.is_some_and(|largest| now.wall.saturating_since(largest.timestamp) > age_max))
    }

    fn delete_front(&mut self, now: Now, count: usize) -> Result<(), DiskError> {
        // Lowest first, each made durable before the next: what a crash leaves has no gap.
        for index in 0..count {
            self.set_aside(now, index)?;
        }
        self.segments.drain(..count);
        let first = self.segments.first().map_or(self.end, |segment| segment.base);
        self.unsynced_from = self.unsynced_from.max(first);
        self.retain_snapshots(|at| at >= first)?;
        self.epochs.forget_before(first);
        if first > self.start {
            self.advance_start(first);
        }
        Ok(())
    }

    /// Takes the files of a segment out of the log, durably.
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
        home.sync_dir()
    }

    pub(crate) fn advance_start(&mut self, start: Offset) {
        self.start = start;
        self.epochs.advance_start(start);
        self.producers.advance_start(start);
    }
}
