//! I26: a log starts no later than somebody asked for, and what was deleted does not come back: whoever leads once that
//! was answered has a log that starts there or later.

use base::Offset;

use super::{Look, violation};
use crate::cluster::truth::History;
use crate::violation::Violation;

const NAME: &str = "I26 deletion";

/// A replica was stepped.
pub(super) fn check(look: &Look<'_>, history: &History, found: &mut Vec<Violation>) {
    let start = look.after.start;
    let say = |what: String| format!("node {} {}: {what}: {:?}", look.node, history.name, look.after);
    // Compaction may take all that was first.
    if start > history.deletes_asked && !history.compacts {
        violation(found, NAME, say(format!("nobody asked for more than {}", history.deletes_asked)));
    }
    let leads = look.after.leads && !look.after.has_failed && history.is_latest(look.after.epoch);
    if leads && !history.is_broken && start < history.deleted {
        violation(found, NAME, say(format!("what is before {} was deleted", history.deleted)));
    }
}

/// Somebody was told where a log starts, who asked for records to be deleted.
pub(crate) fn check_answer(history: &History, (upto, start): (Offset, Offset), found: &mut Vec<Violation>) {
    if start < upto || start > history.deletes_asked {
        let asked = history.deletes_asked;
        let what = format!("{} is said to start at {start}, asked was {upto}, at most {asked}", history.name);
        violation(found, NAME, what);
    }
}
