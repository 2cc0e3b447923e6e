//! From one node of the quorum to another.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::BrokerId;
use bytes::Bytes;
use openraft::error::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use parking_lot::Mutex;

use crate::members::Voter;
use crate::message::{self, Addressed, Answer, Answered, Request, SnapshotPart};
use crate::snapshot::Checkpoint;
use crate::store::{REQUEST_BYTES_MAX, Store};
use crate::types::{Home, Snapshot, Types, Vote};

/// Why a node could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It cannot be reached at all; asking again at once would be of no use.
    #[error("{0} cannot be reached")]
    Unreachable(String),
    /// No answer came, or none that can be read. Whether the request arrived is not known.
    #[error("no answer from {0}")]
    NoAnswer(String),
}

/// The answer to come.
pub type Sending = Pin<Box<dyn Future<Output = Result<Bytes, SendError>> + Send>>;

/// Carries requests between the nodes of a quorum.
pub trait Network: Send + Sync + 'static {
    /// Sends a request to a node, whose [`crate::Member::handle`] makes the answer. The future is dropped when
    /// nobody waits for it any more; it ends by the deadline.
    fn send(&self, to: &Voter, request: Bytes, deadline: Duration) -> Sending;

    /// A member of the quorum says where it listens, which may be elsewhere than the log has it: who was moved
    /// can reach others, and they cannot reach it.
    fn heard(&self, from: BrokerId, address: &str);
}

/// Who this node is to the others.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) cluster: String,
    pub(crate) from: u64,
    pub(crate) home: Home,
}

/// When a node last answered, where it says that it listens, and which directory it has.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) at: Instant,
    pub(crate) home: Home,
}

/// Of whom was heard.
pub(crate) type HeardOf = Arc<Mutex<BTreeMap<u64, Heard>>>;

/// Makes connections for the library.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) network: Arc<dyn Network>,
    pub(crate) sender: Sender,
    pub(crate) heard: HeardOf,
    pub(crate) store: Arc<Store>,
}

/// A connection to one node.
pub(crate) struct Connection {
    connections: Connections,
    target: Voter,
    target_id: u64,
}

impl RaftNetworkFactory<Types> for Connections {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, home: &Home) -> Connection {
        Connection { connections: self.clone(), target: Voter::of(target, home), target_id: target }
    }
}

fn unreachable(why: impl ToString) -> RPCError<Types> {
    RPCError::Unreachable(Unreachable::from_string(why))
}

fn network(why: impl ToString) -> RPCError<Types> {
    RPCError::Network(NetworkError::from_string(why))
}

impl Connection {
    async fn ask(&self, request: Request, deadline: Duration) -> Result<Answer, RPCError<Types>> {
        let (sender, target) = (&self.connections.sender, self.target());
        let to = Addressed {
            cluster: sender.cluster.clone(),
            from: sender.from,
            home: sender.home.clone(),
            to: self.target_id,
            directory: target.directory,
        };
        let bytes = message::encode_request(&to, &request).map_err(network)?;
        let sent = self.connections.network.send(&target, bytes, deadline).await;
        let answer = sent.map_err(|error| match error {
            SendError::Unreachable(_) => unreachable(error),
            SendError::NoAnswer(_) => network(error),
        })?;
        let (home, answered) = message::decode_answer(&answer).map_err(unreachable)?;
        self.connections.store.check_directory(self.target_id, home.directory).map_err(unreachable)?;
        match answered {
            Answered::Well(answer) => {
                let heard = Heard { at: Instant::now(), home };
                self.connections.heard.lock().insert(self.target_id, heard);
                Ok(answer)
            }
            Answered::NoMember(why) => {
                self.connections.store.leave();
                Err(unreachable(why))
            }
            Answered::Refused(why) => {
                // Also who it is if it does not count yet, for nobody knows its disk.
                let heard = Heard { at: Instant::now(), home };
                self.connections.heard.lock().insert(self.target_id, heard);
                tracing::debug!(node = %self.target.id, %why, "a node of the quorum refused a request");
                Err(unreachable(why))
            }
        }
    }

    /// It may have moved since the library asked for this connection.
    fn target(&self) -> Voter {
        let memory = self.connections.store.memory.lock();
        let home = memory.members.get_node(&self.target_id);
        home.map_or_else(|| self.target.clone(), |home| Voter::of(self.target_id, home))
    }

    async fn part(&self, part: SnapshotPart, deadline: Duration) -> Result<(Vote, u64), RPCError<Types>> {
        match self.ask(Request::Snapshot(part), deadline).await? {
            Answer::Snapshot { vote, next } => Ok((vote, next)),
            _ => Err(unreachable("an answer to something else")),
        }
    }
}

impl RaftNetworkV2<Types> for Connection {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let has_previous = request.prev_log_id.is_some();
        match self.ask(Request::Append(request), option.soft_ttl()).await? {
            // Nothing comes before the first entry that could be in conflict.
            Answer::Append(AppendEntriesResponse::Conflict) if !has_previous => {
                Err(unreachable("a conflict before the first entry"))
            }
            Answer::Append(answer) => Ok(answer),
            _ => Err(unreachable("an answer to something else")),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.ask(Request::Vote(request), option.soft_ttl()).await? {
            Answer::Vote(answer) => Ok(answer),
            _ => Err(unreachable("an answer to something else")),
        }
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.ask(Request::PreVote(request), option.soft_ttl()).await? {
            Answer::Vote(answer) => Ok(answer),
            _ => Err(unreachable("an answer to something else")),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let mut cancel = std::pin::pin!(cancel);
        let checkpoint = Checkpoint::decode_any(&snapshot.snapshot).map_err(|why| unreachable(why.0))?;
        let (id, total) = (checkpoint.id(), snapshot.snapshot.len() as u64);
        drop(checkpoint);
        let mut position = 0u64;
        loop {
            let at = usize::try_from(position).unwrap_or(usize::MAX).min(snapshot.snapshot.len());
            let end = snapshot.snapshot.len().min(at + REQUEST_BYTES_MAX);
            let bytes = snapshot.snapshot.slice(at..end);
            let part = SnapshotPart { vote, id, position, total, bytes };
            let sent = tokio::select! {
                closed = &mut cancel => return Err(StreamingError::Closed(closed)),
                sent = self.part(part, option.hard_ttl()) => sent?,
            };
            let (theirs, next) = sent;
            if end as u64 == total && next == total || theirs > vote {
                return Ok(SnapshotResponse::new(theirs));
            }
            if next > end as u64 || next <= position {
                return Err(unreachable("the snapshot has to be sent again").into());
            }
            position = next;
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        match self.ask(Request::TransferLeader(request), option.soft_ttl()).await? {
            Answer::TransferLeader { taken: true } => Ok(Ok(())),
            Answer::TransferLeader { taken: false } => Err(network("it does not take the lead")),
            _ => Err(unreachable("an answer to something else")),
        }
    }
}
