//! I15: what a leader commits, all in sync have, and at least as many as `min.insync.replicas`: durably,
//! where only that counts.

use std::collections::BTreeSet;

use base::Offset;

use super::{Look, violation};
use crate::cluster::quorum::{broker, node_of};
use crate::cluster::truth::{History, Truth};
use crate::violation::Violation;

const NAME: &str = "I15 committed by all";

/// A leader has just committed up to `upto`.
pub(crate) fn check(look: &Look<'_>, truth: &Truth, upto: Offset, found: &mut Vec<Violation>) {
    let (Some(history), Some(decided)) = (truth.histories.get(&look.key), look.decided) else { return };
    // Who lost data had it when it said so, and counts among those that the settings allow to be lost.
    let has = |node: usize| {
        let replica = truth.replicas.get(&(look.key, node));
        history.doubtful.contains(&node)
            || replica.is_some_and(|replica| history.counted(&replica.view) >= upto)
    };
    let known = truth.replicas_of(look.key).map(|(node, _)| node);
    let known: BTreeSet<usize> = known.chain(history.doubtful.iter().copied()).collect();
    let holders = known.into_iter().filter(|node| has(*node)).count();
    let wanted = history.isr_min.min(decided.replicas.len());
    if holders < wanted {
        let what = format!("{} of {wanted} have it", holders);
        return violation(found, NAME, say(look, history, upto, &what));
    }
    if decided.leader_epoch != look.after.epoch {
        // The in-sync set is another leader's by now.
        return;
    }
    let missing = decided.isr.iter().find(|id| !has(node_of(**id)));
    if let Some(missing) = missing {
        let what = format!("broker {missing} is in sync and lacks it");
        violation(found, NAME, say(look, history, upto, &what));
    }
}

fn say(look: &Look<'_>, history: &History, upto: Offset, what: &str) -> String {
    let (leader, epoch) = (broker(look.node), look.after.epoch);
    format!("broker {leader} of epoch {epoch} commits {} up to {upto}: {what}", history.name)
}
