//! What a log knows of its idempotent and transactional producers.
//!
//! Kept with each append, saved in snapshots, and rebuilt by replaying the batches behind the newest
//! snapshot. It decides whether a batch is new, a repetition, or out of turn, and up to where every
//! transaction has ended.

pub(crate) mod snapshot;
pub(crate) mod state;

pub use snapshot::{SnapshotEntry, SnapshotError, parse_snapshot};
pub use state::{ProducerError, ProducerView};
pub(crate) use state::{Producers, Verdict};

#[cfg(test)]
mod tests;
