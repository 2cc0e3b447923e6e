//! Records as the stories see them, and those that drivers make themselves.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// Bytes that travel as hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// A record to write, or one that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// None is null.
    pub key: Option<Bytes>,
    /// None is null.
    pub value: Option<Bytes>,
    /// In the order they are stored; a name may come twice.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Milliseconds; None leaves it to the client.
    pub timestamp: Option<i64>,
}

/// A record with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Where it is.
    pub offset: i64,
    /// What it is.
    #[serde(flatten)]
    pub record: Record,
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 32;
        let more = if self.0.len() > SHOWN { "…" } else { "" };
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "b\"{}\"{more}", shown.escape_ascii())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unhex(&text).map(Self).ok_or_else(|| de::Error::custom("not hexadecimal"))
    }
}

/// Bytes as hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Bytes from hexadecimal text.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// What `consume_many` answers of records, in their order: see `drivers/PROTOCOL.md`.
#[derive(Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds the next record.
    pub fn add(&mut self, offset: i64, key: Option<&Bytes>, value: Option<&Bytes>) {
        self.0.update(offset.to_be_bytes());
        for part in [key, value] {
            let bytes = part.map_or(-1, |Bytes(part)| part.len() as i32);
            self.0.update(bytes.to_be_bytes());
            self.0.update(part.map_or(&[][..], |Bytes(part)| part));
        }
    }

    /// As the protocol says it.
    pub fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Records that a driver makes itself: see `drivers/PROTOCOL.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Many {
    /// Tells payloads apart.
    pub seed: u64,
    /// How many.
    pub count: u64,
    /// Sizes of values, by turns.
    pub sizes: Vec<usize>,
    /// Of the first record; each next one is a millisecond later.
    pub timestamp: Option<i64>,
    /// The largest batch the client may make; None is its default.
    pub batch_bytes_max: Option<usize>,
}

impl Many {
    /// The digest of a run of them, as `consume_many` answers, if they lie at their own index.
    pub fn digest(&self, offsets: Range<u64>) -> String {
        self.digest_behind(0, offsets)
    }

    /// The same, if the first of them lies at that offset.
    pub fn digest_behind(&self, first: i64, indices: Range<u64>) -> String {
        let mut digest = Digest::default();
        for index in indices {
            let Record { key, value, .. } = self.record(index);
            digest.add(first + index as i64, key.as_ref(), value.as_ref());
        }
        digest.hex()
    }

    /// One of them, by its index.
    pub fn record(&self, index: u64) -> Record {
        let size = self.sizes[index as usize % self.sizes.len()];
        Record {
            key: Some(Bytes::from(&*index.to_string())),
            value: Some(Bytes::from(&*self.payload(index, size))),
            headers: Vec::new(),
            timestamp: self.timestamp.map(|first| first + index as i64),
        }
    }

    fn payload(&self, index: u64, size: usize) -> String {
        let mut text = String::with_capacity(size + 64);
        for block in 0..size.div_ceil(64) {
            text += &hex(&Sha256::digest(format!("{}/{index}/{block}", self.seed))[..16]);
            text += &".".repeat(32);
        }
        text.truncate(size);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(unhex("001fff"), Some(vec![0, 0x1f, 0xff]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("0x"), None);
    }

    #[test]
    fn a_digest_is_the_one_the_drivers_make() {
        let sizes = vec![1, 2, 128, 1000];
        let many = Many { seed: 3, count: 4, sizes, timestamp: None, batch_bytes_max: None };
        let blocks = many.payload(2, 128);
        assert_eq!(blocks[..32], hex(&Sha256::digest("3/2/0"))[..32]);
        assert_eq!(blocks[32..64], ".".repeat(32));
        assert_eq!(blocks[64..96], hex(&Sha256::digest("3/2/1"))[..32]);
        assert_ne!(many.digest(0..4), many.digest(1..4));
    }
}
