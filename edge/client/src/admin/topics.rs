//! Topics: created, listed, grown, deleted.

use base::TopicId;
use wire::ApiKey;
use wire::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::metadata::MetadataRequest;

use super::Admin;
use super::describe::no_auto_creation;
use crate::error::ClientError;

/// The first version of DeleteTopics whose topics are structs.
const DELETE_BY_STATE_VERSION: i16 = 6;

/// A topic to create.
#[derive(Debug, Clone, Default)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; `None` leaves it to the cluster.
    pub partitions: Option<i32>,
    /// How many replicas of each; `None` leaves it to the cluster.
    pub replication_factor: Option<i16>,
    /// Settings of its own.
    pub configs: Vec<(String, String)>,
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

impl Admin {
    /// Creates a topic.
    pub fn create_topic(&mut self, topic: &NewTopic) -> Result<CreatedTopic, ClientError> {
        let configs = topic.configs.iter();
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: &topic.name,
                num_partitions: topic.partitions.unwrap_or(-1),
                replication_factor: topic.replication_factor.unwrap_or(-1),
                configs: configs
                    .map(|(name, value)| CreatableTopicConfig { name, value: Some(value) })
                    .collect(),
                ..CreatableTopic::default()
            }],
            timeout_ms: self.timeout_ms(),
            ..CreateTopicsRequest::default()
        };
        let answer = self.bootstrap.ask(&request)?;
        let body = answer.read()?;
        let what = || format!("topic {}", topic.name);
        let made = body.topics.iter().find(|made| made.name == topic.name);
        let made = made.ok_or_else(|| ClientError::Missing(what()))?;
        ClientError::check(what, made.error_code, made.error_message)?;
        Ok(CreatedTopic {
            name: topic.name.clone(),
            id: (!made.topic_id.is_zero()).then_some(TopicId(made.topic_id)),
            partitions: (made.num_partitions > 0).then_some(made.num_partitions),
            replication_factor: (made.replication_factor > 0).then_some(made.replication_factor),
        })
    }

    /// The names of all topics, in order, each with whether the cluster keeps it for itself.
    pub fn list_topics(&mut self) -> Result<Vec<(String, bool)>, ClientError> {
        let request = MetadataRequest { topics: None, ..no_auto_creation() };
        let answer = self.bootstrap.ask(&request)?;
        let body = answer.read()?;
        let mut names: Vec<(String, bool)> = body
            .topics
            .iter()
            .filter_map(|topic| Some((topic.name?.to_owned(), topic.is_internal)))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Gives a topic more partitions: `count` in all.
    pub fn create_partitions(&mut self, topic: &str, count: i32) -> Result<(), ClientError> {
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic { name: topic, count, assignments: None }],
            timeout_ms: self.timeout_ms(),
            ..CreatePartitionsRequest::default()
        };
        let answer = self.bootstrap.ask(&request)?;
        let body = answer.read()?;
        let what = || format!("topic {topic}");
        let grown = body.results.iter().find(|grown| grown.name == topic);
        let grown = grown.ok_or_else(|| ClientError::Missing(what()))?;
        ClientError::check(what, grown.error_code, grown.error_message)
    }

    /// Deletes a topic with all that is in it.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), ClientError> {
        let version = self.bootstrap.version(ApiKey::DeleteTopics)?;
        let mut request =
            DeleteTopicsRequest { timeout_ms: self.timeout_ms(), ..DeleteTopicsRequest::default() };
        if version >= DELETE_BY_STATE_VERSION {
            request.topics = vec![DeleteTopicState { name: Some(topic), ..DeleteTopicState::default() }];
        } else {
            request.topic_names = vec![topic];
        }
        let answer = self.bootstrap.call(&request, version)?;
        let body = answer.read()?;
        let what = || format!("topic {topic}");
        let gone = body.responses.iter().find(|gone| gone.name == Some(topic));
        let gone = gone.ok_or_else(|| ClientError::Missing(what()))?;
        ClientError::check(what, gone.error_code, gone.error_message)
    }
}
