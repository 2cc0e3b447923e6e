//! ConsumerGroupHeartbeat · key 68 · v0..=v1 (KIP-848)
//!
//! v0 flexible · v1 patterns of topics, and members that bring their own ids (KIP-1082).

use coordinator::{Request, Response};
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
};
use wire::{ApiKey, Decoder};

use super::groups::{self, Say};
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ConsumerGroupHeartbeat, 0..=1, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ConsumerGroupHeartbeatRequest<'_> = read(call, body.clone())?;
    super::check_entries(entries(&request))?;
    let group = std::iter::once(request.group_id);
    match groups::await_coordinator(call, &body, group, |call, body| Ok(ask(call, &read(call, body)?))) {
        Some(waits) => Ok(waits),
        None => Ok(ask(call, &request)),
    }
}

fn ask(call: &mut Call<'_>, request: &ConsumerGroupHeartbeatRequest<'_>) -> Outcome {
    let say: Say = Box::new(|reply, mut said| match said.pop() {
        Some(Response::ConsumerGroupHeartbeat(heard)) => reply.answer(&heard.to_wire()),
        _ => groups::misplaced(),
    });
    groups::ask_one(call, request.group_id, Request::ConsumerGroupHeartbeat(request), say)
}

/// The topics that a member wants, and the topics and partitions that it has.
fn entries(request: &ConsumerGroupHeartbeatRequest<'_>) -> usize {
    let of = |owned: &ConsumerGroupHeartbeatRequestTopicPartitions| owned.partitions.len() + 1;
    let owned: usize = request.topic_partitions.iter().flatten().map(of).sum();
    owned + request.subscribed_topic_names.as_ref().map_or(0, Vec::len)
}
