//! What can be asked of the controller, and what it answers.
//!
//! These are our own words, not the protocol's: they come from Kafka's APIs, from the command line, from
//! a node's start, and from tests.

use std::collections::BTreeMap;

use base::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionIndex, ProducerId, TopicId, TopicName, Uuid};
use metadata::{ConfigResource, Endpoint};

use crate::ControllerError;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Make topics.
    CreateTopics(CreateTopics),
    /// Delete topics.
    DeleteTopics(DeleteTopics),
    /// Add partitions to topics.
    CreatePartitions(CreatePartitions),
    /// Change single settings.
    IncrementalAlterConfigs(IncrementalAlterConfigs),
    /// Replace all that was set.
    AlterConfigs(AlterConfigs),
    /// A broker has come.
    RegisterBroker(RegisterBroker),
    /// A broker will not come back.
    UnregisterBroker(UnregisterBroker),
    /// A broker needs producer ids.
    AllocateProducerIds(AllocateProducerIds),
    /// Producer ids were found in use.
    SkipProducerIds(SkipProducerIds),
    /// A topic was found on a disk.
    AdoptTopic(AdoptTopic),
    /// A broker says which of its log directories have which replicas.
    AssignReplicasToDirs(AssignReplicasToDirs),
}

impl Command {
    /// Whether its records may be committed in several batches, the first ones first: then each of them
    /// is true without those behind it, and the command is given again after a crash between two.
    pub fn may_be_split(&self) -> bool {
        matches!(self, Self::RegisterBroker(_))
    }
}

/// What is answered, each to the command of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// One outcome a topic, in the order they were asked for.
    CreateTopics(Outcomes<TopicCreated>),
    /// One outcome a topic, in the order they were asked for.
    DeleteTopics(Outcomes<TopicDeleted>),
    /// One outcome a topic, in the order they were asked for.
    CreatePartitions(Outcomes<PartitionsCreated>),
    /// One outcome a resource, in the order they were asked for.
    IncrementalAlterConfigs(Outcomes<()>),
    /// One outcome a resource, in the order they were asked for.
    AlterConfigs(Outcomes<()>),
    /// The epoch of the life that begins.
    RegisterBroker(BrokerEpoch),
    /// It is gone.
    UnregisterBroker,
    /// Ids that nobody else has.
    AllocateProducerIds(ProducerIdBlock),
    /// They will not be given to anybody.
    SkipProducerIds,
    /// The topic is in the cluster.
    AdoptTopic(TopicCreated),
    /// It is written down.
    AssignReplicasToDirs,
}

/// How each part of a command went.
pub type Outcomes<T> = Vec<Result<T, ControllerError>>;

/// Make topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// A topic to make.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicKey>,
}

/// A topic by what a client knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicKey {
    /// By its name, as it was asked for.
    Name(String),
    /// By its id.
    Id(TopicId),
}

/// A topic that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDeleted {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
}

/// Add partitions to topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreatePartitions {
    /// The topics.
    pub topics: Vec<TopicGrowth>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// How far a topic is to grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicGrowth {
    /// Its name, as it was asked for.
    pub name: String,
    /// How many partitions it shall have, old and new.
    pub count: i32,
    /// The brokers of each new partition; `None` to have them chosen.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// A topic that has grown, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionsCreated {
    /// Its name.
    pub name: TopicName,
    /// How many partitions it has.
    pub count: i32,
}

/// Change single settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncrementalAlterConfigs {
    /// The changes, by whose settings they are.
    pub resources: Vec<ResourceConfigs<(ConfigOp, Option<String>)>>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// How one setting changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOp {
    /// It becomes the value.
    Set,
    /// It goes back to its default.
    Delete,
    /// The list gets the values it does not have.
    Append,
    /// The list loses the values.
    Subtract,
}

/// Replace all that was set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlterConfigs {
    /// All that shall be set, by whose settings they are.
    pub resources: Vec<ResourceConfigs<Option<String>>>,
    /// Only say how it would go.
    pub validate_only: bool,
}

/// What is asked for one resource's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceConfigs<T> {
    /// Whose settings.
    pub resource: ConfigResource,
    /// By the setting's name; one name once.
    pub entries: Vec<(String, T)>,
}

/// A broker has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterBroker {
    /// Its `node.id`.
    pub id: BrokerId,
    /// The id of its process.
    pub incarnation: Uuid,
    /// Where clients and brokers reach it.
    pub endpoints: Vec<Endpoint>,
    /// The features it can speak: name, lowest and highest level.
    pub features: Vec<(String, i16, i16)>,
    /// The rack it is in.
    pub rack: Option<String>,
    /// The ids of its log directories.
    pub log_dirs: Vec<Uuid>,
    /// Whether it must not lead nor serve until it says so.
    pub fenced: bool,
    /// Whether its last life ended without its logs being closed: what it leads gets a new leader epoch,
    /// so that clients notice where a log was cut.
    pub after_crash: bool,
}

/// A broker will not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnregisterBroker {
    /// Its `node.id`.
    pub id: BrokerId,
}

/// A broker needs producer ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocateProducerIds {
    /// Which broker.
    pub broker: BrokerId,
    /// In which of its lives.
    pub epoch: BrokerEpoch,
}

/// Producer ids that nobody else has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first of them.
    pub first: ProducerId,
    /// How many there are.
    pub len: i32,
}

/// A topic was found on a disk and is not in the cluster: its metadata was lost, or Kafka wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundPartition {
    /// The highest leader epoch in its log.
    pub last_epoch: LeaderEpoch,
    /// The id of the log directory that it is in.
    pub directory: Uuid,
}

/// Replicas of one broker and the log directories they are in.
///
/// Written down once the log is there, and before it takes its first record: so a broker knows where
/// each of its logs must be, and never begins an empty one in the place of one that it cannot find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignReplicasToDirs {
    /// The broker.
    pub broker: BrokerId,
    /// Partitions, each with the id of a log directory. What the broker has no replica of is passed
    /// over: it may have been deleted meanwhile.
    pub replicas: Vec<(TopicId, PartitionIndex, Uuid)>,
}

/// Producer ids that are in logs, but were not given out by this cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkipProducerIds {
    /// The broker that found them.
    pub broker: BrokerId,
    /// The largest of them.
    pub largest: ProducerId,
}
