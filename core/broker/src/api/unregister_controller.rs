//! UnregisterController · key 94 · v0
//!
//! Flexible (KIP-1312). Kafka's controllers register, and one that is gone is forgotten by this. Here a node
//! is a controller as long as it votes, and nothing else is kept of it: so there is never one to forget.

use base::{BrokerId, ErrorCode};
use controller::{Command, QuorumCommand, QuorumReply, QuorumStatus, Reply};
use wire::messages::unregister_controller::{UnregisterControllerRequest, UnregisterControllerResponse};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::UnregisterController, 0..=0, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: UnregisterControllerRequest = read(call, body)?;
    let reply = call.reply;
    let id = BrokerId(request.controller_id);
    Ok(Outcome::Submit(Submission {
        command: Command::Quorum(QuorumCommand::Describe),
        finish: Box::new(move |_, decision| {
            let (code, message) = match decision {
                Ok(Reply::Quorum(QuorumReply::Describe(status))) => refusal(&status, id),
                Ok(_) => unreachable!("a decision answers its command"),
                Err(error) => (error.code(), super::words(&error)),
            };
            reply.answer(&UnregisterControllerResponse {
                error_code: code.code(),
                error_message: Some(&message),
                ..UnregisterControllerResponse::default()
            })
        }),
    }))
}

fn refusal(status: &QuorumStatus, id: BrokerId) -> (ErrorCode, String) {
    if id == status.leader {
        return (ErrorCode::InvalidRequest, format!("Controller {id} is the active one."));
    }
    match status.voters.iter().any(|voter| voter.id == id) {
        true => (
            ErrorCode::InvalidRequest,
            format!("Controller {id} votes in the quorum: take its vote (RemoveRaftVoter), and it is gone."),
        ),
        false => {
            (ErrorCode::ControllerIdNotRegistered, format!("Controller ID {id} is not currently registered"))
        }
    }
}
