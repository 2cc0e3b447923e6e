//! When something is due for each member, and who is next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::member::MemberId;

#[derive(Debug, Default)]
pub(super) struct Timers {
    by_member: BTreeMap<MemberId, Duration>,
    by_time: BTreeSet<(Duration, MemberId)>,
}

impl Timers {
    /// Something is due for a member at this time, and not before.
    pub(super) fn set(&mut self, id: &MemberId, at: Duration) {
        if let Some(before) = self.by_member.insert(id.clone(), at) {
            self.by_time.remove(&(before, id.clone()));
        }
        self.by_time.insert((at, id.clone()));
    }

    /// The same, unless something is due already.
    pub(super) fn set_if_absent(&mut self, id: &MemberId, at: Duration) {
        if !self.by_member.contains_key(id) {
            self.set(id, at);
        }
    }

    /// What is due for a member is due at this time, if that is sooner.
    pub(super) fn hasten(&mut self, id: &MemberId, at: Duration) {
        if self.by_member.get(id).is_some_and(|due| *due > at) {
            self.set(id, at);
        }
    }

    /// Nothing is due for a member any more.
    pub(super) fn clear(&mut self, id: &str) {
        if let Some((id, at)) = self.by_member.remove_entry(id) {
            self.by_time.remove(&(at, id));
        }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Those that are due.
    pub(super) fn due(&self, now: Duration) -> Vec<MemberId> {
        self.by_time.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| id.clone()).collect()
    }
}
