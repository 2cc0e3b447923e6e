//! Why a partition cannot be read on.

use base::{ErrorCode, Offset};
use records::BatchError;

use crate::group::GroupError;

/// Why a partition cannot be read on. The consumer goes on with the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeError {
    /// The position is not in the log, and the settings say nothing about where to go on.
    #[error("offset {0} is not in the log any more, and auto.offset.reset is none")]
    OutOfRange(Offset),
    /// Nothing was committed of it, and the settings say nothing about where to begin.
    #[error("no offset of it was committed, and auto.offset.reset is none")]
    NoOffset,
    /// The consumer cannot be a member of its group.
    #[error("{0}")]
    Group(#[from] GroupError),
    /// The log was cut and differs from what was read before (KIP-320).
    #[error("the log was cut at offset {at}: records up to {position} that were read are not there any more")]
    Truncated {
        /// Where what was read stops being what is there.
        at: Offset,
        /// Where the next record would have been.
        position: Offset,
    },
    /// The broker refuses.
    #[error("the broker refuses: {}", .0.message())]
    Refused(ErrorCode),
    /// The broker's bytes are not what was written.
    #[error("offset {at}: {error}")]
    Corrupt {
        /// Where the bad batch was to be.
        at: Offset,
        /// What is wrong with it.
        error: BatchError,
    },
}

impl ConsumeError {
    /// Whether the same may go well if the partition is sought where it was. Everything else needs another
    /// position, another broker, or somebody who looks into it.
    pub const fn is_retriable(&self) -> bool {
        match self {
            // What came may have been damaged on its way.
            Self::Corrupt { .. } => true,
            Self::Refused(code) => code.is_retriable(),
            Self::OutOfRange(_) | Self::NoOffset | Self::Group(_) | Self::Truncated { .. } => false,
        }
    }
}
