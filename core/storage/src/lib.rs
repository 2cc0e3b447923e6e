//! One partition's log and its directory.
//!
//! ```text
//!   replica ── append, plan_read, truncate, … ──▶ Log ──▶ segments and their tables ──▶ dyn Disk
//!   caller  ◀── what to bring to the media (Flush), what to send (ReadPlan) ──┘
//! ```
//!
//! Files are Kafka's, byte by byte: its tools read ours, and a directory it wrote can be adopted.
//!
//! **Invariant:** no thread, no clock, no lock, no file but through [`disk::Disk`]. What lies on a disk
//! is data, never trusted: nothing in it makes this crate panic or allocate by a length it declares.

#![forbid(unsafe_code)]

pub mod disk;
pub mod layout;
pub mod memory;

mod log; // start here
mod settings;

mod check; // how its records are found, and looked at
mod read;
mod recent;
mod scan;
mod segment;

pub mod checkpoint;
pub mod dirs;
mod epochs; // what is kept beside the records
mod home;
mod index;
mod producer;

mod compaction; // what of it stays
mod gaps;

mod recovery; // how it comes back

pub use check::Check;
pub use compaction::{Compacted, Compaction, CompactionError, CompactionStats, Rewritten};
pub use epochs::Epochs;
pub use index::{AbortedTxn, OffsetEntry, TimeEntry};
pub use log::{
    AppendError, Appended, Committed, DeleteError, Dirt, Flush, FlushScope, Flushed, Log, LookupError,
    Removal, Removed, Swap, Swapped, TimestampedOffset,
};
pub use producer::{ProducerError, ProducerView, SnapshotEntry, SnapshotError, parse_snapshot};
pub use read::{FileSlice, ReadError, ReadPlan};
pub use recovery::{Cut, Known, OpenError, Recovered};
pub use scan::Damage;
pub use settings::{LogSettings, SEGMENT_BYTES_MAX};

#[cfg(test)]
mod testing;
