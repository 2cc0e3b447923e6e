//! From one generation to the next: everybody is asked to join, and who does is in it.
//!
//! A rebalance of a group that has members ends once all of them have joined again, or the longest of their
//! rebalance timeouts has passed. One of a group that was empty does not know for whom to wait: it waits until nobody
//! new has come for a while, longer the more there are ([`InitialDelay`]; ADR 0022).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::ErrorCode;

use super::member::Member;
use super::{ClassicGroup, State};
use crate::outcome::{Cause, Count, Outcome};
use crate::response::{JoinedGroup, Response, SyncedGroup};
use crate::settings::Step;

/// How long a group that was empty waits for a second member after its first.
const QUIET_FIRST: Duration = Duration::from_millis(100);

/// The join phase of a group that was empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct InitialDelay {
    /// When it began.
    since: Duration,
}

impl InitialDelay {
    /// When it ends, if nobody new comes after `now`: after a silence that is longer by [`QUIET_FIRST`] with each
    /// doubling of those who came, and in any case when `max` has passed since the first.
    ///
    /// Members that are started together come within moments of each other, and one more of them costs everybody a
    /// rebalance; one that comes alone is not kept waiting for others that nobody has heard of.
    fn ends(self, now: Duration, arrived: usize, max: Duration) -> Duration {
        let quiet = QUIET_FIRST * (1 + arrived.max(1).ilog2());
        (now + quiet).min(self.since + max)
    }
}

impl ClassicGroup {
    /// Somebody new came, or was given an id to come with.
    pub(super) fn note_arrival(&mut self, at: &Step<'_>) {
        let Some(initial) = self.initial else { return };
        let arrived = self.members.len() + self.pending.len();
        let ends = initial.ends(at.now.elapsed, arrived, at.settings.initial_rebalance_delay_max);
        self.join_due = Some(ends.max(at.now.elapsed));
    }

    /// Something changed for which the group needs another generation, or which was all it waited for.
    pub(super) fn rebalance_or_complete(&mut self, at: &Step<'_>, cause: Cause, out: &mut Outcome) {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => self.rebalance(at, cause, out),
            State::PreparingRebalance => self.complete_if_all_joined(at, out),
        }
    }

    /// Begins a rebalance: who is in the group hears of it with its next heartbeat.
    pub(crate) fn rebalance(&mut self, at: &Step<'_>, cause: Cause, out: &mut Outcome) {
        if self.state == State::CompletingRebalance {
            self.drop_assignments(ErrorCode::RebalanceInProgress, out);
        }
        self.sync_due = None;
        self.write_due = None;
        out.counts.push(Count::RebalanceBegan(cause));
        self.rebalancing_since = at.now.elapsed;
        let was_empty = self.state == State::Empty;
        self.state = State::PreparingRebalance;
        if was_empty && !at.settings.initial_rebalance_delay_max.is_zero() {
            self.initial = Some(InitialDelay { since: at.now.elapsed });
            self.note_arrival(at);
        } else if self.all_joined() {
            self.complete_join(at, out);
        } else {
            self.join_due = Some(at.now.elapsed + self.rebalance_timeout());
        }
    }

    /// Ends the join phase if nobody is missing. The first one of a group goes on: more may come.
    pub(super) fn complete_if_all_joined(&mut self, at: &Step<'_>, out: &mut Outcome) {
        let nobody_is_left = self.members.is_empty();
        let is_over = self.state == State::PreparingRebalance && (self.initial.is_none() || nobody_is_left);
        if is_over && self.all_joined() {
            self.complete_join(at, out);
        }
    }

    /// Ends the join phase with those who joined. Static members are waited for as long as their session lasts.
    pub(super) fn complete_join(&mut self, at: &Step<'_>, out: &mut Outcome) {
        self.join_due = None;
        self.initial = None;
        let is_missing = |member: &Member| member.joining.is_none() && member.instance.is_none();
        let missing = self.members.iter().filter(|(_, member)| is_missing(member));
        let missing: Vec<Arc<str>> = missing.map(|(id, _)| id.clone()).collect();
        missing.iter().for_each(|id| _ = self.remove(id, out));
        if !missing.is_empty() {
            out.counts.push(Count::MembersExpelled(missing.len()));
        }
        if self.members.is_empty() {
            return self.become_empty(at, out);
        }
        if !self.elect_leader() {
            // Only static members are left, and all of them are away: there is nobody to assign.
            self.join_due = Some(at.now.elapsed + self.rebalance_timeout());
            return;
        }
        self.begin_generation(at, out);
    }

    fn begin_generation(&mut self, at: &Step<'_>, out: &mut Outcome) {
        let now = at.now.elapsed;
        self.generation = next_generation(self.generation);
        self.protocol = self.selected_protocol();
        self.subscribed = self.find_subscribed();
        self.state = State::CompletingRebalance;
        self.state_since = at.now.wall;
        self.sync_due = Some(now + self.rebalance_timeout());
        let mut tickets = Vec::with_capacity(self.members.len());
        for (id, member) in &mut self.members {
            // Of one that hung up while it waited it is not known whether it is there: it keeps the time that is left.
            if !member.has_hung_up() {
                member.touch(now);
            }
            member.is_new = false;
            member.has_synced = false;
            member.was_passed_over = member.joining.is_none();
            if let Some(ticket) = member.joining.take().and_then(|joining| joining.ticket) {
                tickets.push((ticket, id.clone()));
            }
        }
        out.replies.extend(tickets.into_iter().map(|(ticket, id)| (ticket, self.joined(&id))));
    }

    /// Nobody is left. The generation grows all the same: who comes back late must not be taken for a member.
    fn become_empty(&mut self, at: &Step<'_>, out: &mut Outcome) {
        self.generation = next_generation(self.generation);
        self.protocol = None;
        self.subscribed = self.find_subscribed();
        self.state = State::Empty;
        self.state_since = at.now.wall;
        self.write(out);
    }

    /// Whether there is a leader that joined: the old one, or else the first of those who did. One that waits to be told
    /// goes before one that hung up, for which all others would wait.
    fn elect_leader(&mut self) -> bool {
        let waits = |member: &Member| member.joining.is_some() && !member.has_hung_up();
        let has_joined = |member: &Member| member.joining.is_some();
        let elected = self.first_to_lead(waits).or_else(|| self.first_to_lead(has_joined));
        let is_elected = elected.is_some();
        self.leader = elected.or(self.leader.take());
        is_elected
    }

    /// The leader if it `may`, else the first that may.
    fn first_to_lead(&self, may: impl Fn(&Member) -> bool) -> Option<Arc<str>> {
        let leader = self.leader.iter().filter_map(|id| self.members.get_key_value(id));
        leader.chain(&self.members).find(|(_, member)| may(member)).map(|(id, _)| id.clone())
    }

    /// The protocol that most members like best, of those that all can; the first by name if several are liked as
    /// much.
    pub(super) fn selected_protocol(&self) -> Option<Arc<str>> {
        let all_can = |name: &str| self.members.values().all(|member| member.metadata(name).is_some());
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        let offered = self.members.values().next().map_or(&[][..], |member| &member.protocols[..]);
        let candidates: Vec<&Arc<str>> =
            offered.iter().map(|it| &it.name).filter(|name| all_can(name)).collect();
        for member in self.members.values() {
            let vote = member.protocols.iter().map(|it| &it.name).find(|name| candidates.contains(name));
            *votes.entry(vote?).or_default() += 1;
        }
        // The last of equals is taken: turned round, that is the first by name.
        votes.into_iter().rev().max_by_key(|(_, count)| *count).map(|(name, _)| name.clone())
    }

    /// Nobody gets what was not assigned yet.
    pub(super) fn drop_assignments(&mut self, error: ErrorCode, out: &mut Outcome) {
        for member in self.members.values_mut() {
            member.assignment = Arc::default();
            if let Some(ticket) = member.syncing.take() {
                out.reply(ticket, Response::SyncGroup(SyncedGroup::refused(error)));
            }
        }
    }

    /// Takes a member out, whether it is one or only has an id; whether it was one. If it waits for an answer it is
    /// told that it is none any more.
    pub(super) fn remove(&mut self, member_id: &str, out: &mut Outcome) -> bool {
        self.pending.remove(member_id);
        let Some((id, member)) = self.members.remove_entry(member_id) else { return false };
        if let Some(instance) = &member.instance
            && self.statics.get(instance) == Some(&id)
        {
            self.statics.remove(instance);
        }
        if self.leader.as_ref() == Some(&id) {
            self.leader = self.members.keys().next().cloned();
        }
        if let Some(ticket) = member.joining.and_then(|joining| joining.ticket) {
            out.reply(ticket, Response::JoinGroup(JoinedGroup::refused(ErrorCode::UnknownMemberId, "")));
        }
        if let Some(ticket) = member.syncing {
            out.reply(ticket, Response::SyncGroup(SyncedGroup::refused(ErrorCode::UnknownMemberId)));
        }
        true
    }
}

/// Generations begin again at 0 after the last, which nobody lives to see.
fn next_generation(generation: i32) -> i32 {
    generation.checked_add(1).unwrap_or(0)
}
