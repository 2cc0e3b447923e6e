//! What can go wrong with the metadata log.

use std::path::PathBuf;

use base::Offset;
use metadata::RecordError;
use storage::checkpoint::CheckpointError;
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
    /// A node that is to join a cluster, and does not say which nodes are in it.
    #[error(
        "this node began to join cluster {cluster}, and was ended before it had its metadata: start it with \
         cluster.join, as before, or give it an empty data directory to begin anew"
    )]
    NeverJoined {
        /// The cluster.
        cluster: String,
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
    /// What tells how far the log was durable cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: CheckpointError,
    },
    /// There are entries, and nothing tells for whom this node voted.
    #[error(
        "{path} is missing or damaged ({why}): this node may have voted, and would vote again; put back a copy of it \
         from a backup, or remove the node from the quorum and add it again with an empty directory", path = path.display()
    )]
    VoteLost {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A snapshot that the log stands on is missing or damaged.
    #[error(
        "the snapshot {path} is missing or damaged ({why}), and the log before it is gone; put back a copy of it from \
         a backup, or remove the node from the quorum and add it again with an empty directory", path = path.display()
    )]
    SnapshotLost {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The quorum could not be begun.
    #[error("the metadata quorum: {0}")]
    Quorum(String),
    /// The log itself could not be opened.
    #[error("the metadata log: {0}")]
    Log(#[from] storage::OpenError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Bytes of a peer or a disk that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Why records could not be proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProposeError {
    /// They do not fit into a batch.
    #[error("the records of one proposal take more than {bytes_max} bytes")]
    TooLarge {
        /// How much they may take.
        bytes_max: usize,
    },
}

/// Why a quorum does not go on. The node must stop: what of its last words is on the disk is not known, and
/// only reading it again will tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the metadata quorum of this node has stopped: {0}")]
pub struct Stopped(pub String);
