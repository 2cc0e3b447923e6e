//! ListOffsets and OffsetForLeaderEpoch.

use base::{ErrorCode, Offset, Uuid};
use records::BatchOptions;
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use crate::requests::{produce, produced, with_topic};
use crate::world::{World, batch};

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

fn list_offsets(version: i16, world: &mut World, timestamps: &[(&str, i64)]) -> Vec<(ErrorCode, i64)> {
    let topics = timestamps.iter().map(|&(name, timestamp)| {
        let part = ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() };
        ListOffsetsTopic { name, partitions: vec![part] }
    });
    let request =
        ListOffsetsRequest { replica_id: -1, topics: topics.collect(), ..ListOffsetsRequest::default() };
    world.ask(version, &request, |response| {
        let parts = response.topics.iter().flat_map(|topic| &topic.partitions);
        parts.map(|part| (ErrorCode::from_i16(part.error_code).unwrap(), part.offset)).collect()
    })
}

/// The end of partition 0 of `t`, for readers of all records or of decided ones.
pub(crate) fn latest(world: &mut World, isolation_level: i8) -> i64 {
    let part = ListOffsetsPartition { timestamp: -1, ..ListOffsetsPartition::default() };
    let topics = vec![ListOffsetsTopic { name: "t", partitions: vec![part] }];
    let request =
        ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..ListOffsetsRequest::default() };
    world.ask(7, &request, |response| response.topics[0].partitions[0].offset)
}

#[test]
fn g33_special_timestamps_came_one_by_one() {
    let mut world = with_topic();
    for (timestamp, since) in
        [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99), (i64::MIN, 99)]
    {
        for version in 1..=11 {
            let code = if version < since { ErrorCode::UnsupportedVersion } else { ErrorCode::None };
            let answer = list_offsets(version, &mut world, &[("t", timestamp)]);
            assert_eq!(answer[0].0, code, "{timestamp} in v{version}");
        }
    }
}

#[test]
fn a_partition_asked_for_twice_is_refused_once() {
    let mut world = with_topic();
    world.topic("u", 1, &[]);
    let answers = list_offsets(5, &mut world, &[("t", -1), ("u", -1), ("t", -2)]);
    assert_eq!(answers, [(ErrorCode::InvalidRequest, -1), (ErrorCode::None, 0)]);
}

#[test]
fn the_largest_timestamp_is_that_of_a_committed_record() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    assert_eq!(list_offsets(7, &mut world, &[("t", -3)]), [(ErrorCode::None, -1)]);
    world.request(9, &produce("t", Uuid::ZERO, &records, 1)).bytes();
    assert_eq!(list_offsets(7, &mut world, &[("t", -3)]), [(ErrorCode::None, -1)]);
    world.partition("t", 0).flush();
    world.request(9, &produce("t", Uuid::ZERO, &records, 1)).bytes();
    assert_eq!(list_offsets(7, &mut world, &[("t", -3)]), [(ErrorCode::None, 0)]);
}

#[test]
fn after_a_crash_every_epoch_before_has_an_end() {
    use wire::messages::offset_for_leader_epoch::{
        OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
    };
    let mut world = with_topic();
    let end_of = |world: &mut World, leader_epoch: i32| {
        let part = OffsetForLeaderPartition { partition: 0, current_leader_epoch: -1, leader_epoch };
        let topics = vec![OffsetForLeaderTopic { topic: "t", partitions: vec![part] }];
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
        world.ask(4, &request, |response| {
            let part = &response.topics[0].partitions[0];
            assert_eq!(part.error_code, 0);
            (part.leader_epoch, part.end_offset)
        })
    };
    assert_eq!(end_of(&mut world, 0), (0, 0));
    world.crash();
    assert_eq!(end_of(&mut world, 0), (0, 0), "an empty partition");
    produced(&mut world, "t", &batch(&["a"], &BatchOptions::default()));
    world.crash();
    world.crash();
    assert_eq!([1, 2, 3, 4].map(|epoch| end_of(&mut world, epoch)), [(1, 1), (1, 1), (3, 1), (-1, -1)]);
    world.partition("t", 0).act(|partition, out| partition.delete_records(Some(Offset(1)), out)).unwrap();
    assert_eq!(end_of(&mut world, 2), (1, 1));
    world.lose_touch();
    assert_eq!(end_of(&mut world, 3), (3, 1), "it led then, and knows");
    let part = OffsetForLeaderPartition { partition: 0, current_leader_epoch: -1, leader_epoch: 4 };
    let topics = vec![OffsetForLeaderTopic { topic: "t", partitions: vec![part] }];
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
    let code = world.ask(4, &request, |response| response.topics[0].partitions[0].error_code);
    assert_eq!(code, ErrorCode::NotLeaderOrFollower.code(), "others may lead in epoch 4");
}
