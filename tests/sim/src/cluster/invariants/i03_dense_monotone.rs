//! I3: offsets follow one another without gaps, and a log ends and starts no earlier than before, except
//! where its end was cut off.

use base::Offset;

use super::{Look, violation};
use crate::cluster::truth::{History, Stored};
use crate::violation::Violation;

const NAME: &str = "I3 dense and monotone";

pub(crate) fn check(look: &Look<'_>, history: &History, found: &mut Vec<Violation>) {
    let Some(before) = look.before else { return };
    if before.start == before.end && look.after.start == look.after.end {
        // Nothing became nothing: a follower may have to begin with the batch that its leader's log starts within.
        return;
    }
    // A disk that fails in the middle of a cut has cut all the same.
    if look.cuts.is_empty()
        && !look.after.has_failed
        && (look.after.end < before.end || look.after.start < before.start)
    {
        let what = format!("node {} {}: {before:?} became {:?}", look.node, history.name, look.after);
        violation(found, NAME, what);
    }
}

/// Batches that were read from `from` on.
pub(crate) fn check_batches(name: &str, from: Offset, batches: &[Stored], found: &mut Vec<Violation>) {
    let mut next = from;
    for batch in batches {
        let len = batch.next.0 - batch.base.0;
        if batch.base != next || len != batch.values.len() as i64 {
            let what = format!(
                "{name}: {}..{} with {} records follows {next}",
                batch.base,
                batch.next,
                batch.values.len()
            );
            return violation(found, NAME, what);
        }
        next = batch.next;
    }
}
