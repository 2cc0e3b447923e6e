//! Commits metadata records: what the controller decided becomes true when a majority of the voters has it
//! on its disks.
//!
//! ```text
//!   Controller ─ Proposal ─▶ Member ── entries ──▶ other Members      each: log, vote, snapshot on a disk
//!       ▲                      │  └── committed batches ──▶ Observers
//!       └────── QuorumEvents ──┘
//! ```
//!
//! The log is Kafka's `__cluster_metadata-0`, in Kafka's files and Kafka's records, one batch a commit. A
//! node that is alone is a quorum of one.
//!
//! **Invariant:** nothing is told to be committed, no vote is given and no entry is vouched for before it is
//! durable. Nobody else knows how nodes come to agree.

mod member; // start here
mod network;
mod propose;
mod start;

mod observer; // who follows without a vote

mod change; // who votes
mod gone; // who leads no more
mod members;

mod receive; // what others ask
mod serve;

mod machine; // what is applied, and who is told
mod snapshot;
mod tell;

mod memory;
mod store; // the log: memory, and one thread for the disk
mod writer;

mod batch; // as bytes
mod files;
mod message;
mod read_request;
mod types;

mod open; // how it comes back
mod scan;

mod error;
#[cfg(test)]
mod tests;

pub use change::{ChangeError, QuorumStatus, ReplicaStatus};
pub use error::{OpenError, Stopped};
pub use machine::SnapshotEvery;
pub use member::{Member, Timing};
pub use members::Voter;
pub use message::MESSAGE_BYTES_MAX;
pub use network::{Network, SendError, Sending};
pub use observer::{Next, ObserveError, Observer, ObserverStart, is_call, refuse};
pub use open::{has_log, is_member};
pub use propose::Proposer;
pub use start::MemberStart;
pub use tell::Tell;

/// The topic whose one partition is the metadata log. Its directory lies among those of the partitions
/// and is not one of them.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
