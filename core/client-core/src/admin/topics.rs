//! Metadata: what topics and partitions there are. Asked of anyone.

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId};
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponsePartition, MetadataResponseTopic,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The first version that takes ids; earlier ones have a place for them, and do not look.
const IDS_VERSION: i16 = 12;

/// A topic, by what it is called or by what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id: a topic that is made again under the same name is another.
    Id(TopicId),
}

impl TopicRef {
    pub(super) fn as_name(&self) -> Name<'_> {
        match self {
            Self::Name(name) => Name::Topic(name),
            Self::Id(id) => Name::TopicId(*id),
        }
    }
}

/// A topic there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; the zero id from a broker that is too old to say.
    pub id: TopicId,
    /// Whether the cluster keeps it for itself.
    pub is_internal: bool,
    /// Its partitions, by index.
    pub partitions: Vec<Partition>,
}

/// A partition there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its index.
    pub index: PartitionIndex,
    /// Who leads it; `None` while nobody does.
    pub leader: Option<BrokerId>,
    /// The number of that leadership.
    pub leader_epoch: LeaderEpoch,
    /// Who has a replica, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Who of them is in sync.
    pub in_sync: Vec<BrokerId>,
    /// Who of them cannot be reached or has lost the replica's disk.
    pub offline: Vec<BrokerId>,
}

/// Describes topics that are named. In one call all are named in the same way: brokers that are given ids
/// look at no names.
#[derive(Debug)]
pub struct DescribeTopics;

/// Describes all topics.
#[derive(Debug)]
pub struct ListTopics;

impl Ask for DescribeTopics {
    type Item = TopicRef;
    type Said = Topic;
    type Request<'a> = MetadataRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, topic: &'a TopicRef) -> Name<'a> {
        topic.as_name()
    }

    fn route<'a>(&self, _: &'a TopicRef) -> Route<'a> {
        Route::Any
    }

    fn version_min(&self, topic: &TopicRef) -> i16 {
        match topic {
            TopicRef::Name(_) => 0,
            TopicRef::Id(_) => IDS_VERSION,
        }
    }

    fn request<'a>(&'a self, topics: &[&'a TopicRef], _: &How<'_>) -> MetadataRequest<'a> {
        let topics = topics.iter().map(|topic| match topic {
            TopicRef::Name(name) => MetadataRequestTopic { name: Some(name), ..Default::default() },
            TopicRef::Id(id) => MetadataRequestTopic { name: None, topic_id: id.0 },
        });
        about(Some(topics.collect()))
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.topics {
            let found = Refusal::check(topic.error_code, None).map(|()| described(topic));
            // It was asked for by one of them.
            if let Some(name) = topic.name {
                each(Name::Topic(name), found.clone());
            }
            each(Name::TopicId(TopicId(topic.topic_id)), found);
        }
        said.throttle_time_ms
    }
}

impl Ask for ListTopics {
    type Item = ();
    /// By name. Of a topic that the broker cannot describe only the name is known.
    type Said = Vec<Topic>;
    type Request<'a> = MetadataRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, (): &'a ()) -> Name<'a> {
        Name::Whole("the topics")
    }

    fn route<'a>(&self, (): &'a ()) -> Route<'a> {
        Route::Any
    }

    fn request<'a>(&'a self, _: &[&'a ()], _: &How<'_>) -> MetadataRequest<'a> {
        about(None)
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let topics = Refusal::check(said.error_code, None).map(|()| {
            let named = said.topics.iter().filter(|topic| topic.name.is_some());
            let mut topics: Vec<Topic> = named.map(described).collect();
            topics.sort_by(|a, b| a.name.cmp(&b.name));
            topics
        });
        each(Name::All, topics);
        said.throttle_time_ms
    }
}

/// A request that makes no topic by asking for it.
fn about(topics: Option<Vec<MetadataRequestTopic<'_>>>) -> MetadataRequest<'_> {
    MetadataRequest { topics, allow_auto_topic_creation: false, ..MetadataRequest::default() }
}

fn described(said: &MetadataResponseTopic<'_>) -> Topic {
    let mut partitions: Vec<Partition> = said.partitions.iter().map(partition).collect();
    partitions.sort_by_key(|partition| partition.index);
    let name = said.name.unwrap_or_default().to_owned();
    Topic { name, id: TopicId(said.topic_id), is_internal: said.is_internal, partitions }
}

fn partition(said: &MetadataResponsePartition) -> Partition {
    let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    Partition {
        index: PartitionIndex(said.partition_index),
        leader: (said.leader_id >= 0).then_some(BrokerId(said.leader_id)),
        leader_epoch: LeaderEpoch(said.leader_epoch),
        replicas: brokers(&said.replica_nodes),
        in_sync: brokers(&said.isr_nodes),
        offline: brokers(&said.offline_replicas),
    }
}
