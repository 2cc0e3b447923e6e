//! Who votes: AddRaftVoter and RemoveRaftVoter, asked of the controller.

use base::{BrokerId, Uuid};
use wire::messages::add_raft_voter::{AddRaftVoterRequest, Listener};
use wire::messages::remove_raft_voter::RemoveRaftVoterRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// A node that shall vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVoter {
    /// Its number.
    pub id: BrokerId,
    /// The directory that has its metadata log.
    pub directory: Uuid,
    /// Where other nodes reach it: the name of the listener, host, port.
    pub endpoint: (String, String, u16),
}

/// A node that votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoterId {
    /// Its number.
    pub id: BrokerId,
    /// The directory that has its metadata log.
    pub directory: Uuid,
}

/// Lets nodes vote that follow so far.
#[derive(Debug)]
pub struct AddVoters;

/// Takes votes.
#[derive(Debug)]
pub struct RemoveVoters;

impl Ask for AddVoters {
    type Item = NewVoter;
    type Said = ();
    type Request<'a> = AddRaftVoterRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, voter: &'a NewVoter) -> Name<'a> {
        Name::Broker(voter.id)
    }

    fn route<'a>(&self, _: &'a NewVoter) -> Route<'a> {
        Route::Controller
    }

    fn items_max(&self) -> usize {
        1
    }

    fn request<'a>(&'a self, voters: &[&'a NewVoter], how: &How<'_>) -> AddRaftVoterRequest<'a> {
        let voter = voters[0];
        let (name, host, port) = &voter.endpoint;
        AddRaftVoterRequest {
            cluster_id: None,
            timeout_ms: how.timeout_ms,
            voter_id: voter.id.0,
            voter_directory_id: voter.directory,
            listeners: vec![Listener { name, host, port: *port }],
            ack_when_committed: true,
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        each(Name::All, Refusal::check(said.error_code, said.error_message));
        said.throttle_time_ms
    }
}

impl Ask for RemoveVoters {
    type Item = VoterId;
    type Said = ();
    type Request<'a> = RemoveRaftVoterRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, voter: &'a VoterId) -> Name<'a> {
        Name::Broker(voter.id)
    }

    fn route<'a>(&self, _: &'a VoterId) -> Route<'a> {
        Route::Controller
    }

    fn items_max(&self) -> usize {
        1
    }

    fn request<'a>(&'a self, voters: &[&'a VoterId], _: &How<'_>) -> RemoveRaftVoterRequest<'a> {
        let VoterId { id, directory } = *voters[0];
        RemoveRaftVoterRequest { cluster_id: None, voter_id: id.0, voter_directory_id: directory }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        each(Name::All, Refusal::check(said.error_code, said.error_message));
        said.throttle_time_ms
    }
}
