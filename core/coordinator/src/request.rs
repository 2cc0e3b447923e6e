//! What a shard is asked. Requests borrow from their frames: what has to last longer is copied by whoever keeps it.

use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::JoinGroupRequest;
use wire::messages::leave_group::LeaveGroupRequest;
use wire::messages::offset_commit::OffsetCommitRequest;
use wire::messages::offset_delete::OffsetDeleteRequest;
use wire::messages::offset_fetch::OffsetFetchRequestGroup;
use wire::messages::sync_group::SyncGroupRequest;

/// Who waits for a reply; the caller's number, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A connection over which somebody asks; the caller's number, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Who asks, and what its caller adds.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The version of the request.
    pub version: i16,
    /// `client.id`; empty if it said none.
    pub client_id: &'a str,
    /// Where it connects from, as Kafka writes it: `/127.0.0.1`.
    pub client_host: &'a str,
    /// Chance, for the id of a member that has none yet; of no meaning if [`Request::needs_id`] is not so.
    pub random: u128,
    /// The connection that it asks over.
    pub connection: ConnectionId,
}

/// A request about one group, or, in [`Request::ListGroups`], about all of the shard.
///
/// What one frame asks of several groups is taken apart by the caller: their shards may be on different brokers.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// A member joins, or joins again (key 11).
    JoinGroup(&'a JoinGroupRequest<'a>),
    /// A member asks for its assignment; the leader brings everybody's (key 14).
    SyncGroup(&'a SyncGroupRequest<'a>),
    /// A member lives (key 12).
    Heartbeat(&'a HeartbeatRequest<'a>),
    /// Members leave, or are removed by somebody (key 13).
    LeaveGroup(&'a LeaveGroupRequest<'a>),
    /// A member of the new protocol joins, lives, wants something else, or leaves (key 68).
    ConsumerGroupHeartbeat(&'a ConsumerGroupHeartbeatRequest<'a>),
    /// How far a group came (key 8).
    OffsetCommit(&'a OffsetCommitRequest<'a>),
    /// How far did the group come (key 9)? Versions before 8 have one group: the caller puts it into this form.
    OffsetFetch(&'a OffsetFetchRequestGroup<'a>),
    /// Forget how far the group came (key 47).
    OffsetDelete(&'a OffsetDeleteRequest<'a>),
    /// Who is in the group (key 15)?
    DescribeGroup(&'a str),
    /// Who is in the group of the new protocol, and what should each member read (key 69)?
    ConsumerGroupDescribe(&'a str),
    /// Which groups are there (key 16)? Empty filters let everything pass.
    ListGroups {
        /// States that are asked for, as `Stable`, in any case.
        states: &'a [&'a str],
        /// Types that are asked for: `classic`, `consumer`, in any case.
        types: &'a [&'a str],
    },
    /// Forget the group and its offsets (key 42).
    DeleteGroup(&'a str),
}

/// A member that says who it is, and thereby that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speaker<'a> {
    /// Its group.
    pub group: &'a str,
    /// Its id.
    pub member: &'a str,
    /// By what.
    pub by: Speech,
}

/// What a member says that says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// That it joins, or what it was given: its heartbeats begin anew afterwards.
    Joins,
    /// That it lives.
    Heartbeat,
    /// Something else.
    Other,
}

impl<'a> Request<'a> {
    /// Whether whoever asks may have to be given an id, for which it takes chance.
    pub fn needs_id(&self) -> bool {
        match self {
            Self::JoinGroup(asks) => asks.member_id.is_empty(),
            Self::ConsumerGroupHeartbeat(asks) => asks.member_id.is_empty(),
            Self::SyncGroup(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::OffsetCommit(_)
            | Self::OffsetFetch(_)
            | Self::OffsetDelete(_)
            | Self::DescribeGroup(_)
            | Self::ConsumerGroupDescribe(_)
            | Self::ListGroups { .. }
            | Self::DeleteGroup(_) => false,
        }
    }

    /// The member that asks; `None` if somebody else does, or one that is not a member yet or leaves.
    pub fn speaker(&self) -> Option<Speaker<'a>> {
        let (group, member, by) = match self {
            Self::JoinGroup(asks) => (asks.group_id, asks.member_id, Speech::Joins),
            Self::SyncGroup(asks) => (asks.group_id, asks.member_id, Speech::Joins),
            Self::Heartbeat(asks) => (asks.group_id, asks.member_id, Speech::Heartbeat),
            Self::ConsumerGroupHeartbeat(asks) if asks.member_epoch >= 0 => {
                (asks.group_id, asks.member_id, Speech::Heartbeat)
            }
            Self::OffsetCommit(asks) => (asks.group_id, asks.member_id, Speech::Other),
            Self::LeaveGroup(_)
            | Self::ConsumerGroupHeartbeat(_)
            | Self::OffsetFetch(_)
            | Self::OffsetDelete(_)
            | Self::DescribeGroup(_)
            | Self::ConsumerGroupDescribe(_)
            | Self::ListGroups { .. }
            | Self::DeleteGroup(_) => return None,
        };
        (!member.is_empty()).then_some(Speaker { group, member, by })
    }
}
