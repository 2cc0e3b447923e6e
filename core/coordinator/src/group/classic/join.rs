//! JoinGroup: who may come in, under which id, and what it means for those who are there.
//!
//! ```text
//!   no id, v4+          ─▶ MEMBER_ID_REQUIRED and an id; it comes back with it (KIP-394)
//!   no id, an instance  ─▶ takes the place of the instance's last member, which is fenced (KIP-345); in a rebalance it
//!                          is given its id first, and comes back with it
//!   an id, changed      ─▶ a rebalance
//!   an id, the same     ─▶ told what it was told before
//! ```

use std::sync::Arc;

use base::ErrorCode;
use metadata::Image;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};

use super::member::{Member, millis};
use super::{ClassicGroup, State};
use crate::limits;
use crate::outcome::{Cause, Outcome};
use crate::request::{Caller, Ticket};
use crate::response::{JoinedGroup, JoinedMember, Response, SyncedGroup};
use crate::settings::Step;

/// The version in which a member that has no id is given one first (KIP-394).
pub(crate) const ID_REQUIRED_FROM: i16 = 4;
/// The version in which a leader can be told not to assign (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;

/// Ids of one group that were given out and are waited for. A client that asks again and again without ever
/// coming back would fill memory otherwise.
const PENDING_MAX: usize = 1_000;

/// Protocols that a member may offer; clients offer one or two.
const PROTOCOLS_MAX: usize = 16;

/// Characters of a client's id or instance that go into a member's id.
const ID_CHARS_MAX: usize = 255;

/// A request to join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Join<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) caller: Caller<'a>,
    pub(crate) asks: &'a JoinGroupRequest<'a>,
    pub(crate) image: &'a Image,
}

impl ClassicGroup {
    /// Somebody wants to join.
    pub(crate) fn on_join(&mut self, at: &Step<'_>, join: &Join<'_>, out: &mut Outcome) {
        let asks = join.asks;
        let refusal = if is_too_much(&asks.protocols, || self.bytes_of_others(asks.member_id)) {
            Some((ErrorCode::InvalidRequest, asks.member_id))
        } else if !self.has_room_for(at, asks.member_id) {
            Some((ErrorCode::GroupMaxSizeReached, ""))
        } else if !self.supports(asks.protocol_type, &asks.protocols) {
            Some((ErrorCode::InconsistentGroupProtocol, asks.member_id))
        } else {
            None
        };
        if let Some((error, member_id)) = refusal {
            out.reply(join.ticket, refused(error, member_id));
            if error == ErrorCode::GroupMaxSizeReached && self.remove(asks.member_id, out) {
                self.rebalance_or_complete(at, Cause::MemberLeft, out);
            }
            return;
        }
        match asks.member_id.is_empty() {
            true => self.join_without_id(at, join, out),
            false => self.join_with_id(at, join, out),
        }
    }

    fn join_without_id(&mut self, at: &Step<'_>, join: &Join<'_>, out: &mut Outcome) {
        let (asks, caller) = (join.asks, &join.caller);
        let id = new_member_id(asks.group_instance_id.unwrap_or(caller.client_id), caller.random);
        let Some(instance) = asks.group_instance_id else {
            if caller.version < ID_REQUIRED_FROM {
                return self.add(at, id, join, out);
            }
            if self.pending.len() >= PENDING_MAX {
                return out.reply(join.ticket, refused(ErrorCode::GroupMaxSizeReached, ""));
            }
            out.reply(join.ticket, refused(ErrorCode::MemberIdRequired, &id));
            self.pending.insert(id, at.now.elapsed + millis(asks.session_timeout_ms));
            return self.note_arrival(at);
        };
        match self.statics.get(instance).cloned() {
            None => self.add(at, id, join, out),
            Some(before) => self.replace_static(at, &before, id, join, out),
        }
    }

    fn join_with_id(&mut self, at: &Step<'_>, join: &Join<'_>, out: &mut Outcome) {
        let asks = join.asks;
        if let Some((id, _)) = self.pending.get_key_value(asks.member_id)
            && asks.group_instance_id.is_none()
        {
            let id = id.clone();
            return self.add(at, id, join, out);
        }
        if let Err(error) = self.check_member(asks.member_id, asks.group_instance_id) {
            return out.reply(join.ticket, refused(error, asks.member_id));
        }
        if self.members.get(asks.member_id).is_some_and(|it| it.was_passed_over) {
            // It may have been stopped, and still reads what others have got by now. Who has no place any more gives
            // that up at once, and commits nothing of it. Kafka lets it join, and commit when it is asked to give up.
            return out.reply(join.ticket, refused(ErrorCode::UnknownMemberId, asks.member_id));
        }
        let is_same = self.members.get(asks.member_id).is_some_and(|it| it.matches(&asks.protocols));
        let is_leader = self.is_leader(asks.member_id);
        let cause = match self.state {
            State::Stable if is_leader => Some(Cause::LeaderRejoined),
            State::Stable | State::CompletingRebalance if is_same => None,
            State::Stable | State::CompletingRebalance => Some(Cause::MemberChanged),
            State::PreparingRebalance | State::Empty => Some(Cause::MemberJoined),
        };
        match cause {
            // It did not get its last answer, or it is not sure: nothing changed.
            None => out.reply(join.ticket, self.joined(asks.member_id)),
            Some(cause) => {
                self.update(asks.member_id, join, out);
                self.rebalance_or_complete(at, cause, out);
            }
        }
    }

    fn add(&mut self, at: &Step<'_>, id: Arc<str>, join: &Join<'_>, out: &mut Outcome) {
        let member = Member::new(at.now.elapsed, join.ticket, &join.caller, join.asks);
        if let Some(instance) = &member.instance {
            self.statics.insert(instance.clone(), id.clone());
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.asks.protocol_type.into());
        }
        self.pending.remove(&id);
        self.leader.get_or_insert_with(|| id.clone());
        self.members.insert(id.clone(), member);
        self.note_arrival(at);
        self.hold_static_id(at, &id, join, out);
        self.rebalance_or_complete(at, Cause::MemberJoined, out);
    }

    fn update(&mut self, member_id: &str, join: &Join<'_>, out: &mut Outcome) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        if let Some(before) = member.joining.and_then(|joining| joining.ticket) {
            // It has asked already, and gave up waiting.
            out.reply(before, refused(ErrorCode::RebalanceInProgress, member_id));
        }
        member.update(join.ticket, join.asks);
    }

    /// A static member came back without its id: it takes over what its last life had, and fences it. If that left
    /// something without a reader, all are assigned anew.
    fn replace_static(
        &mut self,
        at: &Step<'_>,
        before: &Arc<str>,
        id: Arc<str>,
        join: &Join<'_>,
        out: &mut Outcome,
    ) {
        let Some(mut member) = self.members.remove(before) else { return };
        if let Some(ticket) = member.joining.take().and_then(|joining| joining.ticket) {
            out.reply(ticket, refused(ErrorCode::FencedInstanceId, before));
        }
        if let Some(ticket) = member.syncing.take() {
            let fenced = SyncedGroup::refused(ErrorCode::FencedInstanceId);
            out.reply(ticket, Response::SyncGroup(fenced));
        }
        let said = self.protocol.as_deref().and_then(|protocol| member.metadata(protocol).cloned());
        member.update(join.ticket, join.asks);
        // Who comes without its id has given up all that it had.
        member.was_passed_over = false;
        member.client_id = join.caller.client_id.into();
        member.client_host = join.caller.client_host.into();
        member.touch(at.now.elapsed);
        if let Some(instance) = &member.instance {
            self.statics.insert(instance.clone(), id.clone());
        }
        self.members.insert(id.clone(), member);
        let leader_before = self.leader.clone();
        if self.is_leader(before) {
            self.leader = Some(id.clone());
        }
        let is_settled = self.state == State::Stable && self.selected_protocol() == self.protocol;
        if is_settled && !self.leaves_orphans(&id, said.as_deref(), join.image) {
            self.keep_assignment(&id, leader_before, join, out);
        } else {
            self.hold_static_id(at, &id, join, out);
            self.rebalance_or_complete(at, Cause::MemberChanged, out);
        }
    }

    /// A static member has a new id in a rebalance, and the record of the generation before has another one: it is told
    /// its id once that is written there, and joins with it. The next coordinator would fence it otherwise.
    fn hold_static_id(&mut self, at: &Step<'_>, id: &Arc<str>, join: &Join<'_>, out: &mut Outcome) {
        let Some(instance) = join.asks.group_instance_id else { return };
        if !self.write_static_id(instance, id, out) {
            return;
        }
        out.held.push((join.ticket, refused(ErrorCode::MemberIdRequired, id)));
        if let Some(member) = self.members.get_mut(id) {
            member.joining = None;
            member.touch(at.now.elapsed);
        }
    }

    /// What was assigned stays so: the member is told under its new id, once that is written.
    fn keep_assignment(
        &mut self,
        id: &Arc<str>,
        leader_before: Option<Arc<str>>,
        join: &Join<'_>,
        out: &mut Outcome,
    ) {
        if let Some(member) = self.members.get_mut(id) {
            member.joining = None;
        }
        let is_leader = self.is_leader(id);
        let may_skip = join.caller.version >= SKIP_ASSIGNMENT_FROM;
        let mut joined = self.joined_as(id, is_leader && may_skip);
        joined.skip_assignment = is_leader && may_skip;
        if !may_skip {
            // Under an id that it does not have, it will not take itself for the leader and assign.
            joined.leader = leader_before.unwrap_or_default();
        }
        self.write(out);
        out.held.push((join.ticket, Response::JoinGroup(joined)));
    }

    /// What a member of the current generation is told.
    pub(super) fn joined(&self, member_id: &str) -> Response {
        Response::JoinGroup(self.joined_as(member_id, self.is_leader(member_id)))
    }

    fn joined_as(&self, member_id: &str, with_members: bool) -> JoinedGroup {
        let members = match (with_members, &self.protocol) {
            (true, Some(protocol)) => self.members_in(protocol),
            (true, None) | (false, _) => Arc::default(),
        };
        JoinedGroup {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: member_id.into(),
            members,
        }
    }

    fn members_in(&self, protocol: &str) -> Arc<[JoinedMember]> {
        let member = |(id, member): (&Arc<str>, &Member)| JoinedMember {
            member_id: id.clone(),
            instance: member.instance.clone(),
            metadata: member.metadata(protocol).cloned().unwrap_or_default(),
        };
        self.members.iter().map(member).collect()
    }

    /// What the others say of themselves.
    fn bytes_of_others(&self, member_id: &str) -> usize {
        let others = self.members.iter().filter(|(id, _)| ***id != *member_id);
        others.flat_map(|(_, member)| &member.protocols).map(|it| it.name.len() + it.metadata.len()).sum()
    }

    /// Whether one more fits in, or it is in already.
    fn has_room_for(&self, at: &Step<'_>, member_id: &str) -> bool {
        let members_max = at.settings.members_max;
        let member = self.members.get(member_id);
        match self.state {
            State::Empty => true,
            State::PreparingRebalance => {
                // Those who do not come back make room for others (KIP-389).
                let joining = self.members.values().filter(|it| it.joining.is_some());
                member.is_some_and(|it| it.joining.is_some()) || joining.count() < members_max
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || self.members.len() < members_max
            }
        }
    }

    /// Whether there would still be a protocol that everybody can.
    fn supports(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol<'_>]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let all_can = |name: &str| self.members.values().all(|it| it.metadata(name).is_some());
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|it| all_can(it.name))
    }
}

fn refused(error: ErrorCode, member_id: &str) -> Response {
    Response::JoinGroup(JoinedGroup::refused(error, member_id))
}

/// Whether a member says more of itself than is kept beside what `others` do.
pub(crate) fn is_too_much(
    protocols: &[JoinGroupRequestProtocol<'_>],
    others: impl FnOnce() -> usize,
) -> bool {
    let bytes = protocols.iter().map(|it| it.name.len() + it.metadata.len()).sum();
    protocols.len() > PROTOCOLS_MAX || !limits::has_room(bytes, others)
}

/// An id that nobody had before, as Kafka makes it: what the client calls itself, and a UUID.
pub(crate) fn new_member_id(prefix: &str, random: u128) -> Arc<str> {
    let prefix = match prefix.char_indices().nth(ID_CHARS_MAX) {
        Some((end, _)) => &prefix[..end],
        None => prefix,
    };
    let hex = format!("{random:032x}");
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into()
}
