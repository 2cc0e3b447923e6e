//! What can go wrong with the metadata log.

use std::path::PathBuf;

use base::Offset;
use controller::ControllerError;
use metadata::RecordError;
use storage::AppendError;
use storage::checkpoint::CheckpointError;
use storage::dirs::PropertiesError;
use storage::disk::DiskError;

/// Why the metadata log could not be opened. The node must not start: what it does not know of the
/// cluster it would undo.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Metadata that was durable is damaged.
    #[error(
        "the metadata log is damaged at offset {offset} ({path}, byte {position}: {why}), and what follows there \
         was durable; put back a copy of {path} from a backup", path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: usize,
        /// The first offset that cannot be read.
        offset: Offset,
        /// What is wrong with the bytes.
        why: String,
    },
    /// Metadata that was durable is gone.
    #[error(
        "the metadata log in {path} ends at offset {end}, but was durable up to {durable}; put back a copy of it \
         from a backup", path = path.display()
    )]
    Missing {
        /// The directory of the log.
        path: PathBuf,
        /// Where it ends.
        end: Offset,
        /// Up to where it was durable.
        durable: Offset,
    },
    /// A record that this release cannot read.
    #[error(
        "the metadata log has {error} at offset {offset}; it was written by another release or by Apache Kafka. To \
         take over a directory of Kafka's, move its __cluster_metadata-0 away: the topics in it are taken in, their \
         settings are not"
    )]
    Record {
        /// Its offset.
        offset: Offset,
        /// What is wrong with it.
        error: RecordError,
    },
    /// There is a metadata log, but nothing says of which cluster.
    #[error("{path} holds a metadata log but no meta.properties", path = path.display())]
    Unowned {
        /// The log directory.
        path: PathBuf,
    },
    /// What says so cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Properties {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: PropertiesError,
    },
    /// What tells how far the log was durable cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: CheckpointError,
    },
    /// The log itself could not be opened.
    #[error("the metadata log: {0}")]
    Log(#[from] storage::OpenError),
    /// The first records could not be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why records were not committed. Whether they are in the log is not known: the node must stop, and
/// will know when it has read the log again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The disk failed.
    #[error("the metadata log cannot be written: {0}")]
    Disk(#[from] DiskError),
    /// The log took no more.
    #[error("the metadata log cannot be written: {0}")]
    Append(#[from] AppendError),
    /// The records do not fit into a batch.
    #[error("the records of one command take more than {bytes_max} bytes")]
    TooLarge {
        /// How much they may take.
        bytes_max: usize,
    },
}

impl CommitError {
    /// Whether the log is as it was, and takes other records still.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The controller refused it.
    #[error(transparent)]
    Refused(#[from] ControllerError),
    /// It could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}
