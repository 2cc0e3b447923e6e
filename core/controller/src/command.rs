//! What can be asked of the controller, and what it answers.
//!
//! These are our own words, not the protocol's: they come from Kafka's APIs, from the command line, from
//! brokers, and from tests. A node whose controller is not the active one hands them on as JSON, so that a
//! cluster of two releases understands itself: what an older release does not send has a default.

mod brokers;
mod configs;
mod partitions;
mod quorum;
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
pub use quorum::{NO_VALID_VOTER, NewVoter, QuorumCommand, QuorumReplica, QuorumReply, QuorumStatus};
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
    /// Something of the quorum itself: it goes to the node that leads, and to its quorum rather than to its
    /// controller.
    Quorum(QuorumCommand),
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
            | Self::AdoptTopic(_)
            | Self::Quorum(_) => false,
        }
    }
}

impl Command {
    /// Whether it is something that brokers say as long as they live. It is little, and has room and a way where
    /// other commands have none: a broker that is not heard is fenced.
    pub fn is_of_life(&self) -> bool {
        matches!(
            self,
            Self::RegisterBroker(_)
                | Self::BrokerHeartbeat(_)
                | Self::BrokerSuspected(_)
                | Self::AlterPartitions(_)
        )
    }

    /// Whether this is an answer to it: of the same name, with an outcome for each thing that was asked for.
    /// What comes from another node is looked at before anybody counts on it.
    pub fn is_answered_by(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (Self::CreateTopics(it), Reply::CreateTopics(said)) => it.topics.len() == said.len(),
            (Self::DeleteTopics(it), Reply::DeleteTopics(said)) => it.topics.len() == said.len(),
            (Self::CreatePartitions(it), Reply::CreatePartitions(said)) => it.topics.len() == said.len(),
            (Self::IncrementalAlterConfigs(it), Reply::IncrementalAlterConfigs(said)) => {
                it.resources.len() == said.len()
            }
            (Self::AlterConfigs(it), Reply::AlterConfigs(said)) => it.resources.len() == said.len(),
            (Self::UpdateFeatures(it), Reply::UpdateFeatures(said)) => it.updates.len() == said.len(),
            (Self::AlterPartitions(it), Reply::AlterPartitions(said)) => it.partitions.len() == said.len(),
            (Self::AlterReassignments(it), Reply::AlterReassignments(said)) => {
                it.partitions.len() == said.len()
            }
            (Self::ElectLeaders(it), Reply::ElectLeaders(said)) => {
                it.partitions.as_ref().is_none_or(|asked| asked.len() == said.len())
            }
            (Self::RegisterBroker(_), Reply::RegisterBroker(_))
            | (Self::BrokerHeartbeat(_), Reply::BrokerHeartbeat(_))
            | (Self::BrokerSuspected(_), Reply::BrokerSuspected)
            | (Self::UnregisterBroker(_), Reply::UnregisterBroker)
            | (Self::AllocateProducerIds(_), Reply::AllocateProducerIds(_))
            | (Self::SkipProducerIds(_), Reply::SkipProducerIds)
            | (Self::AdoptTopic(_), Reply::AdoptTopic(_))
            | (Self::AssignReplicasToDirs(_), Reply::AssignReplicasToDirs) => true,
            (Self::Quorum(asked), Reply::Quorum(said)) => matches!(
                (asked, said),
                (QuorumCommand::Describe, QuorumReply::Describe(_))
                    | (QuorumCommand::AddVoter(_), QuorumReply::AddVoter)
                    | (QuorumCommand::RemoveVoter { .. }, QuorumReply::RemoveVoter)
            ),
            _ => false,
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
    /// What the quorum says.
    Quorum(QuorumReply),
}

/// How each part of a command went.
pub type Outcomes<T> = Vec<Result<T, ControllerError>>;
