//! OffsetCommit · key 8 · v2..=v10
//!
//! v6 leader epochs (KIP-320) · v7 static members (KIP-345) · v8 flexible · v9 member epochs (KIP-848) · v10 topic ids
//! (KIP-848).

use coordinator::{CommittedTopic, Request, Response};
use wire::messages::offset_commit::OffsetCommitRequest;
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::OffsetCommit, 2..=10, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: OffsetCommitRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::OffsetCommit(topics)) => reply.answer(&CommittedTopic::all_to_wire(&topics)),
        _ => groups::misplaced(),
    });
    Ok(groups::ask_one(call, request.group_id, Request::OffsetCommit(&request), say))
}
