//! One batch produced, one range fetched: for tests and tools that build their own batches.
//!
//! Topics are named by name, so versions that know only ids are not used.

use base::{Offset, PartitionIndex};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::{ApiKey, Records, Request};

use crate::connection::{Answer, Connection};
use crate::error::ClientError;

/// The last versions that name topics by name.
const BY_NAME_VERSION_MAX: i16 = 12;

/// Where a batch was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    /// The offset of its first record; [`Offset::NONE`] with acks=0.
    pub base_offset: Offset,
    /// Where the partition begins.
    pub log_start: Offset,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where consumers must stop.
    pub high_watermark: Offset,
    /// Where consumers that read committed transactions only must stop.
    pub last_stable: Offset,
    /// Where the partition begins.
    pub log_start: Offset,
    /// The batches; the first may begin before the offset that was asked for, the last may be cut.
    pub records: Vec<u8>,
}

/// How much to fetch and how long to wait for it.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Wait until there are this many bytes …
    pub bytes_min: i32,
    /// … or until this time is over.
    pub wait_ms_max: i32,
    /// Answer with no more than this, save for one batch that is larger.
    pub bytes_max: i32,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { bytes_min: 1, wait_ms_max: 500, bytes_max: 50 << 20 }
    }
}

/// The version to produce or fetch with, topics named by name.
pub fn version(connection: &Connection, key: ApiKey) -> Result<i16, ClientError> {
    Ok(connection.version(key)?.min(BY_NAME_VERSION_MAX))
}

/// A request that produces batches, one behind the other, to one partition.
pub fn produce_request<'a>(
    topic: &'a str,
    partition: PartitionIndex,
    acks: i16,
    batches: &'a [u8],
) -> ProduceRequest<'a> {
    ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic,
            partition_data: vec![PartitionProduceData {
                index: partition.0,
                records: Some(Records::Bytes(batches)),
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}

/// A request that reads one partition from an offset.
pub fn fetch_request(
    topic: &str,
    partition: PartitionIndex,
    from: Offset,
    limits: FetchLimits,
) -> FetchRequest<'_> {
    FetchRequest {
        max_wait_ms: limits.wait_ms_max,
        min_bytes: limits.bytes_min,
        max_bytes: limits.bytes_max,
        topics: vec![FetchTopic {
            topic,
            partitions: vec![FetchPartition {
                partition: partition.0,
                fetch_offset: from.0,
                partition_max_bytes: limits.bytes_max,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

/// Reads the answer to [`produce_request`].
pub fn produced(answer: &Answer) -> Result<Produced, ClientError> {
    let body = answer.read::<<ProduceRequest<'_> as Request<'_>>::Response<'_>>()?;
    let part = body.responses.first().and_then(|topic| topic.partition_responses.first());
    let part = part.ok_or_else(|| ClientError::Missing("the batch".to_owned()))?;
    ClientError::check(|| format!("partition {}", part.index), part.error_code, part.error_message)?;
    Ok(Produced { base_offset: Offset(part.base_offset), log_start: Offset(part.log_start_offset) })
}

/// Reads the answer to [`fetch_request`].
pub fn fetched(answer: &Answer) -> Result<Fetched, ClientError> {
    let body = answer.read::<<FetchRequest<'_> as Request<'_>>::Response<'_>>()?;
    ClientError::check(|| "the fetch".to_owned(), body.error_code, None)?;
    let part = body.responses.first().and_then(|topic| topic.partitions.first());
    let part = part.ok_or_else(|| ClientError::Missing("the partition".to_owned()))?;
    ClientError::check(|| format!("partition {}", part.partition_index), part.error_code, None)?;
    let records = match part.records {
        Some(Records::Bytes(bytes)) => bytes.to_vec(),
        Some(Records::External { .. }) | None => Vec::new(),
    };
    Ok(Fetched {
        high_watermark: Offset(part.high_watermark),
        last_stable: Offset(part.last_stable_offset),
        log_start: Offset(part.log_start_offset),
        records,
    })
}

impl Connection {
    /// Produces batches to one partition; with acks=0 nothing is waited for.
    pub fn produce(
        &mut self,
        topic: &str,
        partition: PartitionIndex,
        acks: i16,
        batches: &[u8],
    ) -> Result<Produced, ClientError> {
        let version = version(self, ApiKey::Produce)?;
        let request = produce_request(topic, partition, acks, batches);
        if acks == 0 {
            self.send_unanswered(&request, version)?;
            return Ok(Produced { base_offset: Offset::NONE, log_start: Offset::NONE });
        }
        produced(&self.exchange(&request, version)?)
    }

    /// Fetches one partition from an offset.
    pub fn fetch(
        &mut self,
        topic: &str,
        partition: PartitionIndex,
        from: Offset,
        limits: FetchLimits,
    ) -> Result<Fetched, ClientError> {
        let version = version(self, ApiKey::Fetch)?;
        fetched(&self.exchange(&fetch_request(topic, partition, from, limits), version)?)
    }
}
