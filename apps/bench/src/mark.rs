//! What is written into a record so that its reader can tell that it is the one that was sent.
//!
//! ```text
//!   0 ..... 4 ....... 8 ........ 16 ......... 18 ....... 24
//!   | magic | crc32c  | run u64  | sender     | number   |  the value goes on
//!           |         |          | u16        | u48      |        little-endian
//!                     └───────── checked, with the value and the key ─────────▶
//! ```
//!
//! It takes the place of the value's first bytes where those mean nothing. Where they do, or where there
//! are too few, it is in a header. Behind it, where there is room, may stand when the record was due.

use client::{Header, Record};
use records::crc32c;

/// A record's place in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Which run wrote it, so that it is told from what was in the topic before.
    pub run: u64,
    /// Who of the run wrote it.
    pub sender: u16,
    /// The how-manieth of its sender, from 0, below 2⁴⁸.
    pub number: u64,
}

/// What the bytes of a record say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It has no mark.
    Unmarked,
    /// It has one, and is not what was sent.
    Corrupt,
    /// It is what was sent.
    Sent(Mark),
}

/// Bytes of a mark, in a value or in a header.
pub const MARK_BYTES: usize = 24;
/// Bytes of a mark with a time behind it.
pub const TIMED_MARK_BYTES: usize = MARK_BYTES + 8;
const MAGIC: [u8; 4] = *b"VlPf";
const HEADER: &[u8] = b"vltava.perf";

impl Mark {
    fn encode(&self, key: Option<&[u8]>, rest: &[u8]) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.run.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.sender.to_le_bytes());
        bytes[18..24].copy_from_slice(&self.number.to_le_bytes()[..6]);
        let checksum = checksum(&bytes[8..], key, rest);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; MARK_BYTES], key: Option<&[u8]>, rest: &[u8]) -> Found {
        let [m0, m1, m2, m3, c0, c1, c2, c3, behind @ ..] = bytes;
        if [*m0, *m1, *m2, *m3] != MAGIC {
            return Found::Unmarked;
        }
        if u32::from_le_bytes([*c0, *c1, *c2, *c3]) != checksum(behind, key, rest) {
            return Found::Corrupt;
        }
        let [r0, r1, r2, r3, r4, r5, r6, r7, p0, p1, n0, n1, n2, n3, n4, n5] = *behind;
        Found::Sent(Self {
            run: u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7]),
            sender: u16::from_le_bytes([p0, p1]),
            number: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, 0, 0]),
        })
    }

    /// What a record says of itself.
    #[inline]
    pub fn find(record: &Record<'_>) -> Found {
        let value = record.value.unwrap_or_default();
        let mut headers = record.headers;
        if let Some(header) = headers.find(|header| header.key == HEADER) {
            let bytes = header.value.and_then(|bytes| bytes.try_into().ok());
            return bytes.map_or(Found::Corrupt, |bytes| Self::decode(bytes, record.key, value));
        }
        match value.split_first_chunk() {
            Some((bytes, rest)) => Self::decode(bytes, record.key, rest),
            None => Found::Unmarked,
        }
    }
}

/// When a record was due that [`Marker::mark_timed`] marked; means nothing for others.
#[inline]
pub fn due_ns(value: &[u8]) -> Option<u64> {
    let bytes = value.get(MARK_BYTES..TIMED_MARK_BYTES)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Of bytes that do not lie in one piece, so that none has to be moved.
fn checksum(mark: &[u8], key: Option<&[u8]>, rest: &[u8]) -> u32 {
    let of_key = key.map_or(0, |key| crc32c(key).rotate_left(11).wrapping_add(1));
    crc32c(mark) ^ crc32c(rest).rotate_left(7) ^ of_key
}

/// Marks the records of one sender, one after the other.
pub struct Marker {
    next: Mark,
    is_in_value: bool,
    value: Vec<u8>,
    mark: [u8; MARK_BYTES],
}

impl Marker {
    /// For values whose first bytes mean nothing, as many as are given.
    pub fn new(run: u64, sender: u16, free_bytes: usize) -> Self {
        let next = Mark { run, sender, number: 0 };
        Self { next, is_in_value: free_bytes >= MARK_BYTES, value: Vec::new(), mark: [0; MARK_BYTES] }
    }

    /// Marks the next record.
    #[inline]
    pub fn mark(&mut self, key: Option<&[u8]>, value: &[u8]) {
        self.value.clear();
        self.value.extend_from_slice(value);
        self.seal(key);
    }

    /// Marks the next record, and writes down when it was due: in nanoseconds, by whatever clock its reader
    /// has. A value has [`TIMED_MARK_BYTES`] that mean nothing.
    #[inline]
    pub fn mark_timed(&mut self, key: Option<&[u8]>, value: &[u8], due_ns: u64) {
        self.value.clear();
        self.value.extend_from_slice(value);
        self.value[MARK_BYTES..TIMED_MARK_BYTES].copy_from_slice(&due_ns.to_le_bytes());
        self.seal(key);
    }

    #[inline]
    fn seal(&mut self, key: Option<&[u8]>) {
        let rest = if self.is_in_value { &self.value[MARK_BYTES..] } else { &self.value };
        self.mark = self.next.encode(key, rest);
        if self.is_in_value {
            self.value[..MARK_BYTES].copy_from_slice(&self.mark);
        }
        self.next.number += 1;
    }

    /// The record that was marked last is sent nowhere: the next one gets its number.
    pub fn take_back(&mut self) {
        self.next.number = self.next.number.saturating_sub(1);
    }

    /// The value of the record that was marked last.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Its header, if the mark is in one.
    pub fn header(&self) -> Option<Header<'_>> {
        (!self.is_in_value).then_some(Header { key: HEADER, value: Some(&self.mark) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_stand_behind_a_mark() {
        let mut marker = Marker::new(7, 3, 40);
        marker.mark_timed(None, &[b'x'; 40], 123_456_789);
        let (bytes, rest) = marker.value().split_first_chunk().expect("it is long enough");
        assert_eq!(Mark::decode(bytes, None, rest), Found::Sent(Mark { run: 7, sender: 3, number: 0 }));
        assert_eq!(due_ns(marker.value()), Some(123_456_789));
        assert_eq!(rest[8..], [b'x'; 8], "what is behind it stays");
        marker.take_back();
        marker.mark(None, &[b'x'; 40]);
        let (bytes, rest) = marker.value().split_first_chunk().expect("it is long enough");
        let again = Mark { run: 7, sender: 3, number: 0 };
        assert_eq!(Mark::decode(bytes, None, rest), Found::Sent(again), "the number was free");
        marker.mark_timed(None, &[b'x'; 40], 123_456_789);
        assert_eq!(due_ns(&[0; TIMED_MARK_BYTES - 1]), None);
    }

    #[test]
    fn a_mark_is_found_and_every_other_byte_is_not_it() {
        let mark = Mark { run: 0x0123_4567_89ab_cdef, sender: 0xfedc, number: (1 << 48) - 1 };
        let (key, rest) = (Some(&b"key"[..]), &b"the rest of the value"[..]);
        let bytes = mark.encode(key, rest);
        assert_eq!(Mark::decode(&bytes, key, rest), Found::Sent(mark));
        for at in 0..MARK_BYTES {
            let mut other = bytes;
            other[at] ^= 4;
            let expected = if at < 4 { Found::Unmarked } else { Found::Corrupt };
            assert_eq!(Mark::decode(&other, key, rest), expected, "{at}");
        }
        for (key, rest) in [(None, rest), (Some(&b"kex"[..]), rest), (key, &b"the rest"[..])] {
            assert_eq!(Mark::decode(&bytes, key, rest), Found::Corrupt);
        }
    }
}
