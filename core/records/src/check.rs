//! The one check that makes a producer's bytes appendable.
//!
//! The rules and their codes are those of Kafka 4's `ProduceRequest`, `UnifiedLog` and `LogValidator`.
//! Where Kafka answers UNKNOWN_SERVER_ERROR (compressed data that is none, an offset delta in it that
//! is not the record's place, an unknown compression) the code here says what is wrong. And some
//! things that no client sends, and that Kafka overlooks, are refused as well: bytes after the batch,
//! a wrong offset delta in plain records, a length below -1, a delete horizon, a timestamp type of
//! LogAppendTime, a producer id without an epoch.

use base::{LeaderEpoch, Offset, TimestampMs};

use crate::compress::{Compression, DecompressBound, Scratch};
use crate::error::{BatchError, Malformed};
use crate::header::{BatchHeader, HEADER_BYTES, TimestampType, seal};
use crate::record::RecordIter;
use crate::stored::{StoredBatch, compression, exactly_one, plain_records};

/// What a topic accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Bytes of a batch, as it came and as it is stored; Kafka's `max.message.bytes`.
    pub batch_bytes_max: usize,
    /// Bytes its records may decompress to.
    pub decompressed: DecompressBound,
    /// Bytes of a single record of a compressed batch; Kafka's `max.decompressed.message.bytes`.
    pub decompressed_record_bytes_max: usize,
    /// Whether every record must have a key, as in a compacted topic.
    pub keys_required: bool,
    /// Whether control batches are accepted: from coordinators, never from clients.
    pub allow_control: bool,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            // Kafka's default: 1 MiB of records, and the length prefix that they are stored with.
            batch_bytes_max: 1024 * 1024 + 12,
            decompressed: DecompressBound::default(),
            decompressed_record_bytes_max: usize::MAX,
            keys_required: false,
            allow_control: false,
        }
    }
}

/// The timestamps of a batch's records, as its producer set them.
///
/// What lies outside the window of `message.timestamp.before.max.ms` and `.after.max.ms` is refused
/// by the caller, who has the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTimes {
    /// The earliest, leaving out records without one; `None` if none has one.
    pub min: Option<TimestampMs>,
    /// The latest; [`TimestampMs::NONE`] if no record has one.
    pub max: TimestampMs,
    /// The offset delta of the first record with the latest.
    pub max_offset_delta: i32,
}

/// One whole batch that may be appended: CRC, header and every record's framing are right.
///
/// There is no other way to get one than [`CheckedBatch::check`] and what is made from its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedBatch<'a> {
    batch: StoredBatch<'a>,
    compression: Compression,
    times: RecordTimes,
}

impl<'a> CheckedBatch<'a> {
    /// Checks that `raw` is exactly one batch that the limits allow.
    ///
    /// One pass over the records, none of them copied; a compressed batch is decompressed into
    /// `scratch` first, up to the bound of the limits.
    pub fn check(raw: &'a [u8], limits: &BatchLimits, scratch: &mut Scratch) -> Result<Self, BatchError> {
        let header = exactly_one(raw)?;
        if raw.len() > limits.batch_bytes_max {
            return Err(BatchError::TooLarge { size: raw.len(), max: limits.batch_bytes_max });
        }
        header.check_crc(raw)?;
        check_header(&header, limits)?;
        let compression = compression(&header)?;
        let bytes_max = limits.decompressed.bytes_max(raw.len() - HEADER_BYTES);
        let plain = plain_records(&header, raw, bytes_max, scratch);
        let times = plain.and_then(|plain| check_records(&header, plain, limits));
        scratch.give_back();
        let times = times?;
        Ok(Self { batch: StoredBatch::known(raw, header), compression, times })
    }

    /// All bytes of the batch.
    pub const fn bytes(&self) -> &'a [u8] {
        self.batch.bytes()
    }

    /// The bytes behind the header, compressed if the batch is.
    pub fn records_bytes(&self) -> &'a [u8] {
        self.batch.records_bytes()
    }

    /// Its header, as the producer wrote it.
    pub const fn header(&self) -> &BatchHeader {
        self.batch.header()
    }

    /// How its records are compressed.
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// When its records say they were made.
    pub const fn times(&self) -> RecordTimes {
        self.times
    }

    /// Its records; those of a compressed batch lie in `scratch` meanwhile.
    pub fn records<'s>(&self, scratch: &'s mut Scratch) -> Result<RecordIter<'s>, BatchError>
    where
        'a: 's,
    {
        self.batch.records(scratch)
    }

    /// The header to store in front of [`Self::records_bytes`]: at its place in the log, and stamped.
    ///
    /// `append_time` is given for a topic with LogAppendTime. Otherwise the max timestamp is made
    /// that of the records, since indexes are built on it; a producer that set it right costs nothing.
    pub fn assign(&self, base: Offset, epoch: LeaderEpoch, append_time: Option<TimestampMs>) -> BatchHeader {
        let mut header = *self.header();
        header.place(base, epoch);
        match append_time {
            Some(now) => header.stamp(TimestampType::LogAppendTime, now, self.records_bytes()),
            None if header.max_timestamp != self.times.max => {
                header.stamp(TimestampType::CreateTime, self.times.max, self.records_bytes());
            }
            None => {}
        }
        header
    }

    /// The same records in another compression, for a topic whose `compression.type` is not
    /// `producer`. `out` is overwritten; the result is as much checked as this is.
    ///
    /// Control batches stay as they are, as Kafka leaves them.
    pub fn recompress<'b>(
        &self,
        to: Compression,
        level: Option<i32>,
        limits: &BatchLimits,
        scratch: &mut Scratch,
        out: &'b mut Vec<u8>,
    ) -> Result<CheckedBatch<'b>, BatchError> {
        out.clear();
        out.resize(HEADER_BYTES, 0);
        let mut header = *self.header();
        if self.compression == to || header.attributes.is_control() {
            out.extend_from_slice(self.records_bytes());
        } else {
            header.attributes = header.attributes.with_compression(to);
            let bytes_max = match self.compression {
                // These have to be read again when they are compressed.
                Compression::None => limits.decompressed.ceiling_bytes,
                _ => limits.decompressed.bytes_max(self.records_bytes().len()),
            };
            scratch.recompress((self.compression, to), level, self.records_bytes(), bytes_max, out)?;
        }
        if out.len() > limits.batch_bytes_max {
            return Err(BatchError::TooLarge { size: out.len(), max: limits.batch_bytes_max });
        }
        let header = seal(header, out)?;
        let compression = compression(&header)?;
        Ok(CheckedBatch { batch: StoredBatch::known(out, header), compression, times: self.times })
    }
}

fn check_header(header: &BatchHeader, limits: &BatchLimits) -> Result<(), BatchError> {
    if header.base_offset != Offset::ZERO {
        return Err(BatchError::BaseOffset(header.base_offset.0));
    }
    let (records, delta) = (header.records_count, header.last_offset_delta);
    if records <= 0 || delta != records - 1 {
        return Err(BatchError::Count { records, delta });
    }
    if header.attributes.is_control() && !limits.allow_control {
        return Err(BatchError::Control);
    }
    if header.attributes.has_delete_horizon() {
        return Err(BatchError::DeleteHorizon);
    }
    if header.attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(BatchError::TimestampType);
    }
    check_producer(header)
}

fn check_producer(header: &BatchHeader) -> Result<(), BatchError> {
    let sequenced = header.base_sequence.0 >= 0;
    let transactional = header.attributes.is_transactional();
    let right = if header.has_producer_id() {
        // A marker carries the producer it is about, but it is none of that producer's records.
        header.producer_epoch.0 >= 0 && (sequenced || header.attributes.is_control())
    } else {
        !transactional
    };
    if right {
        return Ok(());
    }
    Err(BatchError::Producer {
        id: header.producer_id.0,
        epoch: header.producer_epoch.0,
        sequence: header.base_sequence.0,
        transactional,
    })
}

fn check_records(
    header: &BatchHeader,
    plain: &[u8],
    limits: &BatchLimits,
) -> Result<RecordTimes, BatchError> {
    let packed = compression(header)? != Compression::None;
    let max = if packed { limits.decompressed_record_bytes_max } else { usize::MAX };
    let base = header.base_timestamp;
    let mut times = RecordTimes { min: None, max: TimestampMs::NONE, max_offset_delta: 0 };
    let mut records = RecordIter::new(plain, header.records_count);
    let mut left = plain.len();
    let mut index = 0;
    while let Some(record) = records.next().transpose()? {
        let size = left - records.bytes_left();
        left = records.bytes_left();
        if size > max {
            return Err(BatchError::RecordTooLarge { index, size, max });
        }
        if record.offset_delta != index {
            return Err(BatchError::Record { index, what: Malformed::OffsetDelta });
        }
        if limits.keys_required && record.key.is_none() {
            return Err(BatchError::KeyMissing { index });
        }
        let delta = record.timestamp_delta;
        let Some(time) = base.0.checked_add(delta).map(TimestampMs) else {
            return Err(BatchError::Timestamp { index, base, delta });
        };
        if time > times.max {
            times.max = time;
            times.max_offset_delta = index;
        }
        if time != TimestampMs::NONE && times.min.is_none_or(|min| time < min) {
            times.min = Some(time);
        }
        index += 1;
    }
    Ok(times)
}

#[cfg(test)]
mod tests;
