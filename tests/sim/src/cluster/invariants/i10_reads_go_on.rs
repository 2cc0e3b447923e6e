//! I10: reads never go back: up to where records were once committed, and behind what somebody asked to be deleted, a
//! reader is never told that its place is out of range.

use base::Offset;

use super::violation;
use crate::cluster::truth::History;
use crate::violation::Violation;

/// A reader was told that its offset is out of range.
pub(crate) fn check_refused(history: &History, from: usize, offset: Offset, found: &mut Vec<Violation>) {
    if !history.is_broken && (history.deletes_asked..=history.end).contains(&offset) {
        let what = format!(
            "{} {offset} is out of range, says node {from}; committed up to {}",
            history.name, history.end
        );
        violation(found, "I10 reads go on", what);
    }
}

/// A reader was given the record at `to` where the one at `offset` comes next.
pub(crate) fn check_skipped(
    history: &History,
    from: usize,
    (offset, to): (Offset, Offset),
    found: &mut Vec<Violation>,
) {
    if !history.is_broken {
        let what = format!("{}: node {from} goes on at {to} where {offset} was asked for", history.name);
        violation(found, "I10 reads go on", what);
    }
}
