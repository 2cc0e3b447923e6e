//! Timestamp → offset: how far the largest timestamp of a segment had grown, and where.

use base::{Offset, OffsetDelta, TimestampMs};

use crate::index::table::Entry;
use crate::layout::FileKind;

/// One entry of the time index, big-endian.
///
/// ```text
///   0 ................ 8 ........ 12
///   | timestamp i64    | delta u32 |     delta = last offset of the batch − base offset of the segment
/// ```
///
/// No record before that batch has a timestamp as large. The last entry of a segment that was closed
/// has its largest timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeEntry {
    /// The largest timestamp so far.
    pub timestamp: TimestampMs,
    /// The last offset of the first batch that has it, from the base offset of the segment.
    pub delta: OffsetDelta,
}

impl TimeEntry {
    /// Bytes of an entry in the file.
    pub const BYTES: usize = 12;

    /// Reads an entry.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        <Self as Entry>::read(bytes)
    }

    /// The last offset of the first batch that has the timestamp.
    pub fn offset(self, base: Offset) -> Offset {
        Offset(base.0.saturating_add(i64::from(self.delta.0)))
    }
}

impl Entry for TimeEntry {
    const KIND: FileKind = FileKind::TimeIndex;
    const BYTES: usize = Self::BYTES;

    fn read(bytes: &[u8]) -> Self {
        let timestamp = bytes.first_chunk().map_or(0, |b| i64::from_be_bytes(*b));
        let delta = bytes.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_be_bytes(*b));
        Self { timestamp: TimestampMs(timestamp), delta: OffsetDelta(delta) }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.0.to_be_bytes());
        out.extend_from_slice(&self.delta.0.to_be_bytes());
    }

    fn may_follow(self, before: Option<Self>) -> bool {
        // A first entry may have any delta, but a zero timestamp with a zero delta is what a file
        // made long in advance is full of.
        match before {
            Some(before) => self.timestamp > before.timestamp && self.delta >= before.delta,
            None => self.timestamp.0 > 0 || (self.timestamp.0 == 0 && self.delta.0 > 0),
        }
    }
}
