//! OffsetDelete · key 47 · v0 (KIP-496)

use coordinator::{Request, Response};
use wire::messages::offset_delete::OffsetDeleteRequest;
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::OffsetDelete, 0..=0, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: OffsetDeleteRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::OffsetDelete(deleted)) => reply.answer(&deleted.to_wire()),
        _ => groups::misplaced(),
    });
    Ok(groups::ask_one(call, request.group_id, Request::OffsetDelete(&request), say))
}
