//! OffsetForLeaderEpoch · key 23 · v2..=v4
//!
//! v4 flexible. Where an epoch ended: how a client finds out that what it read was cut off (KIP-320).

use base::{ErrorCode, LeaderEpoch, PartitionIndex};
use wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::OffsetForLeaderEpoch, 2..=4, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: OffsetForLeaderEpochRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: topic
                .partitions
                .iter()
                .map(|part| answer(&call.context, topic.topic, part))
                .collect(),
        })
        .collect();
    Ok(call.reply.answer(&OffsetForLeaderEpochResponse { topics, ..OffsetForLeaderEpochResponse::default() }))
}

fn answer(context: &Context<'_>, topic: &str, part: &OffsetForLeaderPartition) -> EpochEndOffset {
    let empty = EpochEndOffset { partition: part.partition, ..EpochEndOffset::default() };
    match look_up(context, topic, part) {
        Ok((epoch, end)) => EpochEndOffset { leader_epoch: epoch.0, end_offset: end.0, ..empty },
        Err(code) => EpochEndOffset { error_code: code.code(), ..empty },
    }
}

fn look_up(
    context: &Context<'_>,
    topic: &str,
    part: &OffsetForLeaderPartition,
) -> Result<(LeaderEpoch, base::Offset), ErrorCode> {
    let hosted = super::hosted_by_name(context, topic, PartitionIndex(part.partition))?;
    let (current, asked) = (LeaderEpoch(part.current_leader_epoch), LeaderEpoch(part.leader_epoch));
    let mut result = None;
    hosted.step(&mut |hosted, _| {
        let is_later = asked > hosted.partition.epoch();
        result = Some((hosted.partition.epoch_end(current, asked), is_later));
    });
    let (ended, is_later) = result.expect("step runs its action");
    let ended = ended.map_err(|error| crate::codes::fetch_error(&error))?;
    match is_later && !context.host.is_in_touch(context.now) {
        // Others may have led since, and that epoch may be theirs: a reader that is told there is none goes back.
        true => Err(ErrorCode::NotLeaderOrFollower),
        false => Ok(ended),
    }
}
