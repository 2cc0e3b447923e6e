//! What a small request about groups may cost: groups may be large, and may be named again and again.

use base::ErrorCode;
use wire::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::delete_groups::DeleteGroupsRequest;
use wire::messages::describe_groups::DescribeGroupsRequest;
use wire::messages::find_coordinator::FindCoordinatorRequest;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::world::{World, read};

const GROUP: &str = "billing";
/// What an answer takes at most, and a group more.
const ANSWER_BYTES_MAX: usize = (64 << 20) + (1 << 20);

/// A world that has a topic and the topic of committed offsets.
fn world() -> World {
    let mut world = World::new();
    world.topic("orders", 10, &[]);
    let find = FindCoordinatorRequest { coordinator_keys: vec![GROUP], ..Default::default() };
    world.ask(4, &find, |response| assert_eq!(response.coordinators[0].error_code, 0));
    world
}

/// Who is in no group keeps ten offsets, each with as much beside it as may be; they are not committed yet.
fn commit_much(world: &mut World) {
    let long = "x".repeat(4096);
    let partition = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 42,
        committed_metadata: Some(&long),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "orders",
        partitions: (0..10).map(partition).collect(),
        ..Default::default()
    };
    let commit = OffsetCommitRequest {
        group_id: GROUP,
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    world.request(9, &commit).parked();
}

/// Ids that are not UTF-8 are read as one, which would be one group.
#[test]
fn a_group_whose_id_cannot_be_read_is_refused() {
    let mut world = world();
    let commit = OffsetCommitRequest {
        group_id: wire::NOT_UTF8,
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "orders",
            partitions: vec![OffsetCommitRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    world.ask(9, &commit, |response| {
        assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::InvalidGroupId.code());
    });
}

fn all_offsets(times: usize) -> OffsetFetchRequest<'static> {
    let group = OffsetFetchRequestGroup { group_id: GROUP, topics: None, ..Default::default() };
    OffsetFetchRequest { groups: vec![group; times], ..Default::default() }
}

/// The codes of an answer about groups: so many are answered, the rest is refused.
fn check_cut(codes: impl Iterator<Item = i16>, times: usize) {
    let codes: Vec<i16> = codes.collect();
    let told = codes.iter().take_while(|code| **code == 0).count();
    assert!((100..times).contains(&told), "{told}");
    assert!(codes[told..].iter().all(|code| *code == ErrorCode::InvalidRequest.code()));
    assert_eq!(codes.len(), times);
}

#[test]
fn offsets_asked_for_again_and_again_are_told_until_the_answer_is_full() {
    const TIMES: usize = 20_000;
    let mut world = world();
    commit_much(&mut world);
    // Neither may what waits to be committed take more, and its connection knows what it holds.
    let waits = world.request(9, &all_offsets(TIMES)).parked();
    assert!((64 << 20..80 << 20).contains(&waits.bytes()), "{}", waits.bytes());
    world.shard_of(GROUP).commit(world.now);
    for answer in [world.look(waits), world.request(9, &all_offsets(TIMES))] {
        let answer = answer.bytes();
        assert!(answer.len() < ANSWER_BYTES_MAX, "{}", answer.len());
        read::<OffsetFetchRequest<'_>, _>(&answer, 9, |response| {
            check_cut(response.groups.iter().map(|group| group.error_code), TIMES);
            assert_eq!(response.groups[0].topics[0].partitions.len(), 10);
        });
    }
    // Twice is no harm, and Kafka answers it twice.
    world.ask(9, &all_offsets(2), |response| {
        assert_eq!(response.groups[0], response.groups[1]);
        assert_eq!((response.groups.len(), response.groups[0].error_code), (2, 0));
    });
}

#[test]
fn a_partition_named_again_and_again_is_not_told_without_end() {
    let mut world = world();
    commit_much(&mut world);
    world.shard_of(GROUP).commit(world.now);
    let mut told = |times| {
        let topic = OffsetFetchRequestTopics {
            name: "orders",
            partition_indexes: vec![3; times],
            ..Default::default()
        };
        let group =
            OffsetFetchRequestGroup { group_id: GROUP, topics: Some(vec![topic]), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        world.ask(9, &request, |response| {
            let group = &response.groups[0];
            (group.error_code, group.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>())
        })
    };
    assert_eq!(told(16_000), (0, 16_000));
    assert_eq!(told(17_000), (ErrorCode::InvalidRequest.code(), 0));
}

#[test]
fn a_group_described_again_and_again_is_told_until_the_answer_is_full() {
    const TIMES: usize = 10_000;
    let mut world = world();
    let metadata = vec![7; 60_000];
    let join = JoinGroupRequest {
        group_id: GROUP,
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: vec![JoinGroupRequestProtocol { name: "range", metadata: &metadata }],
        ..Default::default()
    };
    let member = world.ask(9, &join, |response| response.member_id.to_owned());
    world.request(9, &JoinGroupRequest { member_id: &member, ..join }).parked();
    world.now = world.shard_of(GROUP).wait(world.now, world.image());
    let assignments = vec![SyncGroupRequestAssignment { member_id: &member, assignment: b"all" }];
    let sync = SyncGroupRequest {
        group_id: GROUP,
        generation_id: 1,
        member_id: &member,
        assignments,
        ..Default::default()
    };
    world.request(5, &sync).parked();
    world.shard_of(GROUP).commit(world.now);
    let describe = DescribeGroupsRequest { groups: vec![GROUP; TIMES], include_authorized_operations: false };
    let answer = world.request(6, &describe).bytes();
    assert!(answer.len() < ANSWER_BYTES_MAX + 200 * TIMES, "{}", answer.len());
    read::<DescribeGroupsRequest<'_>, _>(&answer, 6, |response| {
        check_cut(response.groups.iter().map(|group| group.error_code), TIMES);
        let words = "The answer would be too large: ask for fewer groups at a time.";
        assert_eq!(response.groups[TIMES - 1].error_message, Some(words));
    });
}

#[test]
fn a_group_of_the_new_protocol_described_again_and_again_is_told_until_the_answer_is_full() {
    const TIMES: usize = 10_000;
    let mut world = world();
    let rack = "r".repeat(30_000);
    let join = ConsumerGroupHeartbeatRequest {
        group_id: GROUP,
        member_id: "reader",
        rack_id: Some(&rack),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["orders"]),
        topic_partitions: Some(vec![]),
        ..Default::default()
    };
    world.request(0, &join).parked();
    world.shard_of(GROUP).commit(world.now);
    let describe =
        ConsumerGroupDescribeRequest { group_ids: vec![GROUP; TIMES], include_authorized_operations: false };
    let answer = world.request(1, &describe).bytes();
    assert!(answer.len() < ANSWER_BYTES_MAX + 200 * TIMES, "{}", answer.len());
    read::<ConsumerGroupDescribeRequest<'_>, _>(&answer, 1, |response| {
        check_cut(response.groups.iter().map(|group| group.error_code), TIMES);
    });
}

#[test]
fn a_group_is_deleted_once_however_often_it_is_named() {
    let mut world = world();
    commit_much(&mut world);
    world.shard_of(GROUP).commit(world.now);
    let delete = DeleteGroupsRequest { groups_names: vec![GROUP, "nobody", GROUP] };
    let waits = world.request(2, &delete).parked();
    world.shard_of(GROUP).commit(world.now);
    read::<DeleteGroupsRequest<'_>, _>(&world.look(waits).bytes(), 2, |response| {
        let told: Vec<_> = response.results.iter().map(|it| (it.group_id, it.error_code)).collect();
        assert_eq!(told, [(GROUP, 0), ("nobody", ErrorCode::GroupIdNotFound.code())]);
    });
}
