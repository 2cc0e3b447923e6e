//! I11: generations of a group never go back; and a commit counts only in the generation in which it was sent: what
//! a member of an earlier one sends, or one that was fenced, is refused.
//!
//! It is looked at in the log, where each commit stands behind the generation that was in force when it was taken. A
//! generation begins when its members have joined, and is written once its leader has said who gets what. Where that
//! could not be written, the members join again, and commit in it before they do: nobody got anything in it, so what
//! they had is still theirs. So a commit may be of a later generation than the log's last, never of an earlier one.

use std::collections::BTreeSet;

use base::Offset;
use coordinator::GroupRecord;

use super::{i11_commits, violation};
use crate::cluster::groups::{Commit, Groups, Mark, Sender};
use crate::cluster::keyed::KeyedRecord;
use crate::cluster::process::PartitionKey;
use crate::violation::Violation;

const NAME: &str = "I11 generations";

/// A record of a group's log was committed.
pub(crate) fn extend(
    groups: &mut Groups,
    key: PartitionKey,
    record: &KeyedRecord,
    found: &mut Vec<Violation>,
) {
    let read = GroupRecord::decode(&record.key, record.value.as_deref());
    if let Ok(Some(GroupRecord::OffsetCommit { group, topic, partition, value })) = &read {
        let upto = value.as_ref().map(|it| Mark { offset: it.offset, name: it.metadata.clone() });
        if let Some(mark) = &upto {
            let (sent_by, current) = (groups.sent_by.get(&mark.name), groups.generations.get(*group));
            check_commit(group, (mark, record.offset), sent_by, current, found);
        }
        let place = ((*group).to_owned(), (*topic).to_owned(), *partition);
        if let Some(mark) = &upto {
            let before = groups.commits(&place).last().and_then(|commit| commit.upto.as_ref());
            i11_commits::check_next(&place, before, mark, found);
        }
        groups.commits.entry(place).or_default().push(Commit { at: record.offset, upto });
    }
    if let Ok(Some(GroupRecord::GroupMetadata { group, value })) = &read {
        let (before, after) = (groups.generations.remove(*group), value.as_ref().map(|it| it.generation));
        check_group(group, (before.or(groups.handed_over.remove(*group)), after), key, found);
        groups.generations.extend(after.map(|generation| ((*group).to_owned(), generation)));
        let goes_on = value.as_ref().filter(|it| !it.members.is_empty()).map(|it| it.generation);
        groups.handed_over.extend(goes_on.map(|generation| ((*group).to_owned(), generation)));
    }
}

/// A commit took effect. `sent_by` is as whose its mark was seen on its way, `current` what the log says of the group.
fn check_commit(
    group: &str,
    (mark, at): (&Mark, Offset),
    sent_by: Option<&BTreeSet<Sender>>,
    current: Option<&i32>,
    found: &mut Vec<Violation>,
) {
    let Some(sent_by) = sent_by else {
        return violation(found, NAME, format!("nobody sent {mark:?}, which {group} has at {at}"));
    };
    // Who has no part in a group's generations says -1; groups of the other protocol have none.
    if let Some(current) = current
        && sent_by.iter().all(|(_, generation)| *generation < *current && *generation != -1)
    {
        let what =
            format!("{group} is in {current}, and takes {mark:?} at {at}, which was sent by {sent_by:?}");
        violation(found, NAME, what);
    }
}

/// A group was written down anew, or forgotten.
fn check_group(
    group: &str,
    (before, after): (Option<i32>, Option<i32>),
    key: PartitionKey,
    found: &mut Vec<Violation>,
) {
    if let (Some(before), Some(after)) = (before, after)
        && after < before
    {
        violation(found, NAME, format!("{group} in {key:?} goes back from generation {before} to {after}"));
    }
}
