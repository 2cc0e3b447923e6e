//! The cluster, its brokers, their directories and their producers.

use base::{ErrorCode, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicName, TopicPartition};
use records::{BatchOptions, Producer};
use vltava_broker::host::{LogDir, LogDirReplica};
use wire::messages::describe_cluster::DescribeClusterRequest;
use wire::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use wire::messages::describe_producers::{DescribeProducersRequest, TopicRequest};

use crate::requests::{produced, with_topic};
use crate::world::{CLUSTER, World, batch};

#[test]
fn the_cluster_is_described_to_those_who_ask_for_brokers() {
    let mut world = World::new();
    let node = world.node().0;
    for (endpoint_type, code) in [
        (1, ErrorCode::None),
        (2, ErrorCode::MismatchedEndpointType),
        (0, ErrorCode::UnsupportedEndpointType),
        (9, ErrorCode::UnsupportedEndpointType),
    ] {
        let request = DescribeClusterRequest { endpoint_type, ..DescribeClusterRequest::default() };
        world.ask(2, &request, |response| {
            assert_eq!(response.error_code, code.code(), "{endpoint_type}");
            let brokers: Vec<_> = response.brokers.iter().map(|b| (b.broker_id, b.host, b.port)).collect();
            if code.is_none() {
                assert_eq!((response.cluster_id, response.controller_id), (CLUSTER, node));
                assert_eq!(brokers, [(node, "127.0.0.1", 9092)]);
                assert_eq!(response.cluster_authorized_operations, i32::MIN);
            }
        });
    }
    let request =
        DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    world.ask(0, &request, |response| assert_eq!(response.cluster_authorized_operations, 8096));
}

#[test]
fn log_directories_tell_what_is_in_them() {
    let mut world = World::new();
    let partition = |topic: &str, index| TopicPartition {
        topic: TopicName::new(topic).unwrap(),
        partition: PartitionIndex(index),
    };
    let replica =
        |topic: &str, index, bytes, lag| LogDirReplica { name: partition(topic, index), bytes, lag };
    let dir = |path: &str, failed, replicas| LogDir {
        path: path.into(),
        failed,
        bytes_total: Some(100),
        bytes_usable: None,
        replicas,
    };
    let here = vec![replica("u", 0, 7, 0), replica("t", 1, 6, 3), replica("t", 0, 5, 0)];
    world.log_dirs(vec![dir("/a", false, here), dir("/b", true, Vec::new())]);
    let ask = |world: &mut World, topics| {
        world.ask(4, &DescribeLogDirsRequest { topics }, |response| {
            let b = &response.results[1];
            assert_eq!((b.log_dir, b.error_code), ("/b", ErrorCode::KafkaStorageError.code()));
            let a = &response.results[0];
            assert_eq!((a.error_code, a.total_bytes, a.usable_bytes), (0, 100, -1));
            let sizes = a.topics.iter().flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|p| (topic.name, p.partition_index, p.partition_size, p.offset_lag))
            });
            sizes.map(|(name, index, size, lag)| format!("{name}-{index}:{size}+{lag}")).collect::<Vec<_>>()
        })
    };
    assert_eq!(ask(&mut world, None), ["t-0:5+0", "t-1:6+3", "u-0:7+0"]);
    let t = |partitions| DescribableLogDirTopic { topic: "t", partitions };
    assert_eq!(ask(&mut world, Some(vec![t(vec![1, 1, 9])])), ["t-1:6+3"]);
    assert_eq!(ask(&mut world, Some(Vec::new())), [] as [&str; 0]);
}

#[test]
fn the_producers_of_a_partition_are_told_once() {
    let mut world = with_topic();
    let producer = Producer { id: ProducerId(5), epoch: ProducerEpoch(2), base_sequence: Sequence(0) };
    let options = BatchOptions { producer, ..BatchOptions::default() };
    produced(&mut world, "t", &batch(&["a", "b"], &options));
    let topic = |name, partition_indexes| TopicRequest { name, partition_indexes };
    let topics = vec![topic("t", vec![0, 0, 9]), topic("t", vec![0]), topic("nope", vec![0])];
    world.ask(0, &DescribeProducersRequest { topics }, |response| {
        let parts: Vec<_> = response.topics.iter().map(|topic| topic.partitions.len()).collect();
        assert_eq!(parts, [2, 0, 1]);
        let known = &response.topics[0].partitions[0].active_producers;
        let known: Vec<_> =
            known.iter().map(|p| (p.producer_id, p.producer_epoch, p.last_sequence)).collect();
        assert_eq!(known, [(5, 2, 1)]);
        for missing in [&response.topics[0].partitions[1], &response.topics[2].partitions[0]] {
            assert_eq!(missing.error_code, ErrorCode::UnknownTopicOrPartition.code());
        }
    });
}
