//! Builds a batch record by record, in one buffer.

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::compress::{Compression, Scratch};
use crate::error::BatchError;
use crate::header::{Attributes, BatchHeader, HEADER_BYTES, TimestampType, seal};
use crate::record::{Header, Record, body_bytes, put_record};
use crate::varint;

/// The record does not fit into the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the batch is full")]
pub struct Full;

/// Who writes an idempotent batch, and where in its order the batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The producer.
    pub id: ProducerId,
    /// Which life of it.
    pub epoch: ProducerEpoch,
    /// The sequence of the first record; [`Sequence::NONE`] for a marker.
    pub base_sequence: Sequence,
}

impl Producer {
    /// No idempotence.
    pub const NONE: Self =
        Self { id: ProducerId::NONE, epoch: ProducerEpoch::NONE, base_sequence: Sequence::NONE };
}

/// What a batch says beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Its place; 0 for what a producer sends.
    pub base_offset: Offset,
    /// The leader that appends it; none for what a producer sends.
    pub leader_epoch: LeaderEpoch,
    /// How its records are compressed.
    pub compression: Compression,
    /// How hard; the codec's own default if `None`.
    pub level: Option<i32>,
    /// Who writes it.
    pub producer: Producer,
    /// Whether it is part of a transaction.
    pub transactional: bool,
    /// Whether it is a control batch.
    pub control: bool,
    /// The time of appending, for a topic with LogAppendTime.
    pub append_time: Option<TimestampMs>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            compression: Compression::None,
            level: None,
            producer: Producer::NONE,
            transactional: false,
            control: false,
            append_time: None,
        }
    }
}

/// A batch in the making. After [`BatchBuilder::finish`] it is empty and keeps its buffer.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    // Room for the header, then the records as they are stored.
    batch: Vec<u8>,
    bytes_max: usize,
    count: i32,
    base_timestamp: TimestampMs,
    max_timestamp: TimestampMs,
}

impl BatchBuilder {
    /// An empty batch that is full at `bytes_max`, before compression.
    pub fn new(bytes_max: usize) -> Self {
        Self::in_buffer(Vec::new(), bytes_max)
    }

    /// An empty batch in a buffer that was used before: its room is kept, its bytes are not.
    pub fn in_buffer(buffer: Vec<u8>, bytes_max: usize) -> Self {
        let mut builder = Self { batch: buffer, ..Self::new_unprepared(bytes_max) };
        builder.clear();
        builder
    }

    fn new_unprepared(bytes_max: usize) -> Self {
        Self {
            batch: Vec::new(),
            bytes_max: bytes_max.min(i32::MAX as usize),
            count: 0,
            base_timestamp: TimestampMs::NONE,
            max_timestamp: TimestampMs::NONE,
        }
    }

    /// Adds a record and answers its offset delta.
    ///
    /// The first one is taken whatever its size is, up to what the format can say: a record that is
    /// larger than `bytes_max` gets a batch of its own, as with Kafka's producer.
    pub fn try_append(
        &mut self,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<i32, Full> {
        let base = if self.is_empty() { timestamp } else { self.base_timestamp };
        let timestamp_delta = timestamp.0.checked_sub(base.0).ok_or(Full)?;
        let record =
            Record { offset_delta: self.count, timestamp_delta, key, value, headers: Default::default() };
        let body_bytes = body_bytes(&record, headers);
        let size = self.batch.len() + varint::size(body_bytes as i64) + body_bytes;
        let size_max = if self.is_empty() { i32::MAX as usize } else { self.bytes_max };
        if size > size_max || self.count == i32::MAX {
            return Err(Full);
        }
        put_record(&mut self.batch, body_bytes, &record, headers);
        self.base_timestamp = base;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        Ok(record.offset_delta)
    }

    /// Whether it has no record.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many records it has.
    pub const fn count(&self) -> i32 {
        self.count
    }

    /// Bytes of the batch if it were finished without compression.
    pub const fn size_bytes(&self) -> usize {
        self.batch.len()
    }

    /// Drops the records.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.batch.resize(HEADER_BYTES, 0);
        self.count = 0;
        self.base_timestamp = TimestampMs::NONE;
        self.max_timestamp = TimestampMs::NONE;
    }

    /// Appends the batch to `out` and answers its header; the builder is empty again.
    ///
    /// Fails only if compressed bytes pass what a batch can say, and then `out` is as it was.
    ///
    /// # Panics
    ///
    /// If there is no record: an empty batch cannot be written.
    pub fn finish(
        &mut self,
        options: &BatchOptions,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<BatchHeader, BatchError> {
        assert!(self.count > 0, "a batch has at least one record");
        let start = out.len();
        let records = &self.batch[HEADER_BYTES..];
        out.resize(start + HEADER_BYTES, 0);
        scratch.codecs.compress(options.compression, options.level, records, out);
        let sealed = seal(self.header(options), &mut out[start..]);
        if sealed.is_err() {
            out.truncate(start);
        }
        self.clear();
        sealed
    }

    /// Takes no more records: what is built stays in its buffer, and is sealed there.
    ///
    /// # Panics
    ///
    /// If there is no record: an empty batch cannot be written.
    pub fn close(self) -> ClosedBatch {
        assert!(self.count > 0, "a batch has at least one record");
        ClosedBatch { built: self, compression: Compression::None }
    }

    /// Makes room for so many bytes in all.
    pub fn reserve_bytes(&mut self, bytes: usize) {
        self.batch.reserve_exact(bytes.saturating_sub(self.batch.len()));
    }

    fn header(&self, options: &BatchOptions) -> BatchHeader {
        let stamped_by = match options.append_time {
            Some(_) => TimestampType::LogAppendTime,
            None => TimestampType::CreateTime,
        };
        BatchHeader {
            base_offset: options.base_offset,
            batch_length: 0,
            leader_epoch: options.leader_epoch,
            crc: 0,
            attributes: Attributes::default()
                .with_compression(options.compression)
                .with_timestamp_type(stamped_by)
                .with_transactional(options.transactional)
                .with_control(options.control),
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: options.append_time.unwrap_or(self.max_timestamp),
            producer_id: options.producer.id,
            producer_epoch: options.producer.epoch,
            base_sequence: options.producer.base_sequence,
            records_count: self.count,
        }
    }
}

/// A batch that takes no more records and has no header yet.
///
/// Who writes it and with which sequence is known only when it leaves, and may change when it has to
/// leave again: sealing writes the header and the CRC in front of records that stay where they were
/// first encoded.
#[derive(Clone, Debug)]
pub struct ClosedBatch {
    built: BatchBuilder,
    compression: Compression,
}

impl ClosedBatch {
    /// The same batch with its records compressed into `buffer`, whose bytes are forgotten.
    ///
    /// A batch that would not get smaller stays as it is, and `buffer` comes back.
    pub fn compressed(
        self,
        to: Compression,
        level: Option<i32>,
        scratch: &mut Scratch,
        mut buffer: Vec<u8>,
    ) -> (Self, Vec<u8>) {
        buffer.clear();
        buffer.resize(HEADER_BYTES, 0);
        scratch.codecs.compress(to, level, &self.built.batch[HEADER_BYTES..], &mut buffer);
        if buffer.len() >= self.built.batch.len() {
            return (self, buffer);
        }
        let plain = self.built.batch;
        (Self { built: BatchBuilder { batch: buffer, ..self.built }, compression: to }, plain)
    }

    /// Writes header and CRC, and answers all bytes of the batch.
    ///
    /// Fails if the batch is larger than a batch can say.
    pub fn seal(&mut self, producer: Producer, transactional: bool) -> Result<&[u8], BatchError> {
        let compression = self.compression;
        let options = BatchOptions { compression, producer, transactional, ..BatchOptions::default() };
        seal(self.built.header(&options), &mut self.built.batch)?;
        Ok(&self.built.batch)
    }

    /// How many records it has.
    pub const fn count(&self) -> i32 {
        self.built.count
    }

    /// All its bytes: those of the header have a meaning only once it is sealed.
    pub fn bytes(&self) -> &[u8] {
        &self.built.batch
    }

    /// The buffer, for another batch.
    pub fn into_buffer(self) -> Vec<u8> {
        self.built.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_at_its_size_but_takes_any_first_record() {
        let mut builder = BatchBuilder::new(100);
        assert_eq!(builder.try_append(TimestampMs(1), None, Some(&[0; 500]), &[]), Ok(0));
        assert_eq!(builder.try_append(TimestampMs(1), None, None, &[]), Err(Full));
        builder.clear();
        // 61 bytes of header and 7 of each empty record.
        let mut appended = 0;
        while builder.try_append(TimestampMs(1), None, None, &[]).is_ok() {
            appended += 1;
        }
        assert_eq!((appended, builder.count(), builder.size_bytes()), (5, 5, 96));
    }

    #[test]
    fn it_is_empty_after_a_batch_and_appends_the_next() {
        let mut builder = BatchBuilder::new(1000);
        let mut out = Vec::new();
        for base in [5, 6] {
            builder.try_append(TimestampMs(base), None, Some(b"v"), &[]).expect("it fits");
            let options = BatchOptions { base_offset: Offset(base), ..BatchOptions::default() };
            let header = builder.finish(&options, &mut Scratch::default(), &mut out).expect("it is small");
            assert_eq!((header.base_timestamp, header.records_count), (TimestampMs(base), 1));
            assert!(builder.is_empty());
        }
        let batches: Vec<_> = crate::batches(&out).collect::<Result<_, _>>().expect("both are right");
        assert_eq!(batches.iter().map(|batch| batch.base_offset().0).collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn a_time_too_far_from_the_first_does_not_fit() {
        let mut builder = BatchBuilder::new(1000);
        builder.try_append(TimestampMs(i64::MAX), None, None, &[]).expect("it fits");
        assert_eq!(builder.try_append(TimestampMs(-1), None, None, &[]), Ok(1));
        assert_eq!(builder.try_append(TimestampMs(-2), None, None, &[]), Err(Full));
    }
}
