//! DescribeTopicPartitions · key 75 · v0
//!
//! Metadata in pages (KIP-966): at most `response_partition_limit` partitions an answer, and a
//! cursor that says where to go on.

use base::{BrokerId, ErrorCode, TopicName};
use metadata::Topic;
use metadata::settings::is_internal;
use wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use wire::{ApiKey, Decoder};

use super::metadata::{Standing, standing};
use super::{Api, operations, read};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeTopicPartitions, 0..=0, handle);

/// Partitions of one answer at most: Kafka's `max.request.partition.size.limit`.
const PARTITIONS_MAX: usize = 2000;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeTopicPartitionsRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.len())?;
    let context = &call.context;
    let (first, first_partition) =
        request.cursor.as_ref().map_or(("", 0), |cursor| (cursor.topic_name, cursor.partition_index));
    let all = request.topics.is_empty();
    let is_lost = request.cursor.is_some() && !all && !request.topics.iter().any(|topic| topic.name == first);
    if is_lost || first_partition < 0 {
        let topics = request.topics.iter().map(|topic| refused(topic.name, ErrorCode::InvalidRequest));
        let response = DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() };
        return Ok(call.reply.answer(&response));
    }
    let mut names: Vec<&str> = match all {
        true => context.image.topics_from(first).map(|topic| topic.name.as_str()).collect(),
        false => request.topics.iter().map(|topic| topic.name).filter(|name| *name >= first).collect(),
    };
    names.sort_unstable();
    names.dedup();
    let mut left = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_MAX);
    let mut topics = Vec::new();
    let mut next_cursor = None;
    for name in names {
        if left == 0 {
            next_cursor =
                Some(DescribeTopicPartitionsResponseCursor { topic_name: name, partition_index: 0 });
            break;
        }
        let Some(topic) = context.image.topic(name) else {
            topics.push(absent(name));
            continue;
        };
        let skip = if name == first { usize::try_from(first_partition).unwrap_or(0) } else { 0 };
        let partitions: Vec<_> =
            topic.partitions().iter().skip(skip).take(left).map(|p| described(context, topic, p)).collect();
        let told = skip + partitions.len();
        left -= partitions.len();
        topics.push(present(topic, partitions));
        if told < topic.partitions().len() {
            let partition_index = i32::try_from(told).unwrap_or(i32::MAX);
            next_cursor = Some(DescribeTopicPartitionsResponseCursor { topic_name: name, partition_index });
            break;
        }
    }
    Ok(call.reply.answer(&DescribeTopicPartitionsResponse {
        topics,
        next_cursor,
        ..DescribeTopicPartitionsResponse::default()
    }))
}

fn absent(name: &str) -> DescribeTopicPartitionsResponseTopic<'_> {
    let code = match TopicName::new(name) {
        Ok(_) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    let topic_authorized_operations = operations::OF_TOPIC;
    DescribeTopicPartitionsResponseTopic { topic_authorized_operations, ..refused(name, code) }
}

fn refused(name: &str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic<'_> {
    DescribeTopicPartitionsResponseTopic {
        error_code: code.code(),
        name: Some(name),
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn present<'a>(
    topic: &'a Topic,
    partitions: Vec<DescribeTopicPartitionsResponsePartition>,
) -> DescribeTopicPartitionsResponseTopic<'a> {
    DescribeTopicPartitionsResponseTopic {
        name: Some(topic.name.as_str()),
        topic_id: topic.id.0,
        is_internal: is_internal(topic.name.as_str()),
        topic_authorized_operations: operations::OF_TOPIC,
        partitions,
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn described(
    context: &Context<'_>,
    topic: &Topic,
    partition: &metadata::Partition,
) -> DescribeTopicPartitionsResponsePartition {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<i32>>();
    let Standing { code, leader, offline } = standing(context, topic.id, partition);
    DescribeTopicPartitionsResponsePartition {
        error_code: code.code(),
        partition_index: partition.index.0,
        leader_id: leader.0,
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        eligible_leader_replicas: Some(ids(partition.eligible())),
        last_known_elr: Some(ids(partition.last_known_eligible())),
        offline_replicas: offline,
    }
}
