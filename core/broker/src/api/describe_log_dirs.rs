//! DescribeLogDirs · key 35 · v1..=v5
//!
//! v2 flexible · v3 top-level error · v4 size of the volume (KIP-827) · v5 cordoned (KIP-1066).

use std::collections::BTreeSet;

use base::{ErrorCode, TopicPartition};
use wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};
use crate::host::{LogDir, LogDirReplica};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeLogDirs, 1..=5, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeLogDirsRequest<'_> = read(call, body)?;
    let named = request.topics.iter().flatten().map(|topic| topic.partitions.len() + 1);
    super::check_entries(named.sum())?;
    let wanted: Option<BTreeSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        topics.iter().flat_map(|t| t.partitions.iter().map(|index| (t.topic, *index))).collect()
    });
    let is_wanted = |name: &TopicPartition| {
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&(name.topic.as_str(), name.partition.0)))
    };
    let mut dirs = call.context.host.log_dirs();
    for dir in &mut dirs {
        dir.replicas.retain(|replica| is_wanted(&replica.name));
        dir.replicas.sort_unstable();
    }
    let is_cordoned = call.context.image.is_cordoned(call.context.node);
    let results = dirs.iter().map(|dir| described(dir, is_cordoned)).collect();
    Ok(call.reply.answer(&DescribeLogDirsResponse { results, ..DescribeLogDirsResponse::default() }))
}

fn described(dir: &LogDir, is_cordoned: bool) -> DescribeLogDirsResult<'_> {
    let bytes = |known: Option<u64>| known.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1);
    let code = if dir.failed { ErrorCode::KafkaStorageError } else { ErrorCode::None };
    let mut topics: Vec<DescribeLogDirsTopic<'_>> = Vec::new();
    for LogDirReplica { name, bytes, lag } in &dir.replicas {
        let partition = DescribeLogDirsPartition {
            partition_index: name.partition.0,
            partition_size: i64::try_from(*bytes).unwrap_or(i64::MAX),
            offset_lag: i64::try_from(*lag).unwrap_or(i64::MAX),
            ..DescribeLogDirsPartition::default()
        };
        match topics.last_mut() {
            Some(last) if last.name == name.topic.as_str() => last.partitions.push(partition),
            _ => topics.push(DescribeLogDirsTopic { name: name.topic.as_str(), partitions: vec![partition] }),
        }
    }
    DescribeLogDirsResult {
        error_code: code.code(),
        log_dir: &dir.path,
        topics,
        total_bytes: bytes(dir.bytes_total),
        usable_bytes: bytes(dir.bytes_usable),
        is_cordoned,
    }
}
