//! Commits metadata records: what the controller decided becomes true when it is in this log.
//!
//! ```text
//!   Command ─▶ Controller::handle ─▶ records ─▶ MetadataLog::commit ─▶ Controller::replay ─▶ Image
//!                                               one batch, synced
//! ```
//!
//! The log is Kafka's `__cluster_metadata-0`, in Kafka's files and Kafka's records, one batch a commit.
//! Here its only writer is this node. A quorum of nodes takes the place of [`MetadataLog`] without a
//! change to those who ask a [`Quorum`] or read its images.
//!
//! **Invariant:** whoever got a reply can count on it: its records were durable before. Nobody else
//! knows how records are committed.

mod member; // start here
mod network;
mod propose;
mod start;

mod observer; // who follows without a vote

mod change; // who votes
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
mod types;

mod open; // how it comes back
mod scan;

mod metadata_log; // a node that is alone, as it was
mod quorum;

mod identity; // whose log it is

mod error;
#[cfg(test)]
mod tests;

pub use change::{ChangeError, QuorumStatus, ReplicaStatus};
pub use error::{CommitError, ExecuteError, OpenError, Stopped};
pub use machine::SnapshotEvery;
pub use member::{Member, Timing};
pub use members::Voter;
pub use metadata_log::{MetadataLog, has_log};
pub use network::{Network, SendError, Sending};
pub use observer::{Next, ObserveError, Observer};
pub use propose::Proposer;
pub use quorum::{Executed, Quorum, Start};
pub use start::MemberStart;
pub use tell::Tell;

/// The topic whose one partition is the metadata log. Its directory lies among those of the partitions
/// and is not one of them.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
