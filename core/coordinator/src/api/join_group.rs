//! JoinGroup · key 11 · v0..=v9
//! v4 ids come first (KIP-394) · v5 static members (KIP-345) · v8 reasons · v9 leaders that must not assign (KIP-814)

use base::ErrorCode;

use crate::group::classic::Join;
use crate::group::{GroupKind, Groups, Place};
use crate::outcome::Outcome;
use crate::response::{JoinedGroup, Response};
use crate::settings::Step;

pub(crate) fn handle(groups: &mut Groups, at: &Step<'_>, join: &Join<'_>, out: &mut Outcome) {
    let (asks, image) = (join.asks, join.image);
    if let Err((error, member_id)) = check(groups, at, join) {
        return out.reply(join.ticket, Response::JoinGroup(JoinedGroup::refused(error, member_id)));
    }
    groups.entry(asks.group_id);
    let Some((id, group)) = groups.look_up(asks.group_id, image) else { return };
    let place = Place { id: &id, now: at.now, image, written_to: group.written_to };
    match &mut group.kind {
        GroupKind::Classic(classic) => classic.on_join(at, join, out),
        GroupKind::Consumer(consumers) if consumers.group.is_empty() => consumers.give_way(&place, join, out),
        GroupKind::Consumer(consumers) => consumers.on_join(&place, join, out),
    }
}

fn check<'a>(groups: &Groups, at: &Step<'_>, join: &Join<'a>) -> Result<(), (ErrorCode, &'a str)> {
    let asks = join.asks;
    if asks.group_id.is_empty() {
        return Err((ErrorCode::InvalidGroupId, asks.member_id));
    }
    let settings = at.settings;
    let timeout = i128::from(asks.session_timeout_ms);
    let min = settings.session_timeout_min.as_millis() as i128;
    let max = settings.session_timeout_max.as_millis() as i128;
    if !(min..=max).contains(&timeout) {
        return Err((ErrorCode::InvalidSessionTimeout, asks.member_id));
    }
    match groups.get(asks.group_id) {
        Some(_) => Ok(()),
        None if !asks.member_id.is_empty() => Err((ErrorCode::UnknownMemberId, asks.member_id)),
        None if !groups.has_room() => Err((ErrorCode::GroupMaxSizeReached, "")),
        None => Ok(()),
    }
}
