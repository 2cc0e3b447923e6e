//! ListGroups · key 16 · v0..=v5
//! v4 filters states (KIP-518) · v5 filters types (KIP-848)

use std::collections::BTreeMap;

use base::ErrorCode;

use crate::consumer::PROTOCOL_TYPE;
use crate::group::{GroupKind, Groups};
use crate::response::{ListedGroup, ListedGroups};

pub(crate) fn handle(groups: &Groups, states: &[&str], types: &[&str]) -> ListedGroups {
    let passes = |wanted: &[&str], has: &str| {
        wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(has))
    };
    // There are few states and types, and maybe many groups and filters: each pair is compared once.
    let mut known = BTreeMap::new();
    let mut is_asked_for = |group: &ListedGroup| {
        let compare = || passes(states, group.state) && passes(types, group.kind);
        *known.entry((group.state, group.kind)).or_insert_with(compare)
    };
    let listed = groups.iter().map(|(id, group)| ListedGroup {
        group: id.clone(),
        protocol_type: match &group.kind {
            GroupKind::Classic(classic) => classic.protocol_type().cloned().unwrap_or_default(),
            GroupKind::Consumer(_) => PROTOCOL_TYPE.into(),
        },
        state: group.kind.state_name(),
        kind: group.kind.name(),
    });
    let listed = listed.filter(|group| is_asked_for(group));
    ListedGroups { error: ErrorCode::None, groups: listed.collect() }
}
