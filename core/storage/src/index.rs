//! The tables beside a segment's records: where an offset lies, when a timestamp was reached, which
//! transactions were aborted. All can be rebuilt from the records.

pub(crate) mod offset;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod txn;

pub use offset::OffsetEntry;
pub use time::TimeEntry;
pub use txn::AbortedTxn;
