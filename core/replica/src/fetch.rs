//! What a reader asks for, and what there is for it.

use base::{BrokerId, LeaderEpoch, Offset, ProducerId, TimestampMs};
use storage::FileSlice;
use storage::disk::DiskError;

use crate::leader::FollowerId;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Somebody who wants what is committed, from the leader.
    Consumer,
    /// Somebody who wants what is committed, from a replica close by (KIP-392).
    Nearby,
    /// Another replica, which wants all there is.
    Follower(FollowerId),
}

/// A read, whoever asks.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// Who asks.
    pub reader: Reader,
    /// The first offset wanted.
    pub from: Offset,
    /// The leader epoch the reader knows, or [`LeaderEpoch::NONE`].
    pub current_epoch: LeaderEpoch,
    /// Epoch of the last record the reader has, or [`LeaderEpoch::NONE`].
    pub last_epoch: LeaderEpoch,
    /// How many bytes at most.
    pub bytes_max: u64,
    /// Whether the first batch is given even if it is larger.
    pub at_least_one: bool,
    /// Whether only records of decided transactions are wanted.
    pub committed_only: bool,
    /// The first offset that a follower has; nobody else has any.
    pub log_start: Offset,
    /// Whether this was asked before, and waited since. What a follower said then of its log may not be true
    /// any more: its replica may have been taken away and given again, with nothing in it.
    pub is_again: bool,
}

/// What there is to read.
#[derive(Debug)]
pub struct Fetched {
    /// First offset consumers may not read yet.
    pub high_watermark: Offset,
    /// First offset of a transaction that is not decided, or the high watermark.
    pub last_stable: Offset,
    /// First offset of the log.
    pub log_start: Offset,
    /// Where the records are, in order; whole batches.
    pub slices: Vec<FileSlice>,
    /// Aborted transactions among them, ordered by first offset; only if `committed_only`.
    pub aborted: Option<Vec<(ProducerId, Offset)>>,
    /// Set if what the reader has last is not in this log: the last epoch that both may share, and where
    /// it ended here. Then there are no records.
    pub diverging: Option<(LeaderEpoch, Offset)>,
}

impl Fetched {
    /// How many bytes the records take.
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(|slice| u64::from(slice.len)).sum()
    }
}

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The offset is not within the log.
    #[error("offset {from} is not within {start}..={end}")]
    OutOfRange {
        /// What was asked for.
        from: Offset,
        /// First offset of the log.
        start: Offset,
        /// First offset behind what may be read.
        end: Offset,
    },
    /// The reader knows an older leader epoch.
    #[error("leader epoch {got} is over: the partition is at {current}")]
    Fenced {
        /// What the reader knows.
        got: LeaderEpoch,
        /// What is.
        current: LeaderEpoch,
    },
    /// The reader knows a newer leader epoch.
    #[error("leader epoch {got} is not known: the partition is at {current}")]
    UnknownEpoch {
        /// What the reader knows.
        got: LeaderEpoch,
        /// What is.
        current: LeaderEpoch,
    },
    /// Another broker leads it, or none.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// Who asks as a follower is none, or is of an earlier life of its broker.
    #[error("broker {0} has no replica of the partition, or is not what it was")]
    UnknownReplica(BrokerId),
    /// It is not known yet how far the partition is committed: the leader is new.
    #[error("the end of the partition is not known yet")]
    NotAvailable,
    /// The partition takes no changes any more: its directory failed, or it was deleted.
    #[error("the partition takes no changes any more")]
    Retired,
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The stored bytes are damaged.
    #[error("{0}")]
    Damaged(String),
}

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first one that may be read.
    Earliest,
    /// The first one that may not be read yet.
    Latest,
    /// That of the record with the largest timestamp.
    MaxTimestamp,
    /// The first one on this broker's disks.
    EarliestLocal,
    /// The last one in remote storage.
    LatestTiered,
    /// The first one not yet in remote storage.
    EarliestPendingUpload,
    /// The first one with this timestamp or a later one.
    At(TimestampMs),
}
