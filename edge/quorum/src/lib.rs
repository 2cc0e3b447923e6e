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

mod batch;
mod files;
mod machine;
mod members;
mod memory;
mod metadata_log;
mod open;
mod quorum; // start here
mod scan;
mod snapshot;
mod store;
mod tell;
mod types;
mod writer;

mod identity; // whose log it is

mod error;
#[cfg(test)]
mod tests;

pub use error::{CommitError, ExecuteError, OpenError};
pub use metadata_log::{MetadataLog, has_log};
pub use quorum::{Executed, Quorum, Start};

/// The topic whose one partition is the metadata log. Its directory lies among those of the partitions
/// and is not one of them.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
