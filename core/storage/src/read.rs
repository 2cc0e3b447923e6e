//! Planning a read: which bytes of which files answer a fetch.
//!
//! ```text
//!   segment       │ b0 │ b1 │ b2 │ b3 │ b4 │ …
//!   from, in b1 ────────┘         │         └── upto, in b4: b4 is not read
//!   bytes_max ────────────────────┴─ in b3: b3 is not read
//!   plan                b1   b2
//! ```
//!
//! A plan is owned: the caller reads or sends after it has let go of the log, and the files stay
//! readable for as long as the plan lives.

use std::sync::Arc;

use base::Offset;
use smallvec::SmallVec;

use crate::disk::DiskFile;
use crate::log::{Log, LookupError};
use crate::recent::Spot;
use crate::scan::{BatchWalk, Damage, HeaderWalk, ScanError};

/// How many segments one plan reaches over at most.
const SLICES_MAX: usize = 8;

/// A stretch of a file.
#[derive(Debug, Clone)]
pub struct FileSlice {
    /// The file.
    pub file: Arc<dyn DiskFile>,
    /// Where the stretch begins.
    pub position: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// Whole batches, in order.
#[derive(Debug, Clone)]
pub struct ReadPlan {
    /// Where they lie.
    pub slices: SmallVec<[FileSlice; 1]>,
    /// The first offset of the first batch; what was asked for if there is none.
    pub first: Offset,
    /// The offset behind the last batch; what was asked for if there is none.
    pub next: Offset,
    /// Bytes in all slices.
    pub bytes: u32,
}

/// Why a read could not be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The log does not have that offset, nor does it begin or end there.
    #[error("offset {from} is not within {start} to {end}")]
    OutOfRange {
        /// What was asked for.
        from: Offset,
        /// Where the log starts.
        start: Offset,
        /// Where it ends.
        end: Offset,
    },
    /// It could not be found.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

/// A place in a segment that ends at `end` has no offset beyond it.
fn within(spot: Spot, end: Spot) -> Result<(), ScanError> {
    if spot.offset <= end.offset {
        return Ok(());
    }
    let damage = Damage::Overlap { limit: end.offset, found: spot.offset };
    Err(ScanError::Damaged { position: spot.position, damage })
}

impl Log {
    /// Plans a read of whole batches, beginning with the one that has `from`, ending before the one
    /// that has `upto`, and of no more than `bytes_max` bytes; if the first batch alone is larger, it
    /// is read if `at_least_one`.
    ///
    /// Leaves the files open that it needed; [`Log::on_read`], called afterwards, keeps them few.
    pub fn plan_read(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: u32,
        at_least_one: bool,
    ) -> Result<ReadPlan, ReadError> {
        if from < self.start || from > self.end {
            return Err(ReadError::OutOfRange { from, start: self.start, end: self.end });
        }
        let upto = upto.min(self.end);
        let mut plan = ReadPlan { slices: SmallVec::new(), first: from, next: from, bytes: 0 };
        let mut index = self.segment_of(from);
        while plan.next < upto && index < self.segments.len() && plan.slices.len() < SLICES_MAX {
            let damaged = LookupError::of(self.segments[index].base);
            if let Some(begin) = self.reaching(index, plan.next).map_err(&damaged)? {
                match self.check_gap(plan.next, begin.offset) {
                    // Who comes for the rest is told.
                    Err(_) if plan.bytes > 0 => break,
                    checked => checked?,
                }
                let must = at_least_one && plan.slices.is_empty();
                let room = bytes_max.saturating_sub(plan.bytes);
                let more = self.plan_segment(index, (begin, upto), (room, must), &mut plan);
                if !more.map_err(damaged)? {
                    break;
                }
            }
            index += 1;
        }
        if plan.bytes == 0 && index == self.segments.len() {
            self.check_gap(from, upto)?;
        }
        Ok(plan)
    }

    /// Takes note that a read was planned from `from` on: of the segments that do not grow, those read last
    /// keep their files open, so that a reader who looks into thousands cannot use up the descriptors.
    /// Plans have hold of what they need.
    pub fn on_read(&mut self, from: Offset) {
        if from >= self.active().base {
            return;
        }
        let first = self.segment_of(from);
        for index in first..(first + SLICES_MAX).min(self.segments.len()) {
            let base = self.segments[index].base;
            if base >= self.unsynced_from {
                // A flush needs these, and closes them.
                break;
            }
            if self.segments[index].is_open() && self.read.last() != Some(&base) {
                self.note_read(base);
            }
        }
    }

    /// Adds what one segment has from a batch of it on; whether the next one may have more.
    fn plan_segment(
        &self,
        index: usize,
        (from, upto): (Spot, Offset),
        (room, must): (u32, bool),
        plan: &mut ReadPlan,
    ) -> Result<bool, ScanError> {
        let segment = &self.segments[index];
        let end = Spot { offset: self.segment_end(index), position: segment.bytes };
        let limit = match upto < end.offset {
            true => self.reaching(index, upto)?.unwrap_or(end),
            false => end,
        };
        // The base offset is not under the checksum of a batch: what rots there sends readers astray.
        for spot in [from, limit] {
            within(spot, end)?;
        }
        let available = limit.position.saturating_sub(from.position);
        let to = match available <= room {
            true => limit,
            false => self.last_boundary(index, from, room, must)?,
        };
        within(to, end)?;
        if to.position > from.position {
            let len = to.position - from.position;
            let file = segment.file(&self.home)?.clone();
            plan.slices.push(FileSlice { file, position: from.position.into(), len });
            if plan.bytes == 0 {
                plan.first = from.offset;
            }
            plan.bytes += len;
            plan.next = to.offset;
        }
        Ok(to == end)
    }

    /// If nothing has what was asked for, up to `found`, where the next batch begins or the log ends: compaction left a
    /// gap there, or the batch that has it is not what was written any more, and says that it ends before. Its
    /// checksum tells.
    fn check_gap(&self, asked: Offset, found: Offset) -> Result<(), LookupError> {
        if found <= asked {
            return Ok(());
        }
        // A cut that failed may have left none.
        let Some(segment) = self.segments.get(self.segment_of(asked)) else { return Ok(()) };
        let checked = || {
            let mut walk = segment.walk_to(&self.home, asked)?;
            let mut before = None;
            while let Some(found) = walk.next()?.filter(|found| found.header.last_offset() < asked) {
                before = Some(found);
            }
            let Some(before) = before else { return Ok((segment.base, 0)) };
            BatchWalk::new(segment.file(&self.home)?.as_ref(), before.position, before.end()).next()?;
            Ok((before.header.next_offset(), before.end()))
        };
        let (expected, position) = checked().map_err(LookupError::of(segment.base))?;
        if expected < self.gaps_below {
            return Ok(());
        }
        let damage = Damage::Gap { expected, found };
        Err(LookupError::Damaged { segment: segment.base, position, damage })
    }

    /// The first batch of a segment that reaches `target` or beyond.
    fn reaching(&self, index: usize, target: Offset) -> Result<Option<Spot>, ScanError> {
        let segment = &self.segments[index];
        if index + 1 == self.segments.len() {
            if target >= self.end {
                return Ok(None);
            }
            if let Some(spot) = self.growth.recent.reaching(segment.base, target) {
                return Ok(Some(spot));
            }
        }
        segment.reaching(&self.home, target)
    }

    /// The last place where a batch ends that lies at most `room` bytes behind `from`; at least one
    /// batch behind it if there `must` be one.
    fn last_boundary(&self, index: usize, from: Spot, room: u32, must: bool) -> Result<Spot, ScanError> {
        let segment = &self.segments[index];
        let position = from.position.saturating_add(room);
        let is_active = index + 1 == self.segments.len();
        let known = is_active.then(|| self.growth.recent.beginning_by(segment.base, position)).flatten();
        let found = match known {
            Some(spot) => Some(spot),
            None => segment.beginning_by(&self.home, position)?,
        };
        if let Some(spot) = found.filter(|spot| spot.position > from.position || !must) {
            return Ok(spot);
        }
        let file = segment.file(&self.home)?.as_ref();
        let first = HeaderWalk::new(file, from.position, segment.bytes).next()?;
        Ok(first.map_or(from, |first| Spot { offset: first.header.next_offset(), position: first.end() }))
    }
}
