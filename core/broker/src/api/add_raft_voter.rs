//! AddRaftVoter · key 80 · v0..=v1
//!
//! v0 flexible (KIP-853) · v1 may be answered before it is committed. It never is here: who is told that a
//! node votes counts on it.

use base::{BrokerId, ErrorCode, excerpt};
use controller::{Command, ControllerError, NewVoter, QuorumCommand, QuorumReply, Reply};
use metadata::Endpoint;
use wire::messages::add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::AddRaftVoter, 0..=1, handle);

/// Characters that a host's name may have (RFC 1035).
const HOST_MAX: usize = 255;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: AddRaftVoterRequest<'_> = read(call, body)?;
    super::check_entries(request.listeners.len())?;
    let reply = call.reply;
    let voter = match voter(&call.context, &request) {
        Ok(voter) => voter,
        Err(error) => return Ok(finish(reply, Err(error))),
    };
    Ok(Outcome::Submit(Submission {
        command: Command::Quorum(QuorumCommand::AddVoter(voter)),
        finish: Box::new(move |_, decision| finish(reply, decision)),
    }))
}

fn voter(context: &Context<'_>, request: &AddRaftVoterRequest<'_>) -> Result<NewVoter, ControllerError> {
    check_cluster(context, request.cluster_id)?;
    let refused = |why: &str| Err(ControllerError::InvalidRequest(why.to_owned()));
    if request.voter_id < 0 || request.voter_directory_id.is_zero() {
        return refused("Add voter request didn't include a valid voter");
    }
    // The other nodes reach it at one of its listeners: the first, as Kafka has it.
    let Some(listener) = request.listeners.first() else {
        return refused("Add voter request didn't include the endpoint of a listener");
    };
    if listener.host.is_empty() || listener.host.len() > HOST_MAX || listener.port == 0 {
        return refused("Add voter request has an endpoint that nobody could connect to");
    }
    Ok(NewVoter {
        id: BrokerId(request.voter_id),
        directory: request.voter_directory_id,
        endpoint: Endpoint {
            listener: excerpt(listener.name, HOST_MAX),
            host: listener.host.to_owned(),
            port: listener.port,
            security_protocol: 0,
        },
    })
}

/// Who names a cluster means no other.
pub(super) fn check_cluster(context: &Context<'_>, named: Option<&str>) -> Result<(), ControllerError> {
    match named {
        Some(named) if named != context.cluster_id => Err(ControllerError::InconsistentClusterId {
            expected: context.cluster_id.to_owned(),
            got: excerpt(named, HOST_MAX),
        }),
        _ => Ok(()),
    }
}

fn finish(reply: ReplyTo, decision: Result<Reply, ControllerError>) -> Outcome {
    let error = match decision {
        Ok(Reply::Quorum(QuorumReply::AddVoter)) => None,
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => Some((error.code(), super::words(&error))),
    };
    reply.answer(&AddRaftVoterResponse {
        error_code: error.as_ref().map_or(ErrorCode::None, |(code, _)| *code).code(),
        error_message: error.as_ref().map(|(_, message)| message.as_str()),
        ..AddRaftVoterResponse::default()
    })
}
