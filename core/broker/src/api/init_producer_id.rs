//! InitProducerId · key 22 · v0..=v5
//!
//! v2 flexible · v3 epoch bumps (KIP-360). An idempotent producer gets an id of its own; the ids come
//! in blocks from the controller, so that most requests are answered without it.

use base::{BrokerEpoch, ErrorCode, ProducerEpoch, ProducerId};
use controller::{AllocateProducerIds, Command, ControllerError, Reply};
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, ReplyTo, Submission};

/// See the module. Version 6 is not stable in Kafka 4.4.
pub const API: Api = Api::new(ApiKey::InitProducerId, 0..=5, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: InitProducerIdRequest<'_> = read(call, body)?;
    let reply = call.reply;
    if request.transactional_id.is_some() {
        // There is no transaction coordinator to find, and no retry will find one.
        return Ok(refuse(reply, ErrorCode::UnsupportedVersion));
    }
    if (request.producer_id == ProducerId::NONE.0) != (request.producer_epoch == ProducerEpoch::NONE.0) {
        return Ok(refuse(reply, ErrorCode::InvalidRequest));
    }
    if let Some(id) = call.context.host.producer_id() {
        return Ok(grant(reply, id));
    }
    let broker = call.context.node;
    let epoch = call.context.image.broker(broker).map_or(BrokerEpoch(-1), |broker| broker.epoch);
    Ok(Outcome::Submit(Submission {
        command: Command::AllocateProducerIds(AllocateProducerIds { broker, epoch }),
        finish: Box::new(move |context, decision| finish(context, reply, decision)),
    }))
}

fn finish(context: &Context<'_>, reply: ReplyTo, decision: Result<Reply, ControllerError>) -> Outcome {
    match decision {
        Ok(Reply::AllocateProducerIds(block)) => {
            let end = block.first.0.saturating_add(block.len.into());
            context.host.add_producer_ids(block.first.0..end);
        }
        Ok(_) => unreachable!("a decision answers its command"),
        // It is between this broker and the controller. The client can do nothing but ask again, and takes
        // what it does not know, as that this broker has just begun another life, for an end.
        Err(_) => return refuse(reply, ErrorCode::CoordinatorLoadInProgress),
    }
    match context.host.producer_id() {
        Some(id) => grant(reply, id),
        // Others took the whole block meanwhile: the client asks again.
        None => refuse(reply, ErrorCode::CoordinatorLoadInProgress),
    }
}

fn grant(reply: ReplyTo, id: ProducerId) -> Outcome {
    let response = InitProducerIdResponse { producer_id: id.0, producer_epoch: 0, ..Default::default() };
    reply.answer(&response)
}

fn refuse(reply: ReplyTo, code: ErrorCode) -> Outcome {
    let response =
        InitProducerIdResponse { error_code: code.code(), producer_epoch: -1, ..Default::default() };
    reply.answer(&response)
}
