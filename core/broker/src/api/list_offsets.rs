//! ListOffsets · key 2 · v1..=v11
//!
//! v2 isolation level · v4 leader epoch · v6 flexible · v7 latest timestamp (KIP-734) · v8 local log
//! start (KIP-405) · v9 last tiered (KIP-1005) · v10 timeout · v11 earliest not yet uploaded (KIP-1023).

use std::collections::BTreeSet;

use base::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, TimestampMs};
use replica::OffsetSpec;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ListOffsets, 1..=11, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ListOffsetsRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let ask = Ask {
        version: call.reply.version,
        committed_only: request.isolation_level == 1,
        twice: named_twice(&request),
    };
    let mut seen = BTreeSet::new();
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .filter(|part| seen.insert((topic.name, part.partition_index)))
                .map(|part| answer(&call.context, &ask, topic.name, part))
                .map(|part| known_to(call.reply.version, part))
                .collect(),
        })
        .collect();
    Ok(call.reply.answer(&ListOffsetsResponse { topics, ..ListOffsetsResponse::default() }))
}

/// What is the same for every partition of a request.
struct Ask<'a> {
    version: i16,
    committed_only: bool,
    /// Partitions that it names more than once: each is told once that this is wrong.
    twice: BTreeSet<(&'a str, i32)>,
}

fn named_twice<'a>(request: &ListOffsetsRequest<'a>) -> BTreeSet<(&'a str, i32)> {
    let mut seen = BTreeSet::new();
    let named = request.topics.iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.iter().map(move |part| (name, part.partition_index))
    });
    named.filter(|partition| !seen.insert(*partition)).collect()
}

fn answer(
    context: &Context<'_>,
    ask: &Ask<'_>,
    topic: &str,
    part: &ListOffsetsPartition,
) -> ListOffsetsPartitionResponse {
    let empty = ListOffsetsPartitionResponse {
        partition_index: part.partition_index,
        ..ListOffsetsPartitionResponse::default()
    };
    match look_up(context, ask, topic, part) {
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
    ask: &Ask<'_>,
    topic: &str,
    part: &ListOffsetsPartition,
) -> Result<Option<(TimestampMs, Offset, LeaderEpoch)>, ErrorCode> {
    if ask.twice.contains(&(topic, part.partition_index)) {
        return Err(ErrorCode::InvalidRequest);
    }
    let spec = spec(part.timestamp, ask.version).ok_or(ErrorCode::UnsupportedVersion)?;
    let hosted = super::hosted_by_name(context, topic, PartitionIndex(part.partition_index))?;
    let current = LeaderEpoch(part.current_leader_epoch);
    let mut result = None;
    hosted.step(&mut |hosted, out| {
        result = Some(
            hosted.with(out, |partition, out| partition.offset_for(spec, current, ask.committed_only, out)),
        );
    });
    result.expect("step runs its action").map_err(|error| crate::codes::fetch_error(&error))
}

/// What a timestamp asks for; negative ones have meanings of their own, which came one by one.
fn spec(timestamp: i64, version: i16) -> Option<OffsetSpec> {
    let (since, spec) = match timestamp {
        -1 => (1, OffsetSpec::Latest),
        -2 => (1, OffsetSpec::Earliest),
        -3 => (7, OffsetSpec::MaxTimestamp),
        -4 => (8, OffsetSpec::EarliestLocal),
        -5 => (9, OffsetSpec::LatestTiered),
        -6 => (11, OffsetSpec::EarliestPendingUpload),
        0.. => (1, OffsetSpec::At(TimestampMs(timestamp))),
        _ => return None,
    };
    (version >= since).then_some(spec)
}
