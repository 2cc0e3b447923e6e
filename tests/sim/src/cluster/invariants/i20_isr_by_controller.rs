//! I20: whoever comes into the in-sync set has all that is committed, and all that the leader had when it
//! began; in the life in which it caught up.

use base::Offset;
use metadata::{Image, Partition};

use super::violation;
use crate::cluster::process::PartitionKey;
use crate::cluster::quorum::node_of;
use crate::cluster::truth::Truth;
use crate::violation::Violation;

pub(crate) fn check(
    key: PartitionKey,
    was: &Partition,
    is: &Partition,
    image: &Image,
    truth: &mut Truth,
    found: &mut Vec<Violation>,
) {
    let Truth { histories, replicas, .. } = truth;
    let Some(history) = histories.get_mut(&key) else { return };
    for id in is.isr.iter().filter(|id| !was.isr.contains(id)) {
        let node = node_of(*id);
        let is_alive = image.broker(*id).is_some_and(|broker| !broker.fenced);
        let known = replicas.get(&(key, node));
        let Some(replica) = known.filter(|replica| replica.is_up && is_alive) else {
            // Whoever goes down while it is about to be in sync was counted on.
            let has_lost = known.is_some_and(|replica| replica.view.durable < replica.view.end);
            let has_lost = has_lost || history.on_replaced.contains_key(&node);
            history.doubt(node, has_lost, Some(is));
            continue;
        };
        if history.is_broken {
            continue;
        }
        let reign = history.reigns.get(&is.leader_epoch).filter(|_| is.leader_epoch == was.leader_epoch);
        let least = history.end.max(reign.map_or(Offset::ZERO, |reign| reign.start));
        let has = history.counted(&replica.view);
        if has < least {
            let what =
                format!("{}: broker {id} is in sync from now on, has up to {has} of {least}", history.name);
            violation(found, "I20 in sync by the controller", what);
        }
        history.doubtful.remove(&node);
        history.robbed.remove(&node);
    }
}
