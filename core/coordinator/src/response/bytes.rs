//! How much memory answers take, roughly. Those are counted of which one small request may ask for very many.

use std::mem::size_of;

use super::{
    DescribedConsumerGroup, DescribedGroup, DescribedMember, FetchedGroup, FetchedPartition, FetchedTopic,
    ListedGroup, Response,
};
use crate::consumer::{MemberDescription, TopicIndexes};

impl Response {
    /// About how many bytes it takes if it tells of groups or their offsets; any other is as large as what it answers,
    /// and counts as if nothing were in it.
    pub fn bytes(&self) -> usize {
        let told = match self {
            Self::OffsetFetch(fetched) => fetched.bytes(),
            Self::DescribeGroup(described) => described.bytes(),
            Self::ConsumerGroupDescribe(described) => described.bytes(),
            Self::ListGroups(listed) => listed.groups.iter().map(ListedGroup::bytes).sum(),
            _ => 0,
        };
        size_of::<Self>() + told
    }
}

impl FetchedGroup {
    fn bytes(&self) -> usize {
        let partition = |it: &FetchedPartition| size_of::<FetchedPartition>() + it.metadata.len();
        let topic = |it: &FetchedTopic| {
            size_of::<FetchedTopic>() + it.name.len() + it.partitions.iter().map(partition).sum::<usize>()
        };
        self.group.len() + self.topics.iter().map(topic).sum::<usize>()
    }
}

impl DescribedGroup {
    fn bytes(&self) -> usize {
        let member = |it: &DescribedMember| {
            let texts = it.member_id.len() + it.client_id.len() + it.client_host.len();
            let instance = it.instance.as_ref().map_or(0, |instance| instance.len());
            size_of::<DescribedMember>() + texts + instance + it.metadata.len() + it.assignment.len()
        };
        self.group.len() + self.members.iter().map(member).sum::<usize>()
    }
}

impl DescribedConsumerGroup {
    fn bytes(&self) -> usize {
        let members = self.described.iter().flat_map(|described| &described.members);
        self.group.len() + members.map(member_bytes).sum::<usize>()
    }
}

fn member_bytes(it: &MemberDescription) -> usize {
    let said = &it.metadata;
    let of = |text: Option<&str>| text.map_or(0, str::len);
    let texts = it.id.len() + said.client_id.len() + said.client_host.len();
    let maybe = of(said.instance_id.as_deref()) + of(said.rack_id.as_deref()) + of(said.regex.as_deref());
    let topics: usize = said.topics.iter().map(|topic| size_of::<String>() + topic.len()).sum();
    let indexes = |(_, name, indexes): &TopicIndexes| {
        size_of::<TopicIndexes>() + name.len() + size_of::<i32>() * indexes.len()
    };
    let partitions: usize = it.assigned.iter().chain(&it.target).map(indexes).sum();
    size_of::<MemberDescription>() + texts + maybe + topics + partitions
}

impl ListedGroup {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.group.len() + self.protocol_type.len()
    }
}
