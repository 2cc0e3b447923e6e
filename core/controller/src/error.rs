//! Why the controller refused.

use base::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, PartitionIndex, TopicId, TopicNameError};
use metadata::settings::SettingError;
use serde::{Deserialize, Serialize};

/// Why a command, or a part of it, was refused. The words are Kafka's where tools and people know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ControllerError {
    /// The name cannot be a topic's.
    #[error(transparent)]
    TopicName(#[from] TopicNameError),
    /// Two names differ only by `.` and `_`, which names of metrics cannot tell apart.
    #[error("Topic '{name}' collides with existing topic: {other}")]
    TopicCollision {
        /// The name that was asked for.
        name: String,
        /// The topic that is there.
        other: String,
    },
    /// There is such a topic.
    #[error("Topic '{0}' already exists.")]
    TopicExists(String),
    /// There is no topic of this name.
    #[error("This server does not host this topic-partition.")]
    UnknownTopic(String),
    /// There is no topic of this name whose settings could change.
    #[error("The topic '{0}' does not exist.")]
    NoSuchTopic(String),
    /// There is no topic with this id.
    #[error("This server does not host this topic ID.")]
    UnknownTopicId(TopicId),
    /// The topic is there under another id.
    #[error("Topic '{name}' has the id {has}, not {asked}.")]
    InconsistentTopicId {
        /// The topic.
        name: String,
        /// Its id.
        has: TopicId,
        /// The id that was expected.
        asked: TopicId,
    },
    /// Topics cannot be deleted here.
    #[error("Topic deletion is disabled.")]
    DeletionDisabled,
    /// The request contradicts itself.
    #[error("{0}")]
    InvalidRequest(String),
    /// The number of partitions does not do.
    #[error("{0}")]
    InvalidPartitions(String),
    /// The number of replicas does not do.
    #[error("{0}")]
    InvalidReplicationFactor(String),
    /// The brokers that were named do not do.
    #[error("{0}")]
    InvalidReplicaAssignment(String),
    /// A rule of the house forbids it.
    #[error("{0}")]
    PolicyViolation(String),
    /// A setting does not fit.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Settings that cannot be set like this.
    #[error("{0}")]
    InvalidConfig(String),
    /// No such broker is registered.
    #[error("Broker ID {0} is not currently registered")]
    UnknownBroker(BrokerId),
    /// It is from an earlier life of the broker.
    #[error("Expected broker epoch {expected}, but got broker epoch {got}")]
    StaleBrokerEpoch {
        /// The broker's epoch.
        expected: BrokerEpoch,
        /// The epoch in the command.
        got: BrokerEpoch,
    },
    /// This node's controller is not the active one.
    #[error("{}", not_controller(*.active))]
    NotController {
        /// Whose is, if that is known.
        active: Option<BrokerId>,
    },
    /// So much waits to be committed that there is no room for more.
    #[error("The controller has more to do than it can hold: try again.")]
    Busy,
    /// The broker takes itself to be in another cluster.
    #[error("Expected cluster ID {expected}, but got cluster ID {got}")]
    InconsistentClusterId {
        /// This cluster.
        expected: String,
        /// The broker's.
        got: String,
    },
    /// The broker cannot be taken in like this.
    #[error("{0}")]
    InvalidRegistration(String),
    /// Another broker has its number.
    #[error("Another broker is alive and has the ID {0} and other log directories.")]
    DuplicateBroker(BrokerId),
    /// There is no such partition.
    #[error("No such partition as {topic}-{partition}")]
    UnknownPartition {
        /// The topic, by name or id.
        topic: String,
        /// The partition.
        partition: PartitionIndex,
    },
    /// It is from an earlier leadership.
    #[error("The leader epoch is {current}, not {got}.")]
    FencedLeaderEpoch {
        /// The partition's.
        current: LeaderEpoch,
        /// The epoch in the command.
        got: LeaderEpoch,
    },
    /// The partition has changed since.
    #[error("The partition epoch is {current}, not {got}.")]
    InvalidUpdateVersion {
        /// The partition's.
        current: i32,
        /// The epoch in the command.
        got: i32,
    },
    /// Replicas that cannot be in sync as they are.
    #[error("Replicas that are not eligible for the ISR: {0}")]
    IneligibleReplica(String),
    /// It was done, and somebody else leads since.
    #[error("The change led to broker {leader} being elected.")]
    NewLeaderElected {
        /// Who leads.
        leader: BrokerId,
    },
    /// The leader is the one that was asked for.
    #[error("Leader election not needed for topic partition.")]
    ElectionNotNeeded,
    /// The first replica cannot lead.
    #[error("The preferred leader is not in sync, or not alive.")]
    PreferredLeaderNotAvailable,
    /// No replica can lead.
    #[error("No replica of the partition is alive.")]
    EligibleLeadersNotAvailable,
    /// Nothing is under way that could be taken back.
    #[error("No partition reassignment is in progress.")]
    NoReassignmentInProgress,
    /// The level of a feature cannot be this.
    #[error("{0}")]
    InvalidFeature(String),
    /// It votes already.
    #[error("{0}")]
    DuplicateVoter(String),
    /// It does not vote.
    #[error("{0}")]
    VoterNotFound(String),
    /// This node has no quorum whose voters could change.
    #[error("{0}")]
    UnsupportedVersion(String),
    /// It was not done in time.
    #[error("{0}")]
    TimedOut(String),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Unknown(String),
    /// All producer ids were given away.
    #[error("Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit")]
    ProducerIdsExhausted,
    /// No log directory has room for a new log.
    #[error(
        "No log directory has room for new partitions: delete topics or records, or give the node another log directory."
    )]
    NoRoom,
}

impl ControllerError {
    /// Kafka's code for it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TopicName(_) | Self::TopicCollision { .. } => ErrorCode::InvalidTopicException,
            Self::TopicExists(_) => ErrorCode::TopicAlreadyExists,
            Self::UnknownTopic(_) | Self::NoSuchTopic(_) => ErrorCode::UnknownTopicOrPartition,
            Self::UnknownTopicId(_) => ErrorCode::UnknownTopicId,
            Self::InconsistentTopicId { .. } => ErrorCode::InconsistentTopicId,
            Self::DeletionDisabled => ErrorCode::TopicDeletionDisabled,
            Self::InvalidRequest(_) | Self::Setting(SettingError::ReadOnly(_)) => ErrorCode::InvalidRequest,
            Self::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
            Self::InvalidReplicationFactor(_) => ErrorCode::InvalidReplicationFactor,
            Self::InvalidReplicaAssignment(_) => ErrorCode::InvalidReplicaAssignment,
            Self::PolicyViolation(_) => ErrorCode::PolicyViolation,
            Self::Setting(_) | Self::InvalidConfig(_) => ErrorCode::InvalidConfig,
            Self::UnknownBroker(_) => ErrorCode::BrokerIdNotRegistered,
            Self::StaleBrokerEpoch { .. } => ErrorCode::StaleBrokerEpoch,
            Self::NotController { .. } => ErrorCode::NotController,
            Self::Busy => ErrorCode::RequestTimedOut,
            Self::InconsistentClusterId { .. } => ErrorCode::InconsistentClusterId,
            Self::InvalidRegistration(_) => ErrorCode::InvalidRegistration,
            Self::DuplicateBroker(_) => ErrorCode::DuplicateBrokerRegistration,
            Self::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::FencedLeaderEpoch { .. } => ErrorCode::FencedLeaderEpoch,
            Self::InvalidUpdateVersion { .. } => ErrorCode::InvalidUpdateVersion,
            Self::IneligibleReplica(_) => ErrorCode::IneligibleReplica,
            Self::NewLeaderElected { .. } => ErrorCode::NewLeaderElected,
            Self::ElectionNotNeeded => ErrorCode::ElectionNotNeeded,
            Self::PreferredLeaderNotAvailable => ErrorCode::PreferredLeaderNotAvailable,
            Self::EligibleLeadersNotAvailable => ErrorCode::EligibleLeadersNotAvailable,
            Self::NoReassignmentInProgress => ErrorCode::NoReassignmentInProgress,
            Self::InvalidFeature(_) => ErrorCode::InvalidUpdateVersion,
            Self::DuplicateVoter(_) => ErrorCode::DuplicateVoter,
            Self::VoterNotFound(_) => ErrorCode::VoterNotFound,
            Self::UnsupportedVersion(_) => ErrorCode::UnsupportedVersion,
            Self::TimedOut(_) => ErrorCode::RequestTimedOut,
            Self::Unknown(_) => ErrorCode::UnknownServerError,
            Self::ProducerIdsExhausted => ErrorCode::UnknownServerError,
            Self::NoRoom => ErrorCode::KafkaStorageError,
        }
    }
}

fn not_controller(active: Option<BrokerId>) -> String {
    match active {
        Some(id) => format!("The active controller is node {id}."),
        None => "The active controller appears to be unknown.".into(),
    }
}
