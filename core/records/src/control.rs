//! Control batches: the markers that brokers write between records.
//!
//! ```text
//!   key    | version i16 = 0 | type i16 |
//!   value  | version i16 = 0 | coordinator epoch i32 |                      end of a transaction
//!   value  | version i16 = 0 | leader i32 | voters | granting voters | 0 |  change of leader
//!          where voters are | count + 1 uvarint | for each: | id i32 | 0 |
//! ```
//!
//! One marker makes one batch. It takes an offset like any record, and consumers are not shown it.

use base::{BrokerId, LeaderEpoch, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::builder::{BatchBuilder, BatchOptions, Producer};
use crate::compress::Scratch;
use crate::error::BatchError;
use crate::header::BatchHeader;
use crate::record::Record;

const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 0;

/// What a marker is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// The producer's transaction is void.
    Abort,
    /// The producer's transaction stands.
    Commit,
    /// A quorum has a new leader.
    LeaderChange,
    /// A metadata snapshot begins.
    SnapshotHeader,
    /// A metadata snapshot ends.
    SnapshotFooter,
    /// Which protocol a quorum speaks.
    KRaftVersion,
    /// Who votes in a quorum.
    KRaftVoters,
    /// What only a later broker knows; readers skip it.
    Unknown(i16),
}

impl ControlType {
    const KNOWN: [Self; 7] = [
        Self::Abort,
        Self::Commit,
        Self::LeaderChange,
        Self::SnapshotHeader,
        Self::SnapshotFooter,
        Self::KRaftVersion,
        Self::KRaftVoters,
    ];

    /// The type with this number.
    pub fn from_id(id: i16) -> Self {
        let known = usize::try_from(id).ok().and_then(|id| Self::KNOWN.get(id));
        known.copied().unwrap_or(Self::Unknown(id))
    }

    /// Its number.
    pub const fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        }
    }

    /// The key of a record of this type.
    pub fn key(self) -> [u8; 4] {
        let [v0, v1] = KEY_VERSION.to_be_bytes();
        let [t0, t1] = self.id().to_be_bytes();
        [v0, v1, t0, t1]
    }

    /// The type that a key says.
    pub fn from_key(key: &[u8]) -> Result<Self, ControlError> {
        let mut key = key;
        let version = take_i16(&mut key).ok_or(ControlError::Key)?;
        if version < 0 {
            return Err(ControlError::Version(version));
        }
        take_i16(&mut key).map(Self::from_id).ok_or(ControlError::Key)
    }
}

/// The end of a producer's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndMarker {
    /// Whether the transaction stands.
    pub commit: bool,
    /// Which life of the transaction coordinator wrote it.
    pub coordinator_epoch: i32,
}

/// The start of a leader's epoch in a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// The leader.
    pub leader: BrokerId,
    /// Who could vote.
    pub voters: Vec<BrokerId>,
    /// Who voted for it.
    pub granting: Vec<BrokerId>,
}

/// A marker, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// The end of a transaction.
    End(EndMarker),
    /// A new leader of a quorum.
    LeaderChange(LeaderChange),
    /// Another one.
    Other(ControlType),
}

/// Why a record is no marker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Its batch cannot be read.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Its key is missing or too short.
    #[error("the key of a control record must have four bytes")]
    Key,
    /// Its value is missing, or its fields do not fit in it.
    #[error("the value of a {0:?} record is malformed")]
    Value(ControlType),
    /// A version there has never been.
    #[error("a control record has version {0}")]
    Version(i16),
}

impl ControlRecord {
    /// Reads the marker in a record of a control batch. Later versions only add fields, so they are
    /// read as the one known here.
    pub fn parse(record: &Record<'_>) -> Result<Self, ControlError> {
        let of = ControlType::from_key(record.key.ok_or(ControlError::Key)?)?;
        let value = record.value.unwrap_or_default();
        match of {
            ControlType::Abort | ControlType::Commit => EndMarker::parse(of, value).map(Self::End),
            ControlType::LeaderChange => LeaderChange::parse(value).map(Self::LeaderChange),
            ControlType::SnapshotHeader
            | ControlType::SnapshotFooter
            | ControlType::KRaftVersion
            | ControlType::KRaftVoters
            | ControlType::Unknown(_) => Ok(Self::Other(of)),
        }
    }
}

impl EndMarker {
    /// The record's type.
    pub const fn control_type(self) -> ControlType {
        if self.commit { ControlType::Commit } else { ControlType::Abort }
    }

    fn parse(of: ControlType, mut value: &[u8]) -> Result<Self, ControlError> {
        take_version(of, &mut value)?;
        let coordinator_epoch = take_i32(&mut value).ok_or(ControlError::Value(of))?;
        Ok(Self { commit: of == ControlType::Commit, coordinator_epoch })
    }

    /// Appends a batch of this marker for `producer` to `out`, ready to be checked and appended.
    pub fn write_batch(
        self,
        producer: (ProducerId, ProducerEpoch),
        timestamp: TimestampMs,
        out: &mut Vec<u8>,
    ) -> BatchHeader {
        let mut value = [0; 6];
        value[..2].copy_from_slice(&VALUE_VERSION.to_be_bytes());
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let (id, epoch) = producer;
        let options = BatchOptions {
            producer: Producer { id, epoch, base_sequence: Sequence::NONE },
            transactional: true,
            control: true,
            ..BatchOptions::default()
        };
        write_batch(self.control_type(), &value, timestamp, &options, out)
    }
}

impl LeaderChange {
    fn parse(mut value: &[u8]) -> Result<Self, ControlError> {
        let of = ControlType::LeaderChange;
        let version = take_version(of, &mut value)?;
        let mut fields = || {
            let leader = BrokerId(take_i32(&mut value)?);
            let voters = take_voters(version, &mut value)?;
            let granting = take_voters(version, &mut value)?;
            Some(Self { leader, voters, granting })
        };
        fields().ok_or(ControlError::Value(of))
    }

    /// Appends a batch of this marker, of the leader's first epoch, to `out`.
    pub fn write_batch(&self, epoch: LeaderEpoch, timestamp: TimestampMs, out: &mut Vec<u8>) -> BatchHeader {
        let mut value = Vec::new();
        value.extend_from_slice(&VALUE_VERSION.to_be_bytes());
        value.extend_from_slice(&self.leader.0.to_be_bytes());
        put_voters(&mut value, &self.voters);
        put_voters(&mut value, &self.granting);
        value.push(0);
        let options = BatchOptions { leader_epoch: epoch, control: true, ..BatchOptions::default() };
        write_batch(ControlType::LeaderChange, &value, timestamp, &options, out)
    }
}

fn write_batch(
    of: ControlType,
    value: &[u8],
    timestamp: TimestampMs,
    options: &BatchOptions,
    out: &mut Vec<u8>,
) -> BatchHeader {
    let mut builder = BatchBuilder::new(0);
    builder.try_append(timestamp, Some(&of.key()), Some(value), &[]).expect("an empty batch takes a record");
    builder.finish(options, &mut Scratch::default(), out).expect("a marker fits into a batch")
}

fn take_version(of: ControlType, value: &mut &[u8]) -> Result<i16, ControlError> {
    match take_i16(value).ok_or(ControlError::Value(of))? {
        version @ 0.. => Ok(version),
        version => Err(ControlError::Version(version)),
    }
}

fn take_voters(version: i16, value: &mut &[u8]) -> Option<Vec<BrokerId>> {
    // Version 1 adds the voter's directory id.
    let id_bytes = if version == 0 { 4 } else { 20 };
    let count = take_uvarint(value)?.checked_sub(1)?;
    let mut voters = Vec::new();
    for _ in 0..count {
        let (id, rest) = value.split_at_checked(id_bytes)?;
        *value = rest;
        voters.push(BrokerId(i32::from_be_bytes(*id.first_chunk()?)));
        skip_tags(value)?;
    }
    Some(voters)
}

fn put_voters(out: &mut Vec<u8>, voters: &[BrokerId]) {
    let mut count = voters.len() + 1;
    while count >= 0x80 {
        out.push(count as u8 | 0x80);
        count >>= 7;
    }
    out.push(count as u8);
    for voter in voters {
        out.extend_from_slice(&voter.0.to_be_bytes());
        out.push(0);
    }
}

fn skip_tags(value: &mut &[u8]) -> Option<()> {
    for _ in 0..take_uvarint(value)? {
        take_uvarint(value)?;
        let size = take_uvarint(value)? as usize;
        *value = value.get(size..)?;
    }
    Some(())
}

fn take_uvarint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take_i16(bytes: &mut &[u8]) -> Option<i16> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i16::from_be_bytes(*taken))
}

fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i32::from_be_bytes(*taken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(key: &[u8], value: Option<&[u8]>) -> Result<ControlRecord, ControlError> {
        let record = Record {
            offset_delta: 0,
            timestamp_delta: 0,
            key: Some(key),
            value,
            headers: crate::Headers::default(),
        };
        ControlRecord::parse(&record)
    }

    #[test]
    fn types_are_numbered_as_kafka_s() {
        for id in -2..9 {
            let of = ControlType::from_id(id);
            assert_eq!(of.id(), id);
            assert_eq!(matches!(of, ControlType::Unknown(_)), !(0..=6).contains(&id));
            assert_eq!(ControlType::from_key(&of.key()), Ok(of));
        }
        assert_eq!(ControlType::from_key(&[0, 0, 0]), Err(ControlError::Key));
        assert_eq!(ControlType::from_key(&[0xff, 0xff, 0, 0]), Err(ControlError::Version(-1)));
    }

    #[test]
    fn later_versions_are_read_as_the_known_one() {
        let end = parse(&[0, 3, 0, 1], Some(&[0, 9, 0, 0, 0, 7, 1, 2, 3]));
        assert_eq!(end, Ok(ControlRecord::End(EndMarker { commit: true, coordinator_epoch: 7 })));
        let unknown = parse(&[0, 0, 0, 99], None);
        assert_eq!(unknown, Ok(ControlRecord::Other(ControlType::Unknown(99))));
    }

    #[test]
    fn voters_may_carry_directory_ids() {
        let mut value = vec![0, 1, 0, 0, 0, 2, 2, 0, 0, 0, 2];
        value.extend([0xab; 16]);
        value.extend([0, 1, 0]);
        let read = parse(&ControlType::LeaderChange.key(), Some(&value));
        let expected = LeaderChange { leader: BrokerId(2), voters: vec![BrokerId(2)], granting: vec![] };
        assert_eq!(read, Ok(ControlRecord::LeaderChange(expected)));
    }

    proptest! {
        #[test]
        fn no_marker_panics(of in 0i16..8, value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&ControlType::from_id(of).key(), Some(&value));
            let mut leader_change = vec![0, (of & 1) as u8, 0, 0, 0, 1];
            leader_change.extend(&value);
            let _ = parse(&ControlType::LeaderChange.key(), Some(&leader_change));
        }
    }
}
