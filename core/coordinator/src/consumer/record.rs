//! The records of a group of the new protocol, typed, and as bytes.
//!
//! ```text
//!   key     | which kind i16 | group | member, or pattern |
//!   value   | version i16 | fields |                          none: it is gone
//! ```
//!
//! The formats are Kafka's. What is decoded is checked as a whole, so that replaying it cannot fail.

use std::sync::Arc;

use base::{PartitionIndex, TimestampMs, TopicId};
use wire::{DecodeError, Decoder, EncodeError, Encoder, Message};

use super::member::{ClassicMetadata, CurrentAssignment, MemberId, MemberMetadata, MemberState, Owned};
use crate::assign::Partitions;
use crate::record::consumer_group_current_member_assignment::TopicPartitions;
use crate::record::consumer_group_member_metadata::{ClassicMemberMetadata, ClassicProtocol};
use crate::record::consumer_group_target_assignment_member::TopicPartition;
use crate::record::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
};

/// The version of every value that is written.
const VALUE_VERSION: i16 = 0;

/// One change of a group of the new protocol; `None` takes away what was there.
#[derive(Debug, Clone, PartialEq)]
pub enum ConsumerGroupRecord {
    /// The group has another epoch, or is gone.
    Metadata(Option<GroupEpoch>),
    /// What Kafka wrote before 4.1 of the topics that the group reads. It is only ever taken away.
    PartitionMetadata(Option<Arc<ConsumerGroupPartitionMetadataValue>>),
    /// A member came, said something new of itself, or left.
    MemberMetadata(MemberId, Option<Arc<MemberMetadata>>),
    /// The targets are those of another epoch.
    TargetAssignmentMetadata(Option<TargetEpoch>),
    /// What a member should have.
    TargetAssignmentMember(MemberId, Option<Arc<Partitions>>),
    /// What a member has.
    CurrentMemberAssignment(MemberId, Option<Arc<CurrentAssignment>>),
    /// The topics that a pattern stands for.
    RegularExpression(String, Option<Arc<ResolvedRegex>>),
}

/// The epoch of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEpoch {
    /// Grows with every change of who is in it, what they want, and what there is to read.
    pub epoch: i32,
    /// A hash over what is known of the topics that it reads.
    pub metadata_hash: i64,
}

/// The epoch of a group's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetEpoch {
    /// The epoch of the group that they are made for.
    pub epoch: i32,
    /// When they were made; `None` in records of older releases of Kafka.
    pub at: Option<TimestampMs>,
}

/// The topics that a pattern stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedRegex {
    /// Their names, sorted.
    pub topics: Vec<String>,
    /// The place in the metadata log at which they were looked up.
    pub version: i64,
    /// When they were looked up.
    pub at: TimestampMs,
}

impl ConsumerGroupRecord {
    /// Reads a record: the group and what changes in it; `None` if it is of another kind.
    ///
    /// # Errors
    /// If the key or the value are not what Kafka writes.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<(String, Self)>, DecodeError> {
        let mut k = Decoder::new(key);
        let kind = k.i16()?;
        Ok(Some(match kind {
            ConsumerGroupMetadataKey::API_KEY => {
                let key = ConsumerGroupMetadataKey::decode(&mut k, 0)?;
                (key.group_id, Self::Metadata(read(value)?.map(group_epoch)))
            }
            ConsumerGroupPartitionMetadataKey::API_KEY => {
                let key = ConsumerGroupPartitionMetadataKey::decode(&mut k, 0)?;
                (key.group_id, Self::PartitionMetadata(read(value)?.map(Arc::new)))
            }
            ConsumerGroupMemberMetadataKey::API_KEY => {
                let key = ConsumerGroupMemberMetadataKey::decode(&mut k, 0)?;
                let value = read(value)?.map(|value| Arc::new(metadata(value)));
                (key.group_id, Self::MemberMetadata(key.member_id.into(), value))
            }
            ConsumerGroupTargetAssignmentMetadataKey::API_KEY => {
                let key = ConsumerGroupTargetAssignmentMetadataKey::decode(&mut k, 0)?;
                (key.group_id, Self::TargetAssignmentMetadata(read(value)?.map(target_epoch)))
            }
            ConsumerGroupTargetAssignmentMemberKey::API_KEY => {
                let key = ConsumerGroupTargetAssignmentMemberKey::decode(&mut k, 0)?;
                let value = read(value)?.map(|value| Arc::new(target(value)));
                (key.group_id, Self::TargetAssignmentMember(key.member_id.into(), value))
            }
            ConsumerGroupCurrentMemberAssignmentKey::API_KEY => {
                let key = ConsumerGroupCurrentMemberAssignmentKey::decode(&mut k, 0)?;
                let value = read(value)?.map(|value| Arc::new(current(value)));
                (key.group_id, Self::CurrentMemberAssignment(key.member_id.into(), value))
            }
            ConsumerGroupRegularExpressionKey::API_KEY => {
                let key = ConsumerGroupRegularExpressionKey::decode(&mut k, 0)?;
                let value = read(value)?.map(|value| Arc::new(resolved(value)));
                (key.group_id, Self::RegularExpression(key.regular_expression, value))
            }
            _ => return Ok(None),
        }))
    }

    /// Whether it takes something away.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Metadata(value) => value.is_none(),
            Self::PartitionMetadata(value) => value.is_none(),
            Self::MemberMetadata(_, value) => value.is_none(),
            Self::TargetAssignmentMetadata(value) => value.is_none(),
            Self::TargetAssignmentMember(_, value) => value.is_none(),
            Self::CurrentMemberAssignment(_, value) => value.is_none(),
            Self::RegularExpression(_, value) => value.is_none(),
        }
    }

    /// The record's key, and its value if it has one.
    ///
    /// # Errors
    /// If a name is longer than the protocol allows, which no request can bring in.
    pub fn encode(&self, group_id: &str) -> Result<(Vec<u8>, Option<Vec<u8>>), EncodeError> {
        let group_id = group_id.to_owned();
        match self {
            Self::Metadata(value) => {
                let key =
                    write_key(ConsumerGroupMetadataKey::API_KEY, &ConsumerGroupMetadataKey { group_id })?;
                let fields = |it: &GroupEpoch| ConsumerGroupMetadataValue {
                    epoch: it.epoch,
                    metadata_hash: it.metadata_hash,
                };
                Ok((key, write(value.as_ref().map(fields))?))
            }
            Self::PartitionMetadata(value) => {
                let key = ConsumerGroupPartitionMetadataKey { group_id };
                let key = write_key(ConsumerGroupPartitionMetadataKey::API_KEY, &key)?;
                Ok((key, write(value.as_deref().cloned())?))
            }
            Self::MemberMetadata(member, value) => {
                let key = ConsumerGroupMemberMetadataKey { group_id, member_id: member.to_string() };
                let key = write_key(ConsumerGroupMemberMetadataKey::API_KEY, &key)?;
                Ok((key, write(value.as_deref().map(metadata_value))?))
            }
            Self::TargetAssignmentMetadata(value) => {
                let key = ConsumerGroupTargetAssignmentMetadataKey { group_id };
                let key = write_key(ConsumerGroupTargetAssignmentMetadataKey::API_KEY, &key)?;
                let fields = |it: &TargetEpoch| ConsumerGroupTargetAssignmentMetadataValue {
                    assignment_epoch: it.epoch,
                    assignment_timestamp: it.at.map_or(0, |at| at.0),
                };
                Ok((key, write(value.as_ref().map(fields))?))
            }
            Self::TargetAssignmentMember(member, value) => {
                let key = ConsumerGroupTargetAssignmentMemberKey { group_id, member_id: member.to_string() };
                let key = write_key(ConsumerGroupTargetAssignmentMemberKey::API_KEY, &key)?;
                Ok((key, write(value.as_deref().map(target_value))?))
            }
            Self::CurrentMemberAssignment(member, value) => {
                let key = ConsumerGroupCurrentMemberAssignmentKey { group_id, member_id: member.to_string() };
                let key = write_key(ConsumerGroupCurrentMemberAssignmentKey::API_KEY, &key)?;
                Ok((key, write(value.as_deref().map(current_value))?))
            }
            Self::RegularExpression(regex, value) => {
                let key = ConsumerGroupRegularExpressionKey { group_id, regular_expression: regex.clone() };
                let key = write_key(ConsumerGroupRegularExpressionKey::API_KEY, &key)?;
                let fields = |it: &ResolvedRegex| ConsumerGroupRegularExpressionValue {
                    topics: it.topics.clone(),
                    version: it.version,
                    timestamp: it.at.0,
                };
                Ok((key, write(value.as_deref().map(fields))?))
            }
        }
    }
}

fn read<'a, M: Message<'a>>(value: Option<&'a [u8]>) -> Result<Option<M>, DecodeError> {
    let Some(bytes) = value else { return Ok(None) };
    let mut d = Decoder::new(bytes);
    let version = d.i16()?;
    M::decode(&mut d, version).map(Some)
}

fn write_key<M: for<'a> Message<'a>>(kind: i16, key: &M) -> Result<Vec<u8>, EncodeError> {
    let mut e = Encoder::new();
    e.i16(kind);
    key.encode(&mut e, 0)?;
    Ok(e.into_bytes())
}

fn write<M: for<'a> Message<'a>>(value: Option<M>) -> Result<Option<Vec<u8>>, EncodeError> {
    let Some(value) = value else { return Ok(None) };
    let mut e = Encoder::new();
    e.i16(VALUE_VERSION);
    value.encode(&mut e, VALUE_VERSION)?;
    Ok(Some(e.into_bytes()))
}

fn group_epoch(value: ConsumerGroupMetadataValue) -> GroupEpoch {
    GroupEpoch { epoch: value.epoch, metadata_hash: value.metadata_hash }
}

fn target_epoch(value: ConsumerGroupTargetAssignmentMetadataValue) -> TargetEpoch {
    let at = Some(TimestampMs(value.assignment_timestamp)).filter(|at| at.0 > 0);
    TargetEpoch { epoch: value.assignment_epoch, at }
}

fn resolved(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex {
    let mut topics = value.topics;
    topics.sort_unstable();
    ResolvedRegex { topics, version: value.version, at: TimestampMs(value.timestamp) }
}

fn metadata(value: ConsumerGroupMemberMetadataValue) -> MemberMetadata {
    let mut topics = value.subscribed_topic_names;
    topics.sort_unstable();
    topics.dedup();
    let protocol = |it: ClassicProtocol| (it.name, it.metadata);
    let classic = value.classic_member_metadata.map(|it| ClassicMetadata {
        session_timeout_ms: it.session_timeout_ms,
        protocols: it.supported_protocols.into_iter().map(protocol).collect(),
    });
    MemberMetadata {
        instance_id: value.instance_id,
        rack_id: value.rack_id,
        client_id: value.client_id,
        client_host: value.client_host,
        topics,
        // Kafka writes an empty pattern for none.
        regex: value.subscribed_topic_regex.filter(|regex| !regex.is_empty()),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        assignor: value.server_assignor,
        classic,
    }
}

fn metadata_value(it: &MemberMetadata) -> ConsumerGroupMemberMetadataValue {
    let protocol = |(name, metadata): &(String, Vec<u8>)| ClassicProtocol {
        name: name.clone(),
        metadata: metadata.clone(),
    };
    let classic_member_metadata = it.classic.as_ref().map(|classic| ClassicMemberMetadata {
        session_timeout_ms: classic.session_timeout_ms,
        supported_protocols: classic.protocols.iter().map(protocol).collect(),
    });
    ConsumerGroupMemberMetadataValue {
        instance_id: it.instance_id.clone(),
        rack_id: it.rack_id.clone(),
        client_id: it.client_id.clone(),
        client_host: it.client_host.clone(),
        subscribed_topic_names: it.topics.clone(),
        subscribed_topic_regex: Some(it.regex.clone().unwrap_or_default()),
        rebalance_timeout_ms: it.rebalance_timeout_ms,
        server_assignor: it.assignor.clone(),
        classic_member_metadata,
    }
}

fn target(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let of =
        |it: TopicPartition| (TopicId(it.topic_id), it.partitions.into_iter().map(PartitionIndex).collect());
    value.topic_partitions.into_iter().map(of).collect()
}

fn target_value(partitions: &Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let of = |(topic, of): (&TopicId, &std::collections::BTreeSet<PartitionIndex>)| TopicPartition {
        topic_id: topic.0,
        partitions: of.iter().map(|index| index.0).collect(),
    };
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions: partitions.iter().map(of).collect() }
}

fn current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment {
    // Records from before KIP-1251 have no epochs: the member's own is the strictest.
    let since = value.member_epoch;
    let of = |it: TopicPartitions| {
        let epochs = it.assignment_epochs.unwrap_or_default();
        let epochs = epochs.into_iter().chain(std::iter::repeat(since));
        (TopicId(it.topic_id), it.partitions.into_iter().map(PartitionIndex).zip(epochs).collect())
    };
    CurrentAssignment {
        epoch: value.member_epoch,
        previous_epoch: value.previous_member_epoch,
        state: MemberState::from_code(value.state),
        assigned: value.assigned_partitions.into_iter().map(of).collect(),
        revoking: value.partitions_pending_revocation.into_iter().map(of).collect(),
    }
}

fn current_value(it: &CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue {
    let list = |owned: &Owned| -> Vec<TopicPartitions> {
        let of =
            |(topic, of): (&TopicId, &std::collections::BTreeMap<PartitionIndex, i32>)| TopicPartitions {
                topic_id: topic.0,
                partitions: of.keys().map(|index| index.0).collect(),
                assignment_epochs: Some(of.values().copied().collect()),
            };
        owned.iter().map(of).collect()
    };
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: it.epoch,
        previous_member_epoch: it.previous_epoch,
        state: it.state.code(),
        assigned_partitions: list(&it.assigned),
        partitions_pending_revocation: list(&it.revoking),
    }
}
