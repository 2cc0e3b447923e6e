//! I19: a leader is elected from those in sync, or else from the eligible replicas; both sets are of the
//! replicas and have nobody in common, and whoever is elected has what is committed.

use base::BrokerId;
use metadata::Partition;

use super::violation;
use crate::cluster::process::PartitionKey;
use crate::cluster::quorum::node_of;
use crate::cluster::truth::Truth;
use crate::violation::Violation;

const NAME: &str = "I19 clean elections";

pub(crate) fn check(
    key: PartitionKey,
    was: &Partition,
    is: &Partition,
    truth: &Truth,
    found: &mut Vec<Violation>,
) {
    let is_replica = |id: &BrokerId| is.replicas.contains(id);
    if !is.isr.iter().chain(is.eligible()).all(is_replica) {
        violation(found, NAME, format!("{key:?}: not all are replicas: {is:?}"));
    }
    if is.isr.iter().any(|id| is.eligible().contains(id)) {
        violation(found, NAME, format!("{key:?}: in sync and eligible: {is:?}"));
    }
    let is_elected = is.leader != BrokerId::NONE && is.leader_epoch != was.leader_epoch;
    if !is_elected {
        return;
    }
    let Some(history) = truth.histories.get(&key) else { return };
    // A leader that stops hands over to whom it takes in.
    let is_handed_over = is.isr.contains(&was.leader) && is.isr.contains(&is.leader);
    // Whom the leader takes in may be the last that a reassignment waited for: then the leader goes at once.
    let is_moved = was.removing().contains(&was.leader) && !is.replicas.contains(&was.leader);
    let is_known = was.isr.contains(&is.leader) || was.eligible().contains(&is.leader);
    let is_clean = is_known || is_handed_over || is_moved;
    // The last leader of all is elected when it is back and nobody else can be.
    let is_last_resort = is.recovering && was.last_known_eligible() == [is.leader];
    if !(is_clean || is_last_resort) {
        violation(found, NAME, format!("{}: {was:?} became {is:?}", history.name));
    }
    let replica = truth.replicas.get(&(key, node_of(is.leader)));
    if let Some(replica) = replica.filter(|replica| replica.is_up && !history.is_broken)
        && replica.view.end < history.end
    {
        let (leader, end, committed) = (is.leader, replica.view.end, history.end);
        let what =
            format!("{}: {leader} is elected, ends at {end}, and lacks up to {committed}", history.name);
        violation(found, NAME, what);
    }
}
