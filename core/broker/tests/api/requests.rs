//! Requests that many tests send.

use base::{ErrorCode, Uuid};
use wire::Records;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

use crate::world::World;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn produce<'a>(topic: &'a str, id: Uuid, records: &'a [u8], acks: i16) -> ProduceRequest<'a> {
    let part = PartitionProduceData { index: 0, records: Some(Records::Bytes(records)) };
    let topic = TopicProduceData { name: topic, topic_id: id, partition_data: vec![part] };
    ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..ProduceRequest::default() }
}

pub(crate) fn produced(world: &mut World, topic: &str, records: &[u8]) -> (ErrorCode, i64) {
    let request = produce(topic, Uuid::ZERO, records, 1);
    world.ask(9, &request, |response| {
        let part = &response.responses[0].partition_responses[0];
        (ErrorCode::from_i16(part.error_code).unwrap(), part.base_offset)
    })
}

pub(crate) fn fetch_of<'a>(topic: &'a str, id: Uuid, from: i64) -> FetchRequest<'a> {
    let part = FetchPartition {
        partition: 0,
        fetch_offset: from,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic { topic, topic_id: id, partitions: vec![part] }],
        ..FetchRequest::default()
    }
}

pub(crate) fn metadata_of<'a>(topic: &'a str, auto_create: bool) -> MetadataRequest<'a> {
    let topic = MetadataRequestTopic { name: Some(topic), ..MetadataRequestTopic::default() };
    MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: auto_create,
        ..Default::default()
    }
}

/// A world with topic `t`, one partition, readers see what is appended at once.
pub(crate) fn with_topic() -> World {
    let mut world = World::new();
    world.topic("t", 1, &[("flush.policy", "os")]);
    world
}
