//! Why a log does not open.

use base::Offset;

use crate::checkpoint::CheckpointError;
use crate::disk::{DiskError, Failed};
use crate::log::LookupError;
use crate::scan::{Damage, ScanError};

/// Why a log could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Records that were durable are damaged or gone. Those that are there were left as they are, save
    /// for leftovers that a crash had put aside before; tables may have been built again. The replica
    /// must be fetched anew from others.
    #[error("records at or before offset {at} were durable and are damaged: {damage}")]
    Quarantined {
        /// Up to where the records are good.
        at: Offset,
        /// What stands there.
        damage: Damage,
    },
    /// The topic's id cannot be read.
    #[error("partition.metadata: {0}")]
    Metadata(#[source] CheckpointError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl OpenError {
    /// Whether the log is of no use. One that could not be read may be read the next time, unless that was so before.
    pub fn is_for_good(&self, was_given_up: bool) -> bool {
        match self {
            Self::Quarantined { .. } => true,
            Self::Disk(error) => was_given_up && error.failed == Failed::File,
            Self::Metadata(_) => was_given_up,
        }
    }
}

impl From<LookupError> for OpenError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Disk(error) => Self::Disk(error),
            LookupError::Damaged { segment, damage, .. } => Self::Quarantined { at: segment, damage },
        }
    }
}

/// Damage where everything was durable.
pub(super) fn quarantine_at(at: Offset) -> impl Fn(ScanError) -> OpenError {
    move |error| match error {
        ScanError::Disk(error) => OpenError::Disk(error),
        ScanError::Damaged { damage, .. } => OpenError::Quarantined { at, damage },
    }
}
