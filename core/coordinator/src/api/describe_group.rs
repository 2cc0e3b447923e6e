//! DescribeGroups · key 15 · v0..=v6, one group of it
//! v4 static members (KIP-345) · v6 groups that are not there are an error (KIP-1043)

use base::ErrorCode;

use crate::group::{GroupKind, Groups};
use crate::response::DescribedGroup;

/// What a group is called that is not there.
const DEAD: &str = "Dead";

pub(crate) fn handle(groups: &Groups, id: &str) -> DescribedGroup {
    if id.is_empty() {
        let error = ErrorCode::InvalidGroupId;
        return DescribedGroup { error, ..DescribedGroup::default() };
    }
    let missing = |why: &str| DescribedGroup {
        error: ErrorCode::GroupIdNotFound,
        error_message: Some(format!("Group {} {why}.", base::excerpt(id, 255))),
        group: id.into(),
        state: DEAD,
        ..DescribedGroup::default()
    };
    match groups.get(id).map(|group| &group.kind) {
        Some(GroupKind::Classic(classic)) => classic.describe(),
        Some(GroupKind::Consumer(_)) => missing("is not a classic group"),
        None => missing("not found"),
    }
}
