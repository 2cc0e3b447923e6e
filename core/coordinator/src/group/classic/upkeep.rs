//! Members live, leave, and fall silent.

use std::sync::Arc;
use std::time::Duration;

use base::ErrorCode;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};

use super::member::Member;
use super::{ClassicGroup, State};
use crate::link::{Link, patience};
use crate::outcome::{Cause, Count, Outcome};
use crate::request::Ticket;
use crate::response::LeftGroup;
use crate::settings::Step;

/// The first version of LeaveGroup that lists members.
pub(crate) const LEAVE_BATCHED_FROM: i16 = 3;

impl ClassicGroup {
    /// A member lives. The answer tells it whether it has to join again.
    pub(crate) fn on_heartbeat(&mut self, now: Duration, asks: &HeartbeatRequest<'_>) -> ErrorCode {
        if let Err(error) = self.check_member(asks.member_id, asks.group_instance_id) {
            return error;
        }
        if asks.generation_id != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        self.touch(asks.member_id, now);
        match self.state {
            State::Empty => ErrorCode::UnknownMemberId,
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            State::CompletingRebalance | State::Stable => ErrorCode::None,
        }
    }

    /// A member is heard, by a commit: it keeps its session.
    pub(crate) fn touch(&mut self, member_id: &str, now: Duration) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.touch(now);
        }
    }

    /// A member's connection is closed. A static one keeps its session: it is there to outlast that.
    pub(crate) fn on_disconnected(&mut self, now: Duration, member_id: &str, link: &Link) {
        if let Some(member) = self.members.get_mut(member_id)
            && member.instance.is_none()
        {
            let interval = link.interval_within(member.session_timeout);
            member.session_due = member.session_due.min(now + patience(interval));
        }
    }

    /// Members leave, or somebody takes them out.
    pub(crate) fn on_leave(
        &mut self,
        at: &Step<'_>,
        version: i16,
        asks: &LeaveGroupRequest<'_>,
        out: &mut Outcome,
    ) -> LeftGroup {
        let alone = [MemberIdentity { member_id: asks.member_id, ..MemberIdentity::default() }];
        let leaving = if version >= LEAVE_BATCHED_FROM { &asks.members[..] } else { &alone[..] };
        let mut left = LeftGroup::default();
        let (mut has_member_left, mut has_id_gone) = (false, false);
        for identity in leaving {
            let error = match self.find_leaving(identity) {
                Ok(id) => {
                    let was_member = self.remove(&id, out);
                    has_member_left |= was_member;
                    has_id_gone |= !was_member;
                    ErrorCode::None
                }
                Err(error) => error,
            };
            let instance = identity.group_instance_id.map(Arc::from);
            left.members.push((identity.member_id.into(), instance, error));
        }
        if has_member_left && self.state != State::Empty {
            self.rebalance_or_complete(at, Cause::MemberLeft, out);
        } else if has_id_gone {
            // Somebody may have been waited for that will not come.
            self.complete_if_all_joined(at, out);
        }
        left
    }

    /// Who is meant: a member by its id or its instance, or an id that nobody came back with.
    fn find_leaving(&self, identity: &MemberIdentity<'_>) -> Result<Arc<str>, ErrorCode> {
        let MemberIdentity { member_id, group_instance_id, .. } = identity;
        if member_id.is_empty() {
            let named = group_instance_id.and_then(|instance| self.statics.get(instance));
            return named.cloned().ok_or(ErrorCode::UnknownMemberId);
        }
        if self.pending.contains_key(*member_id) {
            return Ok((*member_id).into());
        }
        self.check_member(member_id, *group_instance_id)?;
        Ok((*member_id).into())
    }

    /// It was time for something.
    pub(crate) fn on_tick(&mut self, at: &Step<'_>, out: &mut Outcome) {
        let now = at.now.elapsed;
        self.pending.retain(|_, due| *due > now);
        let silent = |member: &Member| member.session_ends().is_some_and(|ends| ends <= now);
        self.expel(at, Cause::SessionExpired, silent, out);
        if self.sync_due.is_some_and(|due| due <= now) {
            self.sync_due = None;
            self.expel(at, Cause::SyncMissed, |member| !member.has_synced, out);
        }
        match self.join_due {
            Some(due) if due <= now => self.complete_join(at, out),
            Some(_) | None => self.complete_if_all_joined(at, out),
        }
        if self.write_due.is_some_and(|due| due <= now) {
            self.write(out);
        }
    }

    /// Takes out those who `are_due`.
    fn expel(&mut self, at: &Step<'_>, cause: Cause, are_due: impl Fn(&Member) -> bool, out: &mut Outcome) {
        let due = self.members.iter().filter(|(_, member)| are_due(member));
        let due: Vec<Arc<str>> = due.map(|(id, _)| id.clone()).collect();
        if due.is_empty() {
            return;
        }
        due.iter().for_each(|id| _ = self.remove(id, out));
        out.counts.push(Count::MembersExpelled(due.len()));
        self.rebalance_or_complete(at, cause, out);
    }

    /// When to step it although nobody asks.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let sessions = self.members.values().filter_map(Member::session_ends).min();
        let pending = self.pending.values().min().copied();
        [sessions, pending, self.join_due, self.sync_due, self.write_due].into_iter().flatten().min()
    }

    /// Whoever waited with this ticket is gone. It stays a member: it may be back, with its id, before it is missed.
    pub(crate) fn on_gone(&mut self, now: Duration, ticket: Ticket) {
        for member in self.members.values_mut() {
            if member.syncing == Some(ticket) {
                member.syncing = None;
                member.touch(now);
            }
            if let Some(joining) = &mut member.joining
                && joining.ticket == Some(ticket)
            {
                joining.ticket = None;
                member.touch(now);
            }
        }
    }

    /// Nobody waits here any more: gives out who did, those who wait to join and those who wait for their assignment.
    pub(crate) fn take_waiting(&mut self) -> (Vec<Ticket>, Vec<Ticket>) {
        let (mut joining, mut syncing) = (Vec::new(), Vec::new());
        for member in self.members.values_mut() {
            joining.extend(member.joining.take().and_then(|joining| joining.ticket));
            syncing.extend(member.syncing.take());
        }
        (joining, syncing)
    }
}
