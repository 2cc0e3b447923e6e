//! DeleteGroups: asked of the groups' coordinators.

use wire::messages::delete_groups::DeleteGroupsRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// Deletes groups that have no members, with all that they committed.
#[derive(Debug)]
pub struct DeleteGroups;

impl Ask for DeleteGroups {
    type Item = String;
    type Said = ();
    type Request<'a> = DeleteGroupsRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, group: &'a String) -> Name<'a> {
        Name::Group(group)
    }

    fn route<'a>(&self, group: &'a String) -> Route<'a> {
        Route::Coordinator(group)
    }

    fn request<'a>(&'a self, groups: &[&'a String], _: &How<'_>) -> DeleteGroupsRequest<'a> {
        DeleteGroupsRequest { groups_names: groups.iter().map(|group| group.as_str()).collect() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for group in &said.results {
            each(Name::Group(group.group_id), Refusal::check(group.error_code, group.error_message));
        }
        said.throttle_time_ms
    }
}
