//! Topics: made, deleted, grown, taken in.

use std::collections::BTreeMap;

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName, Uuid};
use serde::{Deserialize, Serialize};

/// Make topics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// A topic to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTopic {
    /// Its name, as it was asked for.
    pub name: String,
    /// How many partitions, -1 for the default or when they are in `assignments`.
    pub partitions: i32,
    /// How many replicas, -1 for the default or when they are in `assignments`.
    pub replication_factor: i16,
    /// Which brokers have which partition, the preferred leader first; empty to have it chosen.
    pub assignments: Vec<(PartitionIndex, Vec<BrokerId>)>,
    /// Settings to begin with.
    pub configs: Vec<(String, Option<String>)>,
    /// 128 random bits: the topic's id, and where its first replica goes.
    pub random: u128,
}

/// A topic that was made, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicCreated {
    /// Its name.
    pub name: TopicName,
    /// Its id; zero when it was only asked how it would go.
    pub id: TopicId,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many replicas each has.
    pub replication_factor: i16,
}

/// Delete topics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicKey>,
}

/// A topic by what a client knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicKey {
    /// By its name, as it was asked for.
    Name(String),
    /// By its id.
    Id(TopicId),
}

/// A topic that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDeleted {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
}

/// Add partitions to topics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatePartitions {
    /// The topics.
    pub topics: Vec<TopicGrowth>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// How far a topic is to grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicGrowth {
    /// Its name, as it was asked for.
    pub name: String,
    /// How many partitions it shall have, old and new.
    pub count: i32,
    /// The brokers of each new partition; `None` to have them chosen.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// A topic that has grown, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionsCreated {
    /// Its name.
    pub name: TopicName,
    /// How many partitions it has.
    pub count: i32,
}

/// A topic was found on a disk and is not in the cluster: its metadata was lost, or Kafka wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id, as the partitions' directories have it.
    pub id: TopicId,
    /// The partitions that were found.
    pub partitions: BTreeMap<PartitionIndex, FoundPartition>,
    /// The broker that found them.
    pub broker: BrokerId,
}

/// A partition that was found on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPartition {
    /// The highest leader epoch in its log.
    pub last_epoch: LeaderEpoch,
    /// The id of the log directory that it is in.
    pub directory: Uuid,
}
