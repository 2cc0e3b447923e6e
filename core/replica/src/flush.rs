//! When an appended batch counts as committed, and when it goes to the disk.

use std::time::Duration;

/// `flush.policy`: what stands between an append and its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Committed once it is on the disk: a group commit for every append. Nothing acknowledged to
    /// `acks=all`, and nothing that a consumer saw, is lost to a power cut.
    Ack,
    /// Committed when it is appended; on the disk within `every`, or after `bytes` or `records`.
    Interval {
        /// The longest time that an append waits for its flush.
        every: Duration,
        /// The most bytes that wait for a flush.
        bytes: u64,
        /// The most records that wait for a flush: `flush.messages`.
        records: u64,
    },
    /// Committed when it is appended; on the disk when the operating system likes, as in Apache Kafka.
    Os,
}

impl FlushPolicy {
    /// Whether only what is on the disk counts as committed.
    pub const fn counts_durable(self) -> bool {
        matches!(self, Self::Ack)
    }
}
