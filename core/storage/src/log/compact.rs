//! Compaction, as far as the log has to be asked: what is due, and segments that take the place of others.
//!
//! ```text
//!   0.log  9.log  20.log      0.log.cleaned                    written outside the lock, durable
//!   0.log  9.log  20.log      0.log.swap                       on_rewritten; durable outside the lock
//!   0.log.deleted 9.log.deleted 20.log.deleted  0.log.swap     on_swapped; durable
//!   0.log                                                      on_swapped
//! ```
//!
//! From the second line on a start completes what was begun. A log that is cut meanwhile takes the file
//! back, durably, before it is.
//!
//! The barrier in the third line is waited for while the log waits: before it, what goes could come back with the
//! power beside what took its place, and behind it readers find what they open.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Now, Offset};
use records::BatchHeader;

use crate::compaction::{Compacted, Compaction, CompactionError, Plan, Rewritten, Source};
use crate::disk::DiskError;
use crate::gaps::allow_gaps_below;
use crate::home::Home;
use crate::index::table::Entry;
use crate::index::{OffsetEntry, TimeEntry};
use crate::layout::{FileKind, cleaned_name, file_name, swap_name};
use crate::log::{Log, LookupError};
use crate::scan::{HeaderWalk, ScanError};
use crate::segment::Segment;

/// What of a log could be compacted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dirt {
    /// Where it begins.
    pub from: Offset,
    /// Where it ends: what lies behind may not be compacted yet.
    pub upto: Offset,
    /// Bytes of segments with dirty records.
    pub bytes: u64,
    /// Bytes of segments before them.
    pub clean_bytes: u64,
    /// Whether a record is older than `max.compaction.lag.ms`.
    pub is_overdue: bool,
}

/// Which records are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Those before this.
    pub upto: Offset,
    /// Whether every replica of the partition has them, and not only those that are in sync. While one may lack
    /// some, tombstones stay: what it has of old, another that has forgotten the tombstone would never delete.
    pub by_all: bool,
}

impl Dirt {
    /// The dirty part of what could be compacted, in millionths.
    pub fn ratio_ppm(&self) -> u32 {
        let whole = u128::from(self.bytes) + u128::from(self.clean_bytes);
        let ratio = (u128::from(self.bytes) * 1_000_000).checked_div(whole).unwrap_or(0);
        u32::try_from(ratio).unwrap_or(u32::MAX)
    }
}

/// A segment whose files wait to take the place of others.
#[derive(Debug)]
#[must_use = "it takes its place once this was run and the log has heard of it"]
pub struct Swap {
    home: Home,
    swapped: Swapped,
}

/// The proof that a [`Swap`] was run.
#[derive(Debug)]
#[must_use = "the log has to hear of it"]
pub struct Swapped {
    bases: Vec<Offset>,
    segment: Segment,
    kinds: Vec<FileKind>,
    cuts: u64,
}

/// Files that a start would put in the place of others.
#[derive(Debug)]
pub(crate) struct Swapping {
    base: Offset,
    kinds: Vec<FileKind>,
}

impl Swap {
    /// Makes the names durable. Needs no lock.
    pub fn run(self) -> Result<Swapped, DiskError> {
        self.home.sync_dir()?;
        Ok(self.swapped)
    }
}

impl Log {
    /// Up to where the log was compacted: what belongs into the checkpoint that [`Log::set_clean_upto`] is
    /// told of.
    pub fn clean_upto(&self) -> Offset {
        self.clean_upto
    }

    /// Takes note of how far the log was compacted before it was opened.
    pub fn set_clean_upto(&mut self, offset: Offset) {
        self.clean_upto = offset.min(self.end);
    }

    /// What could be compacted: closed segments of which everything is on media and below the high watermark,
    /// that have no transaction open, and whose records are older than `min.compaction.lag.ms`; and the growing one
    /// if it is older than `max.compaction.lag.ms`, for a compaction closes it then.
    pub fn dirt(&mut self, now: Now, high_watermark: Offset) -> Result<Dirt, LookupError> {
        let from = self.clean_upto.max(self.start);
        let mut dirt = Dirt { from, upto: from, ..Dirt::default() };
        let bound = self.last_stable_offset(high_watermark).min(self.recovery_point);
        for index in self.segment_of(self.start)..self.segments.len() - 1 {
            let (end, bytes) = (self.segment_end(index), u64::from(self.segments[index].bytes));
            if end <= from {
                dirt.clean_bytes += bytes;
                continue;
            }
            if end > bound || self.is_too_new(now, index)? {
                break;
            }
            dirt.bytes += bytes;
            dirt.upto = end;
            dirt.is_overdue |= self.is_overdue(now, index)?;
        }
        if self.end <= bound && self.is_active_overdue(now)? {
            dirt.bytes += u64::from(self.active().bytes);
            dirt.is_overdue = true;
        }
        Ok(dirt)
    }

    /// Begins a compaction if one is due, with a map of no more than `map_bytes_max` bytes. Only one of a
    /// log is run at a time.
    pub fn compaction_plan(
        &mut self,
        now: Now,
        committed: Committed,
        map_bytes_max: usize,
    ) -> Result<Option<Compaction>, LookupError> {
        if self.poison.is_some() || !self.settings.compacts || self.swapping.is_some() {
            return Ok(None);
        }
        self.roll_overdue(now, committed.upto)?;
        let dirt = self.dirt(now, committed.upto)?;
        let is_due = dirt.is_overdue || dirt.ratio_ppm() > self.settings.dirty_ppm_min;
        if dirt.bytes == 0 || !is_due {
            return Ok(None);
        }
        let aborted = self.aborted_transactions(dirt.from, dirt.upto)?;
        let sources = self.sources(dirt.upto)?;
        let upto = dirt.upto;
        if self.gaps_below < upto {
            self.changing(|log| log.allow_gaps(upto))?;
        }
        let producers = self.producers.iter().filter_map(|(_, producer)| producer.last_seen());
        Ok(Some(Compaction::new(Plan {
            home: self.home.clone(),
            topic: self.topic_id,
            settings: self.settings.clone(),
            wall: now.wall,
            keeps_tombstones: !committed.by_all,
            first_dirty: dirt.from,
            upto,
            sources,
            aborted,
            epoch_starts: self.epochs.kept().iter().map(|&(_, from)| from).collect(),
            producer_ends: producers.map(|seen| seen.last_offset).collect::<BTreeSet<_>>(),
            map_bytes_max,
            cuts: self.cuts,
        })))
    }

    /// Lets a segment that was written anew wait to take its place. `None` if the log has changed since: the
    /// compaction is to be given up.
    pub fn on_rewritten(&mut self, rewritten: Rewritten) -> Result<Option<Swap>, DiskError> {
        let Rewritten { home, bases, segment, kinds, cuts } = rewritten;
        if cuts != self.cuts || self.swapping.is_some() || self.place_of(&bases).is_none() {
            return Ok(None);
        }
        self.changing(|log| {
            let base = segment.base;
            log.swapping = Some(Swapping { base, kinds: kinds.clone() });
            for &kind in &kinds {
                let name = file_name(kind, base);
                log.home
                    .disk
                    .rename(&log.home.child(&cleaned_name(&name)), &log.home.child(&swap_name(&name)))?;
            }
            log.names_changed += 1;
            Ok(())
        })?;
        Ok(Some(Swap { home, swapped: Swapped { bases, segment, kinds, cuts } }))
    }

    /// Puts the segment in the place of those it was made from, durably but for its own name. Whether it was;
    /// if not, the log was cut meanwhile, and the compaction is to be given up.
    pub fn on_swapped(&mut self, now: Now, swapped: Swapped) -> Result<bool, DiskError> {
        let Swapped { bases, mut segment, kinds, cuts } = swapped;
        let Some(first) = self.place_of(&bases).filter(|_| cuts == self.cuts && self.swapping.is_some())
        else {
            return Ok(false);
        };
        self.changing(|log| {
            let behind = first + bases.len();
            (first..behind).try_for_each(|index| log.set_aside(now, index))?;
            log.sync_names()?;
            let base = segment.base;
            for &kind in &kinds {
                let name = file_name(kind, base);
                log.home.disk.rename(&log.home.child(&swap_name(&name)), &log.home.path(kind, base))?;
            }
            log.swapping = None;
            log.names_changed += 1;
            segment.named = log.names_changed;
            log.segments.splice(first..behind, [segment]);
            Ok(())
        })?;
        Ok(true)
    }

    /// Takes note that a compaction came to its end. Whether it counts: the log may have been cut meanwhile.
    pub fn on_compacted(&mut self, compacted: &Compacted) -> bool {
        if compacted.cuts != self.cuts {
            return false;
        }
        self.clean_upto = self.clean_upto.max(compacted.clean_upto);
        true
    }

    /// Plans a compaction, runs it, and takes note; `None` if none is due, or the log changed meanwhile.
    pub fn compact(
        &mut self,
        now: Now,
        committed: Committed,
        map_bytes_max: usize,
    ) -> Result<Option<Compacted>, CompactionError> {
        let plan = self.compaction_plan(now, committed, map_bytes_max)?;
        let Some(mut compaction) = plan else { return Ok(None) };
        let ran = loop {
            match compaction.next(&mut |_| true) {
                Ok(Some(rewritten)) => {
                    let Some(swap) = self.on_rewritten(rewritten)? else { return Ok(None) };
                    let swapped = swap.run().inspect_err(|error| self.on_flush_failed(error))?;
                    if !self.on_swapped(now, swapped)? {
                        return Ok(None);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if let Err(CompactionError::Disk(error)) = &ran {
            self.on_compaction_failed(error);
        }
        ran?;
        let compacted = compaction.finish();
        Ok(self.on_compacted(&compacted).then_some(compacted))
    }

    /// Takes note that the disk failed in a compaction. The log takes no more changes if nothing that the disk
    /// says can be believed any more; a file that cannot be read is as good as before.
    pub fn on_compaction_failed(&mut self, error: &DiskError) {
        if error.is_of_directory() {
            self.on_flush_failed(error);
        }
    }

    /// Notes, durably, that offsets may have gaps below this one.
    pub(crate) fn allow_gaps(&mut self, below: Offset) -> Result<(), DiskError> {
        allow_gaps_below(&self.home, below)?;
        self.gaps_below = below;
        Ok(())
    }

    /// Takes back what a start would put in the place of segments, durably: they are about to be cut. The
    /// records go first: tables without them replace nothing.
    pub(crate) fn give_up_swap(&mut self) -> Result<(), DiskError> {
        let Some(Swapping { base, kinds }) = self.swapping.take() else { return Ok(()) };
        for kind in kinds.into_iter().rev() {
            self.home.disk.remove_file(&self.home.child(&swap_name(&file_name(kind, base))))?;
            self.names_changed += 1;
            if kind == FileKind::Log {
                self.sync_names()?;
            }
        }
        self.sync_names()
    }

    /// Where these segments stand, one after the other, if none of them is gone or grows.
    fn place_of(&self, bases: &[Offset]) -> Option<usize> {
        let first = self.segments.binary_search_by_key(bases.first()?, |segment| segment.base).ok()?;
        let behind = first + bases.len();
        let stand = self.segments.get(first..behind).filter(|_| behind < self.segments.len())?;
        stand.iter().map(|segment| segment.base).eq(bases.iter().copied()).then_some(first)
    }

    /// The segments from the start of the log to `upto`.
    fn sources(&mut self, upto: Offset) -> Result<Vec<Source>, LookupError> {
        let mut sources = Vec::new();
        for index in self.segment_of(self.start)..self.segments.len() - 1 {
            let (segment, end) = (&self.segments[index], self.segment_end(index));
            if end > upto {
                break;
            }
            let (mut aborted, was_open) = (Vec::new(), segment.is_open());
            let visited = segment.visit_aborted(&self.home, &mut |txn| {
                aborted.push(txn);
                true
            });
            let offsets = u64::from(segment.offsets.len()) * <OffsetEntry as Entry>::BYTES as u64;
            let times = u64::from(segment.times.len()) * <TimeEntry as Entry>::BYTES as u64;
            sources.push(Source {
                base: segment.base,
                end,
                bytes: segment.bytes,
                index_bytes: offsets.max(times),
                written: segment.written,
                aborted,
            });
            self.close_again(index, was_open);
            visited?;
        }
        Ok(sources)
    }

    /// Whether a record of a closed segment is younger than `min.compaction.lag.ms`.
    fn is_too_new(&mut self, now: Now, index: usize) -> Result<bool, LookupError> {
        let lag = self.settings.compaction_lag_min;
        if lag.is_zero() {
            return Ok(false);
        }
        let (base, was_open) = (self.segments[index].base, self.segments[index].is_open());
        let largest = self.largest_of(index).map_err(LookupError::of(base));
        self.close_again(index, was_open);
        let newest = largest?.map_or(self.segments[index].written, |largest| largest.timestamp);
        Ok(now.wall.saturating_since(newest) < lag)
    }

    /// Whether the first record of a segment is older than `max.compaction.lag.ms`.
    fn is_overdue(&mut self, now: Now, index: usize) -> Result<bool, LookupError> {
        let Some(lag) = self.settings.compaction_lag_max else { return Ok(false) };
        let (base, was_open) = (self.segments[index].base, self.segments[index].is_open());
        let first = self.first_header(index).map_err(LookupError::of(base));
        self.close_again(index, was_open);
        Ok(first?.is_some_and(|first| is_older(now, &first, lag)))
    }

    fn first_header(&self, index: usize) -> Result<Option<BatchHeader>, ScanError> {
        let segment = &self.segments[index];
        let file = segment.file(&self.home)?.as_ref();
        Ok(HeaderWalk::new(file, 0, segment.bytes).next()?.map(|found| found.header))
    }

    fn is_active_overdue(&mut self, now: Now) -> Result<bool, LookupError> {
        Ok(self.active().bytes > 0 && self.is_overdue(now, self.segments.len() - 1)?)
    }

    /// Closes the growing segment if its first record is older than `max.compaction.lag.ms`: it would not be
    /// compacted before another record comes.
    fn roll_overdue(&mut self, now: Now, high_watermark: Offset) -> Result<(), LookupError> {
        if self.end <= high_watermark && self.is_active_overdue(now)? {
            let roll = self.preparing(|log| log.prepare_roll(false))?;
            self.changing(|log| log.roll(now, Some(roll)))?;
        }
        Ok(())
    }
}

fn is_older(now: Now, header: &BatchHeader, lag: Duration) -> bool {
    let timestamp = header.max_timestamp;
    timestamp.is_some() && now.wall.saturating_since(timestamp) > lag
}

impl From<LookupError> for CompactionError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Disk(error) => Self::Disk(error),
            LookupError::Damaged { segment, position, damage } => Self::Damaged { segment, position, damage },
        }
    }
}
