//! Heartbeat · key 12 · v0..=v4
//! v3 static members (KIP-345)

use base::{ErrorCode, Now};
use metadata::Image;
use wire::messages::heartbeat::HeartbeatRequest;

use crate::group::{GroupKind, Groups, Place};

pub(crate) fn handle(groups: &mut Groups, now: Now, asks: &HeartbeatRequest<'_>, image: &Image) -> ErrorCode {
    if asks.group_id.is_empty() {
        return ErrorCode::InvalidGroupId;
    }
    let Some((id, group)) = groups.look_up(asks.group_id, image) else { return ErrorCode::UnknownMemberId };
    match &mut group.kind {
        GroupKind::Classic(classic) => classic.on_heartbeat(now.elapsed, asks),
        GroupKind::Consumer(consumers) => {
            let place = Place { id: &id, now, image, written_to: group.written_to };
            let error = consumers.on_classic_heartbeat(&place, asks);
            groups.arm(&id);
            error
        }
    }
}
