//! LeaveGroup · key 13 · v0..=v5
//!
//! v3 several members, static ones too (KIP-345) · v4 flexible · v5 reason (KIP-800).

use coordinator::{Request, Response};
use wire::messages::leave_group::LeaveGroupRequest;
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::LeaveGroup, 0..=5, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: LeaveGroupRequest<'_> = read(call, body)?;
    super::check_entries(request.members.len())?;
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::LeaveGroup(left)) => reply.answer(&left.to_wire(reply.version)),
        _ => groups::misplaced(),
    });
    Ok(groups::ask_one(call, request.group_id, Request::LeaveGroup(&request), say))
}
