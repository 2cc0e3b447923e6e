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
    /// The last leadership that began with somebody who may have lacked committed records;
    /// [`LeaderEpoch::NONE`] if none did. Who did not follow anybody since has to give up those of its own
    /// that were lost then.
    pub unclean_epoch: LeaderEpoch,
}
