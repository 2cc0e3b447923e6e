//! Names and numbers of things.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($of:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $of);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A node of the cluster; its `node.id`.
    BrokerId(i32)
);
number!(
    /// One life of a broker, from registration to the next.
    BrokerEpoch(i64)
);
number!(
    /// A partition of a topic, from 0.
    PartitionIndex(i32)
);
number!(
    /// An idempotent or transactional producer; -1 is "none".
    ProducerId(i64)
);
number!(
    /// One life of a producer id; -1 is "none".
    ProducerEpoch(i16)
);
number!(
    /// The place of a batch's first record among those its producer sent to the partition.
    Sequence(i32)
);

impl BrokerId {
    /// The protocol's "no broker".
    pub const NONE: Self = Self(-1);
}

impl BrokerEpoch {
    /// The protocol's "not said".
    pub const NONE: Self = Self(-1);
}

impl ProducerId {
    /// The protocol's "not idempotent".
    pub const NONE: Self = Self(-1);
}

impl ProducerEpoch {
    /// The protocol's "no epoch".
    pub const NONE: Self = Self(-1);
}

impl Sequence {
    /// The protocol's "no sequence".
    pub const NONE: Self = Self(-1);

    /// The sequence `by` records later. Sequences wrap from `i32::MAX` to 0.
    #[must_use]
    pub const fn wrapping_add(self, by: u32) -> Self {
        let sum = (self.0 as i64 + by as i64) % (i32::MAX as i64 + 1);
        Self(sum as i32)
    }
}

/// Sixteen bytes that name something for ever; printed as Kafka prints them, URL-safe base64
/// without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Uuid(pub [u8; 16]);

/// A text that is not a [`Uuid`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id: expected 22 characters of URL-safe base64")]
pub struct UuidError(String);

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// All bits zero: the protocol's "none".
    pub const ZERO: Self = Self([0; 16]);

    /// Whether it is the protocol's "none".
    pub const fn is_zero(self) -> bool {
        u128::from_be_bytes(self.0) == 0
    }

    /// A version 4 id from 128 random bits of the caller's.
    ///
    /// Kafka refuses ids whose text starts with a dash, which a command line would take for a flag:
    /// the first six bits are mended.
    pub const fn from_random(bits: u128) -> Self {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        if bytes[0] >> 2 == 62 {
            bytes[0] &= 0x7f;
        }
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 128 bits are 21 groups of six and two bits more.
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0u8; 22];
        for (i, c) in text.iter_mut().enumerate() {
            let group = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
            *c = BASE64[(group & 63) as usize];
        }
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let wrong = || UuidError(text.chars().take(64).collect());
        if text.len() != 22 {
            return Err(wrong());
        }
        let mut bits = 0u128;
        for (i, c) in text.bytes().enumerate() {
            let group = BASE64.iter().position(|&known| known == c).ok_or_else(wrong)? as u128;
            bits = if i < 21 { bits << 6 | group } else { bits << 2 | group >> 4 };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

impl From<Uuid> for String {
    fn from(id: Uuid) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for Uuid {
    type Error = UuidError;

    fn try_from(text: String) -> Result<Self, UuidError> {
        text.parse()
    }
}

/// The id of a topic: a topic made again under the same name has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub Uuid);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a topic, known to be legal: 1 to 249 of `[a-zA-Z0-9._-]`, and neither `.` nor `..`,
/// so that it is safe as a part of a path. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TopicName(Arc<str>);

/// Why a text cannot name a topic; the words are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TopicNameError {
    /// It has no characters.
    #[error("Topic name is invalid: the empty string is not allowed")]
    Empty,
    /// It is `.` or `..`.
    #[error("Topic name is invalid: '.' or '..' is not allowed")]
    Dots,
    /// It has more than 249 characters.
    #[error("Topic name is invalid: the length of '{0}…' is longer than the max allowed length 249")]
    TooLong(String),
    /// It has a character that is not allowed.
    #[error(
        "Topic name is invalid: '{0}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    )]
    BadCharacter(String),
}

impl TopicName {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 249;

    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, TopicNameError> {
        if name.is_empty() {
            return Err(TopicNameError::Empty);
        }
        if name == "." || name == ".." {
            return Err(TopicNameError::Dots);
        }
        if name.len() > Self::BYTES_MAX {
            return Err(TopicNameError::TooLong(name.chars().take(32).collect()));
        }
        if !name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-')) {
            return Err(TopicNameError::BadCharacter(name.escape_debug().to_string()));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<TopicName> for String {
    fn from(name: TopicName) -> Self {
        name.as_str().to_owned()
    }
}

impl TryFrom<String> for TopicName {
    type Error = TopicNameError;

    fn try_from(text: String) -> Result<Self, TopicNameError> {
        Self::new(&text)
    }
}

impl std::borrow::Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A partition by its topic's name; printed as its directory is called, `events-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// Which of its partitions.
    pub partition: PartitionIndex,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_and_parses_as_kafka_does() {
        // The bytes and the text of org.apache.kafka.common.Uuid.METADATA_TOPIC_ID.
        let mut bytes = [0; 16];
        bytes[15] = 1;
        assert_eq!(Uuid(bytes).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        let id = Uuid::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(!Uuid::from_random(u128::MAX).to_string().starts_with("-"));
        assert!("short".parse::<Uuid>().is_err());
    }

    #[test]
    fn a_topic_name_is_safe_in_a_path() {
        assert!(TopicName::new("a.b_c-9").is_ok());
        for bad in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(250)] {
            assert!(TopicName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sequences_wrap_to_zero() {
        assert_eq!(Sequence(i32::MAX).wrapping_add(1), Sequence(0));
        assert_eq!(Sequence(5).wrapping_add(3), Sequence(8));
    }
}
