//! The 61 bytes before the records of a batch.
//!
//! ```text
//!    0              8         12         16   17        21     23         27
//!    | base offset  | length  | leader   | 2  | crc     | attr | last     |
//!    | i64          | i32     | epoch i32| i8 | u32     | i16  | delta i32|
//!    27             35             43             51     53         57         61
//!    | base         | max          | producer     | prod.| base     | records  |
//!    | timestamp i64| timestamp i64| id i64       | epoch| sequence | count i32|
//! ```
//!
//! Big-endian. `length` counts what follows it, so a batch takes `12 + length` bytes. The CRC covers
//! everything from `attr` to the end of the batch: base offset and leader epoch are the leader's to
//! set and lie before it.

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::compress::{Compression, UnknownCompression};
use crate::crc::Crc32c;
use crate::error::BatchError;

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes that the length of a batch does not count: the base offset and the length itself.
pub const LENGTH_PREFIX_BYTES: usize = 12;
/// The only format there is.
pub const MAGIC: i8 = 2;

const MAGIC_AT: usize = 16;
pub(crate) const CRC_FROM: usize = 21;
const LENGTH_MIN: i32 = (HEADER_BYTES - LENGTH_PREFIX_BYTES) as i32;
// A segment is addressed by 32-bit positions, so no batch can be longer than one.
const LENGTH_MAX: i32 = i32::MAX - LENGTH_PREFIX_BYTES as i32;

/// Who set the timestamps of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer, for each record.
    #[default]
    CreateTime,
    /// The leader, once for the whole batch: the max timestamp stands for every record.
    LogAppendTime,
}

/// The flags of a batch. Bits without a meaning are kept as they came.
///
/// ```text
///   15 ... 7 | 6 delete horizon | 5 control | 4 transactional | 3 log append time | 2..0 compression
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0b111;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// How the records are compressed.
    pub fn compression(self) -> Result<Compression, UnknownCompression> {
        Compression::from_id((self.0 & Self::COMPRESSION) as u8)
    }

    /// Who set the timestamps.
    pub const fn timestamp_type(self) -> TimestampType {
        if self.has(Self::LOG_APPEND_TIME) { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// Whether the records are part of a transaction.
    pub const fn is_transactional(self) -> bool {
        self.has(Self::TRANSACTIONAL)
    }

    /// Whether the records are markers of brokers, which no consumer is shown.
    pub const fn is_control(self) -> bool {
        self.has(Self::CONTROL)
    }

    /// Whether the base timestamp is the time from which compaction may drop tombstones and markers.
    pub const fn has_delete_horizon(self) -> bool {
        self.has(Self::DELETE_HORIZON)
    }

    /// The same with another compression.
    #[must_use]
    pub const fn with_compression(self, compression: Compression) -> Self {
        Self(self.0 & !Self::COMPRESSION | compression.id() as i16)
    }

    /// The same with another timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, of: TimestampType) -> Self {
        self.with(Self::LOG_APPEND_TIME, matches!(of, TimestampType::LogAppendTime))
    }

    /// The same, part of a transaction or not.
    #[must_use]
    pub const fn with_transactional(self, on: bool) -> Self {
        self.with(Self::TRANSACTIONAL, on)
    }

    /// The same, a control batch or not.
    #[must_use]
    pub const fn with_control(self, on: bool) -> Self {
        self.with(Self::CONTROL, on)
    }

    /// The same, with a delete horizon or without.
    #[must_use]
    pub const fn with_delete_horizon(self, on: bool) -> Self {
        self.with(Self::DELETE_HORIZON, on)
    }

    const fn has(self, flag: i16) -> bool {
        self.0 & flag != 0
    }

    const fn with(self, flag: i16, on: bool) -> Self {
        Self(if on { self.0 | flag } else { self.0 & !flag })
    }
}

/// The header of a batch, read but not believed: only its length and format are known to be sane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record that the batch had when it was written.
    pub base_offset: Offset,
    /// Bytes after this field.
    pub batch_length: i32,
    /// The leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of the bytes from the attributes on.
    pub crc: u32,
    /// Its flags.
    pub attributes: Attributes,
    /// The distance to the last offset; compaction keeps it when it drops records.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas are counted from.
    pub base_timestamp: TimestampMs,
    /// The latest timestamp of its records, or the time of appending.
    pub max_timestamp: TimestampMs,
    /// Who wrote it; [`ProducerId::NONE`] without idempotence.
    pub producer_id: ProducerId,
    /// Which life of that producer.
    pub producer_epoch: ProducerEpoch,
    /// The sequence of its first record; [`Sequence::NONE`] without idempotence and for markers.
    pub base_sequence: Sequence,
    /// How many records follow.
    pub records_count: i32,
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`.
    ///
    /// Nothing but format and length is checked, and the batch itself need not be there.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // Older formats have shorter headers, so the format comes before the length.
        if let Some(&magic) = bytes.get(MAGIC_AT)
            && magic as i8 != MAGIC
        {
            return Err(BatchError::Magic(magic as i8));
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(BatchError::Truncated { need: HEADER_BYTES, have: bytes.len() });
        };
        let header = Self::read(header);
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&header.batch_length) {
            return Err(BatchError::Length(header.batch_length));
        }
        Ok(header)
    }

    fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        Self {
            base_offset: Offset(i64::from_be_bytes(field(bytes, 0))),
            batch_length: i32::from_be_bytes(field(bytes, 8)),
            leader_epoch: LeaderEpoch(i32::from_be_bytes(field(bytes, 12))),
            crc: u32::from_be_bytes(field(bytes, 17)),
            attributes: Attributes(i16::from_be_bytes(field(bytes, 21))),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: TimestampMs(i64::from_be_bytes(field(bytes, 27))),
            max_timestamp: TimestampMs(i64::from_be_bytes(field(bytes, 35))),
            producer_id: ProducerId(i64::from_be_bytes(field(bytes, 43))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(bytes, 51))),
            base_sequence: Sequence(i32::from_be_bytes(field(bytes, 53))),
            records_count: i32::from_be_bytes(field(bytes, 57)),
        }
    }

    /// Writes the header.
    pub fn write(&self, out: &mut [u8; HEADER_BYTES]) {
        out[0..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..16].copy_from_slice(&self.leader_epoch.0.to_be_bytes());
        out[16] = MAGIC as u8;
        out[17..21].copy_from_slice(&self.crc.to_be_bytes());
        out[21..23].copy_from_slice(&self.attributes.0.to_be_bytes());
        out[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[27..35].copy_from_slice(&self.base_timestamp.0.to_be_bytes());
        out[35..43].copy_from_slice(&self.max_timestamp.0.to_be_bytes());
        out[43..51].copy_from_slice(&self.producer_id.0.to_be_bytes());
        out[51..53].copy_from_slice(&self.producer_epoch.0.to_be_bytes());
        out[53..57].copy_from_slice(&self.base_sequence.0.to_be_bytes());
        out[57..61].copy_from_slice(&self.records_count.to_be_bytes());
    }

    /// The header as bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        self.write(&mut bytes);
        bytes
    }

    /// Bytes of the whole batch, by its length.
    pub fn size_bytes(&self) -> usize {
        LENGTH_PREFIX_BYTES + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// The offset of its last record; stays at the end of the range.
    pub const fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(self.last_offset_delta as i64))
    }

    /// The offset right after it; stays at the end of the range.
    pub const fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// The sequence of its last record; [`Sequence::NONE`] if it has none.
    pub fn last_sequence(&self) -> Sequence {
        if self.base_sequence.0 < 0 {
            return Sequence::NONE;
        }
        self.base_sequence.wrapping_add(u32::try_from(self.last_offset_delta).unwrap_or(0))
    }

    /// Whether its producer is idempotent.
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    /// The time from which compaction may drop its tombstones or its marker.
    pub fn delete_horizon(&self) -> Option<TimestampMs> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// Gives the batch its place in the log. The CRC does not cover it and stays.
    pub fn place(&mut self, base_offset: Offset, leader_epoch: LeaderEpoch) {
        self.base_offset = base_offset;
        self.leader_epoch = leader_epoch;
    }

    /// Sets who stamped the batch and its latest timestamp, and the CRC that follows from it;
    /// `records` is everything behind the header, which is read but not copied.
    pub fn stamp(&mut self, by: TimestampType, max_timestamp: TimestampMs, records: &[u8]) {
        self.attributes = self.attributes.with_timestamp_type(by);
        self.max_timestamp = max_timestamp;
        self.crc = self.compute_crc(records);
    }

    /// The CRC of this header with `records` behind it.
    pub fn compute_crc(&self, records: &[u8]) -> u32 {
        let mut crc = Crc32c::new();
        crc.update(&self.to_bytes()[CRC_FROM..]);
        crc.update(records);
        crc.finish()
    }

    /// Whether `batch`, all bytes of the batch this header was read from, has the CRC it says.
    pub(crate) fn check_crc(&self, batch: &[u8]) -> Result<(), BatchError> {
        let is = crate::crc::crc32c(batch.get(CRC_FROM..).unwrap_or_default());
        if is == self.crc { Ok(()) } else { Err(BatchError::Crc { said: self.crc, is }) }
    }
}

/// Sets length and CRC for the records behind the room of `batch` for its header, and writes it there.
pub(crate) fn seal(mut header: BatchHeader, batch: &mut [u8]) -> Result<BatchHeader, BatchError> {
    let too_large = BatchError::TooLarge { size: batch.len(), max: i32::MAX as usize };
    let size = i32::try_from(batch.len()).map_err(|_| too_large)?;
    let (room, records) = batch.split_first_chunk_mut().expect("the caller left room for the header");
    header.batch_length = size - LENGTH_PREFIX_BYTES as i32;
    header.crc = header.compute_crc(records);
    header.write(room);
    Ok(header)
}

fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the header's fields lie within it")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_comes_back(mut bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES), length in LENGTH_MIN..=LENGTH_MAX) {
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[16] = MAGIC as u8;
            let header = BatchHeader::parse(&bytes).expect("format and length are sane");
            prop_assert_eq!(&header.to_bytes()[..], &bytes[..]);
            prop_assert_eq!(header.size_bytes(), length as usize + 12);
            let _ = (header.last_offset(), header.next_offset(), header.last_sequence());
        }
    }

    #[test]
    fn format_and_length_must_be_sane() {
        let mut bytes = [0u8; HEADER_BYTES];
        assert_eq!(BatchHeader::parse(&bytes), Err(BatchError::Magic(0)));
        assert_eq!(BatchHeader::parse(&bytes[..20]), Err(BatchError::Magic(0)));
        bytes[16] = 2;
        assert_eq!(BatchHeader::parse(&bytes[..60]), Err(BatchError::Truncated { need: 61, have: 60 }));
        for length in [0, 48, -1, i32::MIN, i32::MAX, i32::MAX - 11] {
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            assert_eq!(BatchHeader::parse(&bytes), Err(BatchError::Length(length)));
        }
        bytes[8..12].copy_from_slice(&49i32.to_be_bytes());
        assert!(BatchHeader::parse(&bytes).is_ok());
    }

    #[test]
    fn flags_are_set_one_by_one() {
        let all = Attributes::default()
            .with_compression(Compression::Zstd)
            .with_timestamp_type(TimestampType::LogAppendTime)
            .with_transactional(true)
            .with_control(true)
            .with_delete_horizon(true);
        assert_eq!(all, Attributes(0b111_1100));
        assert_eq!(all.with_compression(Compression::Gzip).with_control(false), Attributes(0b101_1001));
        assert_eq!(Attributes(7).compression(), Err(UnknownCompression(7)));
    }
}
