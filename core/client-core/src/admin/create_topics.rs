//! CreateTopics: asked of the controller.

use base::{BrokerId, TopicId};
use wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The first version that leaves numbers to the cluster (KIP-464).
const DEFAULTS_VERSION: i16 = 4;

/// A topic to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; `None` leaves it to the cluster.
    pub partitions: Option<i32>,
    /// How many replicas of each; `None` leaves it to the cluster.
    pub replication_factor: Option<i16>,
    /// Which brokers have replicas of each partition, the preferred leader first; empty leaves it to the
    /// cluster. With it, neither of the numbers is needed.
    pub assignments: Vec<Vec<BrokerId>>,
    /// Settings of its own.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    /// One with everything left to the cluster.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// What the cluster made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its name.
    pub name: String,
    /// Its id; `None` from a cluster that does not say.
    pub id: Option<TopicId>,
    /// How many partitions; `None` from a cluster that does not say.
    pub partitions: Option<i32>,
    /// How many replicas of each; `None` from a cluster that does not say.
    pub replication_factor: Option<i16>,
}

/// Creates topics.
#[derive(Debug)]
pub struct CreateTopics {
    /// Only says whether it could be done.
    pub is_dry_run: bool,
}

impl Ask for CreateTopics {
    type Item = NewTopic;
    type Said = CreatedTopic;
    type Request<'a> = CreateTopicsRequest<'a>;

    fn is_change(&self) -> bool {
        !self.is_dry_run
    }

    fn name<'a>(&self, topic: &'a NewTopic) -> Name<'a> {
        Name::Topic(&topic.name)
    }

    fn route<'a>(&self, _: &'a NewTopic) -> Route<'a> {
        Route::Controller
    }

    fn version_min(&self, topic: &NewTopic) -> i16 {
        let is_all_said = topic.partitions.is_some() && topic.replication_factor.is_some();
        if is_all_said || !topic.assignments.is_empty() { 0 } else { DEFAULTS_VERSION }
    }

    fn request<'a>(&'a self, topics: &[&'a NewTopic], how: &How<'_>) -> CreateTopicsRequest<'a> {
        CreateTopicsRequest {
            topics: topics.iter().map(|topic| creatable(topic)).collect(),
            timeout_ms: how.timeout_ms,
            validate_only: self.is_dry_run,
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.topics {
            let made = Refusal::check(topic.error_code, topic.error_message).map(|()| CreatedTopic {
                name: topic.name.to_owned(),
                id: (!topic.topic_id.is_zero()).then_some(TopicId(topic.topic_id)),
                partitions: (topic.num_partitions > 0).then_some(topic.num_partitions),
                replication_factor: (topic.replication_factor > 0).then_some(topic.replication_factor),
            });
            each(Name::Topic(topic.name), made);
        }
        said.throttle_time_ms
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic<'_> {
    let assignments = (0..).zip(&topic.assignments).map(|(partition_index, brokers)| {
        let broker_ids = brokers.iter().map(|broker| broker.0).collect();
        CreatableReplicaAssignment { partition_index, broker_ids }
    });
    let configs = topic.configs.iter();
    CreatableTopic {
        name: &topic.name,
        num_partitions: topic.partitions.unwrap_or(-1),
        replication_factor: topic.replication_factor.unwrap_or(-1),
        assignments: assignments.collect(),
        configs: configs.map(|(name, value)| CreatableTopicConfig { name, value: Some(value) }).collect(),
    }
}
