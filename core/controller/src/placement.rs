//! Which brokers get the replicas of new partitions.
//!
//! Leaders go around the brokers that are alive, and a partition's other replicas follow its leader, each
//! pass around shifted by one so that the followers of one leader are not always the same.

use base::{BrokerId, PartitionIndex};
use metadata::Image;

use crate::error::ControllerError;

/// Chooses replicas for new partitions of one topic.
#[derive(Debug)]
pub(crate) struct Placement {
    alive: Vec<BrokerId>,
    replication_factor: usize,
    start: usize,
}

impl Placement {
    /// For partitions with this many replicas; `random` says where to begin.
    pub(crate) fn new(image: &Image, replication_factor: i16, random: u128) -> Result<Self, ControllerError> {
        let alive: Vec<BrokerId> = image
            .brokers_alive()
            .filter(|broker| !broker.in_controlled_shutdown)
            .map(|broker| broker.id)
            .collect();
        let refused = |why: String| {
            Err(ControllerError::InvalidReplicationFactor(format!(
                "Unable to replicate the partition {replication_factor} time(s): {why}"
            )))
        };
        let count = usize::try_from(replication_factor).unwrap_or(0);
        if alive.is_empty() {
            return refused("All brokers are currently fenced or in controlled shutdown.".into());
        }
        if count > alive.len() {
            return refused(format!(
                "The target replication factor of {replication_factor} cannot be reached because only {} broker(s) are registered.",
                alive.len()
            ));
        }
        let start = (random % alive.len() as u128) as usize;
        Ok(Self { alive, replication_factor: count, start })
    }

    /// The replicas of the partition with this index, the preferred leader first.
    pub(crate) fn replicas(&self, index: i32) -> Vec<BrokerId> {
        let len = self.alive.len();
        let at = self.start + usize::try_from(index).unwrap_or(0);
        let (leader, pass) = (at % len, at / len);
        let follower = |i: usize| (leader + 1 + (pass + i) % (len - 1)) % len;
        let mut replicas = Vec::with_capacity(self.replication_factor);
        replicas.push(self.alive[leader]);
        replicas.extend((0..self.replication_factor - 1).map(|i| self.alive[follower(i)]));
        replicas
    }
}

/// Checks the replicas that were asked for; those of them that are alive, which are in sync at first.
pub(crate) fn check_assignment(
    image: &Image,
    index: PartitionIndex,
    replicas: &[BrokerId],
    replication_factor: usize,
) -> Result<Vec<BrokerId>, ControllerError> {
    let refused = |why: String| Err(ControllerError::InvalidReplicaAssignment(why));
    if replicas.is_empty() {
        return refused("The manual partition assignment includes an empty replica list.".into());
    }
    for (i, id) in replicas.iter().enumerate() {
        if image.broker(*id).is_none() {
            return refused(format!(
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ));
        }
        if replicas.iter().take(i).any(|other| other == id) {
            return refused(format!(
                "The manual partition assignment includes the broker {id} more than once."
            ));
        }
    }
    if replicas.len() != replication_factor {
        return refused(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not \
             consistent with previous partitions, which have {replication_factor} replica(s).",
            replicas.len()
        ));
    }
    let is_alive = |id: &BrokerId| {
        image.broker(*id).is_some_and(|broker| !broker.fenced && !broker.in_controlled_shutdown)
    };
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(is_alive).collect();
    if isr.is_empty() {
        return refused(format!(
            "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled shutdown."
        ));
    }
    Ok(isr)
}
