//! Metadata · key 3 · v0..=v13
//!
//! v1 null means all topics · v4 auto-creation is the client's choice · v7 leader epochs · v9
//! flexible · v10 topic ids · v12 topics named by id alone · v13 top-level error.
//!
//! A topic that is to be made on demand is answered as unknown the first time, as by Kafka: the
//! client asks again, and by then it is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{ErrorCode, PartitionIndex, TopicId, TopicName};
use metadata::Topic;
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use wire::{ApiKey, DecodeError, Decoder};

use super::{Api, read};
use crate::call::{Call, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::Metadata, 0..=13, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, DecodeError> {
    let request: MetadataRequest<'_> = read(call, body)?;
    let image = Arc::clone(call.context.image);
    let mut missing = BTreeSet::new();
    let topics = match &request.topics {
        None => image.topics().map(|topic| known(&call.context, topic)).collect(),
        Some(topics) if topics.is_empty() && call.reply.version == 0 => {
            image.topics().map(|topic| known(&call.context, topic)).collect()
        }
        Some(topics) => {
            topics.iter().map(|topic| named(&call.context, &image, topic, &mut missing)).collect()
        }
    };
    if request.allow_auto_topic_creation && call.context.settings.auto_create_topics {
        let host = call.context.host;
        call.background
            .extend(missing.iter().map(|name| super::create_topics::on_demand(name, host.random())));
    }
    let brokers = brokers(&call.context);
    let response = MetadataResponse {
        brokers,
        cluster_id: Some(call.context.cluster_id),
        controller_id: call.context.node.0,
        topics,
        ..MetadataResponse::default()
    };
    Ok(call.reply.answer(&response))
}

fn brokers<'a>(context: &Context<'a>) -> Vec<MetadataResponseBroker<'a>> {
    let alive = context.image.brokers_alive();
    alive
        .filter_map(|broker| {
            let endpoint = broker.endpoints.first()?;
            Some(MetadataResponseBroker {
                node_id: broker.id.0,
                host: &endpoint.host,
                port: endpoint.port.into(),
                rack: broker.rack.as_deref(),
            })
        })
        .collect()
}

fn named<'a>(
    context: &Context<'a>,
    image: &'a metadata::Image,
    wanted: &MetadataRequestTopic<'a>,
    missing: &mut BTreeSet<TopicName>,
) -> MetadataResponseTopic<'a> {
    let refused = |code: ErrorCode| MetadataResponseTopic {
        error_code: code.code(),
        name: wanted.name,
        topic_id: wanted.topic_id,
        ..MetadataResponseTopic::default()
    };
    let Some(name) = wanted.name else {
        return match image.topic_by_id(TopicId(wanted.topic_id)) {
            Some(topic) => known(context, topic),
            None => refused(ErrorCode::UnknownTopicId),
        };
    };
    if !wanted.topic_id.is_zero() {
        return refused(ErrorCode::InvalidRequest);
    }
    if let Some(topic) = image.topic(name) {
        return known(context, topic);
    }
    match TopicName::new(name) {
        Ok(name) => {
            missing.insert(name);
            refused(ErrorCode::UnknownTopicOrPartition)
        }
        Err(_) => refused(ErrorCode::InvalidTopicException),
    }
}

fn known<'a>(context: &Context<'a>, topic: &'a Topic) -> MetadataResponseTopic<'a> {
    MetadataResponseTopic {
        name: Some(topic.name.as_str()),
        topic_id: topic.id.0,
        partitions: topic.partitions().iter().map(|partition| described(context, partition)).collect(),
        ..MetadataResponseTopic::default()
    }
}

fn described(context: &Context<'_>, partition: &metadata::Partition) -> MetadataResponsePartition {
    let leaderless = partition.leader == base::BrokerId::NONE;
    let code = if leaderless { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
    MetadataResponsePartition {
        error_code: code.code(),
        partition_index: partition.index.0,
        leader_id: partition.leader.0,
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: partition.replicas.iter().map(|id| id.0).collect(),
        isr_nodes: partition.isr.iter().map(|id| id.0).collect(),
        offline_replicas: offline(context, partition),
    }
}

/// The replicas of a partition whose broker is not there.
pub(super) fn offline(context: &Context<'_>, partition: &metadata::Partition) -> Vec<i32> {
    let alive = |id: base::BrokerId| context.image.broker(id).is_some_and(|broker| !broker.fenced);
    partition.replicas.iter().filter(|id| !alive(**id)).map(|id| id.0).collect()
}

/// Why a partition of a known topic is not to be had here.
pub(super) fn absence(context: &Context<'_>, topic: TopicId, partition: PartitionIndex) -> ErrorCode {
    match context.image.partition(topic, partition) {
        None => ErrorCode::UnknownTopicOrPartition,
        Some(found) if found.leader == context.node => ErrorCode::KafkaStorageError,
        Some(_) => ErrorCode::NotLeaderOrFollower,
    }
}
