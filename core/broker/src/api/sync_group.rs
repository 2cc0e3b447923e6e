//! SyncGroup · key 14 · v0..=v5
//!
//! v3 static members (KIP-345) · v4 flexible · v5 the protocol must be the one that was chosen (KIP-559).

use coordinator::{Request, Response};
use wire::messages::sync_group::SyncGroupRequest;
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::SyncGroup, 0..=5, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: SyncGroupRequest<'_> = read(call, body)?;
    super::check_entries(request.assignments.len())?;
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::SyncGroup(synced)) => reply.answer(&synced.to_wire()),
        _ => groups::misplaced(),
    });
    Ok(groups::ask_one(call, request.group_id, Request::SyncGroup(&request), say))
}
