//! I1: what was acknowledged to acks=all stays where it was said to be, provided that fewer replicas lost
//! data at a time than `min.insync.replicas`; unconditionally where only what is durable counts.

use base::Offset;

use super::{Look, violation};
use crate::cluster::truth::{History, Truth};
use crate::violation::Violation;

const NAME: &str = "I1 acknowledged is kept";

/// A producer was told where its record is: it must be committed there.
pub(crate) fn check_acked(history: &History, offset: Offset, value: u64, found: &mut Vec<Violation>) {
    if history.is_broken || history.value_at(offset) == Some(value) {
        return;
    }
    let there = history.value_at(offset);
    let what = format!(
        "{} {offset} was said to be {value}, and is {there:?}; committed up to {}",
        history.name, history.end
    );
    violation(found, NAME, what);
}

/// Whoever leads has all that was committed.
pub(crate) fn check_leader(look: &Look<'_>, truth: &Truth, found: &mut Vec<Violation>) {
    let begins = look.after.leads
        && look.before.is_none_or(|before| !before.leads || before.epoch != look.after.epoch);
    let Some(history) = truth.histories.get(&look.key).filter(|_| begins) else { return };
    // Who hears late that it led once may lack what was committed since.
    if look.after.end < history.end && history.is_latest(look.after.epoch) {
        let what = format!(
            "node {} leads {} from epoch {} on and ends at {}, but up to {} it is committed",
            look.node, history.name, look.after.epoch, look.after.end, history.end
        );
        violation(found, NAME, what);
    }
}
