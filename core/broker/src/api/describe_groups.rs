//! DescribeGroups · key 15 · v0..=v6
//!
//! v3 what the client may do (KIP-430) · v4 static members (KIP-345) · v5 flexible · v6 GROUP_ID_NOT_FOUND (KIP-1043).

use coordinator::{DescribedGroup, Request, Response};
use wire::messages::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, operations, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeGroups, 0..=6, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeGroupsRequest<'_> = read(call, body)?;
    super::check_entries(request.groups.len())?;
    let asked = request.groups.iter().map(|group| (*group, Request::DescribeGroup(group)));
    let parts = groups::ask_each(call, asked);
    let tells_operations = request.include_authorized_operations;
    let say: Say = Box::new(move |reply, said| {
        let described: Vec<DescribedGroup> = said.into_iter().filter_map(described).collect();
        let mut groups: Vec<_> = described.iter().map(|group| group.to_wire(reply.version)).collect();
        for group in groups.iter_mut().filter(|group| tells_operations && group.error_code == 0) {
            group.authorized_operations = operations::OF_GROUP;
        }
        reply.answer(&DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() })
    });
    Ok(groups::wait_for(call, parts, say))
}

fn described(said: Response) -> Option<DescribedGroup> {
    match said {
        Response::DescribeGroup(described) => Some(described),
        _ => None,
    }
}
