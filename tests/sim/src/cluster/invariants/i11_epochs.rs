//! I11, in groups of the new protocol: epochs of a group, of its targets and of its members never go back, also not
//! where it turns from one protocol to the other; a partition is held by one member at a time; and a commit counts only
//! if the member that sent it is in the epoch that it said, or has held the partition since then (KIP-1251).
//!
//! It is looked at in the log: all that decides over these things is in there, in the order in which it was decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Offset, PartitionIndex, TopicId};
use coordinator::GroupRecord;
use coordinator::consumer::{ConsumerGroupRecord, CurrentAssignment, EPOCH_LEFT_STATIC, Member};

use super::violation;
use crate::cluster::groups::{ConsumerState, Groups, Mark, Sender};
use crate::cluster::keyed::KeyedRecord;
use crate::violation::Violation;

const NAME: &str = "I11 epochs";

/// A record of a group's log was committed.
pub(crate) fn extend(groups: &mut Groups, record: &KeyedRecord, found: &mut Vec<Violation>) {
    match GroupRecord::decode(&record.key, record.value.as_deref()) {
        Ok(Some(GroupRecord::OffsetCommit { group, partition, value: Some(value), .. })) => {
            let Some(state) = groups.consumers.get(group) else { return };
            let place = (TopicId(value.topic_id), PartitionIndex(partition));
            let mark = Mark { offset: value.offset, name: value.metadata };
            let sent_by = groups.sent_by.get(&mark.name);
            check_commit((group, state), (mark, record.offset), place, sent_by, found);
        }
        Ok(Some(GroupRecord::ConsumerGroup { group, change })) => follow(groups, group, change, found),
        _ => {}
    }
}

/// A commit took effect. `sent_by` is as whose its mark was seen on its way.
fn check_commit(
    (group, state): (&str, &ConsumerState),
    (mark, at): (Mark, Offset),
    place: (TopicId, PartitionIndex),
    sent_by: Option<&BTreeSet<Sender>>,
    found: &mut Vec<Violation>,
) {
    let Some(sent_by) = sent_by else { return };
    let may = |(id, epoch): &Sender| match state.members.get(id) {
        Some(member) => may_commit(member, *epoch, place),
        None => *epoch < 0 && state.members.is_empty(),
    };
    if !sent_by.iter().any(may) {
        let known: Vec<_> = state.members.iter().map(|(id, member)| (id, member.current.epoch)).collect();
        let what = format!("{group} of {known:?} takes {mark:?} at {at}, which was sent by {sent_by:?}");
        violation(found, NAME, what);
    }
}

fn may_commit(member: &Member, epoch: i32, (topic, index): (TopicId, PartitionIndex)) -> bool {
    let CurrentAssignment { epoch: current, assigned, revoking, .. } = &*member.current;
    let since = [assigned, revoking].into_iter().find_map(|owned| owned.get(&topic)?.get(&index));
    epoch == *current || (epoch < *current && since.is_some_and(|since| *since <= epoch))
}

/// Something changed in a group.
fn follow(groups: &mut Groups, group: &str, change: ConsumerGroupRecord, found: &mut Vec<Violation>) {
    let mut went_back = |what: &str, before: i32, after: i32| {
        if after < before {
            violation(found, NAME, format!("{what} of {group} goes back from {before} to {after}"));
        }
    };
    if let ConsumerGroupRecord::Metadata(None) = change {
        // Where it has members, another protocol goes on with it.
        let gone = groups.consumers.remove(group).filter(|state| state.had_members);
        groups.handed_over.extend(gone.map(|state| (group.to_owned(), state.epoch)));
        return;
    }
    if change.is_tombstone() && !groups.consumers.contains_key(group) {
        return;
    }
    let state = groups.consumers.entry(group.to_owned()).or_default();
    match change {
        ConsumerGroupRecord::Metadata(Some(after)) => {
            let handed_over = groups.handed_over.remove(group).unwrap_or(0);
            went_back("the epoch", state.epoch.max(handed_over), after.epoch);
            (state.epoch, state.had_members) = (after.epoch, !state.members.is_empty());
        }
        ConsumerGroupRecord::TargetAssignmentMetadata(Some(after)) => {
            went_back("the epoch of the targets", state.target_epoch, after.epoch);
            state.target_epoch = after.epoch;
        }
        ConsumerGroupRecord::TargetAssignmentMetadata(None) => state.target_epoch = 0,
        ConsumerGroupRecord::MemberMetadata(id, Some(metadata)) => {
            state.members.entry(id.to_string()).or_default().metadata = metadata;
        }
        ConsumerGroupRecord::MemberMetadata(id, None) => drop(state.members.remove(&*id)),
        ConsumerGroupRecord::CurrentMemberAssignment(id, None) => {
            if let Some(member) = state.members.get_mut(&*id) {
                member.current = Arc::default();
            }
        }
        ConsumerGroupRecord::CurrentMemberAssignment(id, Some(after)) => {
            let before = state.members.get(&*id).map_or(0, |member| member.current.epoch);
            if after.epoch != EPOCH_LEFT_STATIC {
                went_back(&format!("the epoch of {id}"), before, after.epoch);
            }
            check_held((group, state), &id, &after, found);
            state.members.entry(id.to_string()).or_default().current = after;
        }
        _ => {}
    }
}

/// A member has this from here on.
fn check_held(
    (group, state): (&str, &ConsumerState),
    id: &str,
    after: &CurrentAssignment,
    found: &mut Vec<Violation>,
) {
    let given: BTreeSet<_> = held(after).collect();
    for (other, member) in state.members.iter().filter(|(other, _)| **other != *id) {
        if let Some((topic, index)) = held(&member.current).find(|place| given.contains(place)) {
            let what = format!("{topic}-{} of {group} is held by {other}, and given to {id}", index.0);
            violation(found, NAME, what);
        }
    }
}

/// What nobody else may have.
fn held(current: &CurrentAssignment) -> impl Iterator<Item = (TopicId, PartitionIndex)> {
    let all = current.assigned.iter().chain(&current.revoking);
    all.flat_map(|(topic, of)| of.keys().map(|index| (*topic, *index)))
}
