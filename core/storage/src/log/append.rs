//! Appending: one write for each batch, nothing per record.

use std::io::IoSlice;

use base::{LeaderEpoch, Now, Offset, TimestampMs};
use records::{
    BatchHeader, CheckedBatch, ControlRecord, EndMarker, HEADER_BYTES, Scratch, StoredBatch, TimestampType,
};

use crate::disk::DiskError;
use crate::index::table::Entry;
use crate::index::{OffsetEntry, TimeEntry};
use crate::log::Log;
use crate::producer::{ProducerError, Verdict};
use crate::segment::{Growth, Segment};
use crate::settings::SEGMENT_BYTES_MAX;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The offset of its first record.
    pub base_offset: Offset,
    /// The offset of its last record.
    pub last_offset: Offset,
    /// The time it was appended, if that is its timestamp; otherwise [`TimestampMs::NONE`].
    pub log_append_time: TimestampMs,
    /// Whether it was in the log already; the offsets are those of the first time.
    pub duplicate: bool,
    /// Where the log starts.
    pub log_start: Offset,
}

/// Why a batch was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// An earlier write failed; the log takes no changes any more.
    #[error("the log takes no changes after an error: {0}")]
    Poisoned(DiskError),
    /// The leader that appends was replaced.
    #[error("leader epoch {got}, but the log is at {current}")]
    Fenced {
        /// The epoch of the appending leader.
        got: LeaderEpoch,
        /// The newest epoch in the log.
        current: LeaderEpoch,
    },
    /// The batch is larger than a segment may be.
    #[error("the batch has {size} bytes, a segment has at most {max}")]
    TooLarge {
        /// Bytes of the batch.
        size: usize,
        /// Bytes of a segment.
        max: u32,
    },
    /// A replicated batch that does not go on where the log ends.
    #[error("the batch begins at offset {found}, but the log ends at {expected}")]
    NotNext {
        /// Where the log ends.
        expected: Offset,
        /// Where the batch begins.
        found: Offset,
    },
    /// There is no room left in the range of offsets.
    #[error("offset {0} is the last there is")]
    OffsetsExhausted(Offset),
    /// A control batch whose marker cannot be read.
    #[error("the control batch cannot be read: {0}")]
    Marker(String),
    /// The producer may not write this batch.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The disk failed. The log takes no changes any more.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Log {
    /// Appends a batch as leader of `epoch`: gives it its offsets, or finds that it is there already.
    pub fn append(
        &mut self,
        now: Now,
        batch: &CheckedBatch<'_>,
        epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        let header = batch.header();
        self.check_append(batch.bytes().len(), epoch)?;
        let last = self.end.0.checked_add(i64::from(header.last_offset_delta));
        let last = last.filter(|&last| last < i64::MAX).ok_or(AppendError::OffsetsExhausted(self.end))?;
        let marker = if header.attributes.is_control() { leader_marker(batch)? } else { None };
        if let Some(duplicate) = self.judge(header, marker.as_ref())? {
            return Ok(duplicate);
        }
        let stamped = self.settings.timestamp_type == TimestampType::LogAppendTime;
        let append_time = stamped.then_some(now.wall);
        let newest = append_time.unwrap_or(batch.times().max);
        let base_offset = self.end;
        self.changing(|log| {
            log.note_epoch(epoch)?;
            log.roll_if_due(now, batch.bytes().len(), newest, Offset(last))?;
            let placed = batch.assign(base_offset, epoch, append_time);
            log.write(&placed, batch.records_bytes(), marker.as_ref())
        })?;
        Ok(Appended {
            base_offset,
            last_offset: Offset(last),
            log_append_time: append_time.unwrap_or(TimestampMs::NONE),
            duplicate: false,
            log_start: self.start,
        })
    }

    /// Appends a batch that has its offsets from the leader it was fetched from.
    pub fn append_stored(&mut self, now: Now, batch: &StoredBatch<'_>) -> Result<Appended, AppendError> {
        let header = batch.header();
        let epoch = batch.leader_epoch();
        self.check_append(batch.bytes().len(), epoch)?;
        let (expected, found) = (self.end, header.base_offset);
        let goes_on = if self.settings.compacted { found >= expected } else { found == expected };
        if !goes_on {
            return Err(AppendError::NotNext { expected, found });
        }
        let marker = stored_marker(batch).map_err(AppendError::Marker)?;
        self.changing(|log| {
            log.note_epoch(epoch)?;
            log.roll_if_due(now, batch.bytes().len(), header.max_timestamp, header.last_offset())?;
            log.write(header, batch.records_bytes(), marker.as_ref())
        })?;
        let stamped = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        Ok(Appended {
            base_offset: found,
            last_offset: header.last_offset(),
            log_append_time: if stamped { header.max_timestamp } else { TimestampMs::NONE },
            duplicate: false,
            log_start: self.start,
        })
    }

    fn check_append(&self, size: usize, epoch: LeaderEpoch) -> Result<(), AppendError> {
        if let Some(poison) = self.poison() {
            return Err(AppendError::Poisoned(poison.clone()));
        }
        let max = self.settings.segment_bytes.min(SEGMENT_BYTES_MAX);
        if size > max as usize {
            return Err(AppendError::TooLarge { size, max });
        }
        match self.last_epoch() {
            Some(current) if epoch < current => Err(AppendError::Fenced { got: epoch, current }),
            _ => Ok(()),
        }
    }

    /// Whether the producer may write the batch; where it is if it did so before.
    fn judge(
        &self,
        header: &BatchHeader,
        marker: Option<&EndMarker>,
    ) -> Result<Option<Appended>, ProducerError> {
        if !header.has_producer_id() {
            return Ok(None);
        }
        if let Some(marker) = marker {
            self.producers.check_marker(header, marker)?;
            return Ok(None);
        }
        let Verdict::Duplicate { first, last, timestamp } = self.producers.check(header)? else {
            return Ok(None);
        };
        let stamped = self.settings.timestamp_type == TimestampType::LogAppendTime;
        Ok(Some(Appended {
            base_offset: first,
            last_offset: last,
            log_append_time: if stamped { timestamp } else { TimestampMs::NONE },
            duplicate: true,
            log_start: self.start,
        }))
    }

    /// Writes a batch at the end of the growing segment and takes it in.
    fn write(
        &mut self,
        header: &BatchHeader,
        records: &[u8],
        marker: Option<&EndMarker>,
    ) -> Result<(), DiskError> {
        let bytes: [u8; HEADER_BYTES] = header.to_bytes();
        let Self { home, segments, growth, settings, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        let parts = [IoSlice::new(&bytes), IoSlice::new(records)];
        segment.file(home)?.write_at(&parts, u64::from(segment.bytes))?;
        growth.add(home, segment, header, settings)?;
        self.end = header.next_offset();
        self.take_in(header, marker)
    }

    /// Lets the producers know of a batch at the end of the growing segment.
    pub(crate) fn take_in(
        &mut self,
        header: &BatchHeader,
        marker: Option<&EndMarker>,
    ) -> Result<(), DiskError> {
        if !header.has_producer_id() {
            return Ok(());
        }
        let Some(marker) = marker else {
            if !header.attributes.is_control() {
                self.producers.apply(header);
            }
            return Ok(());
        };
        let completed = self.producers.apply_marker(header, marker);
        match completed.and_then(|completed| completed.aborted) {
            Some(txn) => {
                let Self { home, segments, names_changed, .. } = self;
                let segment = segments.last_mut().expect("a log has a segment");
                *names_changed += u64::from(segment.aborted == 0);
                segment.push_aborted(home, txn)
            }
            None => Ok(()),
        }
    }

    /// Closes the growing segment if a batch of `size` bytes has no place in it.
    fn roll_if_due(
        &mut self,
        now: Now,
        size: usize,
        newest: TimestampMs,
        last: Offset,
    ) -> Result<(), DiskError> {
        if self.active().bytes > 0 && self.must_roll(now, size, newest, last)? {
            return self.roll(now);
        }
        Ok(())
    }

    fn must_roll(
        &mut self,
        now: Now,
        size: usize,
        newest: TimestampMs,
        last: Offset,
    ) -> Result<bool, DiskError> {
        let segment = self.active();
        let max = self.settings.segment_bytes.min(SEGMENT_BYTES_MAX) as usize;
        let entries = |bytes: usize| self.settings.index_bytes_max as usize / bytes;
        let full = (segment.bytes as usize).saturating_add(size) > max
            || segment.offsets.len() as usize >= entries(<OffsetEntry as Entry>::BYTES)
            || segment.times.len() as usize >= entries(<TimeEntry as Entry>::BYTES).saturating_sub(1)
            || last.0.saturating_sub(segment.base.0) > i64::from(i32::MAX);
        if full {
            return Ok(true);
        }
        let first = self.first_timestamp()?;
        let age = match first.is_some() && newest.is_some() {
            true => newest.saturating_since(first),
            false => now.wall.saturating_since(self.growth.since),
        };
        Ok(age > self.settings.segment_age_max)
    }

    /// The largest timestamp of the first batch of the growing segment.
    fn first_timestamp(&mut self) -> Result<TimestampMs, DiskError> {
        if let Some(first) = self.growth.first_timestamp {
            return Ok(first);
        }
        let mut bytes = [0; HEADER_BYTES];
        let read = self.active().file(&self.home)?.read_at(&mut bytes, 0)?;
        let header = BatchHeader::parse(&bytes[..read]);
        let first = header.map_or(TimestampMs::NONE, |header| header.max_timestamp);
        self.growth.first_timestamp = Some(first);
        Ok(first)
    }

    /// Closes the growing segment and begins another at the end of the log.
    pub(crate) fn roll(&mut self, now: Now) -> Result<(), DiskError> {
        self.finish_active()?;
        self.save_producers()?;
        self.begin_segment(now)
    }

    /// Brings the tables of the growing segment into their final form.
    pub(crate) fn finish_active(&mut self) -> Result<(), DiskError> {
        let Self { home, segments, growth, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        growth.finish(home, segment)?;
        self.names_changed += 1;
        Ok(())
    }

    /// Begins a segment at the end of the log.
    pub(crate) fn begin_segment(&mut self, now: Now) -> Result<(), DiskError> {
        let segment = Segment::create(&self.home, self.end)?;
        self.segments.push(segment);
        self.growth = Growth::new(now.wall);
        self.names_changed += 1;
        Ok(())
    }
}

/// The marker of a control batch that a leader appends; `None` if it ends no transaction.
fn leader_marker(batch: &CheckedBatch<'_>) -> Result<Option<EndMarker>, AppendError> {
    let unreadable = |error: &dyn std::fmt::Display| AppendError::Marker(error.to_string());
    let mut scratch = Scratch::default();
    let mut records = batch.records(&mut scratch).map_err(|e| unreadable(&e))?;
    let Some(record) = records.next().transpose().map_err(|e| unreadable(&e))? else {
        return Ok(None);
    };
    let record = ControlRecord::parse(&record).map_err(|e| unreadable(&e))?;
    Ok(end_marker(record))
}

/// The marker of a batch that is stored; `None` if it ends no transaction.
pub(crate) fn stored_marker(batch: &StoredBatch<'_>) -> Result<Option<EndMarker>, String> {
    if !batch.header().attributes.is_control() {
        return Ok(None);
    }
    let record = batch.control_record(&mut Scratch::default()).map_err(|e| e.to_string())?;
    Ok(record.and_then(end_marker))
}

fn end_marker(record: ControlRecord) -> Option<EndMarker> {
    match record {
        ControlRecord::End(marker) => Some(marker),
        ControlRecord::LeaderChange(_) | ControlRecord::Other(_) => None,
    }
}
