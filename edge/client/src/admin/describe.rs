//! What topics and partitions there are.

use base::{BrokerId, PartitionIndex, TopicId};
use wire::ApiKey;
use wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsRequestCursor as Cursor,
    DescribeTopicPartitionsResponseTopic, TopicRequest,
};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponseTopic};

use super::Admin;
use crate::error::ClientError;

/// A topic there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id.
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
    pub leader_epoch: i32,
    /// Who has a replica, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Who of them is in sync.
    pub in_sync: Vec<BrokerId>,
    /// Who of them cannot be reached or has lost the replica's disk.
    pub offline: Vec<BrokerId>,
}

impl Admin {
    /// Describes topics: those named, or all if none is, by name.
    pub fn describe_topics(&mut self, names: &[String]) -> Result<Vec<Topic>, ClientError> {
        let mut found = match self.bootstrap.versions().common(ApiKey::DescribeTopicPartitions) {
            Some(_) => self.describe_by_pages(names)?,
            None => self.describe_by_metadata(names)?,
        };
        for topic in &mut found {
            topic.partitions.sort_by_key(|partition| partition.index);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn describe_by_pages(&mut self, names: &[String]) -> Result<Vec<Topic>, ClientError> {
        let mut found: Vec<Topic> = Vec::new();
        let mut next: Option<(String, i32)> = None;
        loop {
            let cursor = next
                .as_ref()
                .map(|(topic, partition)| Cursor { topic_name: topic, partition_index: *partition });
            let request = DescribeTopicPartitionsRequest {
                topics: names.iter().map(|name| TopicRequest { name }).collect(),
                cursor,
                ..DescribeTopicPartitionsRequest::default()
            };
            let answer = self.bootstrap.ask(&request)?;
            let body = answer.read()?;
            for topic in &body.topics {
                let topic = of_page(topic)?;
                match found.last_mut().filter(|last| last.name == topic.name) {
                    // A page may end within a topic, and the next one goes on with it.
                    Some(last) => last.partitions.extend(topic.partitions),
                    None => found.push(topic),
                }
            }
            let place = body.next_cursor.as_ref().map(|at| (at.topic_name.to_owned(), at.partition_index));
            if place.is_none() || place == next {
                return Ok(found);
            }
            next = place;
        }
    }

    fn describe_by_metadata(&mut self, names: &[String]) -> Result<Vec<Topic>, ClientError> {
        let wanted = |name| MetadataRequestTopic { name: Some(name), ..MetadataRequestTopic::default() };
        let topics = (!names.is_empty()).then(|| names.iter().map(|name| wanted(name.as_str())).collect());
        let answer = self.bootstrap.ask(&MetadataRequest { topics, ..no_auto_creation() })?;
        answer.read()?.topics.iter().map(of_metadata).collect()
    }
}

fn of_page(topic: &DescribeTopicPartitionsResponseTopic<'_>) -> Result<Topic, ClientError> {
    let name = topic.name.unwrap_or_default();
    ClientError::check(|| format!("topic {name}"), topic.error_code, None)?;
    let partitions = topic.partitions.iter().map(|partition| Partition {
        replicas: brokers(&partition.replica_nodes),
        in_sync: brokers(&partition.isr_nodes),
        offline: brokers(&partition.offline_replicas),
        ..led(partition.partition_index, partition.leader_id, partition.leader_epoch)
    });
    let (id, is_internal) = (TopicId(topic.topic_id), topic.is_internal);
    Ok(Topic { name: name.to_owned(), id, is_internal, partitions: partitions.collect() })
}

fn of_metadata(topic: &MetadataResponseTopic<'_>) -> Result<Topic, ClientError> {
    let name = topic.name.unwrap_or_default();
    ClientError::check(|| format!("topic {name}"), topic.error_code, None)?;
    let partitions = topic.partitions.iter().map(|partition| Partition {
        replicas: brokers(&partition.replica_nodes),
        in_sync: brokers(&partition.isr_nodes),
        offline: brokers(&partition.offline_replicas),
        ..led(partition.partition_index, partition.leader_id, partition.leader_epoch)
    });
    let (id, is_internal) = (TopicId(topic.topic_id), topic.is_internal);
    Ok(Topic { name: name.to_owned(), id, is_internal, partitions: partitions.collect() })
}

/// A partition of which nothing is known but who leads it.
fn led(index: i32, leader: i32, leader_epoch: i32) -> Partition {
    Partition {
        index: PartitionIndex(index),
        leader: (leader >= 0).then_some(BrokerId(leader)),
        leader_epoch,
        replicas: Vec::new(),
        in_sync: Vec::new(),
        offline: Vec::new(),
    }
}

/// A request that makes no topic by asking for it.
pub(super) fn no_auto_creation<'a>() -> MetadataRequest<'a> {
    MetadataRequest { allow_auto_topic_creation: false, ..MetadataRequest::default() }
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}
