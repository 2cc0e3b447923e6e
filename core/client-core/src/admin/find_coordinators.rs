//! FindCoordinator: who keeps a group, asked of anyone.
//!
//! Calls about groups find their way by themselves (`coordinators.rs`); this is for those who want to be told.

use base::BrokerId;
use wire::messages::find_coordinator::FindCoordinatorRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// From here on a request names several groups (KIP-699).
const VERSION_BATCHED_MIN: i16 = 4;
/// One request is about so many groups at most.
const GROUPS_MAX: usize = 1_000;

/// The broker that keeps a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCoordinator {
    /// Which one.
    pub id: BrokerId,
    /// Where clients reach it.
    pub host: String,
    /// And the port.
    pub port: i32,
}

/// Says who keeps groups. A group that there is not has a coordinator, too.
#[derive(Debug)]
pub struct FindCoordinators;

impl Ask for FindCoordinators {
    type Item = String;
    type Said = GroupCoordinator;
    type Request<'a> = FindCoordinatorRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, group: &'a String) -> Name<'a> {
        Name::Group(group)
    }

    fn route<'a>(&self, _: &'a String) -> Route<'a> {
        Route::Any
    }

    fn version_min(&self, _: &String) -> i16 {
        VERSION_BATCHED_MIN
    }

    fn items_max(&self) -> usize {
        GROUPS_MAX
    }

    fn request<'a>(&'a self, groups: &[&'a String], _: &How<'_>) -> FindCoordinatorRequest<'a> {
        let coordinator_keys = groups.iter().map(|group| group.as_str()).collect();
        FindCoordinatorRequest { coordinator_keys, ..FindCoordinatorRequest::default() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for found in &said.coordinators {
            let coordinator = Refusal::check(found.error_code, found.error_message).map(|()| {
                let (id, host, port) = (BrokerId(found.node_id), found.host.to_owned(), found.port);
                GroupCoordinator { id, host, port }
            });
            each(Name::Group(found.key), coordinator);
        }
        said.throttle_time_ms
    }
}
