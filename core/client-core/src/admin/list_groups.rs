//! ListGroups: asked of each broker, about the groups that it keeps.

use base::BrokerId;
use wire::messages::list_groups::ListGroupsRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The first version that knows states, and the first that knows types (KIP-518, KIP-848).
const VERSION_STATES_MIN: i16 = 4;
const VERSION_TYPES_MIN: i16 = 5;

/// A group, briefly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedGroup {
    /// `group.id`.
    pub group_id: String,
    /// What its members are: `consumer`, `connect`, `share`, …; empty if it only has offsets.
    pub protocol_type: String,
    /// As Kafka calls it: `Stable`, `Empty`, …; empty if the broker is too old to say.
    pub state: String,
    /// `Classic`, `Consumer`, `Share`, `Streams`; empty if the broker is too old to say.
    pub group_type: String,
    /// The broker that keeps it, if it was told which one answered.
    pub coordinator: Option<BrokerId>,
}

/// Lists groups.
#[derive(Debug, Clone, Default)]
pub struct ListGroups {
    /// Only groups in these states; all without.
    pub states: Vec<String>,
    /// Only groups of these types; all without.
    pub types: Vec<String>,
}

impl Ask for ListGroups {
    type Item = BrokerId;
    type Said = Vec<ListedGroup>;
    type Request<'a> = ListGroupsRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, broker: &'a BrokerId) -> Name<'a> {
        Name::Broker(*broker)
    }

    fn route<'a>(&self, broker: &'a BrokerId) -> Route<'a> {
        Route::Broker(*broker)
    }

    fn version_min(&self, _: &BrokerId) -> i16 {
        match (self.states.is_empty(), self.types.is_empty()) {
            (_, false) => VERSION_TYPES_MIN,
            (false, true) => VERSION_STATES_MIN,
            (true, true) => 0,
        }
    }

    fn request<'a>(&'a self, _: &[&'a BrokerId], _: &How<'_>) -> ListGroupsRequest<'a> {
        let words = |all: &'a [String]| all.iter().map(String::as_str).collect();
        ListGroupsRequest { states_filter: words(&self.states), types_filter: words(&self.types) }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let groups = said.groups.iter().map(|group| ListedGroup {
            group_id: group.group_id.to_owned(),
            protocol_type: group.protocol_type.to_owned(),
            state: group.group_state.to_owned(),
            group_type: group.group_type.to_owned(),
            coordinator: None,
        });
        each(Name::All, Refusal::check(said.error_code, None).map(|()| groups.collect()));
        said.throttle_time_ms
    }
}
