//! Heartbeat · key 12 · v0..=v4
//!
//! v3 static members (KIP-345) · v4 flexible.

use coordinator::{Request, Response};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::Heartbeat, 0..=4, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: HeartbeatRequest<'_> = read(call, body)?;
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::Heartbeat(error)) => {
            reply.answer(&HeartbeatResponse { error_code: error.code(), ..HeartbeatResponse::default() })
        }
        _ => groups::misplaced(),
    });
    Ok(groups::ask_one(call, request.group_id, Request::Heartbeat(&request), say))
}
