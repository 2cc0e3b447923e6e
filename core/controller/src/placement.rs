//! Which brokers get the replicas of new partitions.
//!
//! Leaders go around the brokers that are alive, rack after rack, and a partition's other replicas follow
//! its leader, each pass around shifted by one so that the followers of one leader are not always the same.
//! No rack gets a second replica of a partition while another has none. Brokers that are not alive get
//! replicas only where there are not enough others, and lead nothing. Brokers that are cordoned, because they
//! are about to be emptied, get none (KIP-1066).

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex};
use metadata::{Broker, Image};

use crate::error::ControllerError;

/// Chooses replicas for new partitions of one topic.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Each broker with the number of its rack, so that neighbours are in different ones.
    alive: Vec<(BrokerId, usize)>,
    others: Vec<(BrokerId, usize)>,
    replication_factor: usize,
    start: usize,
}

impl Placement {
    /// For partitions with this many replicas; `random` says where to begin.
    pub(crate) fn new(image: &Image, replication_factor: i16, random: u128) -> Result<Self, ControllerError> {
        let (alive, others): (Vec<&Broker>, Vec<&Broker>) = image
            .brokers()
            .map(|broker| &**broker)
            .filter(|broker| !image.is_cordoned(broker.id))
            .partition(|broker| is_usable(broker));
        let refused = |why: String| {
            Err(ControllerError::InvalidReplicationFactor(format!(
                "Unable to replicate the partition {replication_factor} time(s): {why}"
            )))
        };
        let has_cordoned = image.brokers().any(|broker| image.is_cordoned(broker.id));
        let count = usize::try_from(replication_factor).unwrap_or(0);
        if alive.is_empty() {
            let why = match has_cordoned {
                true => "All brokers are currently fenced, in controlled shutdown, or cordoned.",
                false => "All brokers are currently fenced or in controlled shutdown.",
            };
            return refused(why.into());
        }
        if count > alive.len() + others.len() {
            return refused(format!(
                "The target replication factor of {replication_factor} cannot be reached because only {} broker(s) are registered{}.",
                alive.len() + others.len(),
                if has_cordoned { " that are not cordoned" } else { "" }
            ));
        }
        let start = (random % alive.len() as u128) as usize;
        let mut racks: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for broker in alive.iter().chain(&others) {
            let next = racks.len();
            racks.entry(broker.rack.as_deref()).or_insert(next);
        }
        let (alive, others) = (striped(&alive, &racks), striped(&others, &racks));
        Ok(Self { alive, others, replication_factor: count, start })
    }

    /// The replicas of the partition with this index, the preferred leader first.
    pub(crate) fn replicas(&self, index: i32) -> Vec<BrokerId> {
        let len = self.alive.len();
        let at = self.start + usize::try_from(index).unwrap_or(0);
        let (leader, pass) = (at % len, at / len);
        let follower = |i: usize| self.alive[(leader + 1 + (pass + i) % (len - 1)) % len];
        let mut chosen = vec![self.alive[leader]];
        let mut alive: Vec<_> = (0..len - 1).map(follower).collect();
        let mut others = self.others.clone();
        while chosen.len() < self.replication_factor {
            let from = if alive.is_empty() { &mut others } else { &mut alive };
            let in_rack = |rack| chosen.iter().filter(|(_, other)| *other == rack).count();
            let best = (0..from.len()).min_by_key(|&at| in_rack(from[at].1));
            let Some(best) = best else { break };
            chosen.push(from.remove(best));
        }
        chosen.into_iter().map(|(id, _)| id).collect()
    }
}

/// The brokers, by turns from each rack.
fn striped(brokers: &[&Broker], racks: &BTreeMap<Option<&str>, usize>) -> Vec<(BrokerId, usize)> {
    let mut seen = BTreeMap::new();
    let mut placed: Vec<(usize, usize, BrokerId)> = Vec::with_capacity(brokers.len());
    for broker in brokers {
        let rack = racks.get(&broker.rack.as_deref()).copied().unwrap_or(0);
        let round = seen.entry(rack).or_insert(0);
        placed.push((*round, rack, broker.id));
        *round += 1;
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, rack, id)| (id, rack)).collect()
}

/// Whether a broker can lead and be in sync from the beginning.
pub(crate) fn is_usable(broker: &Broker) -> bool {
    !broker.fenced && !broker.in_controlled_shutdown
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
        if image.is_cordoned(*id) {
            return refused(cordoned(*id));
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
    let isr = in_sync_at_first(image, replicas);
    if isr.is_empty() {
        return refused(format!(
            "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled shutdown."
        ));
    }
    Ok(isr)
}

/// Why a broker gets no replica.
pub(crate) fn cordoned(id: BrokerId) -> String {
    format!("The manual partition assignment includes broker {id}, whose log directories are cordoned.")
}

/// Those of the replicas that are alive: a new partition is in sync where it is made.
pub(crate) fn in_sync_at_first(image: &Image, replicas: &[BrokerId]) -> Vec<BrokerId> {
    let is_alive = |id: &BrokerId| image.broker(*id).is_some_and(|broker| is_usable(broker));
    replicas.iter().copied().filter(is_alive).collect()
}
