//! DeleteRecords · key 21 · v0..=v2
//!
//! v2 flexible. Moves the start of a log: -1 means up to the high watermark.

use base::{ErrorCode, Offset, PartitionIndex};
use wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DeleteRecords, 0..=2, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DeleteRecordsRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let topics = request
        .topics
        .iter()
        .map(|topic| DeleteRecordsTopicResult {
            name: topic.name,
            partitions: topic.partitions.iter().map(|part| answer(&call.context, topic.name, part)).collect(),
        })
        .collect();
    Ok(call.reply.answer(&DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() }))
}

fn answer(context: &Context<'_>, topic: &str, part: &DeleteRecordsPartition) -> DeleteRecordsPartitionResult {
    let (low_watermark, code) = match delete(context, topic, part) {
        Ok(start) => (start.0, ErrorCode::None),
        Err(code) => (-1, code),
    };
    DeleteRecordsPartitionResult {
        partition_index: part.partition_index,
        low_watermark,
        error_code: code.code(),
    }
}

fn delete(context: &Context<'_>, topic: &str, part: &DeleteRecordsPartition) -> Result<Offset, ErrorCode> {
    let hosted = super::hosted_by_name(context, topic, PartitionIndex(part.partition_index))?;
    let policy = hosted.settings().cleanup;
    if policy.compact && !policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let upto = match part.offset {
        -1 => None,
        offset => Some(Offset(offset)),
    };
    let mut result = None;
    hosted.step(&mut |hosted, out| {
        result = Some(hosted.with(out, |partition, out| partition.delete_records(upto, out)));
    });
    result.expect("step runs its action").map_err(|error| super::fetch_error_code(&error))
}
