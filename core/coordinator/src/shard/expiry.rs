//! Offsets that nobody needs any more (KIP-211).
//!
//! | the group | an offset is forgotten |
//! |---|---|
//! | has no members, and had some | a while after the last one left, or after it was committed if that was later |
//! | never had members | a while after it was committed |
//! | has consumers, is stable, and does not read the topic | a while after it was committed |
//! | speaks the new protocol, and nobody in it reads the topic | a while after it was committed |
//! | anything else | never |
//!
//! Since when a group of the new protocol has no members, the timestamp of the record of its epoch says (ADR 0031).
//!
//! A group without members goes with its last offset. All groups are looked at from time to time, a slice in each
//! step: a million offsets take a moment in which nobody is answered.

use std::sync::Arc;
use std::time::Duration;

use base::{Effects, Now, TimestampMs};
use metadata::Topic;

use super::{Effect, Shard};
use crate::group::classic::State;
use crate::group::{Group, GroupKind, Groups};
use crate::group_record::{GroupRecord, Record};
use crate::offsets::OffsetAndMetadata;
use crate::outcome::{Count, Outcome};

/// Offsets that are looked at in one step.
const OFFSETS_PER_STEP: usize = 10_000;

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    next: Duration,
    /// The last group that was looked at in this round.
    after: Option<Arc<str>>,
}

impl Expiry {
    /// Begins with the first round.
    pub(super) fn begin(&mut self, at: Duration) {
        *self = Self { next: at, after: None };
    }

    /// When to go on.
    pub(super) fn next(&self) -> Duration {
        self.next
    }
}

impl Shard {
    /// Looks at some of the groups, if it is time.
    pub(super) fn expire(&mut self, now: Now, out: &mut Effects<Effect>) {
        if now.elapsed < self.expiry.next {
            return;
        }
        let mut outcome = Outcome::default();
        let (after, expired) = self.expire_some(now.wall, &mut outcome.records);
        self.expiry.after = after;
        if self.expiry.after.is_none() {
            self.expiry.next = now.elapsed + self.settings.offsets_retention_check_interval;
        }
        if expired > 0 {
            outcome.counts_held.push(Count::OffsetsExpired(expired));
        }
        self.carry_out(now, outcome, true, out);
    }

    /// Looks at the next groups; the last of them unless it was the last of all, and how many offsets are old.
    fn expire_some(&self, now: TimestampMs, records: &mut Vec<Record>) -> (Option<Arc<str>>, usize) {
        let (mut seen, mut expired) = (0, 0);
        for (id, group) in self.groups.after(self.expiry.after.as_deref()) {
            seen += 1 + group.offsets.len();
            expired += expire_group(id, group, now, self.settings.offsets_retention, records);
            if seen >= OFFSETS_PER_STEP {
                return (Some(id.clone()), expired);
            }
        }
        (None, expired)
    }
}

/// From when on a group's offsets grow old.
enum Age {
    /// They do not.
    Never,
    /// Each since it was committed.
    SinceCommit,
    /// Each since it was committed, or since this if that was later: the last member left.
    SinceBoth(TimestampMs),
}

fn age_of(group: &Group) -> Age {
    let classic = match &group.kind {
        GroupKind::Classic(classic) => classic,
        GroupKind::Consumer(it) if it.group.is_empty() => return Age::SinceBoth(it.epoch_since),
        GroupKind::Consumer(_) => return Age::SinceCommit,
    };
    match classic.state() {
        _ if classic.protocol_type().is_none() => Age::SinceCommit,
        // That it is not known is earlier than any commit.
        State::Empty => Age::SinceBoth(classic.state_since()),
        State::Stable if classic.speaks_consumer() && classic.knows_subscriptions() => Age::SinceCommit,
        State::Stable | State::PreparingRebalance | State::CompletingRebalance => Age::Never,
    }
}

/// Adds the tombstones of what a group does not need any more; how many offsets that is.
fn expire_group(
    id: &str,
    group: &Group,
    now: TimestampMs,
    retention: Duration,
    records: &mut Vec<Record>,
) -> usize {
    let age = age_of(group);
    let is_old = |offset: &OffsetAndMetadata| {
        let since = match &age {
            Age::Never => return false,
            _ if offset.expires_at.is_some() => return now >= offset.expires_at,
            Age::SinceCommit => offset.committed_at,
            Age::SinceBoth(left) => offset.committed_at.max(*left),
        };
        now.saturating_since(since) >= retention
    };
    let mut expired = 0;
    for (topic, partitions) in group.offsets.topics() {
        if group.is_subscribed_to(topic.as_str()) {
            continue;
        }
        for (partition, _) in partitions.iter().filter(|(_, offset)| is_old(offset)) {
            records.push(forgotten(id, topic.as_str(), *partition));
            expired += 1;
        }
    }
    let nothing_is_left = expired == group.offsets.len();
    match &group.kind {
        GroupKind::Classic(classic) if nothing_is_left && classic.is_deserted() && classic.is_written() => {
            records.push(GroupRecord::GroupMetadata { group: id, value: None }.encode());
        }
        GroupKind::Consumer(consumers) if nothing_is_left && consumers.group.is_empty() => {
            records.extend(consumers.tombstones(id));
        }
        GroupKind::Classic(_) | GroupKind::Consumer(_) => {}
    }
    expired
}

/// The tombstones of all offsets in some topics.
pub(super) fn offsets_in(groups: &Groups, topics: &[Arc<Topic>]) -> Vec<Record> {
    let mut records = Vec::new();
    for (id, group) in groups.iter() {
        for topic in topics {
            let partitions = group.offsets.in_topic(topic.name.as_str()).into_iter().flatten();
            let gone = partitions.filter(|(_, offset)| offset.is_of(topic.id.0));
            records.extend(gone.map(|(partition, _)| forgotten(id, topic.name.as_str(), *partition)));
        }
    }
    records
}

fn forgotten(group: &str, topic: &str, partition: i32) -> Record {
    GroupRecord::OffsetCommit { group, topic, partition, value: None }.encode()
}
