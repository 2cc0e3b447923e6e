//! One partition on this broker: its log, and how far that log is committed.
//!
//! ```text
//!   log start ───────── high watermark ───────── log end
//!        consumers may read │ appended, not committed
//! ```
//!
//! **Invariant:** knows nothing of the wire. A fetch is [`Fetch`], whoever asks; so what is proved
//! here stays proved when Kafka adds a version.

mod fetch;
mod flush;
mod partition; // start here

pub use fetch::{Fetch, FetchError, Fetched, OffsetSpec};
pub use flush::FlushPolicy;
pub use partition::{AppendError, Appended, DIRTY_BYTES_MAX, Effect, Partition};
