//! One partition on this broker: its log, whether it leads or follows, and how far it is committed.
//!
//! ```text
//!   log start ───────── high watermark ───────── log end
//!        consumers may read │ appended, not committed: only followers read it
//! ```
//!
//! **Invariant:** knows nothing of the wire. A fetch is [`Fetch`], whoever asks; so what is proved
//! here stays proved when Kafka adds a version.

mod partition; // start here

mod compact;
mod damage;
mod follower;
mod isr;
mod leader;
mod read;
mod retention;
mod role;

mod assignment;
mod fetch;
mod flush;
mod given;

pub use assignment::Assignment;
pub use fetch::{Fetch, FetchError, Fetched, OffsetSpec, Reader};
pub use flush::FlushPolicy;
pub use follower::{FollowError, FollowerFetch, FromLeader, Lane, NextFetch};
pub use isr::{AlterIsr, IsrAnswer};
pub use leader::FollowerId;
pub use partition::{AppendError, Appended, DIRTY_BYTES_MAX, Effect, Partition, PartitionSettings};
