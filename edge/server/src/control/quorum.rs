//! What is asked of the quorum itself rather than of the controller.

use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Offset, TimestampMs, Uuid};
use controller::{ControllerError, NewVoter, QuorumCommand, QuorumReplica, QuorumReply, QuorumStatus, Reply};
use metadata::{Endpoint, Image};
use quorum::{ChangeError, Member, ReplicaStatus, Voter};

use super::waiting::Decision;

/// How long a new voter may take to have the metadata: less than whoever asks waits.
const CATCH_UP_MAX: Duration = Duration::from_secs(20);

/// Asks the quorum of this node, which leads it. `image` knows where brokers are.
pub(super) async fn ask(member: Arc<Member>, image: Image, command: QuorumCommand) -> Decision {
    let reply = match command {
        QuorumCommand::Describe => QuorumReply::Describe(describe(&member, &image)?),
        QuorumCommand::AddVoter(voter) => {
            member.add_voter(voter_of(voter), CATCH_UP_MAX).await.map_err(refusal)?;
            QuorumReply::AddVoter
        }
        QuorumCommand::RemoveVoter { id, directory } => {
            check_directory(&member, id, directory)?;
            member.check_removal(id).await.map_err(refusal)?;
            hand_over_before(&member, id).await?;
            member.remove_voter(id).await.map_err(refusal)?;
            QuorumReply::RemoveVoter
        }
    };
    Ok(Reply::Quorum(reply))
}

/// Who goes gives the lead away before: nobody has to find out by its silence. Whom it went to is asked again.
async fn hand_over_before(member: &Member, id: BrokerId) -> Result<(), ControllerError> {
    if !member.is_leader(id) {
        return Ok(());
    }
    match member.hand_over().await {
        Ok(Some(to)) => Err(ControllerError::NotController { active: Some(to) }),
        Ok(None) => Ok(()),
        // It has given the lead up, and somebody is elected whom this is asked then.
        Err(_) => Err(ControllerError::NotController { active: None }),
    }
}

fn describe(member: &Member, image: &Image) -> Result<QuorumStatus, ControllerError> {
    let status = member.status();
    let leader = status.leader.ok_or(ControllerError::NotController { active: None })?;
    let all = |them: Vec<ReplicaStatus>| {
        let mut them: Vec<QuorumReplica> = them.into_iter().map(|it| replica(it, image)).collect();
        them.sort_by_key(|it| it.id);
        them
    };
    Ok(QuorumStatus {
        leader,
        leader_epoch: status.epoch,
        high_watermark: status.high_watermark,
        voters: all(status.voters),
        observers: all(status.observers),
    })
}

fn replica(status: ReplicaStatus, image: &Image) -> QuorumReplica {
    let known = |time: TimestampMs| Some(time).filter(|time| *time != TimestampMs::NONE);
    // Who only reads did not say where it is to the quorum, but it registered as a broker.
    let registered = || image.broker(status.id).and_then(|broker| broker.cluster_address()).cloned();
    QuorumReplica {
        id: status.id,
        directory: status.directory,
        log_end: status.log_end.unwrap_or(Offset::NONE),
        fetched_at: known(status.heard_at),
        caught_up_at: known(status.caught_up_at),
        endpoint: endpoint(&status.address).or_else(registered),
    }
}

/// Where a node of the quorum is, as it is written: `host:port`, the host in brackets if it has colons.
fn endpoint(address: &str) -> Option<Endpoint> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let listener = Endpoint::CLUSTER.to_owned();
    Some(Endpoint { listener, host, port: port.parse().ok()?, security_protocol: 0 })
}

fn voter_of(voter: NewVoter) -> Voter {
    let NewVoter { id, directory, endpoint } = voter;
    Voter { id, address: endpoint.address(), directory }
}

/// A voter with another disk is another voter. What is not known yet cannot be another.
fn check_directory(member: &Member, id: BrokerId, directory: Uuid) -> Result<(), ControllerError> {
    let voters = member.status().voters;
    match voters.iter().find(|voter| voter.id == id) {
        Some(voter) if voter.directory == directory || voter.directory.is_zero() => Ok(()),
        _ if directory.is_zero() => Err(ControllerError::InvalidRequest(controller::NO_VALID_VOTER.into())),
        _ => Err(ControllerError::VoterNotFound(format!(
            "Cannot remove voter {id} with the directory {directory}: it is not part of the set of voters."
        ))),
    }
}

fn refusal(error: ChangeError) -> ControllerError {
    let said = error.to_string();
    match error {
        ChangeError::NotLeader { leader } => ControllerError::NotController { active: leader },
        // It is asked again, until whoever asks has had enough.
        ChangeError::InProgress => ControllerError::Busy,
        ChangeError::AlreadyVoter(_) => ControllerError::DuplicateVoter(said),
        ChangeError::NotVoter(_) => ControllerError::VoterNotFound(said),
        ChangeError::MayNotVote(_) => ControllerError::InvalidRequest(said),
        ChangeError::LastVoter(_) | ChangeError::NoMajority { .. } => ControllerError::InvalidRequest(said),
        ChangeError::TooSlow { .. } => ControllerError::TimedOut(said),
        ChangeError::Unknown(_) => ControllerError::Unknown(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_through_as_they_were() {
        for (address, host) in
            [("10.0.0.1:19092", "10.0.0.1"), ("[::1]:19092", "::1"), ("db-1:19092", "db-1")]
        {
            let endpoint = endpoint(address).expect("it is one");
            assert_eq!((&*endpoint.host, endpoint.port), (host, 19092));
            let voter = NewVoter { id: BrokerId(4), directory: Uuid([1; 16]), endpoint };
            assert_eq!(voter_of(voter).address, address);
        }
        for none in ["", "host", "host:", "host:x", "host:70000"] {
            assert_eq!(endpoint(none), None, "{none:?}");
        }
    }
}
