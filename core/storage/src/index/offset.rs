//! Offset → position in the segment's file. Sparse: an entry about every `index.interval.bytes`.

use base::{Offset, OffsetDelta};

use crate::index::table::Entry;
use crate::layout::FileKind;

/// One entry of the offset index, big-endian.
///
/// ```text
///   0 ........ 4 ........ 8
///   | delta u32 | pos u32 |     delta = last offset of the batch − base offset of the segment
/// ```
///
/// `pos` is where that batch begins. The first batch of a segment has no entry, so that a zero is
/// never one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetEntry {
    /// The last offset of the batch, from the base offset of the segment.
    pub delta: OffsetDelta,
    /// Where the batch begins.
    pub position: u32,
}

impl OffsetEntry {
    /// Bytes of an entry in the file.
    pub const BYTES: usize = 8;

    /// Reads an entry.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        <Self as Entry>::read(bytes)
    }

    /// The last offset of the batch that begins at the position.
    pub fn offset(self, base: Offset) -> Offset {
        Offset(base.0.saturating_add(i64::from(self.delta.0)))
    }
}

impl Entry for OffsetEntry {
    const KIND: FileKind = FileKind::OffsetIndex;
    const BYTES: usize = Self::BYTES;

    fn read(bytes: &[u8]) -> Self {
        let field =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_be_bytes(*b));
        Self { delta: OffsetDelta(field(0)), position: field(4) }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.delta.0.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn may_follow(self, before: Option<Self>) -> bool {
        let (delta, position) = before.map_or((None, 0), |e| (Some(e.delta), e.position));
        self.position > position && delta.is_none_or(|delta| self.delta > delta)
    }
}
