//! Why the controller refused.

use base::{BrokerEpoch, BrokerId, ErrorCode, TopicId, TopicNameError};
use metadata::settings::SettingError;

/// Why a command, or a part of it, was refused. The words are Kafka's where tools and people know them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
            Self::ProducerIdsExhausted => ErrorCode::UnknownServerError,
            Self::NoRoom => ErrorCode::KafkaStorageError,
        }
    }
}
