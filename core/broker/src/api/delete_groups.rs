//! DeleteGroups · key 42 · v0..=v3
//!
//! v2 flexible · v3 says why in words (KIP-1043).

use std::collections::BTreeSet;

use coordinator::{Request, Response};
use wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DeleteGroups, 0..=3, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DeleteGroupsRequest<'_> = read(call, body)?;
    super::check_entries(request.groups_names.len())?;
    // Each once, as Kafka has it: a group takes as long to forget as it has offsets.
    let mut seen = BTreeSet::new();
    let named = request.groups_names.iter().filter(|group| seen.insert(**group));
    let parts = named.map(|group| groups::ask(call, group, Request::DeleteGroup(group))).collect();
    let say: Say = Box::new(|reply, said| {
        let results = said.iter().filter_map(|said| match said {
            Response::DeleteGroup { group, error } => Some(DeletableGroupResult {
                group_id: group,
                error_code: error.code(),
                ..DeletableGroupResult::default()
            }),
            _ => None,
        });
        reply.answer(&DeleteGroupsResponse { results: results.collect(), ..DeleteGroupsResponse::default() })
    });
    Ok(groups::wait_for(call, parts, say))
}
