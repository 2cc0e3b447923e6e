//! OffsetFetch · key 9 · v1..=v10
//! v2 all topics · v5 leader epochs (KIP-320) · v7 stable offsets (KIP-447) · v8 several groups (KIP-709) · v9 member
//! epochs (KIP-848) · v10 topic ids
//!
//! An offset that was committed for a topic that has been deleted since is none of the topic that has its name now.

use std::sync::Arc;

use base::{ErrorCode, TopicId, Uuid};
use metadata::Image;
use wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use crate::group::{GroupKind, Groups};
use crate::offsets::{GroupOffsets, OffsetAndMetadata};
use crate::response::{FetchedGroup, FetchedPartition, FetchedTopic};

/// The version from which topics are named by id.
const TOPIC_IDS_FROM: i16 = 10;

/// What clients wrote beside offsets, in one answer: the same partition may be named again and again, and each time
/// it is told. That of 16 000 partitions fits if each has as much as may be written beside one by default.
const METADATA_BYTES_MAX: usize = 64 << 20;

/// How far the group came. Only members of the new protocol are refused, if they are none any more: a group that is not
/// there has no offsets.
pub(crate) fn handle(
    groups: &Groups,
    version: i16,
    asks: &OffsetFetchRequestGroup<'_>,
    image: &Image,
) -> FetchedGroup {
    if let Some(GroupKind::Consumer(consumers)) = groups.get(asks.group_id).map(|group| &group.kind)
        && let Err(error) = consumers.group.validate_offset_fetch(asks.member_id, asks.member_epoch)
    {
        return FetchedGroup::refused(asks, error.code());
    }
    let nothing = GroupOffsets::default();
    let offsets = groups.get(asks.group_id).map_or(&nothing, |group| &group.offsets);
    let topics = match &asks.topics {
        Some(topics) => {
            let mut metadata_left = METADATA_BYTES_MAX;
            let asked = topics.iter().map(|it| asked_topic(offsets, version, it, image, &mut metadata_left));
            asked.collect()
        }
        None => Some(all_topics(offsets, version, image)),
    };
    match topics {
        Some(topics) => FetchedGroup { group: asks.group_id.into(), error: ErrorCode::None, topics },
        None => FetchedGroup::refused(asks, ErrorCode::InvalidRequest),
    }
}

/// `None` if what clients wrote beside the offsets takes more than is left for it.
fn asked_topic(
    offsets: &GroupOffsets,
    version: i16,
    asks: &OffsetFetchRequestTopics<'_>,
    image: &Image,
    metadata_left: &mut usize,
) -> Option<FetchedTopic> {
    let topic = match version {
        TOPIC_IDS_FROM.. => image.topic_by_id(TopicId(asks.topic_id)),
        _ => image.topic(asks.name),
    };
    let (name, topic_id) = match topic {
        Some(topic) => (topic.name.as_str(), topic.id.0),
        None if version >= TOPIC_IDS_FROM => return Some(unknown_topic(asks)),
        None => (asks.name, Uuid::ZERO),
    };
    let committed = offsets.in_topic(name);
    let partition = |partition: &i32| {
        let found = committed.and_then(|partitions| partitions.get(partition));
        match found.filter(|offset| offset.is_of(topic_id)) {
            Some(offset) => {
                *metadata_left = metadata_left.checked_sub(offset.metadata.len())?;
                Some(fetched(*partition, offset))
            }
            None => Some(FetchedPartition::nothing(*partition, ErrorCode::None)),
        }
    };
    let partitions: Option<Vec<_>> = asks.partition_indexes.iter().map(partition).collect();
    Some(FetchedTopic { name: Arc::from(name), topic_id, partitions: partitions? })
}

fn unknown_topic(asks: &OffsetFetchRequestTopics<'_>) -> FetchedTopic {
    let nothing = |partition: &i32| FetchedPartition::nothing(*partition, ErrorCode::UnknownTopicId);
    let partitions = asks.partition_indexes.iter().map(nothing).collect();
    FetchedTopic { name: Arc::from(""), topic_id: asks.topic_id, partitions }
}

/// Every offset of the group. Where topics have to be named by id, those that are gone cannot be told.
fn all_topics(offsets: &GroupOffsets, version: i16, image: &Image) -> Vec<FetchedTopic> {
    let topics = offsets.topics().filter_map(|(name, partitions)| {
        let topic_id = image.topic(name.as_str()).map_or(Uuid::ZERO, |topic| topic.id.0);
        if topic_id.is_zero() && version >= TOPIC_IDS_FROM {
            return None;
        }
        let told = partitions.iter().filter(|(_, offset)| offset.is_of(topic_id));
        let partitions: Vec<_> = told.map(|(partition, offset)| fetched(*partition, offset)).collect();
        let name = Arc::from(name.as_str());
        (!partitions.is_empty()).then_some(FetchedTopic { name, topic_id, partitions })
    });
    topics.collect()
}

fn fetched(partition: i32, offset: &OffsetAndMetadata) -> FetchedPartition {
    FetchedPartition {
        partition,
        offset: offset.offset,
        leader_epoch: offset.leader_epoch,
        metadata: Arc::from(&*offset.metadata),
        error: ErrorCode::None,
    }
}
