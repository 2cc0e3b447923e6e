//! Variable-length integers of records: zigzag, seven bits a byte, lowest first.
//!
//! ```text
//!   0 → 00    -1 → 01    1 → 02    63 → 7e    64 → 80 01    i32: ≤ 5 bytes    i64: ≤ 10 bytes
//! ```
//!
//! Reading takes from the front of a slice, and refuses what runs past its end or past its type.

/// Takes a 32-bit integer; `None` if there is none.
#[inline(always)]
pub(crate) fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    match take_short(bytes) {
        Some(raw) => Some(unzigzag(raw) as i32),
        None => i32::try_from(unzigzag(take_long(bytes, I32_BYTES_MAX)?)).ok(),
    }
}

/// Takes a 64-bit integer; `None` if there is none.
#[inline(always)]
pub(crate) fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    match take_short(bytes) {
        Some(raw) => Some(unzigzag(raw)),
        None => take_long(bytes, I64_BYTES_MAX).map(unzigzag),
    }
}

/// Takes one or two bytes; `None`, and nothing taken, if there are more or too few.
///
/// Nearly every delta is below 64 and nearly every length below 8192, so this is the path to be fast on.
#[inline(always)]
fn take_short(bytes: &mut &[u8]) -> Option<u64> {
    match **bytes {
        [first, ref rest @ ..] if first < 0x80 => {
            *bytes = rest;
            Some(u64::from(first))
        }
        [first, second, ref rest @ ..] if second < 0x80 => {
            *bytes = rest;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        _ => None,
    }
}

/// Bytes past these are refused even if they are only zeroes: Java reads no more, so a record with them
/// would be there for some consumers and not for others.
const I32_BYTES_MAX: usize = 5;
const I64_BYTES_MAX: usize = 10;

#[cold]
fn take_long(bytes: &mut &[u8], bytes_max: usize) -> Option<u64> {
    let mut raw = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(bytes_max) {
        // The tenth byte holds the one bit that is left.
        if i == 9 && byte > 1 {
            return None;
        }
        raw |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = bytes.get(i + 1..)?;
            return Some(raw);
        }
    }
    None
}

fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Appends an integer of either width.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, value: i64) {
    let mut gathered = Gathered::default();
    gathered.put(value);
    out.extend_from_slice(gathered.bytes());
}

/// A few integers on their way into a buffer: together they cost one append.
pub(crate) struct Gathered {
    // Room for four integers and a byte.
    bytes: [u8; 4 * I64_BYTES_MAX + 1],
    len: usize,
}

impl Default for Gathered {
    #[inline]
    fn default() -> Self {
        Self { bytes: [0; 4 * I64_BYTES_MAX + 1], len: 0 }
    }
}

impl Gathered {
    #[inline(always)]
    pub(crate) fn put(&mut self, value: i64) {
        let mut raw = zigzag(value);
        while raw >= 0x80 {
            self.put_byte(raw as u8 | 0x80);
            raw >>= 7;
        }
        self.put_byte(raw as u8);
    }

    #[inline(always)]
    pub(crate) fn put_byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// How many bytes [`put`] appends.
#[inline]
pub(crate) fn size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_zigzag() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (64, &[0x80, 0x01]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn what_does_not_fit_or_does_not_end_is_refused() {
        assert_eq!(take_i32(&mut &[][..]), None);
        assert_eq!(take_i32(&mut &[0x80][..]), None);
        assert_eq!(take_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), None);
        assert_eq!(take_i64(&mut &[0xff; 10][..]), None);
        assert_eq!(take_i64(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..]), None);
        assert_eq!(take_i64(&mut &[0x80; 11][..]), None);
    }

    #[test]
    fn what_is_longer_than_its_type_is_refused() {
        assert_eq!(take_i32(&mut &[0x82, 0x80, 0x80, 0x80, 0x00][..]), Some(1));
        assert_eq!(take_i32(&mut &[0x82, 0x80, 0x80, 0x80, 0x80, 0x00][..]), None);
        let mut long = [0x80; 11];
        (long[0], long[9], long[10]) = (0x82, 0x00, 0x00);
        assert_eq!(take_i64(&mut &long[..]), Some(1));
        long[9] = 0x80;
        assert_eq!(take_i64(&mut &long[..]), None);
    }

    proptest! {
        #[test]
        fn it_comes_back(value: i64) {
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(out.len(), size(value));
            let mut rest = &out[..];
            prop_assert_eq!(take_i64(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
            let mut rest = &out[..];
            prop_assert_eq!(take_i32(&mut rest), i32::try_from(value).ok());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _ = take_i32(&mut &bytes[..]);
            let _ = take_i64(&mut &bytes[..]);
        }
    }
}
