//! SyncGroup · key 14 · v0..=v5
//! v3 static members (KIP-345) · v5 names the protocol (KIP-559)

use base::ErrorCode;
use metadata::Image;
use wire::messages::sync_group::SyncGroupRequest;

use crate::group::{GroupKind, Groups, Place};
use crate::outcome::Outcome;
use crate::request::Ticket;
use crate::response::{Response, SyncedGroup};
use crate::settings::Step;

pub(crate) fn handle(
    groups: &mut Groups,
    at: &Step<'_>,
    ticket: Ticket,
    (asks, image): (&SyncGroupRequest<'_>, &Image),
    out: &mut Outcome,
) {
    let refused = |error| Response::SyncGroup(SyncedGroup::refused(error));
    if asks.group_id.is_empty() {
        return out.reply(ticket, refused(ErrorCode::InvalidGroupId));
    }
    let Some((id, group)) = groups.look_up(asks.group_id, image) else {
        return out.reply(ticket, refused(ErrorCode::UnknownMemberId));
    };
    match &mut group.kind {
        GroupKind::Classic(classic) => classic.on_sync(at, ticket, asks, group.written_to, out),
        GroupKind::Consumer(consumers) => {
            let place = Place { id: &id, now: at.now, image, written_to: group.written_to };
            consumers.on_sync(&place, ticket, asks, out);
        }
    }
}
