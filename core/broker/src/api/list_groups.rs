//! ListGroups · key 16 · v0..=v5
//!
//! v3 flexible · v4 states (KIP-518) · v5 types (KIP-848). A broker lists the groups that it coordinates; who wants all
//! of them asks every broker.

use base::ErrorCode;
use coordinator::{ListedGroups, Request, Response};
use wire::messages::list_groups::ListGroupsRequest;
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ListGroups, 0..=5, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ListGroupsRequest<'_> = read(call, body)?;
    super::check_entries(request.states_filter.len() + request.types_filter.len())?;
    let asked = Request::ListGroups { states: &request.states_filter, types: &request.types_filter };
    let parts = groups::ask_all(call, asked);
    let say: Say = Box::new(|reply, said| {
        let mut all = ListedGroups::default();
        for listed in said.into_iter().filter_map(listed) {
            match listed.error {
                ErrorCode::None => all.groups.extend(listed.groups),
                // It went elsewhere meanwhile, and is listed there.
                ErrorCode::NotCoordinator => {}
                error => all.error = error,
            }
        }
        if !all.error.is_none() {
            all.groups.clear();
        }
        all.groups.sort_by(|one, other| one.group.cmp(&other.group));
        reply.answer(&all.to_wire())
    });
    Ok(groups::wait_for(call, parts, say))
}

fn listed(said: Response) -> Option<ListedGroups> {
    match said {
        Response::ListGroups(listed) => Some(listed),
        _ => None,
    }
}
