//! DescribeGroups and ConsumerGroupDescribe: asked of the groups' coordinators.

use std::collections::BTreeSet;

use base::{ErrorCode, PartitionIndex, TopicName, TopicPartition};
use wire::messages::consumer_group_describe::{self as of_consumers, ConsumerGroupDescribeRequest};
use wire::messages::describe_groups::{DescribeGroupsRequest, DescribedGroup};

use super::{Ask, Each, How, Name, Refusal, Response, Route};
use crate::group::{decode_assignment, decode_subscription};

/// What the classic protocol calls the members that are consumers.
const CONSUMERS: &str = "consumer";
/// The state of a group that is not there, as versions before 6 say it.
const DEAD: &str = "Dead";

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// `group.id`.
    pub group_id: String,
    /// As Kafka calls it: `Stable`, `Empty`, `PreparingRebalance`, `Assigning`, …
    pub state: String,
    /// What its members are, in the classic protocol.
    pub protocol_type: String,
    /// Who assigns: an assignor of the members, or of the broker.
    pub assignor: String,
    /// The epochs of group and assignment, if it has the consumer protocol.
    pub epochs: Option<(i32, i32)>,
    /// By member id.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// What the coordinator calls it.
    pub member_id: String,
    /// `group.instance.id`.
    pub instance_id: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Where it connects from.
    pub host: String,
    /// The topics it wants by name; empty if that cannot be told.
    pub topics: BTreeSet<TopicName>,
    /// The regular expression of the topics it wants.
    pub pattern: Option<String>,
    /// What it has; empty if that cannot be told.
    pub assignment: BTreeSet<TopicPartition>,
    /// What it is to have, if it has the consumer protocol.
    pub target: Option<BTreeSet<TopicPartition>>,
    /// Its epoch, if it has the consumer protocol.
    pub epoch: Option<i32>,
}

/// Describes groups of the classic protocol. One of another is refused with GROUP_ID_NOT_FOUND.
#[derive(Debug)]
pub struct DescribeClassicGroups;

/// Describes groups of the consumer protocol (KIP-848). One of another is refused with GROUP_ID_NOT_FOUND.
#[derive(Debug)]
pub struct DescribeConsumerGroups;

impl Ask for DescribeClassicGroups {
    type Item = String;
    type Said = GroupDescription;
    type Request<'a> = DescribeGroupsRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, group: &'a String) -> Name<'a> {
        Name::Group(group)
    }

    fn route<'a>(&self, group: &'a String) -> Route<'a> {
        Route::Coordinator(group)
    }

    fn request<'a>(&'a self, groups: &[&'a String], _: &How<'_>) -> DescribeGroupsRequest<'a> {
        let groups = groups.iter().map(|group| group.as_str()).collect();
        DescribeGroupsRequest { groups, ..DescribeGroupsRequest::default() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for group in &said.groups {
            let refusal = Refusal::check(group.error_code, group.error_message);
            let is_there = refusal.and_then(|()| match group.group_state {
                DEAD => Err(Refusal { code: ErrorCode::GroupIdNotFound, message: None }),
                _ => Ok(classic(group)),
            });
            each(Name::Group(group.group_id), is_there);
        }
        said.throttle_time_ms
    }
}

fn classic(group: &DescribedGroup<'_>) -> GroupDescription {
    let are_consumers = group.protocol_type == CONSUMERS;
    let members = group.members.iter().map(|member| {
        let (mut topics, mut assignment) = (BTreeSet::new(), BTreeSet::new());
        if are_consumers {
            topics = decode_subscription(member.member_metadata, None).topics;
            assignment = decode_assignment(member.member_assignment).unwrap_or_default();
        }
        GroupMember {
            member_id: member.member_id.to_owned(),
            instance_id: member.group_instance_id.map(str::to_owned),
            client_id: member.client_id.to_owned(),
            host: member.client_host.to_owned(),
            topics,
            pattern: None,
            assignment,
            target: None,
            epoch: None,
        }
    });
    GroupDescription {
        group_id: group.group_id.to_owned(),
        state: group.group_state.to_owned(),
        protocol_type: group.protocol_type.to_owned(),
        assignor: group.protocol_data.to_owned(),
        epochs: None,
        members: sorted(members.collect()),
    }
}

fn sorted(mut members: Vec<GroupMember>) -> Vec<GroupMember> {
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    members
}

impl Ask for DescribeConsumerGroups {
    type Item = String;
    type Said = GroupDescription;
    type Request<'a> = ConsumerGroupDescribeRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, group: &'a String) -> Name<'a> {
        Name::Group(group)
    }

    fn route<'a>(&self, group: &'a String) -> Route<'a> {
        Route::Coordinator(group)
    }

    fn request<'a>(&'a self, groups: &[&'a String], _: &How<'_>) -> ConsumerGroupDescribeRequest<'a> {
        let group_ids = groups.iter().map(|group| group.as_str()).collect();
        ConsumerGroupDescribeRequest { group_ids, include_authorized_operations: false }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for group in &said.groups {
            let refusal = Refusal::check(group.error_code, group.error_message);
            each(Name::Group(group.group_id), refusal.map(|()| modern(group)));
        }
        said.throttle_time_ms
    }
}

fn modern(group: &of_consumers::DescribedGroup<'_>) -> GroupDescription {
    let members = group.members.iter().map(|member| GroupMember {
        member_id: member.member_id.to_owned(),
        instance_id: member.instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        host: member.client_host.to_owned(),
        topics: member.subscribed_topic_names.iter().filter_map(|name| TopicName::new(name).ok()).collect(),
        pattern: member.subscribed_topic_regex.filter(|regex| !regex.is_empty()).map(str::to_owned),
        assignment: partitions(&member.assignment),
        target: Some(partitions(&member.target_assignment)),
        epoch: Some(member.member_epoch),
    });
    GroupDescription {
        group_id: group.group_id.to_owned(),
        state: group.group_state.to_owned(),
        protocol_type: CONSUMERS.to_owned(),
        assignor: group.assignor_name.to_owned(),
        epochs: Some((group.group_epoch, group.assignment_epoch)),
        members: sorted(members.collect()),
    }
}

fn partitions(assignment: &of_consumers::Assignment<'_>) -> BTreeSet<TopicPartition> {
    let mut all = BTreeSet::new();
    for topic in &assignment.topic_partitions {
        let Ok(name) = TopicName::new(topic.topic_name) else { continue };
        let of = |&index: &i32| TopicPartition { topic: name.clone(), partition: PartitionIndex(index) };
        all.extend(topic.partitions.iter().map(of));
    }
    all
}
