//! How the replicas of this broker keep up with the rest of the cluster: asking leaders for what comes
//! next, and the controller for other in-sync sets.
//!
//! ```text
//!   replica ─ next_fetch ─▶ Fetcher ─ Fetch, one session a leader ─▶ leader
//!      ▲                                                               │
//!      └───────────── records, marks, or where to cut ◀────────────────┘
//!   replica ─ AlterIsr ──▶ Proposals ─ AlterPartitions, one at a time ─▶ active controller
//! ```

mod fetcher;
mod hurry;
mod proposals;
mod throttle;

pub use fetcher::{Fetcher, FetcherError, FetcherLimits, LeaderAnswer, Next, PartitionKey};
pub use hurry::Hurry;
pub use proposals::Proposals;
pub use throttle::Throttle;
