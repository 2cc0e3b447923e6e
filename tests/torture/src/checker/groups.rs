//! What a group may do: who owns a partition, how far it is committed, and that nothing is left out.
//!
//! ```text
//!   A assigned ──reads, commits──▶ A revoked ─▶ B assigned          one after the other, or A is
//!        └──────────────── A lost, left, killed ──▶ B assigned      out of touch, and commits nothing
//!
//!   commits, and what is told of them      ──────▶ never back       a register that only grows
//!   what was delivered to all members      ──────▶ every record     at least once
//! ```
//!
//! Members are separate processes, whose lines come late: all is looked at in the order of its time. A
//! partition's owner is who was given it last, unless it had lost it before it heard of it: who commits, or is
//! asked to give it back, has not. Until when the one before it took itself for the owner is its own word.
//!
//! A member that was stopped or cut off does, when it goes on, what it was told before: it reads what it has,
//! begins where it meant to, gives back what it was asked for long ago, and none of that is wrong. What it
//! commits meanwhile of what is another's has to be refused.
//!
//! A group that only reads on from where it is committed never commits less than before: so no exception is
//! needed for a commit that nobody knows the fate of.

mod anomaly; // what can be found
mod delivered; // what members were given
mod owners;
mod register; // how far a partition is committed
mod touch; // who may be late

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use anomaly::GroupAnomaly;

use crate::history::{Away, Event, Line, Run};
use delivered::Delivered;
use owners::{End, GrantId, Owners};
use register::Register;
use touch::Touch;

/// What was counted on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// Members there were, one after the other.
    pub members: u64,
    /// Of those: killed.
    pub killed: u64,
    /// Times that a member was given partitions.
    pub assigned: u64,
    /// Times that it was asked for some, and gave them back.
    pub revoked: u64,
    /// Times that it was told that they were another's.
    pub lost: u64,
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Commits that were not.
    pub uncommitted: u64,
    /// Answers about what is committed.
    pub told: u64,
    /// Times that a member took itself for the owner after another had become it, before it heard of it.
    pub out_of_touch: u64,
    /// The longest of them.
    pub out_of_touch_ms_max: u64,
    /// Commits that a member made of what had become another's, and that were refused or not answered.
    pub fenced: u64,
    /// Times that a member was stopped.
    pub stopped: u64,
    /// Times that it was cut off.
    pub cut_off: u64,
    /// Times that the machine let its process wait.
    pub stood_still: u64,
    /// The longest of them.
    pub stood_still_ms_max: u64,
}

/// A group and a partition.
type Place = (u32, i32);

/// Looks at all groups of a history: what was counted, and what must not be.
pub(super) fn check(lines: &[Line]) -> (GroupCounts, Vec<GroupAnomaly>) {
    let mut all: Vec<&Line> = lines.iter().filter(|line| is_of_groups(&line.event)).collect();
    all.sort_by_key(|line| line.at);
    let mut groups = Groups::default();
    // A member in another process may be written down later than what it did.
    for line in &all {
        if let Event::Member { who, group } = line.event {
            groups.members.insert(who, group);
            groups.counts.members += 1;
        }
    }
    let mut found = Vec::new();
    if !groups.members.is_empty() {
        for line in all {
            groups.look_at(line, &mut found);
        }
        groups.settle(&mut found);
    }
    (groups.counts, found)
}

const fn is_of_groups(event: &Event) -> bool {
    matches!(
        event,
        Event::Member { .. }
            | Event::Assign { .. }
            | Event::Poll { .. }
            | Event::Final { .. }
            | Event::Assigned { .. }
            | Event::Revoked { .. }
            | Event::Lost { .. }
            | Event::Leaving { .. }
            | Event::Gone { .. }
            | Event::Commit { .. }
            | Event::Committed { .. }
            | Event::Uncommitted { .. }
            | Event::Told { .. }
            | Event::Away { .. }
            | Event::Back { .. }
    )
}

/// A commit on its way.
struct Pending {
    since: u64,
    offsets: Vec<(i32, i64)>,
    /// By partition: since when it is the member's, if it is.
    grants: BTreeMap<i32, GrantId>,
    /// By partition: since when it is another's by then, if it is.
    of_others: BTreeMap<i32, GrantId>,
}

/// Something that is wrong if a member really was the owner.
struct Suspect {
    place: Place,
    owner: GrantId,
    anomaly: GroupAnomaly,
}

#[derive(Default)]
struct Groups {
    /// By member: its group.
    members: BTreeMap<u32, u32>,
    leaving: BTreeSet<u32>,
    touch: Touch,
    owners: BTreeMap<Place, Owners>,
    registers: BTreeMap<Place, Register>,
    delivered: BTreeMap<Place, Delivered>,
    pending: BTreeMap<(u32, u64), Pending>,
    suspects: Vec<Suspect>,
    /// By partition: where it ends.
    ends: BTreeMap<i32, i64>,
    /// By group: what it was told at the end.
    last: BTreeMap<u32, BTreeMap<i32, i64>>,
    counts: GroupCounts,
}

impl Groups {
    fn look_at(&mut self, line: &Line, found: &mut Vec<GroupAnomaly>) {
        let at = line.at;
        match &line.event {
            Event::Assigned { who, partitions } => self.assigned(*who, partitions, at),
            Event::Revoked { who, partitions } => {
                self.counts.revoked += 1;
                let end = if self.leaving.contains(who) {
                    End::Left
                } else if self.touch.late_since(*who).is_some() {
                    End::RevokedLate
                } else {
                    End::Revoked
                };
                self.ended(*who, partitions, (at, end));
            }
            Event::Lost { who, partitions } => {
                self.counts.lost += 1;
                self.ended(*who, partitions, (at, End::Lost));
            }
            Event::Leaving { who } => {
                self.leaving.insert(*who);
            }
            Event::Gone { who, killed } => self.gone(*who, *killed, at),
            Event::Assign { who, partition, offset } => {
                self.resumed(*who, (*partition, *offset), found);
            }
            Event::Poll { who, partition, runs } => self.polled(*who, *partition, runs, found),
            Event::Commit { who, number, offsets } => self.commits(*who, *number, offsets, at, found),
            Event::Committed { who, number } => self.committed(*who, *number, at, found),
            Event::Uncommitted { who, number, .. } => {
                self.counts.uncommitted += 1;
                let pending = self.pending.remove(&(*who, *number));
                let is_fenced = pending.is_some_and(|pending| !pending.of_others.is_empty());
                self.counts.fenced += u64::from(is_fenced);
            }
            Event::Told { group, since, offsets, last } => {
                self.told(*group, offsets, (*since, at), found);
                if *last {
                    self.last.insert(*group, offsets.iter().copied().collect());
                }
            }
            Event::Final { partition, end, .. } => {
                self.ends.insert(*partition, *end);
            }
            Event::Away { who, why } => self.touch.away(*who, *why, at),
            Event::Back { who } => self.back(*who, at),
            _ => {}
        }
    }

    fn back(&mut self, who: u32, at: u64) {
        let counts = &mut self.counts;
        match self.touch.back(who, at) {
            Some((Away::Stopped, _)) => counts.stopped += 1,
            Some((Away::CutOff, _)) => counts.cut_off += 1,
            Some((Away::StoodStill, time)) => {
                counts.stood_still += 1;
                counts.stood_still_ms_max = counts.stood_still_ms_max.max(time / 1_000_000);
            }
            None => {}
        }
    }

    fn assigned(&mut self, who: u32, partitions: &[i32], at: u64) {
        let Some(&group) = self.members.get(&who) else { return };
        self.counts.assigned += 1;
        for partition in partitions {
            self.owners.entry((group, *partition)).or_default().give(who, at);
        }
    }

    fn ended(&mut self, who: u32, partitions: &[i32], (at, end): (u64, End)) {
        let Some(&group) = self.members.get(&who) else { return };
        for &partition in partitions {
            let place = (group, partition);
            let owners = self.owners.entry(place).or_default();
            let Some(own) = owners.held(who) else { continue };
            owners.end(own, end);
            let Some(owner) = owners.after(own) else { continue };
            let other = owners.get(owner);
            let ms = (at - other.at) / 1_000_000;
            if end == End::Revoked {
                // It was in touch with its group, which waits until it has heard of it.
                let anomaly = GroupAnomaly::TwoOwners { group, partition, members: (who, other.who), ms };
                self.suspects.push(Suspect { place, owner, anomaly });
            } else {
                self.counts.out_of_touch += 1;
                self.counts.out_of_touch_ms_max = self.counts.out_of_touch_ms_max.max(ms);
            }
        }
    }

    fn gone(&mut self, who: u32, killed: bool, at: u64) {
        self.counts.killed += u64::from(killed);
        let held = self.owners.iter().filter(|(_, owners)| owners.held(who).is_some());
        let held: Vec<i32> = held.map(|((_, partition), _)| *partition).collect();
        self.ended(who, &held, (at, End::Gone));
    }

    /// A member begins to read a partition: from where it was told that it is committed.
    fn resumed(&mut self, who: u32, (partition, offset): (i32, i64), found: &mut Vec<GroupAnomaly>) {
        let Some(&group) = self.members.get(&who) else { return };
        let Some(since) = self.owned_since(who, partition, offset, found) else { return };
        // Who was away may have been told before.
        let since = self.touch.late_since(who).map_or(since, |late| late.min(since));
        let register = self.registers.entry((group, partition)).or_default();
        if let Some(floor) = register.above(since, offset) {
            let back = GroupAnomaly::ResumedBack { group, partition, who, offsets: (floor, offset) };
            found.push(back);
        }
        // Where nothing is committed, it begins with the first record.
        let most = register.most().max(0);
        if offset > most {
            let beyond = GroupAnomaly::Beyond { group, partition, offset, most };
            found.push(beyond);
        }
    }

    fn polled(&mut self, who: u32, partition: i32, runs: &[Run], found: &mut Vec<GroupAnomaly>) {
        let Some(&group) = self.members.get(&who) else { return };
        let Some(Run(first, ..)) = runs.first() else { return };
        self.owned_since(who, partition, *first, found);
        let delivered = self.delivered.entry((group, partition)).or_default();
        for Run(offset, .., count) in runs {
            delivered.add(*offset, *offset + i64::from(*count));
        }
    }

    /// Since when a member owns what it reads; it is wrong if it does not.
    fn owned_since(
        &self,
        who: u32,
        partition: i32,
        offset: i64,
        found: &mut Vec<GroupAnomaly>,
    ) -> Option<u64> {
        let group = *self.members.get(&who)?;
        let owners = self.owners.get(&(group, partition));
        let since = owners.and_then(|owners| Some(owners.get(owners.held(who)?).at));
        if since.is_none() {
            found.push(GroupAnomaly::Unowned { group, partition, who, offset });
        }
        since
    }

    fn commits(
        &mut self,
        who: u32,
        number: u64,
        offsets: &[(i32, i64)],
        at: u64,
        found: &mut Vec<GroupAnomaly>,
    ) {
        let Some(&group) = self.members.get(&who) else { return };
        let (mut grants, mut of_others) = (BTreeMap::new(), BTreeMap::new());
        for &(partition, offset) in offsets {
            self.registers.entry((group, partition)).or_default().asked(offset);
            let owners = self.owners.entry((group, partition)).or_default();
            let Some(own) = owners.held(who) else { continue };
            match owners.after(own) {
                None => grants.insert(partition, own),
                Some(other) => of_others.insert(partition, other),
            };
        }
        let pending = Pending { since: at, offsets: offsets.to_vec(), grants, of_others };
        if self.pending.insert((who, number), pending).is_some() {
            let what = format!("member {who} made commit {number} twice");
            found.push(GroupAnomaly::Nonsense { what });
        }
    }

    fn committed(&mut self, who: u32, number: u64, at: u64, found: &mut Vec<GroupAnomaly>) {
        let Some(&group) = self.members.get(&who) else { return };
        self.counts.commits += 1;
        let Some(pending) = self.pending.remove(&(who, number)) else {
            let what = format!("member {who} was told of commit {number}, which it never made");
            return found.push(GroupAnomaly::Nonsense { what });
        };
        self.touch.heard_of(who, pending.since);
        for (partition, offset) in pending.offsets {
            let place = (group, partition);
            let owners = self.owners.entry(place).or_default();
            if let Some(&own) = pending.grants.get(&partition) {
                owners.prove(own);
            }
            if let Some(&owner) = pending.of_others.get(&partition) {
                let other = owners.get(owner).who;
                let anomaly = GroupAnomaly::Fenced { group, partition, who, owner: other, offset };
                self.suspects.push(Suspect { place, owner, anomaly });
            }
            let register = self.registers.entry((group, partition)).or_default();
            if let Some(floor) = register.above(pending.since, offset) {
                let back = GroupAnomaly::CommittedBack { group, partition, who, offsets: (floor, offset) };
                found.push(back);
            }
            register.is_at_least(offset, at);
        }
    }

    fn told(
        &mut self,
        group: u32,
        offsets: &[(i32, i64)],
        (since, at): (u64, u64),
        found: &mut Vec<GroupAnomaly>,
    ) {
        self.counts.told += 1;
        let told: BTreeMap<i32, i64> = offsets.iter().copied().collect();
        for partition in told.keys() {
            self.registers.entry((group, *partition)).or_default();
        }
        for ((_, partition), register) in self.registers.range_mut((group, i32::MIN)..=(group, i32::MAX)) {
            let partition = *partition;
            let offset = told.get(&partition).copied().unwrap_or(Register::NOTHING);
            if let Some(floor) = register.above(since, offset) {
                let back = GroupAnomaly::ToldBack { group, partition, offsets: (floor, offset) };
                found.push(back);
            }
            let most = register.most();
            if offset > most {
                found.push(GroupAnomaly::Beyond { group, partition, offset, most });
            }
            register.is_at_least(offset, at);
        }
    }

    /// What can be said only when everything is known.
    fn settle(&mut self, found: &mut Vec<GroupAnomaly>) {
        for Suspect { place, owner, anomaly } in std::mem::take(&mut self.suspects) {
            if self.owners.get(&place).is_some_and(|owners| owners.get(owner).is_proved) {
                found.push(anomaly);
            }
        }
        let groups: BTreeSet<u32> = self.members.values().copied().collect();
        for group in groups {
            for (&partition, &end) in &self.ends {
                let delivered = self.delivered.entry((group, partition)).or_default();
                for offsets in delivered.missing(end) {
                    found.push(GroupAnomaly::Undelivered { group, partition, offsets });
                }
                let Some(last) = self.last.get(&group) else { continue };
                let offset = last.get(&partition).copied().unwrap_or(Register::NOTHING);
                // Of a partition that nothing was written to, nothing need be committed.
                if offset.max(0) != end {
                    found.push(GroupAnomaly::Uncommitted { group, partition, offset, end });
                }
            }
            if !self.last.contains_key(&group) {
                found.push(GroupAnomaly::Unasked { group });
            }
        }
    }
}
