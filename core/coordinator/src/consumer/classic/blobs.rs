//! What members of the classic protocol send each other through the server, and how it reads and writes that.
//!
//! ```text
//!   | version i16 | fields |      a newer version has more fields at the end, which are left unread
//! ```

use base::PartitionIndex;
use metadata::Image;
use wire::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignment, TopicPartition as AssignedTopic,
};
use wire::messages::consumer_protocol_subscription::{ConsumerProtocolSubscription, TopicPartition};
use wire::{Decoder, Encoder, Message};

use crate::assign::Partitions;
use crate::consumer::member::ClassicMetadata;

/// What a member of the classic protocol wants and has.
pub(super) struct Subscription {
    /// The topics, sorted.
    pub(super) topics: Vec<String>,
    /// Its rack.
    pub(super) rack: Option<String>,
    /// The generation in which it got what it has; -1 if it does not say.
    pub(super) generation: i32,
    /// What it has, by topics' names.
    owned: Vec<(String, Vec<i32>)>,
}

impl Subscription {
    /// What it says it has, of topics that there are.
    pub(super) fn owned(&self, image: &Image) -> Partitions {
        by_id(self.owned.iter().map(|(name, of)| (name.as_str(), of.as_slice())), image)
    }
}

/// Reads a subscription; `None` if it is none.
pub(super) fn read_subscription(bytes: &[u8]) -> Option<Subscription> {
    let mut d = Decoder::new(bytes);
    let version = d.i16().ok()?.min(*ConsumerProtocolSubscription::VERSIONS.end());
    let it = ConsumerProtocolSubscription::decode(&mut d, version).ok()?;
    let mut topics: Vec<String> = it.topics.iter().map(|&name| name.to_owned()).collect();
    topics.sort_unstable();
    topics.dedup();
    let owned = |it: TopicPartition<'_>| (it.topic.to_owned(), it.partitions);
    let owned = it.owned_partitions.into_iter().map(owned).collect();
    Some(Subscription { topics, rack: it.rack_id.map(str::to_owned), generation: it.generation_id, owned })
}

/// Reads an assignment: what there is of it; nothing of no bytes. `None` if it is none.
pub(super) fn read_assignment(bytes: &[u8], image: &Image) -> Option<Partitions> {
    if bytes.is_empty() {
        return Some(Partitions::new());
    }
    let mut d = Decoder::new(bytes);
    let version = d.i16().ok()?.min(*ConsumerProtocolAssignment::VERSIONS.end());
    let it = ConsumerProtocolAssignment::decode(&mut d, version).ok()?;
    Some(by_id(it.assigned_partitions.iter().map(|of| (of.topic, of.partitions.as_slice())), image))
}

/// Writes an assignment in a version; topics that are not there are left out.
pub(super) fn write_assignment(partitions: &Partitions, version: i16, image: &Image) -> Vec<u8> {
    let of = partitions.iter().filter_map(|(id, indexes)| {
        let topic = image.topic_by_id(*id)?.name.as_str();
        Some(AssignedTopic { topic, partitions: indexes.iter().map(|index| index.0).collect() })
    });
    let message = ConsumerProtocolAssignment { assigned_partitions: of.collect(), user_data: None };
    let mut e = Encoder::new();
    e.i16(version);
    message
        .encode(&mut e, version)
        .expect("topics have short names, and there are not as many as an i32 counts");
    e.into_bytes()
}

/// The version in which a member writes, which it can read, too.
pub(super) fn version(classic: &ClassicMetadata) -> i16 {
    let said = classic.protocols.first().and_then(|(_, bytes)| Decoder::new(bytes).i16().ok());
    let (first, last) = ConsumerProtocolAssignment::VERSIONS.into_inner();
    said.unwrap_or(first).clamp(first, last)
}

fn by_id<'a>(of: impl Iterator<Item = (&'a str, &'a [i32])>, image: &Image) -> Partitions {
    let mut partitions = Partitions::new();
    for (name, indexes) in of {
        if let Some(topic) = image.topic(name) {
            partitions.entry(topic.id).or_default().extend(indexes.iter().copied().map(PartitionIndex));
        }
    }
    partitions
}
