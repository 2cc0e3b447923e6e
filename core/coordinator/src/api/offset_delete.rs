//! OffsetDelete · key 47 · v0 (KIP-496)

use base::ErrorCode;
use metadata::Image;
use wire::messages::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestTopic};

use crate::group::{Group, GroupKind, Groups};
use crate::group_record::{GroupRecord, Record};
use crate::outcome::{Count, Outcome};
use crate::request::{Request, Ticket};
use crate::response::{DeletedOffsets, DeletedTopic, Response};

pub(crate) fn handle(
    groups: &Groups,
    ticket: Ticket,
    (asks, image): (&OffsetDeleteRequest<'_>, &Image),
    out: &mut Outcome,
) {
    let group = match check(groups, asks.group_id) {
        Ok(group) => group,
        Err(error) => {
            let refused = Response::refused(&Request::OffsetDelete(asks), error);
            return out.reply_once_committed(ticket, refused, groups.written_to(asks.group_id));
        }
    };
    let topics = asks.topics.iter();
    let topics = topics.map(|it| delete_topic(group, asks.group_id, (it, image), &mut out.records)).collect();
    let response = Response::OffsetDelete(DeletedOffsets { error: ErrorCode::None, topics });
    if out.records.is_empty() {
        return out.reply_once_committed(ticket, response, group.written_to);
    }
    out.counts_held.push(Count::OffsetsDeleted(out.records.len()));
    out.held.push((ticket, response));
}

/// The group, if what its members read is known: of others nobody can say what they need.
fn check<'a>(groups: &'a Groups, id: &str) -> Result<&'a Group, ErrorCode> {
    if id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let group = groups.get(id).ok_or(ErrorCode::GroupIdNotFound)?;
    match &group.kind {
        GroupKind::Classic(classic) if !classic.is_empty() && !classic.speaks_consumer() => {
            Err(ErrorCode::NonEmptyGroup)
        }
        GroupKind::Classic(_) | GroupKind::Consumer(_) => Ok(group),
    }
}

fn delete_topic(
    group: &Group,
    id: &str,
    (asks, image): (&OffsetDeleteRequestTopic<'_>, &Image),
    records: &mut Vec<Record>,
) -> DeletedTopic {
    // Of a topic that was deleted offsets may be left: whoever wants them gone may have it, unlike with Kafka.
    let is_known = image.topic(asks.name).is_some() || group.offsets.in_topic(asks.name).is_some();
    let error = match (is_known, group.is_subscribed_to(asks.name)) {
        (false, _) => ErrorCode::UnknownTopicOrPartition,
        (true, true) => ErrorCode::GroupSubscribedToTopic,
        (true, false) => ErrorCode::None,
    };
    let mut partitions = Vec::with_capacity(asks.partitions.len());
    for partition in asks.partitions.iter().map(|it| it.partition_index) {
        if error.is_none() && group.offsets.get(asks.name, partition).is_some() {
            let forgotten = GroupRecord::OffsetCommit { group: id, topic: asks.name, partition, value: None };
            records.push(forgotten.encode());
        }
        partitions.push((partition, error));
    }
    DeletedTopic { name: asks.name.into(), partitions }
}
