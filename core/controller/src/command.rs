//! What can be asked of the controller, and what it answers.
//!
//! These are our own words, not the protocol's: they come from Kafka's APIs, from the command line, from
//! brokers, and from tests. A node whose controller is not the active one hands them on as JSON, so that a
//! cluster of two releases understands itself: what an older release does not send has a default.

mod brokers;
mod configs;
mod partitions;
#[cfg(test)]
mod tests;
mod topics;

use base::BrokerEpoch;
use serde::{Deserialize, Serialize};

pub use brokers::{
    AllocateProducerIds, AssignReplicasToDirs, BrokerHeartbeat, BrokerSuspected, HeartbeatReply, InDoubt,
    ProducerIdBlock, RegisterBroker, SkipProducerIds, UnregisterBroker,
};
pub use configs::{
    AlterConfigs, ConfigOp, FeatureDirection, FeatureUpdate, IncrementalAlterConfigs, ResourceConfigs,
    UpdateFeatures,
};
pub use partitions::{
    AlterPartition, AlterPartitions, AlterReassignments, ElectLeaders, Elected, ElectionKind,
    PartitionAltered, Reassignment,
};
pub use topics::{
    AdoptTopic, CreatePartitions, CreateTopics, DeleteTopics, FoundPartition, NewTopic, PartitionsCreated,
    TopicCreated, TopicDeleted, TopicGrowth, TopicKey,
};

use crate::ControllerError;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Change the levels of features.
    UpdateFeatures(UpdateFeatures),
    /// A broker has come.
    RegisterBroker(RegisterBroker),
    /// A broker lives.
    BrokerHeartbeat(BrokerHeartbeat),
    /// A broker may be dead.
    BrokerSuspected(BrokerSuspected),
    /// A broker will not come back.
    UnregisterBroker(UnregisterBroker),
    /// A leader says who is in sync.
    AlterPartitions(AlterPartitions),
    /// Elect leaders.
    ElectLeaders(ElectLeaders),
    /// Move partitions to other brokers.
    AlterReassignments(AlterReassignments),
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
        match self {
            Self::RegisterBroker(_)
            | Self::BrokerHeartbeat(_)
            | Self::BrokerSuspected(_)
            | Self::UnregisterBroker(_)
            | Self::AlterPartitions(_)
            | Self::ElectLeaders(_)
            | Self::AlterReassignments(_)
            | Self::AssignReplicasToDirs(_) => true,
            Self::CreateTopics(_)
            | Self::DeleteTopics(_)
            | Self::CreatePartitions(_)
            | Self::IncrementalAlterConfigs(_)
            | Self::AlterConfigs(_)
            | Self::UpdateFeatures(_)
            | Self::AllocateProducerIds(_)
            | Self::SkipProducerIds(_)
            | Self::AdoptTopic(_) => false,
        }
    }
}

/// What is answered, each to the command of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// One outcome a feature, in the order they were asked for.
    UpdateFeatures(Outcomes<()>),
    /// The epoch of the life that begins.
    RegisterBroker(BrokerEpoch),
    /// How the broker is seen.
    BrokerHeartbeat(HeartbeatReply),
    /// It was heard.
    BrokerSuspected,
    /// It is gone.
    UnregisterBroker,
    /// One outcome a partition, in the order they were asked for.
    AlterPartitions(Outcomes<PartitionAltered>),
    /// One outcome a partition, in the order they were asked for; all that changed if all were asked for.
    ElectLeaders(Vec<Elected>),
    /// One outcome a partition, in the order they were asked for.
    AlterReassignments(Outcomes<()>),
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
