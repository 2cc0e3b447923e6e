//! Ids: of topics, and of producers.

use base::{BrokerEpoch, ErrorCode, Uuid};
use metadata::{Broker, MetadataRecord};
use records::BatchOptions;
use wire::Records;
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::fetch::FetchRequest;
use wire::messages::init_producer_id::InitProducerIdRequest;

use crate::requests::{fetch_of, produce, produced, with_topic};
use crate::world::{World, batch, read};

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

/// Kafka may say INCONSISTENT_TOPIC_ID here, as it finds logs by name: a client looks the topic up after either. Here an
/// id finds its own log or none.
#[test]
fn g14_the_id_of_a_topic_that_was_made_again_finds_nothing_of_the_new_one() {
    let mut world = with_topic();
    let old = world.image().topic("t").unwrap().id.0;
    let records = batch(&["x"], &BatchOptions::default());
    let first = FetchRequest { session_epoch: 0, ..fetch_of("", old, 0) };
    let session_id = world.ask(13, &first, |response| response.session_id);
    assert_ne!(session_id, 0);
    let topic = DeleteTopicState { name: Some("t"), ..DeleteTopicState::default() };
    let delete = DeleteTopicsRequest { topics: vec![topic], ..DeleteTopicsRequest::default() };
    world.ask(6, &delete, |response| assert_eq!(response.responses[0].error_code, 0));
    world.topic("t", 1, &[("flush.policy", "os")]);
    assert_eq!(produced(&mut world, "t", &records), (ErrorCode::None, 0));
    assert_eq!(ErrorCode::UnknownTopicId.code(), 100);
    for session_epoch in 1..=2 {
        let next = FetchRequest { session_id, session_epoch, topics: Vec::new(), ..first.clone() };
        world.ask(13, &next, |response| {
            let topic = &response.responses[0];
            let told = (response.error_code, topic.topic_id, topic.partitions[0].error_code);
            assert_eq!(told, (0, old, 100), "the rest of the session can be read on");
            assert_eq!(topic.partitions[0].records, Some(Records::Bytes(&[])));
        });
    }
    // A client that never learned the id says zero.
    for id in [old, Uuid::ZERO] {
        world.ask(13, &produce("", id, &records, 1), |response| {
            let part = &response.responses[0].partition_responses[0];
            assert_eq!((part.error_code, part.base_offset), (100, -1), "{id}");
        });
    }
    assert_eq!(produced(&mut world, "t", &records), (ErrorCode::None, 1), "nothing else was stored");
}

#[test]
fn producer_ids_come_in_blocks_and_are_given_once() {
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

/// The broker has begun another life of which it was not told yet: the client asks again.
#[test]
fn what_the_controller_refuses_a_broker_is_not_told_to_its_clients() {
    let mut world = World::new();
    let known = world.image().broker(world.node()).unwrap();
    let later = Broker { epoch: BrokerEpoch(known.epoch.0 + 1), ..Broker::clone(known) };
    let end = world.image().end().next();
    world.controller.replay_batch(&[MetadataRecord::RegisterBroker(later)], end);
    let idempotent = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    let frame = wire::encode_request(7, Some("test"), 5, &idempotent).unwrap();
    let bytes = world.send(&frame.bytes[4..]).bytes();
    read::<InitProducerIdRequest<'_>, _>(&bytes, 5, |response| {
        assert_eq!(response.error_code, ErrorCode::CoordinatorLoadInProgress.code());
    });
}

#[test]
fn an_id_comes_with_its_epoch_or_not_at_all() {
    let mut world = World::new();
    for (producer_id, producer_epoch, code) in [
        (-1, -1, ErrorCode::None),
        (7, 0, ErrorCode::None),
        (7, -1, ErrorCode::InvalidRequest),
        (-1, 0, ErrorCode::InvalidRequest),
    ] {
        let request = InitProducerIdRequest {
            transactional_id: None,
            producer_id,
            producer_epoch,
            ..InitProducerIdRequest::default()
        };
        world.ask(5, &request, |response| {
            assert_eq!(response.error_code, code.code(), "{producer_id} {producer_epoch}");
        });
    }
}
