//! SyncGroup: the leader brings what it assigned, everybody gets theirs once it is committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Offset};
use wire::messages::sync_group::SyncGroupRequest;

use super::{ClassicGroup, State};
use crate::outcome::{Cause, Count, Outcome};
use crate::request::Ticket;
use crate::response::{Assignee, Response, SyncedGroup};
use crate::settings::Step;

/// When a record that could not be written is tried again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

impl ClassicGroup {
    /// A member asks for its assignment. What the group's log has of it is committed up to `written_to`.
    pub(crate) fn on_sync(
        &mut self,
        at: &Step<'_>,
        ticket: Ticket,
        asks: &SyncGroupRequest<'_>,
        written_to: Offset,
        out: &mut Outcome,
    ) {
        if let Err(error) = self.check_sync(asks) {
            return out.reply(ticket, refused(error));
        }
        let is_leader = self.is_leader(asks.member_id);
        let Some(member) = self.members.get_mut(asks.member_id) else { return };
        member.has_synced = true;
        match self.state {
            State::Empty => out.reply(ticket, refused(ErrorCode::UnknownMemberId)),
            State::PreparingRebalance => out.reply(ticket, refused(ErrorCode::RebalanceInProgress)),
            State::CompletingRebalance => {
                if let Some(before) = member.syncing.replace(ticket) {
                    // It has asked already, and gave up waiting.
                    out.reply(before, refused(ErrorCode::RebalanceInProgress));
                }
                if is_leader {
                    self.assign(at, asks, out);
                }
            }
            State::Stable => {
                member.touch(at.now.elapsed);
                let response = self.synced(&asks.member_id.into());
                out.reply_once_committed(ticket, response, written_to);
            }
        }
        self.forget_sync_due();
    }

    fn check_sync(&self, asks: &SyncGroupRequest<'_>) -> Result<(), ErrorCode> {
        self.check_member(asks.member_id, asks.group_instance_id)?;
        if asks.generation_id != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |said: Option<&str>, ours: &Option<Arc<str>>| match (said, ours) {
            (Some(said), Some(ours)) => *said != **ours,
            (Some(_) | None, _) => false,
        };
        match differs(asks.protocol_type, &self.protocol_type) || differs(asks.protocol_name, &self.protocol)
        {
            true => Err(ErrorCode::InconsistentGroupProtocol),
            false => Ok(()),
        }
    }

    /// The leader assigned: what it says is written, and who waits is answered once that is committed.
    fn assign(&mut self, at: &Step<'_>, asks: &SyncGroupRequest<'_>, out: &mut Outcome) {
        let brought: BTreeMap<&str, &[u8]> =
            asks.assignments.iter().map(|it| (it.member_id, it.assignment)).collect();
        for (id, member) in &mut self.members {
            member.assignment = brought.get(&**id).copied().unwrap_or_default().into();
        }
        self.write(out);
        let now = at.now.elapsed;
        let mut waiting = Vec::with_capacity(self.members.len());
        for (id, member) in &mut self.members {
            if let Some(ticket) = member.syncing.take() {
                member.touch(now);
                waiting.push((ticket, id.clone()));
            }
        }
        out.held.extend(waiting.into_iter().map(|(ticket, id)| (ticket, self.synced(&id))));
        let took = now.saturating_sub(self.rebalancing_since);
        let still = self.members.keys().filter(|id| !self.reads_on(id)).count();
        out.counts_held.push(Count::Rebalanced { members: still, took });
    }

    /// The group's record could not be written. What was assigned is assigned again, by a rebalance, for nobody has
    /// been told; what is true all the same is written later.
    pub(crate) fn on_write_lost(&mut self, at: &Step<'_>, error: ErrorCode, out: &mut Outcome) {
        match self.state {
            State::CompletingRebalance => {
                self.drop_assignments(error, out);
                self.rebalance(at, Cause::WriteFailed, out);
            }
            State::Empty | State::Stable => self.write_due = Some(at.now.elapsed + WRITE_AGAIN),
            State::PreparingRebalance => {}
        }
    }

    fn synced(&self, member_id: &Arc<str>) -> Response {
        let member = self.members.get(member_id);
        let assignee = Assignee {
            group: self.id.clone(),
            generation: self.generation,
            member_id: member_id.clone(),
            instance: member.and_then(|it| it.instance.clone()),
        };
        Response::SyncGroup(SyncedGroup {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: member.map(|it| it.assignment.clone()).unwrap_or_default(),
            assignee: Some(assignee),
        })
    }

    /// Whether what was assigned in a generation is still that member's.
    pub(crate) fn check_assignee(&self, of: &Assignee) -> Result<(), ErrorCode> {
        self.check_member(&of.member_id, of.instance.as_deref())?;
        match of.generation == self.generation {
            true => Ok(()),
            false => Err(ErrorCode::IllegalGeneration),
        }
    }

    /// Nobody is waited for once everybody has asked.
    fn forget_sync_due(&mut self) {
        if self.members.values().all(|member| member.has_synced) {
            self.sync_due = None;
        }
    }
}

fn refused(error: ErrorCode) -> Response {
    Response::SyncGroup(SyncedGroup::refused(error))
}
