//! What the members of a classic group tell each other, past a coordinator that does not look at it.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{PartitionIndex, TopicName, TopicPartition};
use wire::messages::consumer_protocol_assignment::{ConsumerProtocolAssignment, TopicPartition as Assigned};
use wire::messages::consumer_protocol_subscription::{ConsumerProtocolSubscription, TopicPartition as Owned};
use wire::{Decoder, EncodeError, Encoder, Message};

use super::assignor::Member;

/// The version of what members tell each other.
const VERSION: i16 = 3;

/// What a member tells who leads.
pub(super) fn encode_subscription(member: &Member, rack: Option<&str>) -> Result<Vec<u8>, EncodeError> {
    let mut owned: Vec<Owned<'_>> = Vec::new();
    for part in &member.owned {
        let topic = part.topic.as_str();
        if owned.last().is_none_or(|last| last.topic != topic) {
            owned.push(Owned { topic, partitions: Vec::new() });
        }
        owned.last_mut().expect("one was pushed").partitions.push(part.partition.0);
    }
    encode(&ConsumerProtocolSubscription {
        topics: member.topics.iter().map(TopicName::as_str).collect(),
        owned_partitions: owned,
        generation_id: member.generation,
        rack_id: rack,
        ..ConsumerProtocolSubscription::default()
    })
}

/// What a leader said to this member. Nothing is nothing: a leader need not name who gets none.
pub(crate) fn decode_assignment(bytes: &[u8]) -> Option<BTreeSet<TopicPartition>> {
    if bytes.is_empty() {
        return Some(BTreeSet::new());
    }
    let said: ConsumerProtocolAssignment<'_> = decode(bytes)?;
    let mut parts = BTreeSet::new();
    for topic in &said.assigned_partitions {
        let name = TopicName::new(topic.topic).ok()?;
        let of = |&index: &i32| TopicPartition { topic: name.clone(), partition: PartitionIndex(index) };
        parts.extend(topic.partitions.iter().filter(|&&index| index >= 0).map(of));
    }
    Some(parts)
}

/// What a leader says to one member.
pub(super) fn encode_assignment(parts: &BTreeSet<TopicPartition>) -> Result<Vec<u8>, EncodeError> {
    let mut topics: Vec<Assigned<'_>> = Vec::new();
    for part in parts {
        let topic = part.topic.as_str();
        if topics.last().is_none_or(|last| last.topic != topic) {
            topics.push(Assigned { topic, partitions: Vec::new() });
        }
        topics.last_mut().expect("one was pushed").partitions.push(part.partition.0);
    }
    encode(&ConsumerProtocolAssignment { assigned_partitions: topics, user_data: None })
}

/// What one member said, to who leads; one that nobody understands wants nothing.
pub(crate) fn decode_subscription(bytes: &[u8], instance_id: Option<&str>) -> Member {
    let said: ConsumerProtocolSubscription<'_> = decode(bytes).unwrap_or_default();
    let mut owned = BTreeSet::new();
    for topic in &said.owned_partitions {
        let Ok(name) = TopicName::new(topic.topic) else { continue };
        let of = |&index: &i32| TopicPartition { topic: name.clone(), partition: PartitionIndex(index) };
        owned.extend(topic.partitions.iter().map(of));
    }
    Member {
        instance_id: instance_id.map(Arc::from),
        topics: said.topics.iter().filter_map(|name| TopicName::new(name).ok()).collect(),
        owned,
        generation: said.generation_id,
    }
}

/// A message among members: its version, then itself.
fn encode<'m>(said: &impl Message<'m>) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Encoder::new();
    bytes.i16(VERSION);
    said.encode(&mut bytes, VERSION)?;
    Ok(bytes.into_bytes())
}

/// Who says more than is known has it at the end, where nobody looks.
fn decode<'m, M: Message<'m>>(bytes: &'m [u8]) -> Option<M> {
    let mut bytes = Decoder::new(bytes);
    let version = bytes.i16().ok().filter(|&version| version >= 0)?;
    M::decode(&mut bytes, version.min(VERSION)).ok()
}
