//! What clients do with the node, and what must come of it.

mod bulk;
mod failover;
mod keys;
mod ring;
mod round_trip; // start here
mod segment;
mod shapes;
mod sizes;
mod transactions;

pub use bulk::bulk;
pub use failover::failover;
pub use keys::keys;
pub use ring::ring;
pub use round_trip::round_trip;
pub use sizes::sizes;
pub use transactions::transactions;

/// All that a batch can be compressed with, at their codes.
pub const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The time of a story's first record: a fixed one, so that a run can be repeated.
const STORY_MS: i64 = 1_700_000_000_000;
