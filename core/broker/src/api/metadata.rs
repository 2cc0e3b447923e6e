//! Metadata · key 3 · v0..=v13
//!
//! v1 null means all topics · v4 auto-creation is the client's choice · v7 leader epochs · v9
//! flexible · v10 topic ids · v12 topics named by id alone · v13 top-level error.
//!
//! A topic that is to be made on demand is answered as unknown the first time, as by Kafka: the
//! client asks again, and by then it is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BrokerId, ErrorCode, PartitionIndex, TopicId, TopicName, Uuid};
use metadata::settings::is_internal;
use metadata::{Broker, Topic};
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use wire::{ApiKey, Decoder};

use super::{Api, on_demand, operations, read};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::Metadata, 0..=13, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: MetadataRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.as_ref().map_or(0, Vec::len))?;
    let image = Arc::clone(call.context.image);
    let mut missing = BTreeSet::new();
    let mut topics: Vec<MetadataResponseTopic<'_>> = match &request.topics {
        None => image.topics().map(|topic| known(&call.context, topic)).collect(),
        Some(topics) if topics.is_empty() && call.reply.version == 0 => {
            image.topics().map(|topic| known(&call.context, topic)).collect()
        }
        Some(topics) if call.reply.version < 12 && topics.iter().any(needs_ids) => {
            topics.iter().map(without_ids).collect()
        }
        Some(topics) => {
            // One topic may be named a million times, and be told of once.
            let mut seen = BTreeSet::new();
            let once = topics.iter().filter(|topic| seen.insert((topic.name, topic.topic_id)));
            once.map(|topic| named(&call.context, &image, topic, &mut missing)).collect()
        }
    };
    if call.reply.version == 0 {
        leave_out_who_is_gone(&call.context, &mut topics);
    }
    if request.include_topic_authorized_operations {
        topics.iter_mut().for_each(|topic| topic.topic_authorized_operations = operations::OF_TOPIC);
    }
    if request.allow_auto_topic_creation && call.context.settings.auto_create_topics {
        let context = &call.context;
        let missing = missing.iter().take(CREATED_ON_DEMAND_MAX);
        call.background.extend(missing.map(|name| on_demand::topic(context, name)));
    }
    let brokers = brokers(&call.context);
    let response = MetadataResponse {
        brokers,
        cluster_id: Some(call.context.cluster_id),
        controller_id: super::controller(&call.context).0,
        topics,
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => operations::OF_CLUSTER,
            false => operations::UNTOLD,
        },
        ..MetadataResponse::default()
    };
    Ok(call.reply.answer(&response))
}

/// Topics that one request makes by asking for them. The client asks again until it has them all.
const CREATED_ON_DEMAND_MAX: usize = 1000;

/// From v12 on a topic may be named by its id; versions 10 and 11 have the field and cannot use it.
fn needs_ids(topic: &MetadataRequestTopic<'_>) -> bool {
    topic.name.is_none() || !topic.topic_id.is_zero()
}

/// The answer to a request as a whole that [`needs_ids`] in a version without.
fn without_ids<'a>(topic: &MetadataRequestTopic<'a>) -> MetadataResponseTopic<'a> {
    MetadataResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name.unwrap_or_default()),
        ..MetadataResponseTopic::default()
    }
}

fn brokers<'a>(context: &Context<'a>) -> Vec<MetadataResponseBroker<'a>> {
    let alive = context.image.brokers_alive();
    alive
        .filter_map(|broker| {
            let endpoint = broker.client_endpoints().next()?;
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
    // Where there is an id the name does not count, as in Kafka: Java's clients leave it empty rather than null.
    let by_name = wanted.name.filter(|_| wanted.topic_id.is_zero());
    let Some(name) = by_name else {
        return match image.topic_by_id(TopicId(wanted.topic_id)) {
            Some(topic) => known(context, topic),
            None => MetadataResponseTopic { name: None, ..refused(ErrorCode::UnknownTopicId) },
        };
    };
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
    let partitions = topic.partitions().iter();
    MetadataResponseTopic {
        name: Some(topic.name.as_str()),
        topic_id: topic.id.0,
        is_internal: is_internal(topic.name.as_str()),
        partitions: partitions.map(|partition| described(context, topic.id, partition)).collect(),
        ..MetadataResponseTopic::default()
    }
}

fn described(
    context: &Context<'_>,
    topic: TopicId,
    partition: &metadata::Partition,
) -> MetadataResponsePartition {
    let Standing { code, leader, offline } = standing(context, topic, partition);
    MetadataResponsePartition {
        error_code: code.code(),
        partition_index: partition.index.0,
        leader_id: leader.0,
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: partition.replicas.iter().map(|id| id.0).collect(),
        isr_nodes: partition.isr.iter().map(|id| id.0).collect(),
        offline_replicas: offline,
    }
}

/// How a partition is to be had.
pub(super) struct Standing {
    pub(super) code: ErrorCode,
    /// Who leads it and can serve it.
    pub(super) leader: BrokerId,
    /// The replicas that nobody can reach.
    pub(super) offline: Vec<i32>,
}

/// A replica is offline if its broker is not there, or has lost the directory it is in, or if it is this one and
/// cannot serve it. Who leads and is not there is told to nobody: no address of it could be told.
pub(super) fn standing(context: &Context<'_>, topic: TopicId, partition: &metadata::Partition) -> Standing {
    let is_here = partition.replicas.contains(&context.node);
    let fails_here = is_here && context.host.is_offline(topic, partition.index);
    let has = |broker: &Broker, directory: Option<&Uuid>| {
        let is_known = broker.log_dirs.is_empty() || directory.is_none_or(|it| broker.log_dirs.contains(it));
        is_known || directory.is_some_and(is_reserved)
    };
    let directories = partition.directories.iter().map(Some).chain(std::iter::repeat(None));
    let is_offline = |(id, directory): &(&BrokerId, Option<&Uuid>)| {
        let alive = context.image.broker(**id).filter(|broker| !broker.fenced);
        alive.is_none_or(|broker| !has(broker, *directory)) || (**id == context.node && fails_here)
    };
    let replicas = partition.replicas.iter().zip(directories);
    let offline: Vec<i32> = replicas.filter(is_offline).map(|(id, _)| id.0).collect();
    let is_led = is_alive(context, partition.leader) && !(fails_here && partition.leader == context.node);
    let leader = if is_led { partition.leader } else { BrokerId::NONE };
    let code = match leader {
        BrokerId::NONE => ErrorCode::LeaderNotAvailable,
        _ => ErrorCode::None,
    };
    Standing { code, leader, offline }
}

fn is_alive(context: &Context<'_>, id: BrokerId) -> bool {
    context.image.broker(id).is_some_and(|broker| !broker.fenced)
}

/// Kafka keeps the first hundred ids for what is not a directory, as "none was chosen yet".
fn is_reserved(directory: &Uuid) -> bool {
    u128::from_be_bytes(directory.0) < 100
}

/// The first version tells of no broker whose address it does not tell.
fn leave_out_who_is_gone(context: &Context<'_>, topics: &mut [MetadataResponseTopic<'_>]) {
    for partition in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        let told = partition.replica_nodes.len() + partition.isr_nodes.len();
        partition.replica_nodes.retain(|id| is_alive(context, BrokerId(*id)));
        partition.isr_nodes.retain(|id| is_alive(context, BrokerId(*id)));
        let is_whole = partition.replica_nodes.len() + partition.isr_nodes.len() == told;
        if partition.error_code == 0 && !is_whole {
            partition.error_code = ErrorCode::ReplicaNotAvailable.code();
        }
    }
}

/// Why a partition of a known topic is not to be had here.
pub(super) fn absence(context: &Context<'_>, topic: TopicId, partition: PartitionIndex) -> ErrorCode {
    match context.image.partition(topic, partition) {
        None => ErrorCode::UnknownTopicOrPartition,
        Some(found) if found.leader == context.node => ErrorCode::KafkaStorageError,
        Some(_) => ErrorCode::NotLeaderOrFollower,
    }
}
