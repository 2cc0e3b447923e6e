//! What is written into a record so that its reader can tell that it is the one that was sent.
//!
//! ```text
//!   0 ..... 4 ....... 8 ........ 16 ......... 18 ....... 24 ........ 32
//!   | magic | crc32c  | run u64  | sender     | number   | due u64   |  the value goes on
//!           |         |          | u16        | u48      | if timed  |     little-endian
//!                     └───────── checked, with the value and the key ─────────────▶
//!
//!   0 ............ 2 ....... 3 ....... 8
//!   | crc32c, of   | sender  | number  |  the value goes on
//!   | which 16 bit | u8      | u40     |
//!                  └── checked, with the run, the value and the key ──▶
//! ```
//!
//! It takes the place of the value's first bytes where those mean nothing. Where they do it is in a header. The second,
//! short one is for values that have no room for the first: only who knows that it is there finds it.

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

/// How records are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In the first bytes of the value.
    Value {
        /// Whether it says when the record was due.
        is_timed: bool,
    },
    /// In a header.
    Header {
        /// Whether it says when the record was due.
        is_timed: bool,
    },
    /// In the first bytes of a value that is too small for more. Senders are those below 256.
    Short,
}

/// Bytes of a mark, in a value or in a header.
pub const MARK_BYTES: usize = 24;
/// Bytes of a mark with a time behind it.
pub const TIMED_MARK_BYTES: usize = MARK_BYTES + 8;
/// Bytes of a short mark.
pub const SHORT_MARK_BYTES: usize = 8;
const MAGIC: [u8; 4] = *b"VlPg";
const HEADER: &[u8] = b"vltava.perf";

impl Mark {
    /// Puts it into the first of its bytes, with a checksum of what stands behind it there already, of the rest of the
    /// record, and of its key. In a value all of that is one piece, which is quicker than two.
    fn put(&self, bytes: &mut [u8], key: Option<&[u8]>, rest: &[u8]) {
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.run.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.sender.to_le_bytes());
        bytes[18..24].copy_from_slice(&self.number.to_le_bytes()[..6]);
        let checksum = checksum(&bytes[8..], key, rest);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    fn get(bytes: &[u8], key: Option<&[u8]>, rest: &[u8]) -> Found {
        let Some(([m0, m1, m2, m3, c0, c1, c2, c3, fields @ ..], _)) =
            bytes.split_first_chunk::<MARK_BYTES>()
        else {
            return Found::Corrupt;
        };
        if [*m0, *m1, *m2, *m3] != MAGIC {
            return Found::Unmarked;
        }
        if u32::from_le_bytes([*c0, *c1, *c2, *c3]) != checksum(&bytes[8..], key, rest) {
            return Found::Corrupt;
        }
        let [r0, r1, r2, r3, r4, r5, r6, r7, p0, p1, n0, n1, n2, n3, n4, n5] = *fields;
        Found::Sent(Self {
            run: u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7]),
            sender: u16::from_le_bytes([p0, p1]),
            number: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, 0, 0]),
        })
    }

    fn put_short(&self, value: &mut [u8], key: Option<&[u8]>) {
        value[2] = self.sender.to_le_bytes()[0];
        value[3..8].copy_from_slice(&self.number.to_le_bytes()[..5]);
        let checksum = short_checksum(self.run, &value[2..], key);
        value[..2].copy_from_slice(&checksum.to_le_bytes());
    }

    /// What a record says of itself.
    #[inline]
    pub fn find(record: &Record<'_>) -> Found {
        let value = record.value.unwrap_or_default();
        if let Some(bytes) = header(record) {
            return Self::get(bytes, record.key, value);
        }
        match value.len() {
            MARK_BYTES.. => Self::get(value, record.key, &[]),
            _ => Found::Unmarked,
        }
    }

    /// What a record of a run says of itself whose records have short marks.
    #[inline]
    pub fn find_short(record: &Record<'_>, run: u64) -> Found {
        let value = record.value.unwrap_or_default();
        let Some([c0, c1, sender, n0, n1, n2, n3, n4]) = value.first_chunk::<SHORT_MARK_BYTES>() else {
            return Found::Unmarked;
        };
        if u16::from_le_bytes([*c0, *c1]) != short_checksum(run, &value[2..], record.key) {
            return Found::Corrupt;
        }
        let number = u64::from_le_bytes([*n0, *n1, *n2, *n3, *n4, 0, 0, 0]);
        Found::Sent(Self { run, sender: u16::from(*sender), number })
    }
}

fn header<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let mut headers = record.headers;
    headers.find(|header| header.key == HEADER).map(|header| header.value.unwrap_or_default())
}

/// When a record was due whose mark is timed; means nothing for others.
#[inline]
pub fn due_ns(record: &Record<'_>) -> Option<u64> {
    let bytes = header(record).unwrap_or_else(|| record.value.unwrap_or_default());
    let bytes = bytes.get(MARK_BYTES..TIMED_MARK_BYTES)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Of bytes that do not lie in one piece, so that none has to be moved.
fn checksum(mark: &[u8], key: Option<&[u8]>, rest: &[u8]) -> u32 {
    let of_rest = if rest.is_empty() { 0 } else { crc32c(rest).rotate_left(7) };
    crc32c(mark) ^ of_rest ^ of_key(key)
}

fn short_checksum(run: u64, value: &[u8], key: Option<&[u8]>) -> u16 {
    let whole = crc32c(&run.to_le_bytes()) ^ crc32c(value).rotate_left(7) ^ of_key(key);
    (whole ^ whole >> 16) as u16
}

fn of_key(key: Option<&[u8]>) -> u32 {
    key.map_or(0, |key| crc32c(key).rotate_left(11).wrapping_add(1))
}

/// What a record is to have, so that it is marked.
#[derive(Debug, Clone, Copy)]
pub struct Marked<'a> {
    /// The value, with the mark unless that is in the header.
    pub value: &'a [u8],
    /// The header that is the mark, if it is in one.
    pub header: Option<Header<'a>>,
}

/// Marks the records of one sender, one after the other.
pub struct Marker {
    next: Mark,
    form: Form,
    value: Vec<u8>,
    header: [u8; TIMED_MARK_BYTES],
}

impl Form {
    /// Whether a mark says when its record was due.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Value { is_timed: true } | Self::Header { is_timed: true })
    }

    /// For values whose first bytes mean nothing, as many as are given.
    pub const fn of(free_bytes: usize) -> Self {
        if free_bytes >= MARK_BYTES {
            Self::Value { is_timed: false }
        } else {
            Self::Header { is_timed: false }
        }
    }
}

impl Marker {
    /// For one sender of a run, all of whose values have room for the form.
    pub fn new(run: u64, sender: u16, form: Form) -> Self {
        let next = Mark { run, sender, number: 0 };
        Self { next, form, value: Vec::new(), header: [0; TIMED_MARK_BYTES] }
    }

    /// Marks the next record, which is due at a time in nanoseconds, by whatever clock its reader has: for nothing if
    /// marks are not timed.
    #[inline]
    pub fn mark<'a>(&'a mut self, key: Option<&[u8]>, value: &'a [u8], due_ns: u64) -> Marked<'a> {
        let mark = self.next;
        self.next.number += 1;
        if let Form::Header { is_timed } = self.form {
            self.header[MARK_BYTES..].copy_from_slice(&due_ns.to_le_bytes());
            let bytes = if is_timed { TIMED_MARK_BYTES } else { MARK_BYTES };
            let bytes = &mut self.header[..bytes];
            mark.put(bytes, key, value);
            return Marked { value, header: Some(Header { key: HEADER, value: Some(bytes) }) };
        }
        self.value.clear();
        self.value.extend_from_slice(value);
        if self.form == Form::Short {
            mark.put_short(&mut self.value, key);
        } else {
            if self.form.is_timed() {
                self.value[MARK_BYTES..TIMED_MARK_BYTES].copy_from_slice(&due_ns.to_le_bytes());
            }
            mark.put(&mut self.value, key, &[]);
        }
        Marked { value: &self.value, header: None }
    }

    /// The record that was marked last is sent nowhere: the next one gets its number.
    pub fn take_back(&mut self) {
        self.next.number = self.next.number.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use records::Headers;

    use super::*;

    fn record<'a>(key: Option<&'a [u8]>, value: &'a [u8]) -> Record<'a> {
        Record { offset_delta: 0, timestamp_delta: 0, key, value: Some(value), headers: Headers::default() }
    }

    #[test]
    fn a_time_may_stand_behind_a_mark() {
        let mut marker = Marker::new(7, 3, Form::Value { is_timed: true });
        let expected = Found::Sent(Mark { run: 7, sender: 3, number: 0 });
        let value = marker.mark(None, &[b'x'; 40], 123_456_789).value;
        let marked = record(None, value);
        assert_eq!((Mark::find(&marked), due_ns(&marked)), (expected, Some(123_456_789)));
        assert_eq!(value[TIMED_MARK_BYTES..], [b'x'; 8], "what is behind it stays");
        marker.take_back();
        let value = marker.mark(None, &[b'x'; 40], 5).value;
        assert_eq!(Mark::find(&record(None, value)), expected, "the number was free");
        assert_eq!(due_ns(&record(None, &[0; TIMED_MARK_BYTES - 1])), None);
    }

    #[test]
    fn a_mark_in_a_header_may_have_a_time_too_and_vouches_for_it() {
        let mut marker = Marker::new(7, 3, Form::Header { is_timed: true });
        let marked = marker.mark(Some(b"key"), b"a line", 123_456_789);
        let bytes = marked.header.and_then(|header| header.value).expect("it is in a header").to_vec();
        assert_eq!((marked.value, bytes.len()), (&b"a line"[..], TIMED_MARK_BYTES));
        let expected = Found::Sent(Mark { run: 7, sender: 3, number: 0 });
        assert_eq!(Mark::get(&bytes, Some(b"key"), b"a line"), expected);
        for at in 4..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 4;
            assert_eq!(Mark::get(&other, Some(b"key"), b"a line"), Found::Corrupt, "{at}");
        }
        assert_eq!(Mark::get(&bytes[..20], Some(b"key"), b"a line"), Found::Corrupt);
    }

    #[test]
    fn a_mark_is_found_and_every_other_byte_is_not_it() {
        let mark = Mark { run: 0x0123_4567_89ab_cdef, sender: 0xfedc, number: (1 << 48) - 1 };
        let (key, rest) = (Some(&b"key"[..]), &b"the rest of the value"[..]);
        let mut bytes = [0; MARK_BYTES];
        mark.put(&mut bytes, key, rest);
        assert_eq!(Mark::get(&bytes, key, rest), Found::Sent(mark));
        for at in 0..MARK_BYTES {
            let mut other = bytes;
            other[at] ^= 4;
            let expected = if at < 4 { Found::Unmarked } else { Found::Corrupt };
            assert_eq!(Mark::get(&other, key, rest), expected, "{at}");
        }
        for (key, rest) in [(None, rest), (Some(&b"kex"[..]), rest), (key, &b"the rest"[..])] {
            assert_eq!(Mark::get(&bytes, key, rest), Found::Corrupt);
        }
    }

    #[test]
    fn a_short_mark_is_found_by_its_run_and_no_byte_may_be_another() {
        let mut marker = Marker::new(u64::MAX / 3, 255, Form::Short);
        marker.next.number = (1 << 40) - 1;
        let value = marker.mark(Some(b"key"), b"0123456789", 0).value.to_vec();
        let find = |value: &[u8], key, run| Mark::find_short(&record(key, value), run);
        let (key, run) = (Some(&b"key"[..]), u64::MAX / 3);
        let expected = Found::Sent(Mark { run, sender: 255, number: (1 << 40) - 1 });
        assert_eq!((find(&value, key, run), &value[8..]), (expected, &b"89"[..]));
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut other = value.clone();
                other[at] ^= 1 << bit;
                assert_eq!(find(&other, key, run), Found::Corrupt, "{at} {bit}");
            }
        }
        assert_eq!(find(&value, None, run), Found::Corrupt);
        assert_eq!(find(&value, key, run + 1), Found::Corrupt);
        assert_eq!(find(&value[..9], key, run), Found::Corrupt);
        assert_eq!(find(&value[..7], key, run), Found::Unmarked);
    }
}
