//! RemoveRaftVoter · key 81 · v0
//!
//! Flexible (KIP-853).

use base::{BrokerId, ErrorCode};
use controller::{Command, ControllerError, QuorumCommand, QuorumReply, Reply};
use wire::messages::remove_raft_voter::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};
use wire::{ApiKey, Decoder};

use super::add_raft_voter::check_cluster;
use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::RemoveRaftVoter, 0..=0, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: RemoveRaftVoterRequest<'_> = read(call, body)?;
    let reply = call.reply;
    let (id, directory) = (BrokerId(request.voter_id), request.voter_directory_id);
    let checked = check_cluster(&call.context, request.cluster_id).and_then(|()| {
        // No directory is right for a voter of which none is known yet: whether that is so, the quorum tells.
        if id.0 >= 0 {
            return Ok(());
        }
        Err(ControllerError::InvalidRequest(controller::NO_VALID_VOTER.into()))
    });
    if let Err(error) = checked {
        return Ok(finish(reply, Err(error)));
    }
    Ok(Outcome::Submit(Submission {
        command: Command::Quorum(QuorumCommand::RemoveVoter { id, directory }),
        finish: Box::new(move |_, decision| finish(reply, decision)),
    }))
}

fn finish(reply: ReplyTo, decision: Result<Reply, ControllerError>) -> Outcome {
    let error = match decision {
        Ok(Reply::Quorum(QuorumReply::RemoveVoter)) => None,
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => Some((error.code(), super::words(&error))),
    };
    reply.answer(&RemoveRaftVoterResponse {
        error_code: error.as_ref().map_or(ErrorCode::None, |(code, _)| *code).code(),
        error_message: error.as_ref().map(|(_, message)| message.as_str()),
        ..RemoveRaftVoterResponse::default()
    })
}
