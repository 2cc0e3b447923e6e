//! A snapshot of a log's producers, in Kafka's format, big-endian.
//!
//! ```text
//!   | version i16 = 1 | crc u32 | count i32 | entries …             crc: CRC-32C from `count` on
//!   entry, 46 bytes:
//!   | producer i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32
//!   | timestamp i64 | coordinator epoch i32 | transaction start i64, −1: none |
//! ```
//!
//! Kafka writes the last batch of a producer. Here each batch that is remembered has an entry, oldest
//! first: a client that lost its connection sends up to five again, and if a segment was rolled between
//! them, only the snapshot tells that they are there. Kafka reads the entries one by one and keeps the
//! last of a producer, so it finds what it would have written.

use std::time::Duration;

use base::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use records::crc32c;

use crate::producer::state::{Producer, Producers, Seen};

const VERSION: i16 = 1;
const CRC_FROM: usize = 6;
const ENTRIES_FROM: usize = 10;
const ENTRY_BYTES: usize = 46;

/// Why bytes are not a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Too short, or a length that does not fit the count.
    #[error("the snapshot has {0} bytes, which does not fit what it says it holds")]
    Length(usize),
    /// A version that is not known.
    #[error("the snapshot has version {0}; only version 1 is supported")]
    Version(i16),
    /// The bytes are not those that were written.
    #[error("the snapshot says its checksum is {said:#010x}, but it is {is:#010x}")]
    Crc {
        /// The one in the file.
        said: u32,
        /// The one of the bytes.
        is: u32,
    },
}

/// One batch of a producer in a snapshot, field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// Which producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The last sequence of the batch; -1 if there is none.
    pub last_sequence: Sequence,
    /// The last offset of the batch; -1 if there is none.
    pub last_offset: Offset,
    /// Records of the batch, less one.
    pub offset_delta: i32,
    /// The largest timestamp of the batch.
    pub timestamp: TimestampMs,
    /// The epoch of the coordinator of its last marker.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins; -1 if none is.
    pub transaction_start: Offset,
}

impl SnapshotEntry {
    fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        Self {
            producer_id: ProducerId(i64::from_be_bytes(field(bytes, 0))),
            epoch: ProducerEpoch(i16::from_be_bytes(field(bytes, 8))),
            last_sequence: Sequence(i32::from_be_bytes(field(bytes, 10))),
            last_offset: Offset(i64::from_be_bytes(field(bytes, 14))),
            offset_delta: i32::from_be_bytes(field(bytes, 22)),
            timestamp: TimestampMs(i64::from_be_bytes(field(bytes, 26))),
            coordinator_epoch: i32::from_be_bytes(field(bytes, 34)),
            transaction_start: Offset(i64::from_be_bytes(field(bytes, 38))),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.producer_id.0.to_be_bytes());
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.last_sequence.0.to_be_bytes());
        out.extend_from_slice(&self.last_offset.0.to_be_bytes());
        out.extend_from_slice(&self.offset_delta.to_be_bytes());
        out.extend_from_slice(&self.timestamp.0.to_be_bytes());
        out.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        out.extend_from_slice(&self.transaction_start.0.to_be_bytes());
    }

    /// The entries of one producer.
    fn of(id: ProducerId, producer: &Producer) -> impl Iterator<Item = Self> {
        let newest = Self {
            producer_id: id,
            epoch: producer.epoch,
            last_sequence: Sequence::NONE,
            last_offset: Offset::NONE,
            offset_delta: 0,
            timestamp: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_start: producer.transaction_start.unwrap_or(Offset::NONE),
        };
        let last = producer.last_seen();
        let empty = last.is_none().then_some(newest);
        let batches = producer.seen().map(move |seen| Self {
            last_sequence: seen.last_sequence,
            last_offset: seen.last_offset,
            offset_delta: seen.delta,
            // A marker may be newer than the last batch.
            timestamp: if Some(seen) == last { newest.timestamp } else { seen.timestamp },
            ..newest
        });
        empty.into_iter().chain(batches)
    }

    /// The producer of these entries.
    fn producer(entries: &[Self], now: Duration) -> Option<(ProducerId, Producer)> {
        let newest = entries.last()?;
        let mut producer = Producer::new(newest.epoch, now);
        producer.coordinator_epoch = newest.coordinator_epoch;
        producer.last_timestamp = newest.timestamp;
        producer.transaction_start = Some(newest.transaction_start).filter(|&at| at >= Offset::ZERO);
        let with_batch = |entry: &&Self| entry.epoch == newest.epoch && entry.last_offset >= Offset::ZERO;
        for entry in entries.iter().filter(with_batch) {
            producer.push(Seen {
                last_sequence: entry.last_sequence,
                last_offset: entry.last_offset,
                delta: entry.offset_delta,
                timestamp: entry.timestamp,
            });
        }
        Some((newest.producer_id, producer))
    }
}

/// Reads a snapshot entry by entry.
pub fn parse_snapshot(bytes: &[u8]) -> Result<Vec<SnapshotEntry>, SnapshotError> {
    let Some(front) = bytes.first_chunk::<ENTRIES_FROM>() else {
        return Err(SnapshotError::Length(bytes.len()));
    };
    let version = i16::from_be_bytes(field(front, 0));
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    let (said, is) = (u32::from_be_bytes(field(front, 2)), crc32c(&bytes[CRC_FROM..]));
    if said != is {
        return Err(SnapshotError::Crc { said, is });
    }
    let (entries, rest) = bytes[ENTRIES_FROM..].as_chunks::<ENTRY_BYTES>();
    let count = i32::from_be_bytes(field(front, CRC_FROM));
    if !rest.is_empty() || usize::try_from(count).ok() != Some(entries.len()) {
        return Err(SnapshotError::Length(bytes.len()));
    }
    Ok(entries.iter().map(SnapshotEntry::read).collect())
}

/// The snapshot of these producers.
pub(crate) fn format_snapshot(producers: &Producers) -> Vec<u8> {
    let mut bytes = VERSION.to_be_bytes().to_vec();
    bytes.resize(ENTRIES_FROM, 0);
    let mut count: i32 = 0;
    for (id, producer) in producers.iter() {
        for entry in SnapshotEntry::of(id, producer) {
            entry.write(&mut bytes);
            count = count.saturating_add(1);
        }
    }
    bytes[CRC_FROM..ENTRIES_FROM].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c(&bytes[CRC_FROM..]);
    bytes[2..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// The producers of a snapshot, as if each had written at this time, by `Now::elapsed`.
pub(crate) fn restore_snapshot(bytes: &[u8], now: Duration) -> Result<Producers, SnapshotError> {
    let mut producers = Producers::default();
    let entries = parse_snapshot(bytes)?;
    for of_one in entries.chunk_by(|one, next| one.producer_id == next.producer_id) {
        if let Some((id, producer)) = SnapshotEntry::producer(of_one, now) {
            producers.restore(id, producer);
        }
    }
    Ok(producers)
}

fn field<const N: usize, const M: usize>(bytes: &[u8; M], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the fields lie within the entry")
}
