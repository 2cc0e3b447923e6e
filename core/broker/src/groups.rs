//! Groups on this broker: where each is kept, and the shards of the coordinator that live here.
//!
//! ```text
//!   api/join_group.rs ─▶ host::HostedShard::ask ─▶ Desk ─▶ coordinator::Shard
//!                                             │  ◀── Append ──┘
//!                                             └─▶ write ─▶ the partition's log
//! ```
//!
//! The shard decides, the desk keeps its answers until those who asked take them, and what is to last is appended to
//! the log of the partition that this broker leads.

mod desk;
mod speakers;
mod write;

use base::PartitionIndex;

pub use metadata::settings::OFFSETS_TOPIC;

pub use desk::{Desk, ShardLog};
pub use speakers::Speakers;
pub use write::{await_committed, write};

/// The partition that keeps a group, of so many, as Kafka has it: Java's hash of its id.
pub fn partition_of(group: &str, partitions: usize) -> PartitionIndex {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    // Java's Math.abs leaves the lowest number negative, and Kafka takes that for 0.
    let place = hash.checked_abs().unwrap_or(0).unsigned_abs() as usize % partitions.max(1);
    PartitionIndex(i32::try_from(place).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `Utils.abs("…".hashCode()) % 50` says in Java; the last one's hash is `Integer.MIN_VALUE`.
    #[test]
    fn a_group_is_kept_where_kafka_keeps_it() {
        for (group, place) in [("", 0), ("a", 47), ("test-group", 12), ("polygenelubricants", 0)] {
            assert_eq!(partition_of(group, 50), PartitionIndex(place), "{group:?}");
        }
    }
}
