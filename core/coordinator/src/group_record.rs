//! A record of a shard's partition, as bytes and as what it says.
//!
//! ```text
//!   key      0 .... 2                              what it is about
//!            | i16   | fields |
//!   value    0 .... 2                              what is true of it; null: nothing any more
//!            | i16   | fields |
//! ```
//!
//! The number before a key says what kind of record it is, the one before a value in which version it is written;
//! we write the versions that Kafka 4.4 writes. Kinds that nobody here knows, such as those of share and streams
//! groups, are left alone: a log that Kafka wrote may have them.
//!
//! **Invariant:** what is written here is read here; no bytes make it panic.

mod shown;

use wire::{DecodeError, Decoder, Encoder, Message};

use crate::consumer::ConsumerGroupRecord;
use crate::record::{GroupMetadataKey, GroupMetadataValue, OffsetCommitValue};

pub use shown::ShownRecord;

/// The kind of a commit whose key is from before Kafka 0.9; the fields are those of [`OFFSET_COMMIT`].
const LEGACY_OFFSET_COMMIT: i16 = 0;
/// The kind of a committed offset.
const OFFSET_COMMIT: i16 = 1;
/// The kind of a classic group.
const GROUP_METADATA: i16 = GroupMetadataKey::API_KEY;

/// The version in which a committed offset is written: it has the topic's id.
const OFFSET_COMMIT_VERSION: i16 = 4;
/// The version of one that a client gave a time to expire at: the only one that has it.
const OFFSET_COMMIT_VERSION_EXPIRING: i16 = 1;
/// The version in which a classic group is written.
const GROUP_METADATA_VERSION: i16 = 3;

/// A record, as its log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is about.
    pub key: Vec<u8>,
    /// What is true of it; `None` takes back all that was said (a tombstone).
    pub value: Option<Vec<u8>>,
}

impl Record {
    /// What it takes in a batch, about.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// What a record says.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupRecord<'a> {
    /// How far a group came in a partition.
    OffsetCommit {
        /// The group.
        group: &'a str,
        /// The partition's topic.
        topic: &'a str,
        /// Which of its partitions.
        partition: i32,
        /// How far; `None` forgets it.
        value: Option<OffsetCommitValue>,
    },
    /// A classic group after a rebalance.
    GroupMetadata {
        /// The group.
        group: &'a str,
        /// Its generation, its members and what each has; `None` forgets it.
        value: Option<GroupMetadataValue>,
    },
    /// A change of a group of the new protocol (KIP-848).
    ConsumerGroup {
        /// The group.
        group: &'a str,
        /// What is other than before.
        change: ConsumerGroupRecord,
    },
}

/// Why bytes are not a record of this partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Its key is not what it says to be.
    #[error("the key of a record: {0}")]
    Key(DecodeError),
    /// Its value is not what it says to be.
    #[error("the value of a record of kind {kind}: {error}")]
    Value {
        /// The kind that the key says.
        kind: i16,
        /// What is wrong.
        error: DecodeError,
    },
}

impl<'a> GroupRecord<'a> {
    /// Reads a record. `None` for a kind that is not kept here.
    pub fn decode(key: &'a [u8], value: Option<&[u8]>) -> Result<Option<Self>, RecordError> {
        let mut d = Decoder::new(key);
        let kind = d.i16().map_err(RecordError::Key)?;
        match kind {
            LEGACY_OFFSET_COMMIT | OFFSET_COMMIT => {
                let (group, topic, partition) = offset_key(&mut d).map_err(RecordError::Key)?;
                let value = versioned::<OffsetCommitValue>(kind, value)?;
                Ok(Some(Self::OffsetCommit { group, topic, partition, value }))
            }
            GROUP_METADATA => {
                let group = d.str(false).map_err(RecordError::Key)?;
                d.finish().map_err(RecordError::Key)?;
                let value = versioned::<GroupMetadataValue>(kind, value)?;
                Ok(Some(Self::GroupMetadata { group, value }))
            }
            _ => {
                let change = ConsumerGroupRecord::decode(key, value);
                let change = change.map_err(|error| RecordError::Value { kind, error })?;
                let Some((_, change)) = change else { return Ok(None) };
                let group = d.str(false).map_err(RecordError::Key)?;
                Ok(Some(Self::ConsumerGroup { group, change }))
            }
        }
    }

    /// The group that it is about.
    pub fn group(&self) -> &'a str {
        match self {
            Self::OffsetCommit { group, .. }
            | Self::GroupMetadata { group, .. }
            | Self::ConsumerGroup { group, .. } => group,
        }
    }

    /// Writes it as Kafka 4.4 does.
    pub fn encode(&self) -> Record {
        let mut key = Encoder::new();
        match self {
            Self::OffsetCommit { group, topic, partition, value } => {
                key.i16(OFFSET_COMMIT);
                put_str(&mut key, group);
                put_str(&mut key, topic);
                key.i32(*partition);
                let version = |value: &OffsetCommitValue| match value.expire_timestamp {
                    -1 => OFFSET_COMMIT_VERSION,
                    _ => OFFSET_COMMIT_VERSION_EXPIRING,
                };
                let value = value.as_ref().map(|value| with_version(version(value), value));
                Record { key: key.into_bytes(), value }
            }
            Self::GroupMetadata { group, value } => {
                key.i16(GROUP_METADATA);
                put_str(&mut key, group);
                let value = value.as_ref().map(|value| with_version(GROUP_METADATA_VERSION, value));
                Record { key: key.into_bytes(), value }
            }
            Self::ConsumerGroup { group, change } => {
                let encoded = change.encode(group);
                let (key, value) =
                    encoded.expect("names came in by the wire, and there are not as many as an i32 counts");
                Record { key, value }
            }
        }
    }
}

fn offset_key<'a>(d: &mut Decoder<'a>) -> Result<(&'a str, &'a str, i32), DecodeError> {
    let fields = (d.str(false)?, d.str(false)?, d.i32()?);
    d.finish()?;
    Ok(fields)
}

fn versioned<'a, T: Message<'a>>(kind: i16, value: Option<&'a [u8]>) -> Result<Option<T>, RecordError> {
    let Some(bytes) = value else { return Ok(None) };
    let mut d = Decoder::new(bytes);
    let read = |d: &mut Decoder<'a>| {
        let version = d.i16()?;
        T::decode(d, version)
    };
    read(&mut d).map(Some).map_err(|error| RecordError::Value { kind, error })
}

fn put_str(e: &mut Encoder, text: &str) {
    e.str(text, false).expect("a name came in by the wire, whose strings have the same bound");
}

fn with_version<'a>(version: i16, value: &impl Message<'a>) -> Vec<u8> {
    let mut e = Encoder::new();
    e.i16(version);
    value.encode(&mut e, version).expect("what is in it came in by the wire, which has the same bounds");
    e.into_bytes()
}

#[cfg(test)]
mod tests;
