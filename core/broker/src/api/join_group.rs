//! JoinGroup · key 11 · v0..=v9
//!
//! v1 rebalance timeout · v4 a member is given its id first (KIP-394) · v5 static members (KIP-345) · v6 flexible ·
//! v7 protocol type · v8 reason (KIP-800) · v9 a leader that came back need not assign (KIP-814).

use coordinator::{Request, Response};
use wire::messages::join_group::JoinGroupRequest;
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::JoinGroup, 0..=9, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: JoinGroupRequest<'_> = read(call, body.clone())?;
    super::check_entries(request.protocols.len())?;
    let group = std::iter::once(request.group_id);
    match groups::await_coordinator(call, &body, group, |call, body| Ok(ask(call, &read(call, body)?))) {
        Some(waits) => Ok(waits),
        None => Ok(ask(call, &request)),
    }
}

fn ask(call: &mut Call<'_>, request: &JoinGroupRequest<'_>) -> Outcome {
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::JoinGroup(joined)) => reply.answer(&joined.to_wire(reply.version)),
        _ => groups::misplaced(),
    });
    groups::ask_one(call, request.group_id, Request::JoinGroup(request), say)
}
