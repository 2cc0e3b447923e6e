//! DeleteRecords: what is deleted, when it is answered, and what a request leaves behind.

use std::time::Duration;

use base::{ErrorCode, Offset};
use records::BatchOptions;
use vltava_broker::call::ParkedRequest;
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};

use crate::requests::{produced, with_topic};
use crate::world::{World, batch, read};

const VERSION: i16 = 2;

/// A request to delete from `t`: partitions and offsets.
fn delete(parts: &[(i32, i64)]) -> DeleteRecordsRequest<'static> {
    let part = |&(partition_index, offset): &(i32, i64)| DeleteRecordsPartition { partition_index, offset };
    let topic = DeleteRecordsTopic { name: "t", partitions: parts.iter().map(part).collect() };
    DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1000 }
}

/// What an answer says of each partition: its index, the code, the low watermark.
fn told(bytes: &[u8]) -> Vec<(i32, ErrorCode, i64)> {
    read::<DeleteRecordsRequest<'_>, _>(bytes, VERSION, |response| {
        let parts = response.topics.iter().flat_map(|topic| &topic.partitions);
        let code = |code| ErrorCode::from_i16(code).unwrap();
        parts.map(|part| (part.partition_index, code(part.error_code), part.low_watermark)).collect()
    })
}

fn parked(world: &mut World, parts: &[(i32, i64)]) -> ParkedRequest {
    world.request(VERSION, &delete(parts)).parked()
}

/// A world with ten records in partition 0 of `t`.
fn with_records() -> World {
    let mut world = with_topic();
    let values = ["x"; 10];
    assert_eq!(produced(&mut world, "t", &batch(&values, &BatchOptions::default())), (ErrorCode::None, 0));
    world
}

#[test]
fn a_deletion_is_answered_once_it_is_durable() {
    let mut world = with_records();
    let partition = world.partition("t", 0);
    let request = parked(&mut world, &[(0, 3)]);
    assert!(partition.wants_save());
    partition.start_saved(2);
    assert_eq!(world.bell.rang(), 0);
    partition.start_saved(3);
    assert_eq!((world.bell.rang(), partition.waiting()), (1, 0));
    assert_eq!(told(&world.look(request).bytes()), [(0, ErrorCode::None, 3)]);
    let again = world.request(VERSION, &delete(&[(0, 2)])).bytes();
    assert_eq!(told(&again), [(0, ErrorCode::None, 3)], "it is durable already");
    assert!(!partition.wants_save());
    let all = parked(&mut world, &[(0, -1)]);
    partition.start_saved(10);
    assert_eq!(told(&world.look(all).bytes()), [(0, ErrorCode::None, 10)]);
}

#[test]
fn deletions_that_overlap_are_each_answered_for_their_own_start() {
    let mut world = with_records();
    let partition = world.partition("t", 0);
    let first = parked(&mut world, &[(0, 3)]);
    let second = parked(&mut world, &[(0, 7)]);
    partition.start_saved(3);
    assert_eq!(world.bell.rang(), 1);
    assert_eq!(told(&world.look(first).bytes()), [(0, ErrorCode::None, 3)]);
    let second = world.look(second).parked();
    partition.start_saved(7);
    assert_eq!(world.bell.rang(), 1);
    // Who saved it earlier may come to say so later.
    partition.start_saved(3);
    assert_eq!(told(&world.look(second).bytes()), [(0, ErrorCode::None, 7)]);
}

#[test]
fn a_deletion_waits_once_however_often_it_is_looked_at() {
    let mut world = with_records();
    let partition = world.partition("t", 0);
    let mut request = parked(&mut world, &[(0, 3), (0, 9), (0, 5)]);
    for _ in 0..3 {
        assert_eq!(partition.waiting(), 1);
        request = world.look(request).parked();
    }
    partition.start_saved(5);
    assert_eq!(told(&world.look(request).bytes()), [(0, ErrorCode::None, 5)], "the last one counts");
}

#[test]
fn a_deletion_whose_time_is_up_says_so_and_leaves_nothing_behind() {
    let mut world = with_records();
    let partition = world.partition("t", 0);
    let first = parked(&mut world, &[(0, 3), (1, 0)]);
    world.now.elapsed += Duration::from_millis(500);
    let second = parked(&mut world, &[(0, 3)]);
    assert_eq!(first.deadline() + Duration::from_millis(500), second.deadline());
    world.now.elapsed = first.deadline();
    let unknown = (1, ErrorCode::UnknownTopicOrPartition, -1);
    let answer = told(&world.look(first).bytes());
    assert_eq!(answer, [(0, ErrorCode::RequestTimedOut, -1), unknown]);
    assert_eq!(partition.waiting(), 1, "the other request waits on for the same");
    partition.start_saved(3);
    assert_eq!(world.bell.rang(), 1);
    assert_eq!(told(&world.look(second).bytes()), [(0, ErrorCode::None, 3)]);
}

#[test]
fn a_connection_that_is_gone_leaves_no_deletion_behind() {
    let mut world = with_records();
    let requests = [parked(&mut world, &[(0, 3)]), parked(&mut world, &[(0, 7)])];
    assert_eq!(world.partition("t", 0).waiting(), 2);
    requests.into_iter().for_each(|request| world.abandon(request));
    assert_eq!(world.partition("t", 0).waiting(), 0);
}

#[test]
fn a_deletion_is_durable_or_the_disk_has_failed() {
    let mut world = with_records();
    let partition = world.partition("t", 0);
    let saved = parked(&mut world, &[(0, 3)]);
    let lost = parked(&mut world, &[(0, 7)]);
    partition.start_saved(3);
    partition.act(|partition, _| partition.retire());
    assert_eq!(told(&world.look(saved).bytes()), [(0, ErrorCode::None, 3)]);
    assert_eq!(told(&world.look(lost).bytes()), [(0, ErrorCode::KafkaStorageError, -1)]);
}

#[test]
fn a_deletion_does_not_wait_for_another_topic_of_that_name() {
    let mut world = with_records();
    let request = parked(&mut world, &[(0, 3)]);
    let topic = DeleteTopicState { name: Some("t"), ..DeleteTopicState::default() };
    let topics = DeleteTopicsRequest { topics: vec![topic], ..DeleteTopicsRequest::default() };
    world.ask(6, &topics, |response| assert_eq!(response.responses[0].error_code, 0));
    world.topic("t", 1, &[]);
    let answer = told(&world.look(request).bytes());
    assert_eq!(answer, [(0, ErrorCode::UnknownTopicOrPartition, -1)]);
    assert_eq!(world.partition("t", 0).waiting(), 0);
}

#[test]
fn what_cannot_be_deleted_is_refused_at_once() {
    let mut world = with_records();
    let refused = |world: &mut World, part| told(&world.request(VERSION, &delete(&[part])).bytes())[0];
    assert_eq!(refused(&mut world, (0, 11)), (0, ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(refused(&mut world, (0, -2)), (0, ErrorCode::OffsetOutOfRange, -1));
    world.topic("c", 1, &[("cleanup.policy", "compact")]);
    let mut request = delete(&[(0, 0)]);
    request.topics[0].name = "c";
    let answer = told(&world.request(VERSION, &request).bytes());
    assert_eq!(answer, [(0, ErrorCode::PolicyViolation, -1)]);
    let start = world.partition("t", 0).act(|partition, _| partition.log().start());
    assert_eq!(start, Offset::ZERO);
}
