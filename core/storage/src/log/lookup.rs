//! Looking records up by their time.

use base::{LeaderEpoch, Offset, TimestampMs};
use records::Scratch;

use crate::disk::DiskError;
use crate::index::table::Guess;
use crate::log::Log;
use crate::scan::{Damage, Found, ScanError, read_batch};
use crate::segment::{Largest, Segment};

/// A record, by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Its timestamp.
    pub timestamp: TimestampMs,
    /// Where it is.
    pub offset: Offset,
    /// The epoch in which it was written.
    pub epoch: LeaderEpoch,
}

/// Why a record could not be looked up, or a range not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The records are damaged.
    #[error("segment {segment}, position {position}: {damage}")]
    Damaged {
        /// The base offset of the segment.
        segment: Offset,
        /// Where in its file.
        position: u32,
        /// What stands there.
        damage: Damage,
    },
}

impl LookupError {
    pub(crate) fn of(segment: Offset) -> impl Fn(ScanError) -> Self {
        move |error| match error {
            ScanError::Disk(error) => Self::Disk(error),
            ScanError::Damaged { position, damage } => Self::Damaged { segment, position, damage },
        }
    }
}

impl Log {
    /// The first record, from the start of the log, whose timestamp is `target` or later.
    ///
    /// Closes again what it had to open: a look at thousands of segments leaves none open.
    pub fn offset_for_timestamp(
        &mut self,
        target: TimestampMs,
    ) -> Result<Option<TimestampedOffset>, LookupError> {
        for index in self.segment_of(self.start)..self.segments.len() {
            let found = self.looking(index, |log, segment| {
                let largest = log.largest_of(index)?;
                if largest.is_none_or(|largest| largest.timestamp < target) {
                    return Ok(None);
                }
                log.search_segment(segment, target)
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp; the first of them if there are several.
    pub fn max_timestamp(&mut self) -> Result<Option<TimestampedOffset>, LookupError> {
        self.max_timestamp_before(self.end)
    }

    /// [`Log::max_timestamp`] among the records before `upto`, which begins a batch or ends the log. Closes
    /// again what it had to open.
    pub fn max_timestamp_before(&mut self, upto: Offset) -> Result<Option<TimestampedOffset>, LookupError> {
        let mut best: Option<(usize, Largest)> = None;
        for index in self.segment_of(self.start)..self.segments.len() {
            if self.segments[index].base >= upto {
                break;
            }
            let largest = self.looking(index, |log, segment| {
                let whole = log.largest_of(index)?;
                let is_within = segment.base >= log.start && whole.is_none_or(|whole| whole.offset < upto);
                if is_within { Ok(whole) } else { log.largest_between(segment, upto) }
            })?;
            let is_larger = |l: &Largest| best.is_none_or(|(_, b)| l.timestamp > b.timestamp);
            best = largest.filter(is_larger).map(|largest| (index, largest)).or(best);
        }
        let Some((index, largest)) = best else { return Ok(None) };
        self.looking(index, |log, segment| log.first_record(segment, largest))
    }

    /// Looks at a segment, and closes its files again if they were not open.
    pub(crate) fn looking<T>(
        &mut self,
        index: usize,
        look: impl FnOnce(&Self, &Segment) -> Result<T, ScanError>,
    ) -> Result<T, LookupError> {
        let segment = &self.segments[index];
        let (base, was_open) = (segment.base, segment.is_open());
        let found = look(self, segment);
        self.close_again(index, was_open);
        found.map_err(LookupError::of(base))
    }

    /// The largest timestamp of a segment.
    pub(crate) fn largest_of(&self, index: usize) -> Result<Option<Largest>, ScanError> {
        if index + 1 == self.segments.len() {
            return Ok(self.growth.largest);
        }
        self.segments[index].largest(&self.home)
    }

    /// The first record of a segment that is not before the start and whose timestamp is `target` or
    /// later.
    fn search_segment(
        &self,
        segment: &Segment,
        target: TimestampMs,
    ) -> Result<Option<TimestampedOffset>, ScanError> {
        // Up to that batch no record has a timestamp as large.
        let before = segment.times.last_where(&self.home, Guess::MIDDLE, |entry| entry.timestamp < target)?;
        let from = match before {
            Some(entry) if segment.has_time(&self.home, entry)? => entry.offset(segment.base).next(),
            _ => segment.base,
        };
        let mut walk = segment.walk_to(&self.home, from.max(self.start))?;
        while let Some(found) = walk.next()? {
            if found.header.max_timestamp < target || found.header.last_offset() < self.start {
                continue;
            }
            let first = self.first_in_batch(segment, &found, |timestamp| timestamp >= target)?;
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    /// The first record with the largest timestamp, which is in the batch that ends at its offset.
    fn first_record(
        &self,
        segment: &Segment,
        largest: Largest,
    ) -> Result<Option<TimestampedOffset>, ScanError> {
        match segment.walk_to(&self.home, largest.offset)?.reaching(largest.offset)? {
            Some(found) => self.first_in_batch(segment, &found, |timestamp| timestamp >= largest.timestamp),
            None => Ok(None),
        }
    }

    /// The largest timestamp of the records of a segment that are neither before the start nor at `upto`
    /// or behind it.
    fn largest_between(&self, segment: &Segment, upto: Offset) -> Result<Option<Largest>, ScanError> {
        let mut best: Option<Largest> = None;
        let mut walk = segment.walk_to(&self.home, self.start)?;
        while let Some(found) = walk.next()? {
            let (header, offset) = (&found.header, found.header.last_offset());
            if header.base_offset >= upto {
                break;
            }
            if offset < self.start
                || header.records_count == 0
                || best.is_some_and(|b| header.max_timestamp <= b.timestamp)
            {
                continue;
            }
            // The batch that reaches over the start may owe its timestamp to a record before it.
            let timestamp = match header.base_offset < self.start {
                true => self.largest_in_batch(segment, &found)?,
                false => header.max_timestamp,
            };
            let is_larger = best.is_none_or(|b| timestamp > b.timestamp) && timestamp.is_some();
            best = is_larger.then_some(Largest { timestamp, offset }).or(best);
        }
        Ok(best)
    }

    fn largest_in_batch(&self, segment: &Segment, found: &Found) -> Result<TimestampMs, ScanError> {
        let mut largest = TimestampMs::NONE;
        self.visit_records(segment, found, &mut |offset, timestamp| {
            if offset >= self.start {
                largest = largest.max(timestamp);
            }
            true
        })?;
        Ok(largest)
    }

    fn first_in_batch(
        &self,
        segment: &Segment,
        found: &Found,
        wanted: impl Fn(TimestampMs) -> bool,
    ) -> Result<Option<TimestampedOffset>, ScanError> {
        let mut first = None;
        self.visit_records(segment, found, &mut |offset, timestamp| {
            if offset >= self.start && wanted(timestamp) {
                let epoch = found.header.leader_epoch;
                first = Some(TimestampedOffset { timestamp, offset, epoch });
            }
            first.is_none()
        })?;
        Ok(first)
    }

    /// Shows offsets and timestamps of a batch's records, as long as `more` asks for them.
    fn visit_records(
        &self,
        segment: &Segment,
        found: &Found,
        more: &mut dyn FnMut(Offset, TimestampMs) -> bool,
    ) -> Result<(), ScanError> {
        let damaged = |error| ScanError::Damaged { position: found.position, damage: Damage::Batch(error) };
        let file = segment.file(&self.home)?.as_ref();
        let (mut bytes, mut scratch) = (Vec::new(), Scratch::default());
        let Some(batch) = read_batch(file, found, usize::MAX, &mut bytes)? else { return Ok(()) };
        for record in batch.records(&mut scratch).map_err(damaged)? {
            let record = record.map_err(damaged)?;
            if !more(record.offset(batch.header()), record.timestamp(batch.header())) {
                break;
            }
        }
        Ok(())
    }
}
