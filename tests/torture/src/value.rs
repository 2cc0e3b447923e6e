//! The bytes of a record: all of them follow from who wrote it as its how-manieth.
//!
//! ```text
//!   3:100:xxxxxxxxx       writer : number : filler, as long as the number says
//! ```
//!
//! In letters, because foreign clients write them too: `drivers/librdkafka.py`.

use std::str;

/// The longest filler of most.
const FILLER_BYTES: u64 = 400;
/// Every so many is long.
const LONG_EVERY: u64 = 997;
const LONG_BYTES: u64 = 20_000;

/// What a writer writes under a number.
pub(crate) fn bytes(by: u32, number: u64) -> Vec<u8> {
    let filler =
        if number % LONG_EVERY == LONG_EVERY - 1 { LONG_BYTES } else { number * 7919 % FILLER_BYTES };
    let mut bytes = format!("{by}:{number}:").into_bytes();
    bytes.resize(bytes.len() + filler as usize, b'x');
    bytes
}

/// Who wrote a value, and its number; `None` if nobody writes such bytes.
pub(crate) fn origin(value: &[u8]) -> Option<(u32, u64)> {
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let by = str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let number = str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    (value == bytes(by, number)).then_some((by, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_who_wrote_it_and_no_other_bytes_do() {
        for number in [0, 1, 99, 996, 1_000_000_007] {
            assert_eq!(origin(&bytes(3, number)), Some((3, number)));
        }
        assert_eq!(bytes(3, 996).len(), "3:996:".len() + LONG_BYTES as usize);
        let mut bad = bytes(3, 7);
        assert_eq!(origin(&bad[..bad.len() - 1]), None);
        let last = bad.len() - 1;
        bad[last] ^= 1;
        assert_eq!(origin(&bad), None);
        assert_eq!(origin(b"03:7:"), None);
        assert_eq!(origin(b""), None);
    }
}
