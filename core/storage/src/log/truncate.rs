//! Cutting a log at its end, because its leader has something else there.
//!
//! Bytes of a file may be on their way to a reader by reference. So nothing is ever written over: a
//! log that was cut goes on in a new file, and a file that goes as a whole is only renamed.
//!
//! A cut reaches below what was durable. **The caller lowers the recovery point in the checkpoint,
//! durably, before it cuts**: otherwise a crash in between looks like records that were lost.

use std::ops::RangeTo;

use base::{LeaderEpoch, Now, Offset};

use crate::disk::{DiskError, Failed};
use crate::log::{Log, LookupError};
use crate::recent::Spot;
use crate::scan::ScanError;
use crate::segment::{Largest, Segment};

impl Log {
    /// Keeps what lies before `keep.end` and drops the rest; a batch that reaches over it goes whole.
    /// Durable when it returns. The new end.
    ///
    /// What it keeps may turn out to be damaged midway: the log takes no more changes then, as after a failure of
    /// the disk.
    pub fn truncate(&mut self, now: Now, keep: RangeTo<Offset>) -> Result<Offset, LookupError> {
        let upto = keep.end;
        if upto >= self.end {
            // This replica may have led an epoch in which it wrote nothing; its leader may have
            // records of an older one here.
            if self.epochs.truncate(upto) {
                self.epochs_unsaved = Some(LeaderEpoch::NONE);
                self.changing(Self::save_epochs)?;
            }
            return Ok(self.end);
        }
        let first = self.segments.first().map_or(self.end, |segment| segment.base);
        if upto <= first {
            self.truncate_fully_and_start_at(now, upto)?;
            return Ok(self.end);
        }
        let index = self.segment_of(upto);
        let segment = &self.segments[index];
        let damaged = LookupError::of(segment.base);
        let cut = segment.reaching(&self.home, upto).map_err(damaged)?;
        // The batch behind a gap begins behind `upto`.
        let cut = cut.map(|cut| Spot { offset: cut.offset.min(upto), ..cut });
        let cut = cut.unwrap_or(Spot { offset: upto, position: segment.bytes });
        self.changing_what_it_reads(|log| log.cut(now, index, cut))?;
        Ok(self.end)
    }

    /// Drops everything; the next record will have this offset. Durable when it returns.
    pub fn truncate_fully_and_start_at(&mut self, now: Now, offset: Offset) -> Result<(), DiskError> {
        self.changing(|log| {
            log.give_up_swap()?;
            log.drop_segments_from(now, 0)?;
            log.retain_snapshots(|_| false)?;
            log.epochs.clear();
            log.epochs_unsaved = Some(LeaderEpoch::NONE);
            log.save_epochs()?;
            log.producers.clear();
            log.end_at(offset);
            log.start = offset;
            (log.durable_end, log.recovery_point, log.unsynced_from) = (offset, offset, offset);
            log.begin_segment(now)?;
            log.sync_names()
        })
    }

    /// A change that reads what is stored.
    fn changing_what_it_reads(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), LookupError>,
    ) -> Result<(), LookupError> {
        let mut damaged = None;
        let done = self.changing(|log| {
            change(log).map_err(|error| match error {
                LookupError::Disk(error) => error,
                error @ LookupError::Damaged { .. } => {
                    let reason = error.to_string();
                    damaged = Some(error);
                    DiskError { operation: "read", path: log.home.dir.clone(), reason, failed: Failed::File }
                }
            })
        });
        done.map_err(|error| damaged.unwrap_or(LookupError::Disk(error)))
    }

    fn cut(&mut self, now: Now, index: usize, cut: Spot) -> Result<(), LookupError> {
        self.give_up_swap()?;
        let keeps_part = cut.position > 0;
        self.drop_segments_from(now, if keeps_part { index + 1 } else { index })?;
        self.end_at(cut.offset);
        if keeps_part {
            self.shorten_last(cut)?;
        }
        let is_emptied = !keeps_part && index == 0;
        // The records would have told of epochs that are not in their file yet; where none is left, nothing does.
        if self.epochs.truncate(self.end) || (is_emptied && self.epochs_unsaved.is_some()) {
            self.epochs_unsaved = Some(LeaderEpoch::NONE);
            self.save_epochs()?;
        }
        self.begin_segment(now)?;
        // Compaction may have taken all that lay before the cut. It begins here then, as it would after a start.
        let first = self.segments.first().map_or(self.end, |segment| segment.base);
        if first > self.start {
            self.advance_start(first);
        }
        self.rebuild_producers(now, self.end)?;
        Ok(self.sync_names()?)
    }

    /// Sets the end, and what cannot lie beyond it.
    fn end_at(&mut self, end: Offset) {
        self.cuts += 1;
        self.end = end;
        self.start = self.start.min(end);
        self.clean_upto = self.clean_upto.min(end);
        self.durable_end = self.durable_end.min(end);
        self.recovery_point = self.recovery_point.min(end);
        // What is appended from here on lies in files that no flush has seen.
        self.unsynced_from = self.unsynced_from.min(end);
        // They are of a file that may be gone.
        self.growth.recent.clear();
    }

    /// Drops segments, the last first, each made durable before the next: what a crash leaves has no
    /// gap.
    fn drop_segments_from(&mut self, now: Now, from: usize) -> Result<(), DiskError> {
        for index in (from..self.segments.len()).rev() {
            self.set_aside(now, index)?;
            self.sync_names()?;
            self.segments.truncate(index);
        }
        Ok(())
    }

    /// Cuts the last segment; it does not grow any more.
    fn shorten_last(&mut self, cut: Spot) -> Result<(), LookupError> {
        let Self { home, segments, .. } = self;
        let segment = segments.last_mut().expect("a part of it is kept");
        let file = segment.file(home)?;
        file.set_len(u64::from(cut.position))?;
        file.sync()?;
        segment.bytes = cut.position;
        let base = segment.base;
        segment.reopen();
        segment.offsets.truncate(home, |entry| entry.position < cut.position)?;
        segment.times.truncate(home, |entry| entry.offset(base) < cut.offset)?;
        segment.truncate_aborted(home, cut.offset)?;
        self.unsynced_from = self.unsynced_from.min(base);
        let largest = self.find_largest().map_err(LookupError::of(base))?;
        self.growth.largest = largest;
        self.finish_active()?;
        // The recovery point stays at the end, and it vouches for the tables, too.
        Ok(self.active().opened().try_for_each(|file| file.sync())?)
    }

    /// The largest timestamp of the last segment, from its time index and the batches behind it.
    fn find_largest(&self) -> Result<Option<Largest>, ScanError> {
        let segment: &Segment = self.active();
        let Some(entry) = segment.times.last(&self.home)? else {
            return segment.largest_from(&self.home, segment.base);
        };
        let indexed = Largest { timestamp: entry.timestamp, offset: entry.offset(segment.base) };
        let behind = segment.largest_from(&self.home, indexed.offset.next())?;
        Ok(behind.filter(|largest| largest.timestamp > indexed.timestamp).or(Some(indexed)))
    }
}
