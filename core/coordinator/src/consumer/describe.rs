//! What ConsumerGroupDescribe and ListGroups show of a group.

use std::sync::Arc;

use base::TopicId;
use metadata::Image;
use wire::messages::consumer_group_describe::{
    Assignment, DescribedGroup, Member as DescribedMember, TopicPartitions,
};

use super::member::{Member, MemberId, MemberMetadata, MemberState, partitions_of};
use super::settings::ConsumerGroupSettings;
use super::{ConsumerGroup, targets};
use crate::assign::Partitions;

/// How a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// It has no members.
    Empty,
    /// Its targets are of an older epoch.
    Assigning,
    /// Some members are on the way to their targets.
    Reconciling,
    /// Every member has its target.
    Stable,
    /// It is not there.
    Dead,
}

impl GroupState {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// A group as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub group_id: String,
    /// How it is.
    pub state: GroupState,
    /// Its epoch.
    pub epoch: i32,
    /// The epoch of its targets.
    pub target_epoch: i32,
    /// The assignor that makes them.
    pub assignor: &'static str,
    /// Its members, by id.
    pub members: Vec<MemberDescription>,
}

/// A member as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id.
    pub id: MemberId,
    /// What it said of itself.
    pub metadata: Arc<MemberMetadata>,
    /// Its epoch.
    pub epoch: i32,
    /// How far it is.
    pub state: MemberState,
    /// What it may read.
    pub assigned: Vec<TopicIndexes>,
    /// What it should have.
    pub target: Vec<TopicIndexes>,
}

/// Partitions of one topic.
pub type TopicIndexes = (TopicId, String, Vec<i32>);

impl ConsumerGroup {
    /// The `type` of such groups in ListGroups.
    pub const TYPE: &str = "Consumer";

    /// How it is.
    pub fn state(&self) -> GroupState {
        let state = &self.state;
        let reconciled = |member: &Member| member.is_reconciled_to(state.target_epoch);
        match () {
            () if !self.exists() => GroupState::Dead,
            () if self.is_empty() => GroupState::Empty,
            () if state.group_epoch > state.target_epoch => GroupState::Assigning,
            () if state.members.values().all(reconciled) => GroupState::Stable,
            () => GroupState::Reconciling,
        }
    }

    /// As it is shown. A topic that is no longer there is left out, as in Kafka.
    pub fn describe(&self, image: &Image, settings: &ConsumerGroupSettings) -> GroupDescription {
        let nothing = Arc::default();
        let member = |(id, member): (&MemberId, &Member)| MemberDescription {
            id: id.clone(),
            metadata: member.metadata.clone(),
            epoch: member.current.epoch,
            state: member.current.state,
            assigned: named(&partitions_of(&member.current.assigned), image),
            target: named(self.state.targets.get(id).unwrap_or(&nothing), image),
        };
        GroupDescription {
            group_id: self.id.clone(),
            state: self.state(),
            epoch: self.state.group_epoch,
            target_epoch: self.state.target_epoch,
            assignor: targets::assignor(&self.state, settings).name(),
            members: self.members().map(member).collect(),
        }
    }
}

impl GroupDescription {
    /// As it is sent.
    pub fn to_response(&self) -> DescribedGroup<'_> {
        DescribedGroup {
            group_id: &self.group_id,
            group_state: self.state.name(),
            group_epoch: self.epoch,
            assignment_epoch: self.target_epoch,
            assignor_name: self.assignor,
            members: self.members.iter().map(MemberDescription::to_response).collect(),
            ..DescribedGroup::default()
        }
    }
}

impl MemberDescription {
    fn to_response(&self) -> DescribedMember<'_> {
        DescribedMember {
            member_id: &self.id,
            instance_id: self.metadata.instance_id.as_deref(),
            rack_id: self.metadata.rack_id.as_deref(),
            member_epoch: self.epoch,
            client_id: &self.metadata.client_id,
            client_host: &self.metadata.client_host,
            subscribed_topic_names: self.metadata.topics.iter().map(String::as_str).collect(),
            subscribed_topic_regex: self.metadata.regex.as_deref(),
            assignment: sent(&self.assigned),
            target_assignment: sent(&self.target),
            // 0 is the classic protocol, 1 the new one.
            member_type: i8::from(self.metadata.classic.is_none()),
        }
    }
}

fn named(partitions: &Partitions, image: &Image) -> Vec<TopicIndexes> {
    let of = partitions.iter().filter_map(|(id, indexes)| {
        let name = image.topic_by_id(*id)?.name.to_string();
        Some((*id, name, indexes.iter().map(|index| index.0).collect()))
    });
    of.collect()
}

fn sent(list: &[TopicIndexes]) -> Assignment<'_> {
    let topic_partitions = list
        .iter()
        .map(|(id, name, indexes)| TopicPartitions {
            topic_id: id.0,
            topic_name: name,
            partitions: indexes.clone(),
        })
        .collect();
    Assignment { topic_partitions }
}
