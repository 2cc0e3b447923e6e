//! I14: start ≤ last stable offset ≤ high watermark ≤ end; a high watermark never goes back in a life of its
//! replica; and no follower takes more for committed than a leader did.

use super::{Look, violation};
use crate::cluster::truth::History;
use crate::violation::Violation;

const NAME: &str = "I14 marks";

pub(crate) fn check(look: &Look<'_>, history: &History, found: &mut Vec<Violation>) {
    let after = look.after;
    let say = |what: &str| format!("node {} {}: {what}: {after:?}", look.node, history.name);
    let in_order =
        after.start <= after.stable && after.stable <= after.committed && after.committed <= after.end;
    if !in_order || after.durable > after.end {
        violation(found, NAME, say("out of order"));
    }
    if let Some(before) = look.before
        && look.cuts.is_empty()
        && after.committed < before.committed
        // Of nothing, wherever that is, nothing is committed.
        && (before.start, after.start) != (before.end, after.end)
    {
        violation(found, NAME, say(&format!("committed was {}", before.committed)));
    }
    if !history.is_broken && !after.leads && after.committed > history.end {
        violation(found, NAME, say(&format!("no leader committed more than {}", history.end)));
    }
}
