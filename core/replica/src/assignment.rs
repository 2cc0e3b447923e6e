//! What the controller decided of a partition, as far as one of its replicas must act on it.

use base::{BrokerId, LeaderEpoch};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Who leads; `None` while nobody can.
    pub leader: Option<BrokerId>,
    /// Which leadership this is, or was.
    pub leader_epoch: LeaderEpoch,
    /// Grows with every change.
    pub partition_epoch: i32,
    /// Who has the partition.
    pub replicas: Vec<BrokerId>,
    /// Who has all that is committed.
    pub isr: Vec<BrokerId>,
    /// Whether the leader was elected although it may lack committed records: others then have to give
    /// theirs up.
    pub is_recovering: bool,
}
