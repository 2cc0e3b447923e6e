//! I18: a partition has one leader in an epoch, and every change of leaders begins a later one; whoever led
//! before commits nothing that the next does not have.

use base::BrokerId;
use metadata::Partition;

use super::{Look, violation};
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::{Reign, Truth};
use crate::violation::Violation;

const NAME: &str = "I18 one leader";

pub(crate) fn check(look: &Look<'_>, truth: &mut Truth, found: &mut Vec<Violation>) {
    let Truth { histories, orderly, .. } = truth;
    let Some(history) = histories.get_mut(&look.key).filter(|_| look.after.leads) else { return };
    let (epoch, name) = (look.after.epoch, &history.name);
    let reign = Reign { node: look.node, life: look.life, start: look.after.end };
    match history.reigns.get(&epoch) {
        None => {
            history.reigns.insert(epoch, reign);
        }
        Some(known) if known.node != look.node => {
            let what = format!("{name} is led by nodes {} and {} in epoch {epoch}", known.node, look.node);
            violation(found, NAME, what);
        }
        Some(known) if known.life != look.life && !orderly.contains(&(known.node, known.life)) => {
            let what = format!(
                "node {} leads {name} in epoch {epoch} as before it crashed: its log may be another",
                look.node
            );
            violation(found, NAME, what);
        }
        Some(_) => {}
    }
    if history.is_broken {
        return;
    }
    let advanced = look.before.is_some_and(|before| look.after.committed > before.committed);
    let mut later = history.reigns.range(epoch..).filter(|(at, _)| **at > epoch);
    if let Some((at, next)) = later.find(|(_, next)| advanced && look.after.committed > next.start) {
        let what = format!(
            "node {} of epoch {epoch} commits {} up to {}, and node {} leads from {} on since epoch {at}",
            look.node, history.name, look.after.committed, next.node, next.start
        );
        violation(found, NAME, what);
    }
}

/// A partition was changed in the metadata.
pub(crate) fn check_metadata(key: PartitionKey, was: &Partition, is: &Partition, found: &mut Vec<Violation>) {
    let goes_back = is.leader_epoch < was.leader_epoch || is.partition_epoch <= was.partition_epoch;
    let is_same_epoch = is.leader != was.leader && is.leader_epoch <= was.leader_epoch;
    if goes_back || is_same_epoch {
        violation(found, NAME, format!("{key:?}: {was:?} became {is:?}"));
    }
    if is.leader != BrokerId::NONE && !is.isr.contains(&is.leader) {
        violation(found, NAME, format!("{key:?}: the leader is not in sync: {is:?}"));
    }
}
