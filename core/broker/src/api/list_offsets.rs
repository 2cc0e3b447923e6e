//! ListOffsets · key 2 · v1..=v11
//!
//! v2 isolation level · v4 leader epoch · v6 flexible · v7 latest timestamp (KIP-734) · v8 local log
//! start (KIP-405) · v9 last tiered (KIP-1005) · v10 timeout · v11 earliest not yet uploaded (KIP-1023).

use base::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, TimestampMs};
use replica::OffsetSpec;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use wire::{ApiKey, DecodeError, Decoder};

use super::{Api, read};
use crate::call::{Call, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ListOffsets, 1..=11, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, DecodeError> {
    let request: ListOffsetsRequest<'_> = read(call, body)?;
    let committed_only = request.isolation_level == 1;
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|part| answer(&call.context, topic.name, part, committed_only))
                .map(|part| known_to(call.reply.version, part))
                .collect(),
        })
        .collect();
    Ok(call.reply.answer(&ListOffsetsResponse { topics, ..ListOffsetsResponse::default() }))
}

fn answer(
    context: &Context<'_>,
    topic: &str,
    part: &ListOffsetsPartition,
    committed_only: bool,
) -> ListOffsetsPartitionResponse {
    let empty = ListOffsetsPartitionResponse {
        partition_index: part.partition_index,
        ..ListOffsetsPartitionResponse::default()
    };
    match look_up(context, topic, part, committed_only) {
        Ok(Some((timestamp, offset, epoch))) => ListOffsetsPartitionResponse {
            timestamp: timestamp.0,
            offset: offset.0,
            leader_epoch: epoch.0,
            ..empty
        },
        Ok(None) => empty,
        Err(code) => ListOffsetsPartitionResponse { error_code: code.code(), ..empty },
    }
}

/// Before v4 there is no leader epoch to tell.
fn known_to(version: i16, part: ListOffsetsPartitionResponse) -> ListOffsetsPartitionResponse {
    let leader_epoch = if version >= 4 { part.leader_epoch } else { LeaderEpoch::NONE.0 };
    ListOffsetsPartitionResponse { leader_epoch, ..part }
}

fn look_up(
    context: &Context<'_>,
    topic: &str,
    part: &ListOffsetsPartition,
    committed_only: bool,
) -> Result<Option<(TimestampMs, Offset, LeaderEpoch)>, ErrorCode> {
    let spec = spec(part.timestamp).ok_or(ErrorCode::InvalidRequest)?;
    let hosted = super::hosted_by_name(context, topic, PartitionIndex(part.partition_index))?;
    let current = LeaderEpoch(part.current_leader_epoch);
    let mut result = None;
    hosted.step(&mut |hosted, out| {
        result =
            Some(hosted.with(out, |partition, out| partition.offset_for(spec, current, committed_only, out)));
    });
    result.expect("step runs its action").map_err(|error| super::fetch_error_code(&error))
}

/// What a timestamp asks for; negative ones have meanings of their own.
fn spec(timestamp: i64) -> Option<OffsetSpec> {
    Some(match timestamp {
        -1 => OffsetSpec::Latest,
        -2 => OffsetSpec::Earliest,
        -3 => OffsetSpec::MaxTimestamp,
        -4 => OffsetSpec::EarliestLocal,
        -5 => OffsetSpec::LatestTiered,
        -6 => OffsetSpec::EarliestPendingUpload,
        0.. => OffsetSpec::At(TimestampMs(timestamp)),
        _ => return None,
    })
}
