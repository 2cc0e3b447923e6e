//! Metadata, and topics that are made, described and deleted.

use base::{ErrorCode, Uuid};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsRequestCursor as Cursor, TopicRequest,
};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use crate::requests::{hex, metadata_of, with_topic};
use crate::world::World;

#[test]
fn g14_a_topic_made_again_has_another_id() {
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
    let unknown = "0003".to_owned() + "0004" + &hex(b"auto") + "00" + "00000000";
    assert!(hex(&first).ends_with(&unknown), "{}", hex(&first));
    let then = world.request(1, &metadata_of("auto", true)).bytes();
    // error, name, not internal; one partition: error, index, leader, replicas, in-sync replicas
    let one = "00000001".to_owned() + "00000001";
    let partition = "0000".to_owned() + "00000000" + "00000001" + &one + &one;
    let topic = "0000".to_owned() + "0004" + &hex(b"auto") + "00" + "00000001" + &partition;
    assert!(hex(&then).ends_with(&topic), "{}", hex(&then));
    assert_eq!(hex(&then).strip_suffix(&topic), hex(&first).strip_suffix(&unknown), "the rest is the same");
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
fn a_partition_that_cannot_be_served_has_no_leader() {
    let mut world = World::new();
    world.topic("t", 3, &[]);
    world.lose("t", 0);
    world.partition("t", 1).act(|partition, _| partition.retire());
    let node = world.node().0;
    let gone = (ErrorCode::LeaderNotAvailable.code(), -1, vec![node]);
    let expected = [gone.clone(), gone, (0, node, vec![])];
    world.ask(9, &metadata_of("t", false), |response| {
        let parts = response.topics[0].partitions.iter();
        let told: Vec<_> = parts.map(|p| (p.error_code, p.leader_id, p.offline_replicas.clone())).collect();
        assert_eq!(told, expected);
    });
    world.ask(0, &describe(&["t"], None), |response| {
        let parts = response.topics[0].partitions.iter();
        let told: Vec<_> = parts.map(|p| (p.error_code, p.leader_id, p.offline_replicas.clone())).collect();
        assert_eq!(told, expected);
    });
}

fn describe<'a>(topics: &[&'a str], cursor: Option<Cursor<'a>>) -> DescribeTopicPartitionsRequest<'a> {
    let topics = topics.iter().map(|name| TopicRequest { name }).collect();
    DescribeTopicPartitionsRequest { topics, cursor, ..DescribeTopicPartitionsRequest::default() }
}

#[test]
fn a_cursor_that_points_nowhere_is_refused() {
    let mut world = with_topic();
    for (cursor, code) in [
        (cursor("t", 0), ErrorCode::None),
        (cursor("t", -1), ErrorCode::InvalidRequest),
        (cursor("s", 0), ErrorCode::InvalidRequest),
    ] {
        world.ask(0, &describe(&["t"], Some(cursor)), |response| {
            assert_eq!((response.topics.len(), response.topics[0].error_code), (1, code.code()));
        });
    }
}

/// All pages of at most `limit` partitions, one after the other: the topics of each, with what is told of them.
fn pages(world: &mut World, topics: &[&str], limit: i32) -> Vec<Vec<(String, i16, Vec<i32>)>> {
    let (mut pages, mut from) = (Vec::new(), None);
    loop {
        let cursor = from.as_ref().map(|(name, index): &(String, i32)| cursor(name, *index));
        let request =
            DescribeTopicPartitionsRequest { response_partition_limit: limit, ..describe(topics, cursor) };
        from = world.ask(0, &request, |response| {
            let page = response.topics.iter().map(|topic| {
                let parts = topic.partitions.iter().map(|part| part.partition_index).collect();
                (topic.name.unwrap().to_owned(), topic.error_code, parts)
            });
            pages.push(page.collect());
            response.next_cursor.map(|next| (next.topic_name.to_owned(), next.partition_index))
        });
        if from.is_none() {
            return pages;
        }
        assert!(pages.len() < 100, "it has no end: {from:?}");
    }
}

fn cursor(topic_name: &str, partition_index: i32) -> Cursor<'_> {
    Cursor { topic_name, partition_index }
}

#[test]
fn who_follows_the_cursor_is_told_of_each_partition_once() {
    let mut world = World::new();
    let topics = [("a", 3), ("b", 1), ("c", 4), ("d", 2)];
    topics.iter().for_each(|(name, partitions)| world.topic(name, *partitions, &[]));
    let all: Vec<(&str, i32)> =
        topics.iter().flat_map(|(name, partitions)| (0..*partitions).map(|index| (*name, index))).collect();
    for asked in [[].as_slice(), &["d", "a", "c", "b", "a"]] {
        for (limit, most) in
            [(-1, 1), (0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (9, 9), (10, 10), (i32::MAX, 10)]
        {
            let pages = pages(&mut world, asked, limit);
            let counts = pages.iter().map(|page| page.iter().map(|(.., parts)| parts.len()).sum());
            let counts: Vec<usize> = counts.collect();
            let (last, full) = counts.split_last().unwrap();
            assert!(
                full.iter().all(|count| *count == most) && (1..=most).contains(last),
                "{limit}: {counts:?}"
            );
            let told = pages.iter().flatten();
            assert!(told.clone().all(|(.., parts)| !parts.is_empty()), "{limit}: a topic of the next page");
            let told: Vec<(&str, i32)> =
                told.flat_map(|(name, _, parts)| parts.iter().map(|index| (name.as_str(), *index))).collect();
            assert_eq!(told, all, "{limit}");
        }
    }
}

#[test]
fn one_page_has_no_more_than_two_thousand_partitions() {
    let mut world = World::new();
    world.topic("a", 1999, &[]);
    world.topic("b", 3, &[]);
    let pages = pages(&mut world, &[], i32::MAX);
    let told =
        pages.iter().map(|page| page.iter().map(|(name, _, parts)| (name.as_str(), parts.len())).collect());
    let told: Vec<Vec<_>> = told.collect();
    assert_eq!(told, [vec![("a", 1999), ("b", 1)], vec![("b", 2)]]);
}

#[test]
fn a_cursor_at_a_topic_that_is_gone_goes_on_behind_it() {
    let mut world = World::new();
    ["a", "b", "c"].iter().for_each(|name| world.topic(name, 3, &[]));
    let topic = DeleteTopicState { name: Some("b"), ..DeleteTopicState::default() };
    let delete = DeleteTopicsRequest { topics: vec![topic], ..DeleteTopicsRequest::default() };
    world.ask(6, &delete, |response| assert_eq!(response.responses[0].error_code, 0));
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let (b, c) = (("b", unknown, vec![]), ("c", 0, vec![0, 1, 2]));
    // Who names topics is told that one of them is gone; who asks for all need not know that it was there.
    for (asked, expected) in [([].as_slice(), vec![c.clone()]), (&["a", "b", "c"], vec![b, c])] {
        world.ask(0, &describe(asked, Some(cursor("b", 2))), |response| {
            let told = response.topics.iter().map(|topic| {
                let parts = topic.partitions.iter().map(|part| part.partition_index).collect();
                (topic.name.unwrap(), topic.error_code, parts)
            });
            assert_eq!(told.collect::<Vec<_>>(), expected);
            assert!(response.next_cursor.is_none());
        });
    }
}

#[test]
fn what_a_client_may_do_is_told_to_those_who_ask() {
    // Kafka's answers without an authorizer.
    const TOPIC: i32 = 3576;
    const CLUSTER: i32 = 8096;
    let mut world = with_topic();
    for asked in [false, true] {
        let request = MetadataRequest {
            include_topic_authorized_operations: asked,
            include_cluster_authorized_operations: asked,
            ..metadata_of("t", false)
        };
        world.ask(8, &request, |response| {
            let told =
                (response.topics[0].topic_authorized_operations, response.cluster_authorized_operations);
            assert_eq!(told, if asked { (TOPIC, CLUSTER) } else { (i32::MIN, i32::MIN) });
        });
    }
    world.ask(0, &describe(&["t", "nope"], None), |response| {
        assert!(response.topics.iter().all(|topic| topic.topic_authorized_operations == TOPIC));
    });
}

#[test]
fn topics_that_kafka_keeps_its_books_in_are_internal() {
    let mut world = with_topic();
    world.topic("__consumer_offsets", 1, &[]);
    let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
    world.ask(9, &all, |response| {
        let told: Vec<_> = response.topics.iter().map(|t| (t.name.unwrap(), t.is_internal)).collect();
        assert_eq!(told, [("__consumer_offsets", true), ("t", false)]);
    });
    world.ask(0, &describe(&[], None), |response| assert!(response.topics[0].is_internal));
}

#[test]
fn g15_ids_name_topics_from_v12_on() {
    let mut world = with_topic();
    let id = world.image().topic("t").unwrap().id.0;
    let by_id = |name, topic_id| {
        let topics = Some(vec![MetadataRequestTopic { name, topic_id }]);
        MetadataRequest { topics, ..MetadataRequest::default() }
    };
    for version in 10..=13 {
        // Java's clients, which ask for what their pattern matched, leave the name empty.
        for name in [None, Some(""), Some("another")] {
            let code = if version < 12 { ErrorCode::InvalidRequest } else { ErrorCode::None };
            world.ask(version, &by_id(name, id), |response| {
                let told = &response.topics[0];
                assert_eq!(told.error_code, code.code(), "v{version} {name:?}");
                assert!(version < 12 || told.name == Some("t"), "v{version} {name:?}: {told:?}");
            });
        }
    }
    world.ask(13, &by_id(Some(""), Uuid([7; 16])), |response| {
        let told = &response.topics[0];
        assert_eq!((told.error_code, told.name), (ErrorCode::UnknownTopicId.code(), None));
    });
}

#[test]
fn a_topic_is_deleted_by_its_name_or_by_its_id() {
    let mut world = with_topic();
    let id = world.image().topic("t").unwrap().id.0;
    let state = |name, topic_id| DeleteTopicState { name, topic_id };
    let topics = vec![state(Some("t"), id), state(None, Uuid::ZERO), state(Some("nope"), Uuid::ZERO)];
    let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
    world.ask(6, &request, |response| {
        let told: Vec<_> =
            response.responses.iter().map(|r| (r.error_code, r.name, r.error_message)).collect();
        let invalid = ErrorCode::InvalidRequest.code();
        assert_eq!(told[0], (invalid, Some("t"), Some("You may not specify both topic name and topic id.")));
        assert_eq!(told[1], (invalid, None, Some("Neither topic name nor id were specified.")));
        assert_eq!(told[2].0, ErrorCode::UnknownTopicOrPartition.code());
    });
    let by_id = DeleteTopicsRequest { topics: vec![state(None, id)], ..DeleteTopicsRequest::default() };
    world.ask(6, &by_id, |response| assert_eq!(response.responses[0].name, Some("t")));
    assert!(world.image().topic("t").is_none());
}

#[test]
fn where_topics_cannot_be_deleted_clients_are_told_as_they_know_it() {
    let mut world = World::with(&[("delete.topic.enable", "false")]);
    world.topic("t", 1, &[]);
    for version in 1..=5 {
        let request = DeleteTopicsRequest { topic_names: vec!["t"], ..DeleteTopicsRequest::default() };
        world.ask(version, &request, |response| {
            let code = if version < 3 { ErrorCode::InvalidRequest } else { ErrorCode::TopicDeletionDisabled };
            assert_eq!(response.responses[0].error_code, code.code(), "v{version}");
        });
    }
}
