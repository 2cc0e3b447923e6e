//! Looking at records once more: whether what was stored is still there.
//!
//! A disk may give back other bytes than it was given, or none. Whoever reads such a batch finds that out by
//! its checksum, and asks again; then it is worth a look.

use std::sync::Arc;

use base::Offset;
use records::BatchHeader;

use crate::disk::DiskFile;
use crate::epochs::Epochs;
use crate::log::{Log, LookupError};
use crate::read::{FileSlice, ReadError};
use crate::scan::{BatchWalk, Damage, ScanError};

/// How much is looked at, at least one batch.
const CHECK_BYTES: u32 = 1 << 20;

/// Batches that are to be looked at, see [`Log::check_plan`]. It has hold of their files: the look may take as long
/// as the disk does.
#[derive(Debug)]
pub struct Check {
    /// Each with the base offset of its segment.
    slices: Vec<(Offset, FileSlice)>,
    expected: Expected,
}

/// What batches should be like that follow each other. Their offsets and epochs are under no checksum.
#[derive(Debug)]
struct Expected {
    /// An offset that the next batch should have, or begin behind where there may be a gap.
    at: Offset,
    gaps_below: Offset,
    epochs: Epochs,
}

impl Expected {
    fn take(&mut self, header: &BatchHeader) -> Result<(), Damage> {
        let (at, found) = (self.at, header.base_offset);
        let is_behind = found > at && at >= self.gaps_below;
        if is_behind || header.last_offset() < at {
            return Err(Damage::Gap { expected: at, found });
        }
        self.at = header.next_offset();
        match self.epochs.at(found.max(at)).filter(|epoch| *epoch != header.leader_epoch) {
            Some(expected) => Err(Damage::Epoch { expected, found: header.leader_epoch }),
            None => Ok(()),
        }
    }

    /// Goes through part of a file.
    fn walk(&mut self, slice: &FileSlice) -> Result<(), ScanError> {
        let position = u32::try_from(slice.position).unwrap_or(u32::MAX);
        let mut walk = BatchWalk::new(slice.file.as_ref(), position, position.saturating_add(slice.len));
        while let Some(found) = walk.next()? {
            let damaged = |damage| ScanError::Damaged { position: found.position, damage };
            self.take(&found.header).map_err(damaged)?;
        }
        Ok(())
    }
}

impl Check {
    /// Reads the batches and compares them with their checksums. The caller holds no lock.
    pub fn run(mut self) -> Result<(), LookupError> {
        for (segment, slice) in &self.slices {
            self.expected.walk(slice).map_err(LookupError::of(*segment))?;
        }
        Ok(())
    }
}

impl Log {
    /// What is to be looked at to know whether a reader who asks for `from` gets what was stored: the batch that has
    /// it, and as many behind it as a reader is given at once. Nothing if the log has no such record.
    pub fn check_plan(&self, from: Offset) -> Result<Check, LookupError> {
        let plan = self.plan_read(from, self.end, CHECK_BYTES, true);
        let (slices, first) = match plan {
            Ok(plan) => (plan.slices, plan.first),
            Err(ReadError::OutOfRange { .. }) => (Default::default(), from),
            Err(ReadError::Lookup(error)) => return Err(error),
        };
        let slices = slices.into_iter().map(|slice| (self.segment_with(&slice), slice)).collect();
        // What is asked for may lie in a gap.
        Ok(Check { slices, expected: self.expected(from.max(first)) })
    }

    /// The base offset of the segment that a slice is of.
    fn segment_with(&self, slice: &FileSlice) -> Offset {
        let is_it = |file: &Arc<dyn DiskFile>| Arc::ptr_eq(file, &slice.file);
        let segment = self.segments.iter().rev().find(|segment| segment.opened_records().any(is_it));
        segment.map_or(self.start, |segment| segment.base)
    }

    /// Reads the whole log and compares all of it with its checksums. For a log that is not to be believed although
    /// it could be opened; takes as long as the disk needs to read it.
    pub fn check_whole(&mut self) -> Result<(), LookupError> {
        let first = self.segments.first().map_or(self.end, |segment| segment.base);
        let mut expected = self.expected(first);
        for index in 0..self.segments.len() {
            let end = self.segment_end(index);
            self.looking(index, |log, segment| {
                let file = segment.file(&log.home)?.clone();
                expected.walk(&FileSlice { file, position: 0, len: segment.bytes })?;
                let at = std::mem::replace(&mut expected.at, end);
                if at > end || (at < end && at >= log.gaps_below) {
                    let damage = Damage::Gap { expected: at, found: end };
                    return Err(ScanError::Damaged { position: segment.bytes, damage });
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn expected(&self, at: Offset) -> Expected {
        Expected { at, gaps_below: self.gaps_below, epochs: self.epochs.clone() }
    }
}
