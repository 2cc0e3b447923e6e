//! DeleteGroups · key 42 · v0..=v3, one group of it (KIP-229)

use base::ErrorCode;

use crate::group::{Group, GroupKind, Groups};
use crate::group_record::{GroupRecord, Record};
use crate::outcome::{Count, Outcome};
use crate::request::{Request, Ticket};
use crate::response::Response;

pub(crate) fn handle(groups: &Groups, ticket: Ticket, id: &str, out: &mut Outcome) {
    let refused = |error| Response::refused(&Request::DeleteGroup(id), error);
    let group = match groups.get(id) {
        _ if id.is_empty() => return out.reply(ticket, refused(ErrorCode::InvalidGroupId)),
        None => {
            let answer = refused(ErrorCode::GroupIdNotFound);
            return out.reply_once_committed(ticket, answer, groups.written_to(id));
        }
        Some(group) => group,
    };
    let is_empty = match &group.kind {
        GroupKind::Classic(classic) => classic.is_empty(),
        GroupKind::Consumer(consumers) => consumers.group.is_empty(),
    };
    if !is_empty {
        return out.reply(ticket, refused(ErrorCode::NonEmptyGroup));
    }
    forget(group, id, &mut out.records);
    out.counts_held.push(Count::OffsetsDeleted(group.offsets.len()));
    out.held.push((ticket, Response::DeleteGroup { group: id.into(), error: ErrorCode::None }));
}

/// The tombstones of a group and all of its offsets.
fn forget(group: &Group, id: &str, records: &mut Vec<Record>) {
    for (topic, partitions) in group.offsets.topics() {
        let forgotten = partitions.keys().map(|partition| {
            let (topic, partition) = (topic.as_str(), *partition);
            GroupRecord::OffsetCommit { group: id, topic, partition, value: None }.encode()
        });
        records.extend(forgotten);
    }
    match &group.kind {
        GroupKind::Classic(_) => records.push(GroupRecord::GroupMetadata { group: id, value: None }.encode()),
        GroupKind::Consumer(consumers) => records.extend(consumers.tombstones(id)),
    }
}
