//! LeaveGroup · key 13 · v0..=v5
//! v3 several members, by instance too (KIP-345) · v5 reasons

use std::sync::Arc;

use base::ErrorCode;
use metadata::Image;
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};

use crate::group::classic::LEAVE_BATCHED_FROM;
use crate::group::{GroupKind, Groups, Place};
use crate::outcome::Outcome;
use crate::request::Ticket;
use crate::response::{LeftGroup, Response};
use crate::settings::Step;

pub(crate) fn handle(
    groups: &mut Groups,
    at: &Step<'_>,
    (ticket, version): (Ticket, i16),
    (asks, image): (&LeaveGroupRequest<'_>, &Image),
    out: &mut Outcome,
) {
    let refused = |error| Response::LeaveGroup(LeftGroup { error, members: Vec::new() });
    if asks.group_id.is_empty() {
        return out.reply(ticket, refused(ErrorCode::InvalidGroupId));
    }
    let Some((id, group)) = groups.look_up(asks.group_id, image) else {
        return out.reply(ticket, Response::LeaveGroup(nobody_there(version, asks)));
    };
    match &mut group.kind {
        GroupKind::Classic(classic) => {
            let left = classic.on_leave(at, version, asks, out);
            out.reply(ticket, Response::LeaveGroup(left));
        }
        GroupKind::Consumer(consumers) => {
            let place = Place { id: &id, now: at.now, image, written_to: group.written_to };
            consumers.on_leave(&place, (ticket, version), asks, out);
        }
    }
}

/// The answer for a group that is not there: each of them is no member of it, as Kafka says it.
fn nobody_there(version: i16, asks: &LeaveGroupRequest<'_>) -> LeftGroup {
    let error = ErrorCode::UnknownMemberId;
    if version < LEAVE_BATCHED_FROM {
        return LeftGroup { error, members: Vec::new() };
    }
    let unknown =
        |it: &MemberIdentity<'_>| (Arc::from(it.member_id), it.group_instance_id.map(Arc::from), error);
    LeftGroup { error: ErrorCode::None, members: asks.members.iter().map(unknown).collect() }
}
