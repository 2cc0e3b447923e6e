//! Appending: one write for each batch, nothing per record.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use base::{LeaderEpoch, Now, Offset, TimestampMs};
use records::{
    BatchHeader, CheckedBatch, ControlRecord, EndMarker, HEADER_BYTES, Scratch, StoredBatch, TimestampType,
    crc32c,
};

use crate::disk::{DiskError, DiskFile};
use crate::gaps::ahead_of;
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
    /// The disk failed. If the log takes no changes any more, [`Log::poison`] says so; otherwise nothing
    /// was changed, and the same may go well later.
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
        let max = self.settings.segment_bytes.min(SEGMENT_BYTES_MAX);
        self.check_append(batch.bytes().len(), max, epoch)?;
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
        let aborts = marker.as_ref().is_some_and(|marker| !marker.commit);
        let due = Due { size: batch.bytes().len(), newest, last: Offset(last), aborts };
        let roll = self.preparing(|log| log.prepare_append(now, &due))?;
        self.changing(|log| {
            log.note_epoch(epoch);
            log.roll(now, roll)?;
            let placed = batch.assign(base_offset, epoch, append_time);
            log.write(now, &placed, batch.records_bytes(), marker.as_ref())
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
        // Its leader took it: by settings of then, or of another broker.
        self.check_append(batch.bytes().len(), SEGMENT_BYTES_MAX, epoch)?;
        let (expected, found) = (self.end, header.base_offset);
        if found != expected {
            return Err(AppendError::NotNext { expected, found });
        }
        let marker = stored_marker(batch).map_err(AppendError::Marker)?;
        let aborts = marker.as_ref().is_some_and(|marker| !marker.commit);
        let (size, newest, last) = (batch.bytes().len(), header.max_timestamp, header.last_offset());
        let roll = self.preparing(|log| log.prepare_append(now, &Due { size, newest, last, aborts }))?;
        self.changing(|log| {
            log.note_epoch(epoch);
            log.roll(now, roll)?;
            log.write(now, header, batch.records_bytes(), marker.as_ref())
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

    /// Appends a batch that was fetched from a leader: as [`Log::append_stored`], but offsets may be missing before
    /// it, because the leader's log was compacted. Its epoch begins with it, if it is a new one.
    pub fn append_fetched(&mut self, now: Now, batch: &StoredBatch<'_>) -> Result<Appended, AppendError> {
        let (end, found) = (self.end, batch.header().base_offset);
        if found <= end {
            return self.append_stored(now, batch);
        }
        self.check_append(batch.bytes().len(), SEGMENT_BYTES_MAX, batch.leader_epoch())?;
        if self.gaps_below < found {
            self.sync_before_gap()?;
            // Durable before the batch is there: a start would cut it off otherwise.
            self.changing(|log| log.allow_gaps(ahead_of(found)))?;
        }
        self.end = found;
        let appended = self.append_stored(now, batch);
        if appended.is_err() && self.poison.is_none() {
            self.end = end;
        }
        appended
    }

    fn check_append(&self, size: usize, max: u32, epoch: LeaderEpoch) -> Result<(), AppendError> {
        if let Some(poison) = self.poison() {
            return Err(AppendError::Poisoned(poison.clone()));
        }
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
        now: Now,
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
        segment.written = now.wall;
        self.end = header.next_offset();
        self.take_in(now, header, marker)
    }

    /// Lets the producers know of a batch at the end of the growing segment.
    fn take_in(
        &mut self,
        now: Now,
        header: &BatchHeader,
        marker: Option<&EndMarker>,
    ) -> Result<(), DiskError> {
        if !header.has_producer_id() {
            return Ok(());
        }
        let Some(marker) = marker else {
            if !header.attributes.is_control() {
                self.producers.apply(header, now.elapsed);
            }
            return Ok(());
        };
        let completed = self.producers.apply_marker(header, marker, now.elapsed);
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

    /// Opens what an append needs. If the growing segment has no place for it, that is the next one.
    fn prepare_append(&mut self, now: Now, due: &Due) -> Result<Option<Roll>, DiskError> {
        // A compacted log may go on far behind where it ended.
        let is_far = due.last.0.saturating_sub(self.active().base.0) > i64::from(i32::MAX);
        if is_far || (self.active().bytes > 0 && self.must_roll(now, due)?) {
            return self.prepare_roll(due.aborts).map(Some);
        }
        let Self { home, segments, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        segment.file(home)?;
        segment.offsets.prepare_push(home)?;
        segment.times.prepare_push(home)?;
        if due.aborts {
            segment.prepare_aborted(home)?;
        }
        Ok(None)
    }

    /// Opens what [`Log::roll`] needs. The file of records comes last: once it is there, batches behind it
    /// may not go into the segment before.
    pub(crate) fn prepare_roll(&mut self, aborts: bool) -> Result<Roll, DiskError> {
        if self.active().base < self.gaps_below {
            self.sync_before_gap()?;
        }
        let Self { home, segments, .. } = self;
        let segment = segments.last_mut().expect("a log has a segment");
        segment.prepare_to_write_tables(home)?;
        let snapshot = self.open_snapshot()?;
        let segment = Segment::new(self.end, 0);
        if aborts {
            segment.prepare_aborted(&self.home)?;
        }
        segment.create_file(&self.home)?;
        Ok(Roll { snapshot, segment })
    }

    fn must_roll(&mut self, now: Now, due: &Due) -> Result<bool, DiskError> {
        let segment = self.active();
        let max = self.settings.segment_bytes.min(SEGMENT_BYTES_MAX) as usize;
        let entries = |bytes: usize| self.settings.index_bytes_max as usize / bytes;
        let full = (segment.bytes as usize).saturating_add(due.size) > max
            || segment.offsets.len() as usize >= entries(<OffsetEntry as Entry>::BYTES)
            || segment.times.len() as usize >= entries(<TimeEntry as Entry>::BYTES).saturating_sub(1);
        if full {
            return Ok(true);
        }
        let first = self.first_timestamp()?;
        let age = match first.is_some() && due.newest.is_some() {
            true => due.newest.saturating_since(first),
            false => now.wall.saturating_since(self.growth.since),
        };
        // What grows is not compacted.
        let lag_max = self.settings.compaction_lag_max.filter(|_| self.settings.compacts);
        let age_max = self.settings.segment_age_max.min(lag_max.unwrap_or(Duration::MAX));
        Ok(age > age_max.saturating_sub(self.jitter()))
    }

    /// By how much the growing segment is closed early: by chance, but the same each time it is asked for.
    fn jitter(&mut self) -> Duration {
        let max = self.settings.segment_jitter_max;
        if max.is_zero() {
            return max;
        }
        let part = self.growth.jitter.unwrap_or_else(|| self.draw_jitter());
        self.growth.jitter = Some(part);
        max.mul_f64(part)
    }

    fn draw_jitter(&self) -> f64 {
        let mut seed = self.topic_id.0.0.to_vec();
        // The directory's name tells partitions of one topic apart.
        seed.extend(self.home.dir.file_name().map_or(&[][..], |name| name.as_encoded_bytes()));
        seed.extend(self.active().base.0.to_be_bytes());
        f64::from(crc32c(&seed)) / f64::from(u32::MAX)
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

    /// Closes the growing segment and begins another at the end of the log, if one was opened for it.
    pub(crate) fn roll(&mut self, now: Now, roll: Option<Roll>) -> Result<(), DiskError> {
        let Some(Roll { snapshot, segment }) = roll else { return Ok(()) };
        self.finish_active()?;
        self.save_producers(snapshot)?;
        self.begin(now, segment);
        Ok(())
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
        self.begin(now, segment);
        Ok(())
    }

    fn begin(&mut self, now: Now, mut segment: Segment) {
        self.names_changed += 1;
        (segment.written, segment.named) = (now.wall, self.names_changed);
        self.segments.push(segment);
        self.growth = Growth::new(now.wall);
    }
}

/// What is to be appended, as far as it decides whether the growing segment has a place for it.
struct Due {
    size: usize,
    newest: TimestampMs,
    last: Offset,
    /// Whether it may end a transaction that readers have to leave out.
    aborts: bool,
}

/// Files that were opened to close the growing segment and begin another.
pub(crate) struct Roll {
    /// `None` if the snapshot is there already.
    snapshot: Option<Arc<dyn DiskFile>>,
    segment: Segment,
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
