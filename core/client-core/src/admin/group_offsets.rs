//! OffsetFetch, OffsetCommit and OffsetDelete for a group that others read for: asked of its coordinator.

use std::collections::BTreeMap;

use base::{LeaderEpoch, Offset, PartitionIndex, TopicName, TopicPartition, Uuid};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};

use super::{Ask, Each, How, Name, Refusal, Response, Route};
use crate::group::OffsetAndMetadata;

/// From here on a request names several groups (KIP-709).
const FETCH_VERSION_BATCHED_MIN: i16 = 8;

/// Says what groups have committed, of all partitions.
#[derive(Debug)]
pub struct ListGroupOffsets {
    /// Whether offsets are waited for that an open transaction may change.
    pub requires_stable: bool,
}

impl Ask for ListGroupOffsets {
    type Item = String;
    type Said = BTreeMap<TopicPartition, OffsetAndMetadata>;
    type Request<'a> = OffsetFetchRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, group: &'a String) -> Name<'a> {
        Name::Group(group)
    }

    fn route<'a>(&self, group: &'a String) -> Route<'a> {
        Route::Coordinator(group)
    }

    fn version_min(&self, _: &String) -> i16 {
        FETCH_VERSION_BATCHED_MIN
    }

    fn version_max(&self) -> i16 {
        // Later ones name topics by id only, which says little to people.
        9
    }

    fn request<'a>(&'a self, groups: &[&'a String], _: &How<'_>) -> OffsetFetchRequest<'a> {
        let groups = groups.iter().map(|group_id| OffsetFetchRequestGroup {
            group_id,
            topics: None,
            ..OffsetFetchRequestGroup::default()
        });
        OffsetFetchRequest {
            groups: groups.collect(),
            require_stable: self.requires_stable,
            ..OffsetFetchRequest::default()
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for group in &said.groups {
            let mut found = Refusal::check(group.error_code, None).map(|()| BTreeMap::new());
            for topic in &group.topics {
                let Ok(name) = TopicName::new(topic.name) else { continue };
                for part in &topic.partitions {
                    let refusal = Refusal::check(part.error_code, None).err();
                    match (&mut found, refusal) {
                        (Ok(all), None) if part.committed_offset >= 0 => {
                            let partition = PartitionIndex(part.partition_index);
                            let committed = OffsetAndMetadata {
                                offset: Offset(part.committed_offset),
                                leader_epoch: LeaderEpoch(part.committed_leader_epoch),
                                metadata: part.metadata.unwrap_or_default().into(),
                            };
                            all.insert(TopicPartition { topic: name.clone(), partition }, committed);
                        }
                        (Ok(_), Some(refusal)) => found = Err(refusal),
                        (Ok(_) | Err(_), _) => {}
                    }
                }
            }
            each(Name::Group(group.group_id), found);
        }
        said.throttle_time_ms
    }
}

/// An offset that a group is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetTo {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// The offset.
    pub to: OffsetAndMetadata,
}

/// Sets offsets of a group that has no members. One that has is refused with UNKNOWN_MEMBER_ID.
#[derive(Debug)]
pub struct AlterGroupOffsets {
    /// `group.id`.
    pub group_id: String,
}

impl Ask for AlterGroupOffsets {
    type Item = OffsetTo;
    type Said = ();
    type Request<'a> = OffsetCommitRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, offset: &'a OffsetTo) -> Name<'a> {
        Name::Partition(&offset.topic, offset.partition)
    }

    fn route<'a>(&'a self, _: &'a OffsetTo) -> Route<'a> {
        Route::Coordinator(&self.group_id)
    }

    fn version_max(&self) -> i16 {
        // Later ones name topics by id only.
        9
    }

    fn request<'a>(&'a self, offsets: &[&'a OffsetTo], _: &How<'_>) -> OffsetCommitRequest<'a> {
        let mut topics: Vec<OffsetCommitRequestTopic<'a>> = Vec::new();
        for OffsetTo { topic, partition, to } in offsets {
            if topics.last().is_none_or(|last| last.name != topic) {
                let (name, topic_id, partitions) = (topic.as_str(), Uuid::ZERO, Vec::new());
                topics.push(OffsetCommitRequestTopic { name, topic_id, partitions });
            }
            topics.last_mut().expect("one was pushed").partitions.push(OffsetCommitRequestPartition {
                partition_index: partition.0,
                committed_offset: to.offset.0,
                committed_leader_epoch: to.leader_epoch.0,
                committed_metadata: Some(&to.metadata),
            });
        }
        OffsetCommitRequest { group_id: &self.group_id, topics, ..OffsetCommitRequest::default() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.topics {
            for part in &topic.partitions {
                let name = Name::Partition(topic.name, PartitionIndex(part.partition_index));
                each(name, Refusal::check(part.error_code, None));
            }
        }
        said.throttle_time_ms
    }
}

/// Forgets offsets of a group, of topics that none of its members reads. One that is read is refused with
/// GROUP_SUBSCRIBED_TO_TOPIC.
#[derive(Debug)]
pub struct DeleteGroupOffsets {
    /// `group.id`.
    pub group_id: String,
}

impl Ask for DeleteGroupOffsets {
    type Item = (String, PartitionIndex);
    type Said = ();
    type Request<'a> = OffsetDeleteRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, (topic, partition): &'a (String, PartitionIndex)) -> Name<'a> {
        Name::Partition(topic, *partition)
    }

    fn route<'a>(&'a self, _: &'a (String, PartitionIndex)) -> Route<'a> {
        Route::Coordinator(&self.group_id)
    }

    fn request<'a>(&'a self, parts: &[&'a (String, PartitionIndex)], _: &How<'_>) -> OffsetDeleteRequest<'a> {
        let mut topics: Vec<OffsetDeleteRequestTopic<'a>> = Vec::new();
        for (topic, partition) in parts {
            if topics.last().is_none_or(|last| last.name != topic) {
                topics.push(OffsetDeleteRequestTopic { name: topic, partitions: Vec::new() });
            }
            let partition_index = partition.0;
            let part = OffsetDeleteRequestPartition { partition_index };
            topics.last_mut().expect("one was pushed").partitions.push(part);
        }
        OffsetDeleteRequest { group_id: &self.group_id, topics }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        if let Err(refusal) = Refusal::check(said.error_code, None) {
            each(Name::All, Err(refusal));
        }
        for topic in &said.topics {
            for part in &topic.partitions {
                let name = Name::Partition(topic.name, PartitionIndex(part.partition_index));
                each(name, Refusal::check(part.error_code, None));
            }
        }
        said.throttle_time_ms
    }
}
