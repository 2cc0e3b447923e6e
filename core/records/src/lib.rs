//! Record batches: the bytes stored and sent unchanged.
//!
//! A producer's batch is checked once, when it arrives ([`CheckedBatch`]), and from then on the same
//! bytes are appended, replicated and sent to consumers. Only what a leader decides is patched into
//! the header ([`CheckedBatch::assign`]); the records behind it are neither copied nor read again.
//!
//! ```text
//!   client bytes ── CheckedBatch::check ──► append     CRC, header, every record's framing
//!   disk, leader ── StoredBatch::check ───► replay     header and CRC: checked when it first came
//!   either one ──── .records(scratch) ────► RecordIter borrowed keys, values, headers
//!   stored batch ── .retain(keep) ────────► bytes      without the records that compaction drops
//!   records ─────── BatchBuilder ─────────► bytes      producers, tests, control batches
//! ```
//!
//! Only batch format 2 exists here; 0 and 1 are refused, as Kafka 4 does.
//!
//! **Invariant:** no bytes make this crate panic, and no length or count in them makes it allocate:
//! memory grows with what was received, or with what was really decompressed up to a bound.

#![forbid(unsafe_code)]

mod batches;
mod builder;
mod check;
mod compress;
mod control;
mod crc;
mod error;
mod halves;
mod header;
mod record;
mod retain;
mod stored;
mod varint;

pub use batches::{Batches, batches, whole_batches};
pub use builder::{BatchBuilder, BatchOptions, ClosedBatch, Full, Producer};
pub use check::{BatchLimits, CheckedBatch, RecordTimes};
pub use compress::{
    Codecs, Compression, DecompressBound, DecompressError, Scratch, UnknownCompression,
    UnknownCompressionName,
};
pub use control::{ControlError, ControlRecord, ControlType, EndMarker, LeaderChange};
pub use crc::{Crc32c, crc32c};
pub use error::{BatchError, Malformed};
pub use header::{Attributes, BatchHeader, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, TimestampType};
pub use record::{Header, Headers, Record, RecordIter};
pub use stored::{StoredBatch, StoredCheck};
