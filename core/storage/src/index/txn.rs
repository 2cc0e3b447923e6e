//! Aborted transactions of a segment: what a reader at `read_committed` must leave out.

use base::{Offset, ProducerId};

/// One entry of the transaction index, big-endian.
///
/// ```text
///   0 ..... 2 ............. 10 ............. 18 ............ 26 ................. 34
///   | 0 i16 | producer i64  | first offset   | last offset   | last stable offset |
/// ```
///
/// Ordered by last offset: an entry is written with the abort marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTxn {
    /// Whose transaction it was.
    pub producer_id: ProducerId,
    /// The first offset it wrote.
    pub first_offset: Offset,
    /// The offset of its abort marker.
    pub last_offset: Offset,
    /// The last stable offset after the marker.
    pub last_stable_offset: Offset,
}

impl AbortedTxn {
    /// Bytes of an entry in the file.
    pub const BYTES: usize = 34;
    const VERSION: i16 = 0;

    /// Reads an entry; `None` if it is not one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let number =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|b| i64::from_be_bytes(*b));
        let version = bytes.first_chunk().map(|b| i16::from_be_bytes(*b))?;
        let entry = Self {
            producer_id: ProducerId(number(2)?),
            first_offset: Offset(number(10)?),
            last_offset: Offset(number(18)?),
            last_stable_offset: Offset(number(26)?),
        };
        let sane = version == Self::VERSION
            && entry.first_offset >= Offset::ZERO
            && entry.first_offset < entry.last_offset;
        sane.then_some(entry)
    }

    /// The entry as bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&Self::VERSION.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.producer_id.0.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.first_offset.0.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.last_offset.0.to_be_bytes());
        bytes[26..34].copy_from_slice(&self.last_stable_offset.0.to_be_bytes());
        bytes
    }
}
