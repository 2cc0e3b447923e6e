//! What a shard answers. A reply may wait, so it owns what it says; names and metadata are shared with the group.
//!
//! [`Response::refused`] says which error a request gets as a whole, in the form of its API.

mod bytes;
mod on_wire;

use std::sync::Arc;

use base::{ErrorCode, Uuid};
use wire::messages::offset_fetch::OffsetFetchRequestGroup;

use crate::consumer::{GroupDescription, HeartbeatReply};
use crate::request::Request;

/// An answer to a [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// To [`Request::JoinGroup`].
    JoinGroup(JoinedGroup),
    /// To [`Request::SyncGroup`].
    SyncGroup(SyncedGroup),
    /// To [`Request::Heartbeat`].
    Heartbeat(ErrorCode),
    /// To [`Request::LeaveGroup`].
    LeaveGroup(LeftGroup),
    /// To [`Request::ConsumerGroupHeartbeat`].
    ConsumerGroupHeartbeat(HeardMember),
    /// To [`Request::OffsetCommit`].
    OffsetCommit(Vec<CommittedTopic>),
    /// To [`Request::OffsetFetch`].
    OffsetFetch(FetchedGroup),
    /// To [`Request::OffsetDelete`].
    OffsetDelete(DeletedOffsets),
    /// To [`Request::DescribeGroup`].
    DescribeGroup(DescribedGroup),
    /// To [`Request::ConsumerGroupDescribe`].
    ConsumerGroupDescribe(DescribedConsumerGroup),
    /// To [`Request::ListGroups`].
    ListGroups(ListedGroups),
    /// To [`Request::DeleteGroup`].
    DeleteGroup {
        /// Which group.
        group: Arc<str>,
        /// Whether it is gone.
        error: ErrorCode,
    },
}

/// What a member gets that joined, or why it did not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JoinedGroup {
    /// Whether it joined.
    pub error: ErrorCode,
    /// Its generation; -1 with an error.
    pub generation: i32,
    /// The type of protocol that the group speaks, as `consumer`.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol that all members can, as `range`.
    pub protocol: Option<Arc<str>>,
    /// The member that assigns; empty with an error.
    pub leader: Arc<str>,
    /// Whether the leader must not assign: it came back, and nothing changed (KIP-814).
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: Arc<str>,
    /// Everybody, for the leader only.
    pub members: Arc<[JoinedMember]>,
}

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its `group.instance.id`, if it is static (KIP-345).
    pub instance: Option<Arc<str>>,
    /// What it said of itself in the protocol that was chosen.
    pub metadata: Arc<[u8]>,
}

/// A member's assignment, or why it has none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SyncedGroup {
    /// Whether there is one.
    pub error: ErrorCode,
    /// The type of protocol that the group speaks.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol that was chosen.
    pub protocol: Option<Arc<str>>,
    /// What the leader made for the member.
    pub assignment: Arc<[u8]>,
    /// Whose it is; `None` with an error.
    pub(crate) assignee: Option<Assignee>,
}

/// A member in one generation of its group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignee {
    pub(crate) group: Arc<str>,
    pub(crate) generation: i32,
    pub(crate) member_id: Arc<str>,
    /// Its `group.instance.id`, if it is static.
    pub(crate) instance: Option<Arc<str>>,
}

/// Who left.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeftGroup {
    /// Whether the request was looked at.
    pub error: ErrorCode,
    /// Each member that should leave: its id, its `group.instance.id`, and whether it is gone.
    pub members: Vec<(Arc<str>, Option<Arc<str>>, ErrorCode)>,
}

/// What a member of the new protocol gets that was heard, or why it was not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeardMember {
    /// Whether it is a member.
    pub error: ErrorCode,
    /// For people.
    pub error_message: Option<String>,
    /// What it may read; `None` with an error.
    pub reply: Option<HeartbeatReply>,
}

/// What became of the commits of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedTopic {
    /// The topic as it was named; empty in versions that have its id.
    pub name: Arc<str>,
    /// The topic's id, in versions that have it.
    pub topic_id: Uuid,
    /// Each partition, and whether its offset is committed.
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// How far a group came.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FetchedGroup {
    /// Which group.
    pub group: Arc<str>,
    /// Whether it is known.
    pub error: ErrorCode,
    /// By topic.
    pub topics: Vec<FetchedTopic>,
}

/// How far a group came in a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedTopic {
    /// The topic's name; empty if it was asked for by an id that nobody knows.
    pub name: Arc<str>,
    /// The topic's id, where it is known.
    pub topic_id: Uuid,
    /// By partition.
    pub partitions: Vec<FetchedPartition>,
}

/// How far a group came in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedPartition {
    /// Which partition.
    pub partition: i32,
    /// The next record to read; -1 if nothing was committed.
    pub offset: i64,
    /// The leader epoch of the last record that was read; -1 if the client did not say (KIP-320).
    pub leader_epoch: i32,
    /// What the client wrote beside it.
    pub metadata: Arc<str>,
    /// Whether it could be told.
    pub error: ErrorCode,
}

/// Which offsets are forgotten.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeletedOffsets {
    /// Whether the group's offsets can be deleted at all.
    pub error: ErrorCode,
    /// By topic.
    pub topics: Vec<DeletedTopic>,
}

/// Which offsets of a topic are forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletedTopic {
    /// The topic as it was named.
    pub name: Arc<str>,
    /// Each partition, and whether its offset is gone.
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// A group and who is in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DescribedGroup {
    /// Whether it could be told.
    pub error: ErrorCode,
    /// For people; versions before 6 have no room for it.
    pub error_message: Option<String>,
    /// Which group.
    pub group: Arc<str>,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`.
    pub state: &'static str,
    /// The type of protocol that it speaks.
    pub protocol_type: Arc<str>,
    /// The protocol that was chosen.
    pub protocol: Arc<str>,
    /// Who is in it.
    pub members: Vec<DescribedMember>,
}

/// A member of a classic group.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its `group.instance.id`, if it is static.
    pub instance: Option<Arc<str>>,
    /// Its `client.id`.
    pub client_id: Arc<str>,
    /// Where it connects from.
    pub client_host: Arc<str>,
    /// What it said of itself in the protocol that was chosen.
    pub metadata: Arc<[u8]>,
    /// What it was assigned.
    pub assignment: Arc<[u8]>,
}

/// A group of the new protocol and who is in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DescribedConsumerGroup {
    /// Whether it could be told.
    pub error: ErrorCode,
    /// For people.
    pub error_message: Option<String>,
    /// Which group.
    pub group: Arc<str>,
    /// How it is; `None` with an error.
    pub described: Option<GroupDescription>,
}

/// The groups of a shard.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListedGroups {
    /// Whether they could be told.
    pub error: ErrorCode,
    /// By id.
    pub groups: Vec<ListedGroup>,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedGroup {
    /// Its id.
    pub group: Arc<str>,
    /// The type of protocol that it speaks; empty if nobody ever joined it.
    pub protocol_type: Arc<str>,
    /// Its state, as in [`DescribedGroup::state`] or [`crate::consumer::GroupState`].
    pub state: &'static str,
    /// `classic` or `consumer`.
    pub kind: &'static str,
}

impl Response {
    /// The answer to a request that fails as a whole.
    pub fn refused(request: &Request<'_>, error: ErrorCode) -> Self {
        match request {
            Request::JoinGroup(request) => Self::JoinGroup(JoinedGroup::refused(error, request.member_id)),
            Request::SyncGroup(_) => Self::SyncGroup(SyncedGroup::refused(error)),
            Request::Heartbeat(_) => Self::Heartbeat(error),
            Request::LeaveGroup(_) => Self::LeaveGroup(LeftGroup { error, members: Vec::new() }),
            Request::ConsumerGroupHeartbeat(_) => Self::ConsumerGroupHeartbeat(HeardMember::refused(error)),
            Request::OffsetCommit(request) => {
                let topics = request.topics.iter().map(|topic| CommittedTopic {
                    name: topic.name.into(),
                    topic_id: topic.topic_id,
                    partitions: topic.partitions.iter().map(|it| (it.partition_index, error)).collect(),
                });
                Self::OffsetCommit(topics.collect())
            }
            Request::OffsetFetch(request) => Self::OffsetFetch(FetchedGroup::refused(request, error)),
            Request::OffsetDelete(_) => Self::OffsetDelete(DeletedOffsets { error, topics: Vec::new() }),
            Request::DescribeGroup(group) => Self::DescribeGroup(DescribedGroup {
                error,
                group: (*group).into(),
                ..DescribedGroup::default()
            }),
            Request::ConsumerGroupDescribe(group) => {
                Self::ConsumerGroupDescribe(DescribedConsumerGroup::refused(error, group))
            }
            Request::ListGroups { .. } => Self::ListGroups(ListedGroups { error, groups: Vec::new() }),
            Request::DeleteGroup(group) => Self::DeleteGroup { group: (*group).into(), error },
        }
    }

    /// The same answer, but that what it promised did not come to be.
    #[must_use]
    pub(crate) fn failed(self, error: ErrorCode) -> Self {
        match self {
            // Without an id: the member that was let in may not be in what was written.
            Self::JoinGroup(_) => Self::JoinGroup(JoinedGroup::refused(error, "")),
            Self::SyncGroup(_) => Self::SyncGroup(SyncedGroup::refused(error)),
            Self::Heartbeat(_) => Self::Heartbeat(error),
            Self::LeaveGroup(_) => Self::LeaveGroup(LeftGroup { error, members: Vec::new() }),
            Self::ConsumerGroupHeartbeat(_) => Self::ConsumerGroupHeartbeat(HeardMember::refused(error)),
            Self::OffsetCommit(mut topics) => {
                topics.iter_mut().for_each(|topic| fail_all(&mut topic.partitions, error));
                Self::OffsetCommit(topics)
            }
            Self::OffsetFetch(mut fetched) => {
                fetched.error = error;
                let partitions = fetched.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
                partitions.for_each(|it| *it = FetchedPartition::nothing(it.partition, error));
                Self::OffsetFetch(fetched)
            }
            Self::OffsetDelete(_) => Self::OffsetDelete(DeletedOffsets { error, topics: Vec::new() }),
            Self::DescribeGroup(DescribedGroup { group, .. }) => {
                Self::DescribeGroup(DescribedGroup { error, group, ..DescribedGroup::default() })
            }
            Self::ConsumerGroupDescribe(DescribedConsumerGroup { group, .. }) => {
                Self::ConsumerGroupDescribe(DescribedConsumerGroup::refused(error, &group))
            }
            Self::ListGroups(_) => Self::ListGroups(ListedGroups { error, groups: Vec::new() }),
            Self::DeleteGroup { group, .. } => Self::DeleteGroup { group, error },
        }
    }
}

fn fail_all(partitions: &mut [(i32, ErrorCode)], error: ErrorCode) {
    for (_, code) in partitions.iter_mut().filter(|(_, code)| code.is_none()) {
        *code = error;
    }
}

impl JoinedGroup {
    pub(crate) fn refused(error: ErrorCode, member_id: &str) -> Self {
        Self { error, generation: -1, member_id: member_id.into(), ..Self::default() }
    }
}

impl SyncedGroup {
    /// There is none.
    pub fn refused(error: ErrorCode) -> Self {
        Self { error, ..Self::default() }
    }
}

impl Response {
    /// The answer to a member of the new protocol that was heard.
    pub(crate) fn heard(reply: HeartbeatReply) -> Self {
        let told = HeardMember { error: ErrorCode::None, error_message: None, reply: Some(reply) };
        Self::ConsumerGroupHeartbeat(told)
    }
}

impl HeardMember {
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Self { error, ..Self::default() }
    }
}

impl DescribedConsumerGroup {
    pub(crate) fn refused(error: ErrorCode, group: &str) -> Self {
        Self { error, group: group.into(), ..Self::default() }
    }
}

impl FetchedGroup {
    pub(crate) fn refused(request: &OffsetFetchRequestGroup<'_>, error: ErrorCode) -> Self {
        let topics = request.topics.iter().flatten().map(|topic| {
            let nothing = |partition: &i32| FetchedPartition::nothing(*partition, error);
            let partitions = topic.partition_indexes.iter().map(nothing).collect();
            FetchedTopic { name: topic.name.into(), topic_id: topic.topic_id, partitions }
        });
        Self { group: request.group_id.into(), error, topics: topics.collect() }
    }
}

impl FetchedPartition {
    /// Nothing was committed.
    pub(crate) fn nothing(partition: i32, error: ErrorCode) -> Self {
        Self { partition, offset: -1, leader_epoch: -1, metadata: Arc::from(""), error }
    }
}
