//! What trips those who write a Kafka broker anew, each as a test. Numbers are those of the list of
//! gotchas that the protocol notes keep; bytes in hex were captured from Apache Kafka 4.4.

mod world;

use base::{ErrorCode, Uuid};
use records::{BatchOptions, Producer};
use wire::messages::api_versions::ApiVersionsRequest;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::{Records, Request};

use world::{CLUSTER, Reaction, World, batch, read};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn produce<'a>(topic: &'a str, id: Uuid, records: &'a [u8], acks: i16) -> ProduceRequest<'a> {
    let part = PartitionProduceData { index: 0, records: Some(Records::Bytes(records)) };
    let topic = TopicProduceData { name: topic, topic_id: id, partition_data: vec![part] };
    ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..ProduceRequest::default() }
}

fn produced(world: &mut World, topic: &str, records: &[u8]) -> (ErrorCode, i64) {
    let request = produce(topic, Uuid::ZERO, records, 1);
    world.ask(9, &request, |response| {
        let part = &response.responses[0].partition_responses[0];
        (ErrorCode::from_i16(part.error_code).unwrap(), part.base_offset)
    })
}

fn fetch_of<'a>(topic: &'a str, id: Uuid, from: i64) -> FetchRequest<'a> {
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

fn metadata_of<'a>(topic: &'a str, auto_create: bool) -> MetadataRequest<'a> {
    let topic = MetadataRequestTopic { name: Some(topic), ..MetadataRequestTopic::default() };
    MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: auto_create,
        ..Default::default()
    }
}

/// A world with topic `t`, one partition, readers see what is appended at once.
fn with_topic() -> World {
    let mut world = World::new();
    world.topic("t", 1, &[("flush.policy", "os")]);
    world
}

#[test]
fn g01_api_versions_too_new_is_answered_in_v0_with_its_own_range() {
    let mut world = World::new();
    let frame = [0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0];
    let bytes = world.send(&frame).bytes();
    assert_eq!(hex(&bytes), "00000007".to_owned() + "0023" + "00000001" + "0012" + "0000" + "0005");
}

#[test]
fn g02_the_header_of_the_api_versions_answer_has_no_tags() {
    let mut world = World::new();
    let request = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1.0",
        ..ApiVersionsRequest::default()
    };
    for version in 0..=5 {
        let bytes = world.request(version, &request).bytes();
        assert_eq!(hex(&bytes[..6]), "000000070000", "v{version}: correlation id, then the error code");
    }
}

#[test]
fn g03_client_software_is_a_word() {
    let mut world = World::new();
    for (name, version, code) in
        [("a-b.c", "1.0", 0), ("", "1", 42), ("-a", "1", 42), ("a b", "1", 42), ("a", "", 42)]
    {
        let request = ApiVersionsRequest {
            client_software_name: name,
            client_software_version: version,
            ..ApiVersionsRequest::default()
        };
        world.ask(3, &request, |response| assert_eq!(response.error_code, code, "{name:?} {version:?}"));
    }
}

#[test]
fn g04_a_client_of_another_cluster_is_told_to_start_over() {
    let mut world = World::new();
    let node = world.node().0;
    for (cluster_id, node_id, code) in [
        (None, -1, 0),
        (Some(CLUSTER), node, 0),
        (Some("other"), -1, 129),
        (Some(CLUSTER), node + 1, 129),
        (None, 1, 42),
    ] {
        let request = ApiVersionsRequest {
            client_software_name: "test",
            client_software_version: "1",
            cluster_id,
            node_id,
        };
        world.ask(5, &request, |response| assert_eq!(response.error_code, code, "{cluster_id:?} {node_id}"));
    }
}

#[test]
fn g06_produce_is_advertised_from_0_and_served_from_3() {
    let mut world = World::new();
    world.ask(0, &ApiVersionsRequest::default(), |response| {
        let produce = response.api_keys.iter().find(|api| api.api_key == 0).unwrap();
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
    });
    for version in 0..3u8 {
        world.send(&[0, 0, 0, version, 0, 0, 0, 7, 0xff, 0xff, 0, 0]).closed();
    }
}

#[test]
fn g07_what_is_not_served_closes_the_connection() {
    let mut world = World::new();
    for (key, version) in [(4u8, 0u8), (52, 0), (3, 14), (1, 3), (255, 0), (11, 0)] {
        world.send(&[0, key, 0, version, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0]).closed();
    }
    world.send(&[]).closed();
    world.send(&[0, 3]).closed();
}

#[test]
fn g08_g09_what_a_fetch_without_records_looks_like() {
    let mut world = with_topic();
    let nothing = |bytes: &[u8]| hex(bytes);
    let at_end = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).bytes();
    // error, high watermark, last stable offset, log start, aborted null, preferred replica, records
    let partition = "00000000".to_owned() + "0000" + &"00".repeat(24) + "00" + "ffffffff" + "01" + "000000";
    assert!(nothing(&at_end).ends_with(&partition), "{}", nothing(&at_end));
    let beyond = world.request(12, &fetch_of("t", Uuid::ZERO, 5)).bytes();
    let partition = "00000000".to_owned() + "0001" + &"ff".repeat(24) + "00" + "ffffffff" + "01" + "000000";
    assert!(nothing(&beyond).ends_with(&partition), "{}", nothing(&beyond));
    let unknown = world.request(12, &fetch_of("nope", Uuid::ZERO, 0)).bytes();
    let partition = "00000000".to_owned() + "0003" + &"ff".repeat(24) + "01" + "ffffffff" + "01" + "000000";
    assert!(nothing(&unknown).ends_with(&partition), "{}", nothing(&unknown));
}

#[test]
fn g10_an_incremental_fetch_without_changes_waits_on_the_whole_session() {
    let mut world = with_topic();
    let mut first = fetch_of("t", Uuid::ZERO, 0);
    first.session_epoch = 0;
    let session_id = world.ask(12, &first, |response| response.session_id);
    assert_ne!(session_id, 0);
    let idle = FetchRequest {
        session_id,
        session_epoch: 1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        ..FetchRequest::default()
    };
    let parked = world.request(12, &idle).parked();
    assert_eq!(produced(&mut world, "t", &batch(&["x"], &BatchOptions::default())), (ErrorCode::None, 0));
    assert_eq!(world.bell.rang(), 1, "an append wakes the fetch");
    let (bytes, records) = world.look(parked).both();
    read::<FetchRequest<'_>, _>(&bytes, 12, |response| assert_eq!(response.responses.len(), 1));
    assert!(!records.is_empty());
    assert_eq!(world.partition("t", 0).waiting(), 0);
}

#[test]
fn g10_a_fetch_that_waited_in_vain_is_answered_empty_at_its_deadline() {
    let mut world = with_topic();
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    request.max_wait_ms = 500;
    let parked = world.request(12, &request).parked();
    let parked = world.look(parked).parked();
    world.now.elapsed = parked.deadline();
    let (_, records) = world.look(parked).both();
    assert!(records.is_empty());
    assert_eq!(world.partition("t", 0).waiting(), 0, "it no longer waits");
}

#[test]
fn g12_forgotten_partitions_leave_the_session() {
    let mut world = with_topic();
    let mut first = fetch_of("t", Uuid::ZERO, 0);
    first.session_epoch = 0;
    let session_id = world.ask(12, &first, |response| response.session_id);
    produced(&mut world, "t", &batch(&["x"], &BatchOptions::default()));
    let forgotten = ForgottenTopic { topic: "t", partitions: vec![0], ..ForgottenTopic::default() };
    let forget = FetchRequest {
        session_id,
        session_epoch: 1,
        forgotten_topics_data: vec![forgotten],
        min_bytes: 1,
        max_bytes: 1 << 20,
        ..FetchRequest::default()
    };
    world.ask(12, &forget, |response| assert!(response.responses.is_empty(), "{response:?}"));
    let gone = FetchRequest { session_id, session_epoch: 2, ..forget };
    world.ask(12, &gone, |response| {
        assert_eq!(response.error_code, ErrorCode::FetchSessionIdNotFound.code());
    });
}

#[test]
fn g14_topics_go_by_id_in_the_new_versions() {
    let mut world = with_topic();
    let id = world.image().topic("t").unwrap().id.0;
    let records = batch(&["x"], &BatchOptions::default());
    world.ask(13, &produce("", id, &records, 1), |response| {
        assert_eq!(response.responses[0].topic_id, id);
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    });
    let stranger = Uuid([3; 16]);
    world.ask(13, &produce("", stranger, &records, 1), |response| {
        assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::UnknownTopicId.code());
    });
    let (_, records) = world.request(13, &fetch_of("", id, 0)).both();
    assert!(!records.is_empty());
    world.ask(13, &fetch_of("", stranger, 0), |response| {
        assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UnknownTopicId.code());
    });
}

#[test]
fn g14_a_topic_made_again_has_another_id() {
    use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
    let mut world = with_topic();
    let before = world.image().topic("t").unwrap().id;
    let topic = DeleteTopicState { name: Some("t"), ..DeleteTopicState::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], ..DeleteTopicsRequest::default() };
    world.ask(6, &request, |response| assert_eq!(response.responses[0].error_code, 0));
    world.topic("t", 1, &[]);
    assert_ne!(world.image().topic("t").unwrap().id, before);
}

#[test]
fn g15_no_topics_means_all_in_v0_and_none_later() {
    let mut world = with_topic();
    let none = MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
    world.ask(0, &none, |response| assert_eq!(response.topics.len(), 1));
    world.ask(1, &none, |response| assert_eq!(response.topics.len(), 0));
    let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
    world.ask(1, &all, |response| assert_eq!(response.topics.len(), 1));
}

#[test]
fn g16_a_topic_made_on_demand_is_unknown_first_and_there_then() {
    let mut world = World::new();
    let first = world.request(1, &metadata_of("auto", true)).bytes();
    let partition = "0003".to_owned() + "0004" + &hex(b"auto") + "00" + "00000000";
    assert!(hex(&first).ends_with(&partition), "{}", hex(&first));
    world.ask(9, &metadata_of("auto", true), |response| {
        assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (0, 1));
    });
    world.ask(9, &metadata_of("other", false), |response| assert_eq!(response.topics[0].error_code, 3));
    assert!(world.image().topic("other").is_none(), "the client did not want it");
    let mut strict = World::with(&[("auto.create.topics.enable", "false")]);
    strict.request(9, &metadata_of("auto", true)).bytes();
    assert!(strict.image().topic("auto").is_none(), "the broker does not want it");
}

#[test]
fn g17_g18_the_controller_is_a_live_broker_and_every_partition_has_an_epoch() {
    let mut world = with_topic();
    let node = world.node().0;
    world.ask(13, &metadata_of("t", false), |response| {
        assert_eq!(response.controller_id, node);
        assert!(response.brokers.iter().any(|broker| broker.node_id == node));
        assert_eq!(response.topics[0].partitions[0].leader_epoch, 0);
    });
}

#[test]
fn g18_leader_epochs_fence_those_who_know_older_or_newer_ones() {
    let mut world = with_topic();
    for (epoch, code) in [(-1, 0), (0, 0), (1, ErrorCode::UnknownLeaderEpoch.code())] {
        let mut request = fetch_of("t", Uuid::ZERO, 0);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        world.ask(12, &request, |response| {
            assert_eq!(response.responses[0].partitions[0].error_code, code, "epoch {epoch}");
        });
    }
}

#[test]
fn g33_every_special_timestamp_of_list_offsets_is_answered() {
    let mut world = with_topic();
    for value in ["a", "b", "c"] {
        produced(&mut world, "t", &batch(&[value], &BatchOptions::default()));
    }
    for (timestamp, version, offset) in [
        (-1, 11, 3),
        (-2, 11, 0),
        (-3, 11, 0),
        (-4, 11, 0),
        (-5, 11, -1),
        (-6, 11, -1),
        (0, 11, 0),
        (1 << 60, 11, -1),
    ] {
        let part = ListOffsetsPartition { partition_index: 0, timestamp, ..ListOffsetsPartition::default() };
        let topic = ListOffsetsTopic { name: "t", partitions: vec![part] };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..ListOffsetsRequest::default() };
        world.ask(version, &request, |response| {
            let part = &response.topics[0].partitions[0];
            assert_eq!((part.error_code, part.offset), (0, offset), "timestamp {timestamp}");
        });
    }
}

#[test]
fn g36_librdkafka_finds_the_api_without_which_it_compresses_nothing_with_lz4() {
    use wire::messages::find_coordinator::FindCoordinatorRequest;
    let mut world = World::new();
    world.ask(0, &ApiVersionsRequest::default(), |response| {
        let found = response.api_keys.iter().find(|api| api.api_key == 10).unwrap();
        assert_eq!(found.min_version, 0);
    });
    for version in 0..=6 {
        let mut request = FindCoordinatorRequest::default();
        if version >= 4 {
            request.coordinator_keys = vec!["g"];
        } else {
            request.key = "g";
        }
        world.ask(version, &request, |response| {
            let code = response.coordinators.first().map_or(response.error_code, |found| found.error_code);
            assert_eq!(code, ErrorCode::CoordinatorNotAvailable.code(), "v{version}");
        });
    }
}

#[test]
fn list_offsets_is_answered_in_every_version() {
    let mut world = with_topic();
    produced(&mut world, "t", &batch(&["a"], &BatchOptions::default()));
    for version in 1..=11 {
        let part =
            ListOffsetsPartition { partition_index: 0, timestamp: -2, ..ListOffsetsPartition::default() };
        let topic = ListOffsetsTopic { name: "t", partitions: vec![part] };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..ListOffsetsRequest::default() };
        world.ask(version, &request, |response| {
            let part = &response.topics[0].partitions[0];
            let epoch = if version >= 4 { 0 } else { -1 };
            assert_eq!((part.error_code, part.offset, part.leader_epoch), (0, 0, epoch), "v{version}");
        });
    }
}

#[test]
fn g34_a_damaged_batch_is_refused_and_never_stored() {
    let mut world = with_topic();
    let good = batch(&["a", "b"], &BatchOptions::default());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        let (code, _) = produced(&mut world, "t", &bad);
        // The leader epoch is the broker's to write: what a client has there means nothing.
        if !(12..16).contains(&at) {
            assert_ne!(code, ErrorCode::None, "byte {at}");
        }
    }
    let (code, _) = produced(&mut world, "t", &[good.clone(), good.clone()].concat());
    assert_ne!(code, ErrorCode::None, "two batches");
    let (code, offset) = produced(&mut world, "t", &good);
    assert_eq!((code, offset), (ErrorCode::None, 4 * 2), "only the four that differ in the epoch are there");
}

#[test]
fn g37_a_session_that_does_not_fit_is_an_error_and_no_more() {
    let mut world = with_topic();
    let id = world.image().topic("t").unwrap().id.0;
    let mut first = fetch_of("t", Uuid::ZERO, 0);
    first.session_epoch = 0;
    let session_id = world.ask(12, &first, |response| response.session_id);
    let mut by_id = fetch_of("", id, 0);
    (by_id.session_id, by_id.session_epoch) = (session_id, 1);
    world.ask(13, &by_id, |response| {
        assert_eq!(response.error_code, ErrorCode::FetchSessionTopicIdError.code());
    });
}

#[test]
fn a_fetch_as_a_follower_is_refused() {
    let mut world = with_topic();
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    request.replica_id = 2;
    world.ask(12, &request, |response| {
        assert_eq!(response.error_code, ErrorCode::ClusterAuthorizationFailed.code());
    });
}

#[test]
fn acks_all_waits_for_the_disk_and_readers_do_too() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    let parked = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    let (_, seen) = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).both();
    assert!(seen.is_empty(), "what a power cut could take is not shown");
    let parked = world.look(parked).parked();
    let partition = world.partition("t", 0);
    assert!(partition.wants_flush());
    partition.flush();
    assert_eq!(world.bell.rang(), 1);
    let bytes = world.look(parked).bytes();
    read::<ProduceRequest<'_>, _>(&bytes, 9, |response| {
        let part = &response.responses[0].partition_responses[0];
        assert_eq!((part.error_code, part.base_offset), (0, 0));
    });
    let (_, seen) = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).both();
    assert!(!seen.is_empty());
}

#[test]
fn acks_all_that_is_not_committed_in_time_says_so() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    let parked = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    world.now.elapsed = parked.deadline();
    let bytes = world.look(parked).bytes();
    read::<ProduceRequest<'_>, _>(&bytes, 9, |response| {
        assert_eq!(
            response.responses[0].partition_responses[0].error_code,
            ErrorCode::RequestTimedOut.code()
        );
    });
}

#[test]
fn acks_0_is_never_answered_and_a_failure_closes() {
    let mut world = with_topic();
    let records = batch(&["x"], &BatchOptions::default());
    assert!(matches!(world.request(9, &produce("t", Uuid::ZERO, &records, 0)), Reaction::Silent));
    world.request(9, &produce("nope", Uuid::ZERO, &records, 0)).closed();
    world.ask(9, &produce("t", Uuid::ZERO, &records, 2), |response| {
        assert_eq!(
            response.responses[0].partition_responses[0].error_code,
            ErrorCode::InvalidRequiredAcks.code()
        );
    });
}

#[test]
fn a_batch_sent_again_has_the_offsets_of_the_first_time() {
    let mut world = with_topic();
    let sent = |sequence| {
        let producer = Producer {
            id: base::ProducerId(5),
            epoch: base::ProducerEpoch(0),
            base_sequence: base::Sequence(sequence),
        };
        batch(&["a", "b"], &BatchOptions { producer, ..BatchOptions::default() })
    };
    assert_eq!(produced(&mut world, "t", &sent(0)), (ErrorCode::None, 0));
    assert_eq!(produced(&mut world, "t", &sent(2)), (ErrorCode::None, 2));
    assert_eq!(produced(&mut world, "t", &sent(0)), (ErrorCode::None, 0));
    assert_eq!(produced(&mut world, "t", &sent(7)), (ErrorCode::OutOfOrderSequenceNumber, -1));
    assert_eq!(produced(&mut world, "t", &sent(4)), (ErrorCode::None, 4));
}

#[test]
fn producer_ids_come_in_blocks_and_are_given_once() {
    use wire::messages::init_producer_id::InitProducerIdRequest;
    let mut world = World::new();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2500 {
        let idempotent = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
        let id = world.ask(5, &idempotent, |response| {
            assert_eq!((response.error_code, response.producer_epoch), (0, 0));
            response.producer_id
        });
        assert!(seen.insert(id));
    }
    let transactional =
        InitProducerIdRequest { transactional_id: Some("x"), ..InitProducerIdRequest::default() };
    world.ask(5, &transactional, |response| {
        assert_eq!(response.error_code, ErrorCode::UnsupportedVersion.code());
    });
}

#[test]
fn every_api_refuses_a_body_that_ends_early() {
    for api in vltava_broker::api::APIS {
        let mut world = with_topic();
        for version in api.served.clone() {
            let mut frame = vec![0, api.key.code() as u8, 0, version as u8, 0, 0, 0, 7, 0xff, 0xff];
            frame.extend(api.key.is_flexible(version).then_some(0));
            // A body that is empty is whole for some; what counts is that nothing panics.
            world.send(&frame);
            frame.push(0x7f);
            world.send(&frame);
        }
    }
    assert_eq!(<ProduceRequest<'_> as Request<'_>>::KEY, wire::ApiKey::Produce);
}
