//! Answers as messages of the protocol. They borrow from the answer; the throttle time is the caller's to add.

use base::ErrorCode;
use wire::messages::consumer_group_describe;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatResponse;
use wire::messages::describe_groups::{self, DescribedGroupMember};
use wire::messages::join_group::{JoinGroupResponse, JoinGroupResponseMember};
use wire::messages::leave_group::{LeaveGroupResponse, MemberResponse};
use wire::messages::list_groups::{self, ListGroupsResponse};
use wire::messages::offset_commit::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::offset_delete::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::messages::offset_fetch::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::messages::sync_group::SyncGroupResponse;

use super::{
    CommittedTopic, DeletedOffsets, DescribedConsumerGroup, DescribedGroup, FetchedGroup, HeardMember,
    JoinedGroup, LeftGroup, ListedGroups, SyncedGroup,
};

/// What a client reads as "operations that were not asked for".
const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

impl JoinedGroup {
    /// As a message of a version.
    pub fn to_wire(&self, version: i16) -> JoinGroupResponse<'_> {
        let members = self.members.iter().map(|member| JoinGroupResponseMember {
            member_id: &member.member_id,
            group_instance_id: member.instance.as_deref(),
            metadata: &member.metadata,
        });
        JoinGroupResponse {
            error_code: self.error.code(),
            generation_id: self.generation,
            protocol_type: self.protocol_type.as_deref(),
            // Versions before 7 have no null.
            protocol_name: self.protocol.as_deref().or((version < 7).then_some("")),
            leader: &self.leader,
            skip_assignment: self.skip_assignment && version >= 9,
            member_id: &self.member_id,
            members: members.collect(),
            throttle_time_ms: 0,
        }
    }
}

impl SyncedGroup {
    /// As a message.
    pub fn to_wire(&self) -> SyncGroupResponse<'_> {
        SyncGroupResponse {
            error_code: self.error.code(),
            protocol_type: self.protocol_type.as_deref(),
            protocol_name: self.protocol.as_deref(),
            assignment: &self.assignment,
            throttle_time_ms: 0,
        }
    }
}

impl LeftGroup {
    /// As a message of a version: before 3 there is one member, and its error is that of the whole.
    pub fn to_wire(&self, version: i16) -> LeaveGroupResponse<'_> {
        let error = match self.members.first() {
            Some((.., error)) if version < 3 => *error,
            Some(_) | None => self.error,
        };
        let listed = self.members.iter().filter(|_| version >= 3);
        let members = listed.map(|(id, instance, error)| MemberResponse {
            member_id: id,
            group_instance_id: instance.as_deref(),
            error_code: error.code(),
        });
        LeaveGroupResponse { error_code: error.code(), members: members.collect(), throttle_time_ms: 0 }
    }
}

impl HeardMember {
    /// As a message.
    pub fn to_wire(&self) -> ConsumerGroupHeartbeatResponse<'_> {
        match &self.reply {
            Some(reply) => reply.to_response(),
            None => ConsumerGroupHeartbeatResponse {
                error_code: self.error.code(),
                error_message: self.error_message.as_deref(),
                ..ConsumerGroupHeartbeatResponse::default()
            },
        }
    }
}

impl CommittedTopic {
    /// What became of commits, as a message.
    pub fn all_to_wire(topics: &[Self]) -> OffsetCommitResponse<'_> {
        let topics = topics.iter().map(Self::to_wire).collect();
        OffsetCommitResponse { topics, throttle_time_ms: 0 }
    }

    fn to_wire(&self) -> OffsetCommitResponseTopic<'_> {
        let partitions = self.partitions.iter().map(|(partition_index, error)| {
            OffsetCommitResponsePartition { partition_index: *partition_index, error_code: error.code() }
        });
        OffsetCommitResponseTopic {
            name: &self.name,
            topic_id: self.topic_id,
            partitions: partitions.collect(),
        }
    }
}

impl FetchedGroup {
    /// As a part of a message of version 8 or later.
    pub fn to_wire(&self) -> OffsetFetchResponseGroup<'_> {
        let told = self.topics.iter().filter(|_| self.error.is_none());
        let topics = told.map(|topic| {
            let partitions = topic.partitions.iter().map(|it| OffsetFetchResponsePartitions {
                partition_index: it.partition,
                committed_offset: it.offset,
                committed_leader_epoch: it.leader_epoch,
                metadata: Some(&it.metadata),
                error_code: it.error.code(),
            });
            OffsetFetchResponseTopics {
                name: &topic.name,
                topic_id: topic.topic_id,
                partitions: partitions.collect(),
            }
        });
        OffsetFetchResponseGroup {
            group_id: &self.group,
            topics: topics.collect(),
            error_code: self.error.code(),
        }
    }

    /// As a message of a version before 8, which has one group. Version 1 has no error but the partitions'; from 2 on
    /// Kafka leaves partitions out beside that of the group. aiokafka looks at nothing but partitions, takes those that
    /// are not there for not committed, and goes on where `auto_offset_reset` says: so each tells the error, too.
    pub fn to_wire_alone(&self) -> OffsetFetchResponse<'_> {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|it| OffsetFetchResponsePartition {
                partition_index: it.partition,
                committed_offset: it.offset,
                committed_leader_epoch: it.leader_epoch,
                metadata: Some(&it.metadata),
                error_code: it.error.code(),
            });
            OffsetFetchResponseTopic { name: &topic.name, partitions: partitions.collect() }
        });
        OffsetFetchResponse {
            topics: topics.collect(),
            error_code: self.error.code(),
            ..OffsetFetchResponse::default()
        }
    }
}

impl DeletedOffsets {
    /// As a message.
    pub fn to_wire(&self) -> OffsetDeleteResponse<'_> {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|(partition_index, error)| {
                OffsetDeleteResponsePartition { partition_index: *partition_index, error_code: error.code() }
            });
            OffsetDeleteResponseTopic { name: &topic.name, partitions: partitions.collect() }
        });
        OffsetDeleteResponse { error_code: self.error.code(), topics: topics.collect(), throttle_time_ms: 0 }
    }
}

impl DescribedGroup {
    /// As a part of a message of a version. Before version 6 a group that nobody knows is `Dead`, and no error
    /// (KIP-1043).
    pub fn to_wire(&self, version: i16) -> describe_groups::DescribedGroup<'_> {
        let error = match self.error {
            ErrorCode::GroupIdNotFound if version < 6 => ErrorCode::None,
            error => error,
        };
        let members = self.members.iter().map(|member| DescribedGroupMember {
            member_id: &member.member_id,
            group_instance_id: member.instance.as_deref().filter(|_| version >= 4),
            client_id: &member.client_id,
            client_host: &member.client_host,
            member_metadata: &member.metadata,
            member_assignment: &member.assignment,
        });
        describe_groups::DescribedGroup {
            error_code: error.code(),
            error_message: self.error_message.as_deref().filter(|_| version >= 6),
            group_id: &self.group,
            group_state: self.state,
            protocol_type: &self.protocol_type,
            protocol_data: &self.protocol,
            members: members.collect(),
            authorized_operations: OPERATIONS_NOT_ASKED,
        }
    }
}

impl DescribedConsumerGroup {
    /// As a part of a message.
    pub fn to_wire(&self) -> consumer_group_describe::DescribedGroup<'_> {
        match &self.described {
            Some(described) => described.to_response(),
            None => consumer_group_describe::DescribedGroup {
                error_code: self.error.code(),
                error_message: self.error_message.as_deref(),
                group_id: &self.group,
                ..consumer_group_describe::DescribedGroup::default()
            },
        }
    }
}

impl ListedGroups {
    /// As a message.
    pub fn to_wire(&self) -> ListGroupsResponse<'_> {
        let groups = self.groups.iter().map(|group| list_groups::ListedGroup {
            group_id: &group.group,
            protocol_type: &group.protocol_type,
            group_state: group.state,
            group_type: group.kind,
        });
        ListGroupsResponse { error_code: self.error.code(), groups: groups.collect(), throttle_time_ms: 0 }
    }
}
