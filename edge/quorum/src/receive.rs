//! What comes from other nodes.
//!
//! Who may ask: a node of this cluster that is a member of the quorum, with the directory it is known by. A
//! member may be unknown to a node that is behind; then what it says is beyond what this node has.

use std::time::Instant;

use bytes::Bytes;
use openraft::raft::AppendEntriesRequest;

use crate::member::{Incoming, Member};
use crate::message::{self, Addressed, Answered, Request, SnapshotPart};
use crate::snapshot::{Checkpoint, SNAPSHOT_BYTES_MAX, SnapshotId};
use crate::types::{LogId, Snapshot, Types, Vote, broker, node};

/// Why a request is refused.
struct Refusal {
    why: String,
    is_no_member: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self { why, is_no_member: false }
    }
}

fn refused(why: impl ToString) -> String {
    why.to_string()
}

impl Member {
    /// Answers a request of another node, as [`crate::Network::send`] carried it.
    pub async fn handle(&self, request: Bytes) -> Bytes {
        let answered = match self.answer(&request).await {
            Ok(answer) => Answered::Well(answer),
            Err(Refusal { why, is_no_member }) => {
                tracing::debug!(%why, "refused a request to the metadata quorum");
                if is_no_member { Answered::NoMember(why) } else { Answered::Refused(why) }
            }
        };
        message::encode_answer(&self.me.home(), &answered)
    }

    async fn answer(&self, bytes: &[u8]) -> Result<message::Answer, Refusal> {
        let (addressed, mut body) = message::decode_addressed(bytes).map_err(refused)?;
        self.check_cluster(&addressed)?;
        let request = message::decode_request(&mut body).map_err(refused)?;
        self.check_disk(&addressed, &request)?;
        self.check_member(&addressed, &request)?;
        let is_known = || self.store.memory.lock().members.get_node(&addressed.from).is_some();
        if !request.is_read() && is_known() {
            self.network.heard(broker(addressed.from), &addressed.home.address);
        }
        match request {
            Request::Append(append) => {
                self.check_append(&append)?;
                *self.called_at.lock() = Instant::now();
                Ok(message::Answer::Append(self.core.append_entries(append).await.map_err(refused)?))
            }
            Request::Vote(vote) => Ok(message::Answer::Vote(self.core.vote(vote).await.map_err(refused)?)),
            Request::PreVote(vote) => {
                Ok(message::Answer::Vote(self.core.pre_vote(vote).await.map_err(refused)?))
            }
            Request::Snapshot(part) => {
                *self.called_at.lock() = Instant::now();
                Ok(self.take_part(addressed.from, part).await?)
            }
            Request::TransferLeader(transfer) => {
                let taken = self.core.handle_transfer_leader(transfer).await.map_err(refused)?;
                Ok(message::Answer::TransferLeader { taken: taken.is_ok() })
            }
            Request::Read(read) => Ok(message::Answer::Read(self.read(&addressed, &read).await)),
            Request::ReadSnapshot { id, position, bytes_max } => {
                Ok(self.read_snapshot(id, position, bytes_max).await?)
            }
        }
    }

    fn check_cluster(&self, from: &Addressed) -> Result<(), String> {
        if from.cluster != self.cluster_id {
            return Err(format!(
                "this is cluster {}, not {}",
                self.cluster_id,
                base::excerpt(&from.cluster, 64)
            ));
        }
        if from.to != node(self.me.id) {
            return Err(format!("this is node {}, not {}", self.me.id, from.to));
        }
        if from.from == from.to {
            return Err(format!("node {} is here", from.to));
        }
        Ok(())
    }

    /// Whether this node is whom a voter or a leader means: one with the disk on which its votes are. Who has got
    /// another one since has forgotten for whom it voted, and what it said it had. As long as nobody knows its disk
    /// that could be so of any: it answers who it is, the leader puts that down, and then it counts.
    fn check_disk(&self, to: &Addressed, request: &Request) -> Result<(), String> {
        let (id, known, has) = (self.me.id, to.directory, self.me.directory);
        if request.is_read() || known == has {
            return Ok(());
        }
        let (own, is_new) = {
            let memory = self.store.memory.lock();
            let own = memory.members.get_node(&node(id)).map(|home| home.directory);
            // Who was given a vote since has the log with it.
            (own, memory.last().is_none_or(|last| last.leader_id.term == 0))
        };
        if known.is_zero() {
            return match own == Some(has) {
                // The log on this disk is this voter's: nothing was forgotten.
                true => Ok(()),
                false => Err(format!("node {id} has directory {has}, which nobody has put down yet")),
            };
        }
        if is_new && self.store.leave() {
            tracing::error!(
                votes_with = %known, %has,
                "the disk with which this node votes on the metadata is gone: it follows without a vote, and the others \
                 fill its partitions; `vltava cluster add {id}` gives its vote to the disk that it has now"
            );
        }
        Err(format!("node {id} has directory {has}, not {known}"))
    }

    fn check_member(&self, from: &Addressed, request: &Request) -> Result<(), Refusal> {
        let (says, is_reader) = match request {
            Request::Append(append) => (newest_of(append), false),
            Request::Vote(vote) | Request::PreVote(vote) => (vote.last_log_id, false),
            Request::Snapshot(_) => (None, false),
            Request::TransferLeader(transfer) => (transfer.last_log_id().copied(), false),
            Request::Read(_) | Request::ReadSnapshot { .. } => (None, true),
        };
        // Who leads, and is known by another disk, may have been given its vote anew where this node has not come yet.
        let may_be_news = match request {
            Request::Append(_) => says > self.store.memory.lock().last(),
            Request::Snapshot(_) => true,
            _ => false,
        };
        if !is_reader && !may_be_news {
            self.store.check_directory(from.from, from.home.directory)?;
        }
        let memory = self.store.memory.lock();
        match memory.members.get_node(&from.from) {
            _ if is_reader => Ok(()),
            Some(_) => Ok(()),
            None if memory.members.nodes().next().is_none() => Ok(()),
            // It may have become a member where this node has not come yet.
            None if says > memory.last() => Ok(()),
            None if matches!(request, Request::Snapshot(_)) => Ok(()),
            None => {
                let why = format!("node {} is no member of the quorum", from.from);
                Err(Refusal { why, is_no_member: true })
            }
        }
    }

    /// What contradicts what is committed would stop this node: it is refused before.
    fn check_append(&self, append: &AppendEntriesRequest<Types>) -> Result<(), String> {
        let memory = self.store.memory.lock();
        let Some(committed) = memory.committed else { return Ok(()) };
        for said in append.entries.iter().map(|entry| entry.log_id).chain(append.prev_log_id) {
            let here = memory.get(said.index).map(|kept| kept.entry.log_id);
            if said.index <= committed.index && here.is_some_and(|here| here != said) {
                return Err(format!("entry {said} contradicts what is committed"));
            }
        }
        Ok(())
    }

    async fn take_part(&self, from: u64, part: SnapshotPart) -> Result<message::Answer, String> {
        let ours = self.store.memory.lock().vote;
        if let Some(vote) = ours.filter(|ours| *ours > part.vote) {
            return Ok(message::Answer::Snapshot { vote, next: 0 });
        }
        let (vote, id) = (part.vote, part.id);
        let next = match self.put_part(from, part)? {
            Some(bytes) => return self.install(vote, id, bytes).await,
            None => self.incoming.lock().as_ref().map_or(0, |incoming| incoming.bytes.len() as u64),
        };
        Ok(message::Answer::Snapshot { vote, next })
    }

    /// Puts a part where it belongs; all of it, once it is all there.
    fn put_part(&self, from: u64, part: SnapshotPart) -> Result<Option<Vec<u8>>, String> {
        if part.total > SNAPSHOT_BYTES_MAX as u64 || part.position + part.bytes.len() as u64 > part.total {
            return Err(format!("a snapshot of {} bytes", part.total));
        }
        if !part.vote.committed {
            return Err("a snapshot of one who was not elected".into());
        }
        let mut incoming = self.incoming.lock();
        if part.position == 0 {
            let SnapshotPart { vote, id, total, .. } = part;
            *incoming = Some(Incoming { from, vote, id, total, bytes: Vec::new() });
        }
        let Some(under_way) = incoming.as_mut() else { return Ok(None) };
        let is_same = (under_way.from, under_way.vote, under_way.id, under_way.total)
            == (from, part.vote, part.id, part.total);
        if !is_same {
            return Err("another snapshot is on its way".into());
        }
        if under_way.bytes.len() as u64 == part.position {
            under_way.bytes.extend_from_slice(&part.bytes);
        }
        let is_whole = under_way.bytes.len() as u64 == under_way.total;
        Ok(if is_whole { incoming.take().map(|whole| whole.bytes) } else { None })
    }

    async fn install(&self, vote: Vote, id: SnapshotId, bytes: Vec<u8>) -> Result<message::Answer, String> {
        let total = bytes.len() as u64;
        let bytes = Bytes::from(bytes);
        let read = bytes.clone();
        let checkpoint = tokio::task::spawn_blocking(move || Checkpoint::decode(id, &read));
        let checkpoint = checkpoint.await.map_err(refused)?.map_err(refused)?;
        let last = checkpoint.last;
        if last.leader_id.term > vote.leader_id.term {
            return Err("a snapshot beyond the epoch of its leader".into());
        }
        let committed = self.store.memory.lock().committed;
        if committed.is_some_and(|committed| last > committed && last.index <= committed.index) {
            return Err(format!("a snapshot up to {last} contradicts what is committed"));
        }
        let snapshot = Snapshot { meta: checkpoint.meta(), snapshot: bytes };
        let response = self.core.install_full_snapshot(vote, snapshot).await.map_err(refused)?;
        Ok(message::Answer::Snapshot { vote: response.vote, next: total })
    }
}

/// The newest entry that a leader says it knows of.
fn newest_of(append: &AppendEntriesRequest<Types>) -> Option<LogId> {
    let last = append.entries.last().map(|entry| entry.log_id);
    last.max(append.prev_log_id).max(append.leader_commit)
}
