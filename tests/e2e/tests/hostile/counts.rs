//! Requests in which any number may be another one, and requests that are chance.

use anyhow::Result;
use base::{Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence};
use client::raw::{self, FetchLimits};
use records::{Compression, Producer};
use vltava_e2e::Chance;
use vltava_e2e::sample::{Origin, batch};
use wire::messages::{
    alter_configs, api_versions, create_partitions, create_topics, delete_records, delete_topics,
    describe_configs, describe_log_dirs, describe_producers, describe_topic_partitions,
    incremental_alter_configs, init_producer_id, list_offsets, metadata, offset_for_leader_epoch,
};
use wire::{ApiKey, Request, encode_request};

use crate::target::{TOPIC, Target, frame, request};

/// What is not there, so that no mutation of a request that changes something finds it.
const NOTHING: &str = "nothing";
/// Key, version and correlation id stay as they are.
const HEAD_BYTES: u64 = 8;
/// Mutations of each request in each version.
const MUTATIONS: usize = 60;

/// Numbers that counts and lengths are not: rigid ones, and compact ones of 5 and of 10 bytes.
const NUMBERS: &[&[u8]] = &[
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xfe],
    &[0, 0x0f, 0x42, 0x41],
    &[0, 0x0f, 0x42, 0x3f],
    &[0x7f, 0xff],
    &[0xff, 0xfe],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
];

/// Puts a number where another was, anywhere, or cuts the request, or lengthens it.
pub(crate) fn mutated(target: &Target, chance: &mut Chance) -> Result<()> {
    let mut frames = Vec::new();
    for whole in requests()? {
        for _ in 0..MUTATIONS {
            let mut mutated = whole[4..].to_vec();
            let number = *chance.one_of(NUMBERS);
            let at = chance.pick(HEAD_BYTES..mutated.len() as u64 + 1) as usize;
            match chance.pick(0..10) {
                0 => mutated.truncate(at),
                1 => mutated.extend(chance.bytes(20)),
                2..6 => {
                    let end = mutated.len().min(at + number.len());
                    mutated.splice(at..end, number.iter().copied());
                }
                _ => {
                    let end = mutated.len().min(at + 1);
                    mutated.splice(at..end, number.iter().copied());
                }
            }
            frames.push(frame(&mutated));
        }
    }
    target.send_each(frames)?;
    Ok(())
}

/// Every key and version, and chance behind it; then chance alone.
pub(crate) fn garbage(target: &Target, chance: &mut Chance) -> Result<()> {
    const OF_EACH: usize = 3;
    const OF_NOTHING: usize = 500;
    let mut frames = Vec::new();
    for key in ApiKey::ALL {
        for version in key.versions_with_unstable() {
            for _ in 0..OF_EACH {
                let count = chance.pick(0..200) as usize;
                // Small numbers let more of it be read than chance alone would.
                let is_small = chance.one_in(2);
                let mut body = chance.bytes(count);
                if is_small {
                    body.iter_mut().for_each(|byte| *byte %= 4);
                }
                frames.push(request(key.code(), version, key.is_flexible(version), &body));
            }
        }
    }
    for _ in 0..OF_NOTHING {
        let count = chance.pick(1..300) as usize;
        frames.push(frame(&chance.bytes(count)));
    }
    target.send_each(frames)?;
    Ok(())
}

/// A request of each kind, in its oldest and its newest version.
fn requests() -> Result<Vec<Vec<u8>>> {
    let mut frames = Frames::default();
    records(&mut frames)?;
    topics(&mut frames)?;
    settings(&mut frames)?;
    descriptions(&mut frames)?;
    Ok(frames.0)
}

#[derive(Default)]
struct Frames(Vec<Vec<u8>>);

impl Frames {
    fn add<'a, R: Request<'a>>(&mut self, request: &R) -> Result<()> {
        let versions = R::KEY.versions();
        let flexible = R::KEY.flexible_since().unwrap_or(*versions.end());
        for version in
            [*versions.start(), flexible.clamp(*versions.start(), *versions.end()), *versions.end()]
        {
            // What one version cannot say is said in another.
            if let Ok(frame) = encode_request(7, Some("attacker"), version, request) {
                self.0.push(frame.bytes);
            }
        }
        Ok(())
    }
}

fn records(frames: &mut Frames) -> Result<()> {
    let writer = Producer { id: ProducerId(1 << 40), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
    let batch = batch(Origin { producer: 9, number: 0 }, 2, Compression::None, writer);
    for acks in [0, 1, -1] {
        frames.add(&raw::produce_request(TOPIC, PartitionIndex(0), acks, &batch))?;
    }
    let limits = FetchLimits { wait_ms_max: 10, ..FetchLimits::default() };
    frames.add(&raw::fetch_request(TOPIC, PartitionIndex(0), Offset::ZERO, limits))?;
    frames.add(&list_offsets::ListOffsetsRequest {
        replica_id: -1,
        topics: vec![list_offsets::ListOffsetsTopic {
            name: TOPIC,
            partitions: vec![list_offsets::ListOffsetsPartition::default()],
        }],
        ..Default::default()
    })?;
    frames.add(&offset_for_leader_epoch::OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![offset_for_leader_epoch::OffsetForLeaderTopic {
            topic: TOPIC,
            partitions: vec![offset_for_leader_epoch::OffsetForLeaderPartition::default()],
        }],
    })?;
    frames.add(&delete_records::DeleteRecordsRequest {
        topics: vec![delete_records::DeleteRecordsTopic {
            name: NOTHING,
            partitions: vec![delete_records::DeleteRecordsPartition::default()],
        }],
        timeout_ms: 100,
    })?;
    frames.add(&init_producer_id::InitProducerIdRequest { transactional_id: None, ..Default::default() })
}

fn topics(frames: &mut Frames) -> Result<()> {
    frames.add(&create_topics::CreateTopicsRequest {
        topics: vec![create_topics::CreatableTopic {
            name: "",
            num_partitions: 1,
            replication_factor: 1,
            assignments: vec![create_topics::CreatableReplicaAssignment {
                partition_index: 0,
                broker_ids: vec![1],
            }],
            configs: vec![create_topics::CreatableTopicConfig { name: "retention.ms", value: Some("1") }],
        }],
        timeout_ms: 100,
        validate_only: true,
    })?;
    frames.add(&delete_topics::DeleteTopicsRequest {
        topics: vec![delete_topics::DeleteTopicState { name: Some(NOTHING), ..Default::default() }],
        timeout_ms: 100,
        ..Default::default()
    })?;
    frames.add(&delete_topics::DeleteTopicsRequest {
        topic_names: vec![NOTHING],
        timeout_ms: 100,
        ..Default::default()
    })?;
    frames.add(&create_partitions::CreatePartitionsRequest {
        topics: vec![create_partitions::CreatePartitionsTopic {
            name: NOTHING,
            count: 5,
            assignments: Some(vec![create_partitions::CreatePartitionsAssignment { broker_ids: vec![1] }]),
        }],
        timeout_ms: 100,
        validate_only: true,
    })
}

fn settings(frames: &mut Frames) -> Result<()> {
    frames.add(&describe_configs::DescribeConfigsRequest {
        resources: vec![describe_configs::DescribeConfigsResource {
            resource_type: 2,
            resource_name: TOPIC,
            configuration_keys: Some(vec!["retention.ms"]),
        }],
        ..Default::default()
    })?;
    frames.add(&alter_configs::AlterConfigsRequest {
        resources: vec![alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: NOTHING,
            configs: vec![alter_configs::AlterableConfig { name: "retention.ms", value: Some("1") }],
        }],
        validate_only: true,
    })?;
    frames.add(&incremental_alter_configs::IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: NOTHING,
            configs: vec![incremental_alter_configs::AlterableConfig {
                name: "retention.ms",
                config_operation: 0,
                value: Some("1"),
            }],
        }],
        validate_only: true,
    })
}

fn descriptions(frames: &mut Frames) -> Result<()> {
    frames.add(&metadata::MetadataRequest {
        topics: Some(vec![metadata::MetadataRequestTopic { name: Some(TOPIC), ..Default::default() }]),
        ..Default::default()
    })?;
    frames.add(&describe_topic_partitions::DescribeTopicPartitionsRequest {
        topics: vec![describe_topic_partitions::TopicRequest { name: TOPIC }],
        response_partition_limit: 10,
        cursor: Some(describe_topic_partitions::DescribeTopicPartitionsRequestCursor {
            topic_name: TOPIC,
            partition_index: 0,
        }),
    })?;
    frames.add(&describe_log_dirs::DescribeLogDirsRequest {
        topics: Some(vec![describe_log_dirs::DescribableLogDirTopic { topic: TOPIC, partitions: vec![0] }]),
    })?;
    frames.add(&describe_producers::DescribeProducersRequest {
        topics: vec![describe_producers::TopicRequest { name: TOPIC, partition_indexes: vec![0] }],
    })?;
    frames.add(&api_versions::ApiVersionsRequest {
        client_software_name: "attacker",
        client_software_version: "1",
        ..Default::default()
    })
}
