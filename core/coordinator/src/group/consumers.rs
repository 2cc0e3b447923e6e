//! A group of the new protocol as its shard has it: what it decides becomes records and answers, also for those of its
//! members that still speak the classic one.

use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Now, Offset, TimestampMs};
use metadata::Image;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::JoinGroupRequest;
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::messages::sync_group::SyncGroupRequest;

use super::classic::{
    ID_REQUIRED_FROM, Join, LEAVE_BATCHED_FROM, empty_record_of, is_too_much, new_member_id, record_of,
};
use crate::consumer::{
    self, ClassicJoin, ClassicMember, ConsumerGroup, ConsumerGroupError, ConsumerGroupRecord,
    ConsumerGroupSettings, Context, FencedBecause, MigrationError, PROTOCOL_TYPE, RebalanceCause,
};
use crate::group_record::{GroupRecord, Record};
use crate::outcome::{Cause, Count, Outcome, Turn};
use crate::request::{Caller, Ticket};
use crate::response::{Assignee, JoinedGroup, LeftGroup, Response, SyncedGroup};

/// See the module.
#[derive(Debug)]
pub(crate) struct Consumers {
    /// The group.
    pub(crate) group: ConsumerGroup,
    /// What it keeps to, as of the last time that it was looked at.
    pub(crate) settings: Arc<ConsumerGroupSettings>,
    /// When its epoch began, by the timestamp of the record that says so; [`TimestampMs::NONE`] if none does. One begins
    /// whenever members leave, and none where nobody is: if nobody is in the group, this is since when.
    pub(crate) epoch_since: TimestampMs,
}

/// When and where something is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) id: &'a Arc<str>,
    pub(crate) now: Now,
    pub(crate) image: &'a Image,
    /// The end of the log after the last record that is about the group.
    pub(crate) written_to: Offset,
}

impl Place<'_> {
    /// Has records written, and with them the classic group that is left, if that is so.
    pub(crate) fn write(
        &self,
        records: Vec<ConsumerGroupRecord>,
        downgrade: Option<&consumer::ClassicGroup>,
        out: &mut Outcome,
    ) {
        let encoded = records.into_iter().map(|change| GroupRecord::ConsumerGroup { group: self.id, change });
        out.records.extend(encoded.map(|record| record.encode()));
        out.of_group = Some(self.id.clone());
        if let Some(classic) = downgrade {
            out.records.push(record_of(self.id, classic, self.now.wall));
            out.turn = Some(Turn::Classic);
        }
    }

    /// Answers once what was decided is committed, or what it rests on if that is nothing.
    pub(crate) fn answer(&self, ticket: Ticket, response: Response, out: &mut Outcome) {
        match out.records.is_empty() {
            true => out.reply_once_committed(ticket, response, self.written_to),
            false => out.held.push((ticket, response)),
        }
    }

    fn context<'a>(&'a self, settings: &'a ConsumerGroupSettings) -> Context<'a> {
        Context { now: self.now, image: self.image, settings }
    }
}

impl Consumers {
    /// A group of which nothing is known.
    pub(crate) fn new(id: &str, settings: Arc<ConsumerGroupSettings>) -> Self {
        Self { group: ConsumerGroup::new(id), settings, epoch_since: TimestampMs::NONE }
    }

    /// Takes in a record that was written, with its timestamp in the log.
    pub(crate) fn replay(&mut self, change: &ConsumerGroupRecord, time: TimestampMs) {
        match change {
            ConsumerGroupRecord::Metadata(Some(_)) => self.epoch_since = time,
            ConsumerGroupRecord::Metadata(None) => self.epoch_since = TimestampMs::NONE,
            _ => {}
        }
        self.group.replay(change);
    }

    /// A member of the new protocol is heard.
    pub(crate) fn on_heartbeat(
        &mut self,
        place: &Place<'_>,
        (ticket, caller): (Ticket, &consumer::Caller<'_>),
        asks: &ConsumerGroupHeartbeatRequest<'_>,
        out: &mut Outcome,
    ) -> Result<(), ConsumerGroupError> {
        let Self { group, settings, .. } = self;
        let decision = group.heartbeat(asks, caller, &place.context(settings))?;
        if !decision.records.is_empty() {
            place.write(decision.records, decision.downgrade.as_ref(), out);
        }
        count(decision.rebalance, decision.reconciled, out);
        place.answer(ticket, Response::heard(decision.reply), out);
        Ok(())
    }

    /// It was time for something.
    pub(crate) fn on_tick(&mut self, place: &Place<'_>, out: &mut Outcome) {
        let Self { group, settings, .. } = self;
        let ticked = group.on_tick(&place.context(settings));
        if ticked.records.is_empty() {
            return;
        }
        place.write(ticked.records, ticked.downgrade.as_ref(), out);
        if let Some(first) = ticked.fenced.first() {
            let cause = match first.because {
                FencedBecause::Silent => Cause::SessionExpired,
                FencedBecause::Slow => Cause::SyncMissed,
            };
            out.counts_held.push(Count::RebalanceBegan(cause));
            out.counts_held.push(Count::MembersExpelled(ticked.fenced.len()));
        }
    }

    /// The tombstones of all that records say of it.
    pub(crate) fn tombstones(&self, id: &str) -> Vec<Record> {
        let changes = self.group.tombstones().into_iter();
        changes.map(|change| GroupRecord::ConsumerGroup { group: id, change }.encode()).collect()
    }

    // What members of the classic protocol ask.

    /// One of them joins, and nobody is in the group: whoever comes first chooses the protocol. It asks again, and finds
    /// a classic group that is empty, and was as long as this one.
    pub(crate) fn give_way(&self, place: &Place<'_>, join: &Join<'_>, out: &mut Outcome) {
        let asks = join.asks;
        let refused = |error| Response::JoinGroup(JoinedGroup::refused(error, asks.member_id));
        if asks.protocol_type.is_empty() || asks.protocols.is_empty() {
            return out.reply(join.ticket, refused(ErrorCode::InconsistentGroupProtocol));
        }
        if is_too_much(&asks.protocols, || 0) {
            return out.reply(join.ticket, refused(ErrorCode::InvalidRequest));
        }
        let since = if self.epoch_since == TimestampMs::NONE { place.now.wall } else { self.epoch_since };
        out.records.extend(self.tombstones(place.id));
        out.records.push(empty_record_of(place.id, self.group.epoch(), since));
        out.of_group = Some(place.id.clone());
        out.held.push((join.ticket, refused(ErrorCode::CoordinatorLoadInProgress)));
    }

    pub(crate) fn on_join(&mut self, place: &Place<'_>, join: &Join<'_>, out: &mut Outcome) {
        let (asks, caller) = (join.asks, &join.caller);
        let refused = |error, id: &str| Response::JoinGroup(JoinedGroup::refused(error, id));
        if asks.protocol_type != PROTOCOL_TYPE || asks.protocols.is_empty() {
            return out.reply(join.ticket, refused(ErrorCode::InconsistentGroupProtocol, asks.member_id));
        }
        if is_too_much(&asks.protocols, || self.group.bytes_of_others(asks.member_id)) {
            return out.reply(join.ticket, refused(ErrorCode::InvalidRequest, asks.member_id));
        }
        let is_nobody = asks.member_id.is_empty() && asks.group_instance_id.is_none();
        if is_nobody && caller.version >= ID_REQUIRED_FROM {
            // Nobody waits for it: whatever id a member comes back with is its own.
            let id = new_member_id(caller.client_id, caller.random);
            return out.reply(join.ticket, refused(ErrorCode::MemberIdRequired, &id));
        }
        let Self { group, settings, .. } = self;
        let member = member_of(asks, caller);
        let joining = ClassicJoin { member: &member, random: caller.random };
        match group.join_classic(&joining, &place.context(settings)) {
            Ok(joined) if joined.downgrade.is_some() => {
                place.write(joined.records, joined.downgrade.as_ref(), out);
                // It finds a classic group in which its instance has a place.
                let again = refused(ErrorCode::CoordinatorLoadInProgress, asks.member_id);
                place.answer(join.ticket, again, out);
            }
            Ok(joined) => {
                let response = JoinedGroup {
                    generation: joined.generation,
                    protocol_type: Some(PROTOCOL_TYPE.into()),
                    protocol: Some(joined.protocol.into()),
                    member_id: joined.member_id.into(),
                    ..JoinedGroup::default()
                };
                if !joined.records.is_empty() {
                    place.write(joined.records, None, out);
                }
                count(joined.rebalance, joined.reconciled, out);
                place.answer(join.ticket, Response::JoinGroup(response), out);
            }
            Err(error) => out.reply(join.ticket, refused(join_error(&error), asks.member_id)),
        }
    }

    pub(crate) fn on_sync(
        &mut self,
        place: &Place<'_>,
        ticket: Ticket,
        asks: &SyncGroupRequest<'_>,
        out: &mut Outcome,
    ) {
        let synced = self.sync(place, asks).unwrap_or_else(SyncedGroup::refused);
        place.answer(ticket, Response::SyncGroup(synced), out);
    }

    fn sync(&mut self, place: &Place<'_>, asks: &SyncGroupRequest<'_>) -> Result<SyncedGroup, ErrorCode> {
        let Self { group, settings, .. } = self;
        let checked = group.check_instance(asks.member_id, asks.group_instance_id);
        checked.map_err(|error| error.code())?;
        let known = group.member(asks.member_id).and_then(|member| member.metadata.classic.as_ref());
        let protocols = known.map(|classic| &classic.protocols[..]).ok_or(ErrorCode::UnknownMemberId)?;
        let protocol: Arc<str> = protocols.first().map(|(name, _)| name.as_str()).unwrap_or_default().into();
        let is_other = |said: Option<&str>, ours: &str| said.is_some_and(|said| said != ours);
        if is_other(asks.protocol_type, PROTOCOL_TYPE) || is_other(asks.protocol_name, &protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let context = place.context(settings);
        let assignment = group.sync_classic(asks.member_id, asks.generation_id, &context)?;
        Ok(SyncedGroup {
            error: ErrorCode::None,
            protocol_type: Some(PROTOCOL_TYPE.into()),
            protocol: Some(protocol),
            assignment: assignment.into(),
            assignee: Some(Assignee {
                group: place.id.clone(),
                generation: asks.generation_id,
                member_id: asks.member_id.into(),
                instance: asks.group_instance_id.map(Into::into),
            }),
        })
    }

    pub(crate) fn on_classic_heartbeat(
        &mut self,
        place: &Place<'_>,
        asks: &HeartbeatRequest<'_>,
    ) -> ErrorCode {
        let Self { group, settings, .. } = self;
        let checked = group.check_instance(asks.member_id, asks.group_instance_id);
        let checked = checked.map_err(|error| error.code());
        let heard = checked.and_then(|()| {
            group.heartbeat_classic(asks.member_id, asks.generation_id, &place.context(settings))
        });
        heard.err().unwrap_or(ErrorCode::None)
    }

    pub(crate) fn on_leave(
        &mut self,
        place: &Place<'_>,
        (ticket, version): (Ticket, i16),
        asks: &LeaveGroupRequest<'_>,
        out: &mut Outcome,
    ) {
        let alone = [MemberIdentity { member_id: asks.member_id, ..MemberIdentity::default() }];
        let leaving = if version >= LEAVE_BATCHED_FROM { &asks.members[..] } else { &alone[..] };
        let Self { group, settings, .. } = self;
        let names: Vec<_> = leaving.iter().map(|it| (it.member_id, it.group_instance_id)).collect();
        let left = group.leave_classic(&names, &place.context(settings));
        if !left.records.is_empty() {
            place.write(left.records, left.downgrade.as_ref(), out);
            out.counts_held.push(Count::RebalanceBegan(Cause::MemberLeft));
        }
        let members = names.iter().zip(&left.told).map(|((id, instance), told)| {
            let error = told.as_ref().err().map_or(ErrorCode::None, |error| error.code());
            (Arc::from(*id), instance.map(Arc::from), error)
        });
        let told = LeftGroup { error: ErrorCode::None, members: members.collect() };
        place.answer(ticket, Response::LeaveGroup(told), out);
    }
}

/// To be counted once it is written.
pub(crate) fn count(rebalance: Option<RebalanceCause>, reconciled: Option<Duration>, out: &mut Outcome) {
    out.counts_held.extend(rebalance.map(|cause| Count::RebalanceBegan(cause.into())));
    out.counts_held.extend(reconciled.map(|took| Count::Reconciled { took }));
}

impl From<RebalanceCause> for Cause {
    fn from(cause: RebalanceCause) -> Self {
        match cause {
            RebalanceCause::Joined => Self::MemberJoined,
            RebalanceCause::Left => Self::MemberLeft,
            RebalanceCause::Subscribed => Self::MemberChanged,
            RebalanceCause::TopicsChanged => Self::TopicsChanged,
        }
    }
}

/// What a member of the classic protocol says of itself.
fn member_of(asks: &JoinGroupRequest<'_>, caller: &Caller<'_>) -> ClassicMember {
    let rebalance_timeout_ms = match asks.rebalance_timeout_ms {
        // Version 0 has one time for both.
        ..0 => asks.session_timeout_ms,
        timeout => timeout,
    };
    ClassicMember {
        id: asks.member_id.to_owned(),
        instance_id: asks.group_instance_id.map(str::to_owned),
        client_id: caller.client_id.to_owned(),
        client_host: caller.client_host.to_owned(),
        rebalance_timeout_ms,
        session_timeout_ms: asks.session_timeout_ms,
        protocols: asks.protocols.iter().map(|it| (it.name.to_owned(), it.metadata.to_vec())).collect(),
        assignment: Vec::new(),
    }
}

/// What a member of the classic protocol is told that cannot join.
fn join_error(error: &MigrationError) -> ErrorCode {
    match error {
        MigrationError::NotAllowed(_) | MigrationError::Unreadable(_) => ErrorCode::InconsistentGroupProtocol,
        other => other.code(),
    }
}
