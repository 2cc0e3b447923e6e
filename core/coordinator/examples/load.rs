//! How long a shard takes to load a million offsets of a thousand groups, and to decide a commit.
//!
//! `cargo run --release -p vltava-coordinator --example load`
#![expect(clippy::print_stdout, clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures")]

use std::time::{Duration, Instant};

use base::{
    BrokerId, Effects, LeaderEpoch, Now, Offset, PartitionIndex, TimestampMs, TopicId, TopicName, Uuid,
};
use metadata::{Delta, Image, MetadataRecord, NewPartition, NewTopic, Partition};
use vltava_coordinator::{
    Caller, ConnectionId, Effect, GroupRecord, Record, Request, Shard, ShardSettings, Ticket,
};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};

const GROUPS: i32 = 1_000;
const PARTITIONS: i32 = 1_000;
const COMMITS: u64 = 1_000_000;

fn main() {
    let log: Vec<Record> = (0..GROUPS * PARTITIONS).map(record).collect();
    let bytes: usize = log.iter().map(|it| it.key.len() + it.value.as_ref().map_or(0, Vec::len)).sum();
    let image = image();
    let mut shard = Shard::new(ShardSettings::default());
    let began = Instant::now();
    shard.on_load_begin();
    for (offset, record) in (0..).zip(&log) {
        let loaded =
            shard.on_record((Offset(offset), TimestampMs(0)), Some(&record.key), record.value.as_deref());
        loaded.expect("it is a record");
    }
    let end = Offset(log.len() as i64);
    let mut out: Effects<Effect> = Effects::new();
    shard.on_loaded(Now::new(Duration::ZERO, TimestampMs(0)), (end, end), &image, &mut out);
    let took = began.elapsed();
    println!(
        "{} offsets of {} groups, {} MiB, in {took:?}",
        shard.offset_count(),
        shard.group_count(),
        bytes >> 20
    );

    let began = Instant::now();
    let now = Now::new(Duration::ZERO, TimestampMs(0));
    for i in 0..COMMITS {
        let topic = OffsetCommitRequestTopic {
            name: "topic-0",
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: i as i32 % 100,
                ..OffsetCommitRequestPartition::default()
            }],
            ..OffsetCommitRequestTopic::default()
        };
        let group_id = &*format!("group-{:04}", i % 100);
        let asks = OffsetCommitRequest { group_id, topics: vec![topic], ..OffsetCommitRequest::default() };
        let connection = ConnectionId(0);
        let caller = Caller { version: 9, client_id: "c", client_host: "/", random: 0, connection };
        shard.on_request(now, (Ticket(i), caller), Request::OffsetCommit(&asks), &image, &mut out);
        let end = Offset(end.0 + i as i64 + 1);
        assert!(matches!(out.drain().next(), Some(Effect::Append { .. })), "it is appended");
        shard.on_appended(now, Ok(end), &mut out);
        shard.on_committed(end, &mut out);
        assert!(out.drain().any(|it| matches!(it, Effect::Reply { .. })), "it is answered");
    }
    println!("{COMMITS} commits, {:?} each", began.elapsed() / COMMITS as u32);
}

/// `topic-0` with 100 partitions.
fn image() -> Image {
    let mut image = Image::default();
    let topic = TopicId(Uuid([7; 16]));
    let name = TopicName::new("topic-0").expect("it is legal");
    let mut delta = Delta::default();
    image.replay(&MetadataRecord::Topic(NewTopic { name, id: topic }), &mut delta);
    for index in 0..100 {
        let partition = Partition {
            index: PartitionIndex(index),
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: 0,
            recovering: false,
            unclean_epoch: LeaderEpoch::NONE,
            replicas: [BrokerId(1)].into(),
            isr: [BrokerId(1)].into(),
            directories: [Uuid::ZERO].into(),
            unsettled: None,
        };
        image.replay(&MetadataRecord::Partition(NewPartition { topic, partition }), &mut delta);
    }
    image
}

fn record(i: i32) -> Record {
    let value = vltava_coordinator::record::OffsetCommitValue {
        offset: i64::from(i),
        leader_epoch: 1,
        commit_timestamp: 1_700_000_000_000,
        topic_id: Uuid([7; 16]),
        ..Default::default()
    };
    let (group, partition) = (format!("group-{:04}", i % GROUPS), i / GROUPS % 100);
    let topic = format!("topic-{}", i / GROUPS / 100);
    GroupRecord::OffsetCommit { group: &group, topic: &topic, partition, value: Some(value) }.encode()
}
