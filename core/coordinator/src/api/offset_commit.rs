//! OffsetCommit · key 8 · v2..=v10
//! v2 to v4 a time to keep them · v6 leader epochs (KIP-320) · v7 static members (KIP-345) · v9 member epochs (KIP-848)
//! · v10 topic ids

use std::sync::Arc;

use base::{ErrorCode, PartitionIndex, TopicId, Uuid};
use metadata::{Image, Topic};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};

use crate::consumer::CommitRight;
use crate::group::classic::State;
use crate::group::{GroupKind, Groups};
use crate::group_record::GroupRecord;
use crate::outcome::{Count, Outcome};
use crate::record::OffsetCommitValue;
use crate::request::{Caller, Request, Ticket};
use crate::response::{CommittedTopic, Response};
use crate::settings::Step;

/// The version from which a group that is not there is told as such.
const GROUP_ID_NOT_FOUND_FROM: i16 = 9;
/// The version from which topics are named by id.
const TOPIC_IDS_FROM: i16 = 10;
/// A retention that a client did not choose.
const RETENTION_DEFAULT: i64 = -1;

/// A commit that may be made.
struct Commit<'a> {
    at: &'a Step<'a>,
    version: i16,
    group: &'a str,
    image: &'a Image,
    /// Of which partitions the member may.
    right: CommitRight<'a>,
    /// When the client wants it to expire; -1 leaves it to the broker.
    expires_at: i64,
}

pub(crate) fn handle(
    groups: &mut Groups,
    at: &Step<'_>,
    (ticket, caller): (Ticket, &Caller<'_>),
    (asks, image): (&OffsetCommitRequest<'_>, &Image),
    out: &mut Outcome,
) {
    let right = match check(groups, at, caller.version, asks) {
        Ok(right) => right,
        Err(error) => return out.reply(ticket, Response::refused(&Request::OffsetCommit(asks), error)),
    };
    let expires_at = match asks.retention_time_ms {
        RETENTION_DEFAULT => -1,
        retention => at.now.wall.0.saturating_add(retention).max(0),
    };
    let commit = Commit { at, version: caller.version, group: asks.group_id, image, right, expires_at };
    let topics = asks.topics.iter().map(|topic| commit.topic(topic, out)).collect();
    let response = Response::OffsetCommit(topics);
    if out.records.is_empty() {
        return out.reply(ticket, response);
    }
    out.counts_held.push(Count::OffsetsCommitted(out.records.len()));
    out.held.push((ticket, response));
}

/// Whether the group's offsets are the member's to commit. A commit keeps the session of one of the classic protocol.
fn check<'a>(
    groups: &'a mut Groups,
    at: &Step<'_>,
    version: i16,
    asks: &OffsetCommitRequest<'_>,
) -> Result<CommitRight<'a>, ErrorCode> {
    let generation = asks.generation_id_or_member_epoch;
    let has_room = groups.has_room();
    let Some(group) = groups.get_mut(asks.group_id) else {
        return match generation {
            // Somebody who keeps offsets here and needs no group.
            ..0 if has_room => Ok(CommitRight::All),
            ..0 => Err(ErrorCode::PolicyViolation),
            _ if version >= GROUP_ID_NOT_FOUND_FROM => Err(ErrorCode::GroupIdNotFound),
            _ => Err(ErrorCode::IllegalGeneration),
        };
    };
    match &mut group.kind {
        GroupKind::Classic(classic) => {
            classic.check_commit(asks.member_id, asks.group_instance_id, generation)?;
            if matches!(classic.state(), State::Stable | State::PreparingRebalance) {
                classic.touch(asks.member_id, at.now.elapsed);
            }
            Ok(CommitRight::All)
        }
        GroupKind::Consumer(consumers) => {
            let (id, instance) = (asks.member_id, asks.group_instance_id);
            let right = consumers.group.validate_offset_commit(id, instance, generation, Some(version));
            right.map_err(|error| error.code())
        }
    }
}

impl Commit<'_> {
    fn topic(&self, asks: &OffsetCommitRequestTopic<'_>, out: &mut Outcome) -> CommittedTopic {
        let found = find(self.image, self.version, asks.name, asks.topic_id);
        let partition = |it: &OffsetCommitRequestPartition<'_>| {
            let committed = found.and_then(|topic| self.partition(topic, it));
            let error = match committed {
                Ok(record) => {
                    out.records.push(record.encode());
                    ErrorCode::None
                }
                Err(error) => error,
            };
            (it.partition_index, error)
        };
        CommittedTopic {
            name: Arc::from(asks.name),
            topic_id: asks.topic_id,
            partitions: asks.partitions.iter().map(partition).collect(),
        }
    }

    fn partition<'t>(
        &'t self,
        topic: &'t Topic,
        asks: &OffsetCommitRequestPartition<'_>,
    ) -> Result<GroupRecord<'t>, ErrorCode> {
        let metadata = asks.committed_metadata.unwrap_or_default();
        if metadata.len() > self.at.settings.offset_metadata_bytes_max {
            return Err(ErrorCode::OffsetMetadataTooLarge);
        }
        let index = PartitionIndex(asks.partition_index);
        if topic.partition(index).is_none() {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        self.right.check(Some(topic.id), index).map_err(|error| error.code())?;
        let value = OffsetCommitValue {
            offset: asks.committed_offset,
            leader_epoch: asks.committed_leader_epoch,
            metadata: metadata.to_owned(),
            commit_timestamp: self.at.now.wall.0,
            expire_timestamp: self.expires_at,
            topic_id: topic.id.0,
        };
        let partition = asks.partition_index;
        Ok(GroupRecord::OffsetCommit {
            group: self.group,
            topic: topic.name.as_str(),
            partition,
            value: Some(value),
        })
    }
}

/// The topic that is meant, by id where the version has ids.
fn find<'a>(image: &'a Image, version: i16, name: &str, id: Uuid) -> Result<&'a Topic, ErrorCode> {
    let (found, error) = match version {
        TOPIC_IDS_FROM.. => (image.topic_by_id(TopicId(id)), ErrorCode::UnknownTopicId),
        _ => (image.topic(name), ErrorCode::UnknownTopicOrPartition),
    };
    found.map(|topic| &**topic).ok_or(error)
}
