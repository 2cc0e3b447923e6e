//! What waits for the reader.

use std::sync::Arc;

use base::{ErrorCode, PartitionIndex, TopicPartition};
use client_core::consumer::{self as core, Chunk, ConsumeError};
use client_core::group::GroupError;

/// What the reader is to see next.
pub(super) enum Arrived {
    Chunk(Chunk),
    Failed {
        of: TopicPartition,
        generation: u32,
        error: ConsumeError,
    },
    /// Of a topic that is assigned though none can be called so, or of the group.
    Other(Failure),
}

impl Arrived {
    /// Whether it is of what is read now, not of before a seek.
    pub(super) fn is_current(&self, core: &core::Consumer) -> bool {
        match self {
            Self::Chunk(chunk) => core.is_current(chunk.of(), chunk.generation()),
            Self::Failed { of, generation, .. } => core.is_current(of, *generation),
            // The next assignment takes it away.
            Self::Other(_) => true,
        }
    }
}

/// A partition that cannot be read on until it is assigned or sought anew. The others go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The topic; empty if it is the group that cannot be joined.
    pub topic: Arc<str>,
    /// The partition; -1 if it is the group.
    pub partition: PartitionIndex,
    /// Why.
    pub error: ConsumeError,
}

impl Failure {
    pub(super) fn misnamed(topic: &str, partition: i32) -> Self {
        let error = ConsumeError::Refused(ErrorCode::InvalidTopicException);
        Self { topic: topic.into(), partition: PartitionIndex(partition), error }
    }

    pub(super) fn of_group(error: GroupError) -> Self {
        Self { topic: "".into(), partition: PartitionIndex(-1), error: ConsumeError::Group(error) }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.topic {
            "" => write!(f, "{}", self.error),
            topic => write!(f, "{topic}-{}: {}", self.partition, self.error),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
