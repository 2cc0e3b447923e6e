//! I11: a partition has one owner in a group: no two members that have a right to it believe that it is theirs.
//!
//! A member has a right to what it was assigned for as long as its coordinator cannot have taken it for dead: for a
//! session, or for the time that a rebalance waits if that is shorter, since it sent what was last answered with yes.
//! By the fastest of the brokers' clocks: it is theirs that count.
//! What it is to give up it has a right to for as long, if it had one. Whoever answered must have been the coordinator
//! when that was sent, and have read its log: one that is none any more promises nothing. One that does not know its
//! members yet says yes to all heartbeats, so who says yes to one must be the same since.

use std::collections::BTreeMap;

use base::TopicPartition;

use super::violation;
use crate::violation::Violation;

/// What the members of a group own that have a right to it.
pub(crate) fn check<'a>(
    group: &str,
    owned: impl Iterator<Item = (usize, &'a TopicPartition)>,
    found: &mut Vec<Violation>,
) {
    let mut owners: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
    for (client, part) in owned {
        if let Some(other) = owners.insert(part, client) {
            let what = format!("{part} of {group} is owned by clients {other} and {client}");
            return violation(found, "I11 one owner", what);
        }
    }
}
