//! A node without a vote: it reads the log of one that has one, and keeps a copy.
//!
//! ```text
//!   next_request ─▶ any voter's Member::handle ─▶ on_answer ─▶ copy on the disk ─▶ tell
//! ```
//!
//! Only what is committed is sent, so a copy is only ever cut where a node was a voter before. Nothing is
//! told beyond what is known to be committed, after a restart neither.
//!
//! Everything blocks: it belongs on a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset};
use bytes::Bytes;
use controller::Committed;
use metadata::Image;
use openraft::EntryPayload;
use records::{Scratch, StoredBatch, whole_batches};
use storage::disk::Disk;

use crate::batch;
use crate::error::{Malformed, OpenError, Stopped};
use crate::machine::{Since, SnapshotEvery};
use crate::members::Voter;
use crate::memory::Memory;
use crate::message::{self, Addressed, Answer, Answered, Read, Request};
use crate::open;
use crate::read_request::ReadRequest;
use crate::serve;
use crate::snapshot::{Checkpoint, SNAPSHOT_BYTES_MAX, SnapshotId};
use crate::store::REQUEST_BYTES_MAX;
use crate::tell::{Tell, Teller};
use crate::types::{StoredMembership, epoch, node};
use crate::writer::{Writer, wall};

/// What to do after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask again at once: there is more.
    More,
    /// There is nothing new; ask again in a while.
    CaughtUp,
}

/// Why an answer was of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// The node that was asked does not want to; another may.
    #[error("the node refused: {0}")]
    Refused(String),
    /// It cannot be read, or does not fit; another node may give a better one.
    #[error("the answer cannot be used: {0}")]
    Malformed(String),
    /// This node must stop.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<Malformed> for ObserveError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

/// What a node that follows without a vote is made of.
pub struct ObserverStart {
    /// Where its copy is.
    pub disk: Arc<dyn Disk>,
    /// The log directory that has the copy, or gets it.
    pub log_dir: PathBuf,
    /// Itself.
    pub me: Voter,
    /// Whether it can be given a vote.
    pub may_vote: bool,
    /// The cluster's id: it says so to those it asks.
    pub cluster_id: String,
    /// When snapshots are taken.
    pub snapshot_every: SnapshotEvery,
    /// Who is told. What the copy is known to have committed is told before [`Observer::open`] returns.
    pub tell: Tell,
}

/// A node that reads the metadata log.
pub struct Observer {
    writer: Writer,
    memory: Memory,
    teller: Teller,
    me: Voter,
    may_vote: bool,
    leader: Option<BrokerId>,
    cluster_id: String,
    every: SnapshotEvery,
    /// The cluster up to where it was told.
    image: Image,
    members: StoredMembership,
    since: Since,
    /// A snapshot on its way in.
    incoming: Option<(SnapshotId, Vec<u8>)>,
    scratch: Scratch,
}

impl Observer {
    /// Opens the copy, or begins one, and tells what is known to be committed.
    pub fn open(start: ObserverStart) -> Result<Self, OpenError> {
        let ObserverStart { disk, log_dir, me, may_vote, cluster_id, snapshot_every, tell } = start;
        let found = open::open(disk, &log_dir, node(me.id))?;
        let mut observer = Self {
            writer: found.writer,
            memory: found.memory,
            teller: Teller::new(node(me.id), tell),
            me,
            may_vote,
            leader: None,
            cluster_id,
            every: snapshot_every,
            image: Image::default(),
            members: StoredMembership::default(),
            since: Since::default(),
            incoming: None,
            scratch: Scratch::default(),
        };
        let quorum = |stopped: Stopped| OpenError::Quorum(stopped.0);
        if observer.memory.vote.is_none() {
            // From here on a vote that is missing is known to be missing.
            observer.writer.vote(None).map_err(quorum)?;
        }
        if let Some(checkpoint) = found.checkpoint {
            observer.finish_reset(&checkpoint).map_err(quorum)?;
            observer.take(checkpoint);
        }
        let committed = observer.memory.committed.and_then(|last| observer.memory.end_of(last.index));
        observer.tell_upto(committed.unwrap_or(Offset::ZERO)).map_err(quorum)?;
        Ok(observer)
    }

    /// Up to where it was told.
    pub fn end(&self) -> Offset {
        self.image.end()
    }

    /// Who leads, as far as it was told.
    pub fn leader(&self) -> Option<BrokerId> {
        self.leader
    }

    /// Who votes, as far as its copy tells: whom to ask.
    pub fn voters(&self) -> Vec<Voter> {
        let voters: std::collections::BTreeSet<u64> = self.memory.members.voter_ids().collect();
        let nodes = self.memory.members.nodes().filter(|(id, _)| voters.contains(id));
        nodes.map(|(id, home)| Voter::of(*id, home)).collect()
    }

    /// What to ask a voter next; it may wait this long if there is nothing new.
    pub fn next_request(&self, to: &Voter, wait_max: Duration) -> Result<Bytes, ObserveError> {
        let request = match &self.incoming {
            Some((id, bytes)) => Request::ReadSnapshot {
                id: *id,
                position: bytes.len() as u64,
                bytes_max: u32::try_from(REQUEST_BYTES_MAX).unwrap_or(u32::MAX),
            },
            None => Request::Read(ReadRequest {
                from: self.memory.end(),
                epoch: self.last_epoch(),
                bytes_max: u32::try_from(REQUEST_BYTES_MAX).unwrap_or(u32::MAX),
                wait_max_ms: u32::try_from(wait_max.as_millis()).unwrap_or(u32::MAX),
                may_vote: self.may_vote,
            }),
        };
        let to = Addressed {
            cluster: self.cluster_id.clone(),
            from: node(self.me.id),
            home: self.me.home(),
            to: node(to.id),
            directory: to.directory,
        };
        message::encode_request(&to, &request).map_err(|error| ObserveError::Malformed(error.to_string()))
    }

    fn last_epoch(&self) -> LeaderEpoch {
        self.memory.last().map_or(LeaderEpoch::NONE, |last| epoch(last.leader_id.term))
    }

    /// Takes an answer to the last request.
    pub fn on_answer(&mut self, answer: &[u8]) -> Result<Next, ObserveError> {
        let (_, answered) = message::decode_answer(answer)?;
        match (answered, self.incoming.take()) {
            // What was begun is gone at that node: begin again with what there is.
            (Answered::Refused(why) | Answered::NoMember(why), _) => Err(ObserveError::Refused(why)),
            (Answered::Well(Answer::Read(read)), None) => self.on_read(read),
            (Answered::Well(Answer::ReadSnapshot { total, bytes }), Some((id, before))) => {
                self.on_part(id, before, total, &bytes)
            }
            (Answered::Well(_), _) => Err(ObserveError::Malformed("an answer to something else".into())),
        }
    }

    fn on_read(&mut self, read: Read) -> Result<Next, ObserveError> {
        match read {
            Read::Records { leader, epoch, high_watermark, batches } => {
                let end = self.memory.end();
                self.append(&batches)?;
                self.leader = leader;
                self.teller.following(epoch, leader);
                self.tell_upto(high_watermark)?;
                Ok(if self.memory.end() > end { Next::More } else { Next::CaughtUp })
            }
            Read::Snapshot(id) if id.offset <= self.image.end() => {
                Err(ObserveError::Malformed(format!("{} is of what is here already", id.file_name())))
            }
            Read::Snapshot(id) => {
                self.incoming = Some((id, Vec::new()));
                Ok(Next::More)
            }
            Read::Diverging { epoch, end } => self.cut(epoch, end),
        }
    }

    fn append(&mut self, bytes: &Bytes) -> Result<(), ObserveError> {
        // All of them are looked at before the first is in memory: what is there must come to the disk.
        let first = self.memory.last().map_or(0, |last| last.index + 1);
        let mut entries = Vec::new();
        for (index, batch) in (first..).zip(whole_batches(bytes)) {
            let raw = batch.map_err(|error| ObserveError::Malformed(error.to_string()))?;
            entries.push(message::checked_entry(index, raw.bytes(), &mut self.scratch)?);
        }
        let mut stored = Vec::new();
        for entry in entries {
            let kept = self.memory.append(entry, wall());
            stored.extend(kept.map_err(|error| self.unusable(&stored, error))?.entry.stored);
        }
        self.writer.append(&stored)?;
        Ok(())
    }

    /// What came before an unusable batch is in memory and not on the disk.
    fn unusable(&self, before: &[Bytes], error: Malformed) -> ObserveError {
        match before.is_empty() {
            true => error.into(),
            false => Stopped(format!("a node of the quorum sent what does not fit: {error}")).into(),
        }
    }

    /// Cuts what the cluster does not have: this node was a voter, and wrote what was never committed.
    fn cut(&mut self, of: LeaderEpoch, end: Offset) -> Result<Next, ObserveError> {
        let upto = end.min(self.memory.end());
        let (_, common) = serve::end_of_epoch(&self.memory, of, upto);
        if common < self.image.end() {
            let told = self.image.end();
            let why =
                format!("the log of the cluster ends at {common}, but it was committed up to {told} before");
            return Err(ObserveError::Malformed(why));
        }
        if common == self.memory.end() {
            return Err(ObserveError::Malformed("it says that the logs differ where they do not".into()));
        }
        let last = self.memory.ending_by(common);
        let end = self.memory.truncate_after(last);
        self.writer.truncate(end)?;
        Ok(Next::More)
    }

    fn on_part(
        &mut self,
        id: SnapshotId,
        mut before: Vec<u8>,
        total: u64,
        bytes: &[u8],
    ) -> Result<Next, ObserveError> {
        before.extend_from_slice(bytes);
        let len = before.len() as u64;
        if total > SNAPSHOT_BYTES_MAX as u64 || len > total || (bytes.is_empty() && len < total) {
            return Err(ObserveError::Malformed(format!("{len} bytes of a snapshot of {total}")));
        }
        if len < total {
            self.incoming = Some((id, before));
            return Ok(Next::More);
        }
        let checkpoint = Checkpoint::decode(id, &before)?;
        if Some(checkpoint.last) <= self.memory.committed {
            return Err(ObserveError::Malformed(format!("{} is of what is here already", id.file_name())));
        }
        self.writer.snapshot(id, &before)?;
        self.memory.snapshot = Some((checkpoint.last, id.offset));
        let start = self.memory.purge(checkpoint.last);
        self.writer.start_at(&start)?;
        self.take(checkpoint);
        Ok(Next::More)
    }

    /// What a snapshot has and the log does not reach: a crash came before the log was begun behind it.
    fn finish_reset(&mut self, checkpoint: &Checkpoint) -> Result<(), Stopped> {
        let is_here = self.memory.get(checkpoint.last.index).map(|kept| kept.entry.log_id);
        if is_here == Some(checkpoint.last) || self.memory.before >= Some(checkpoint.last) {
            return Ok(());
        }
        let start = self.memory.purge(checkpoint.last);
        self.writer.start_at(&crate::files::LogStart {
            void: true,
            offset: checkpoint.image.end(),
            ..start
        })?;
        self.memory.start = checkpoint.image.end();
        Ok(())
    }

    fn take(&mut self, checkpoint: Checkpoint) {
        self.memory.set_members_before(checkpoint.last, checkpoint.members.membership().clone());
        self.memory.committed = self.memory.committed.max(Some(checkpoint.last));
        self.writer.committed(checkpoint.image.end());
        self.image = checkpoint.image.clone();
        self.members = checkpoint.members;
        self.since = Since::default();
        self.teller.snapshot(checkpoint.image);
    }

    /// Tells what is committed, as far as it is here.
    fn tell_upto(&mut self, high_watermark: Offset) -> Result<(), Stopped> {
        let from = self.image.end();
        let due: Vec<_> =
            self.memory.behind(from).take_while(|kept| kept.end <= high_watermark).cloned().collect();
        for kept in due {
            let stored = kept.entry.stored.clone().unwrap_or_default();
            let mut records = Vec::new();
            let batch = StoredBatch::trust(&stored).map_err(|error| Stopped(error.to_string()))?;
            let read = batch::metadata_records(&batch, &mut self.scratch, &mut records);
            read.map_err(|(offset, error)| Stopped(format!("at offset {offset}: {error}")))?;
            self.image = self.image.after(&records, kept.end).0;
            if let EntryPayload::Membership(members) = &kept.entry.payload {
                self.members = StoredMembership::new(Some(kept.entry.log_id), members.clone());
            }
            self.memory.committed = Some(kept.entry.log_id);
            self.since.bytes += stored.len() as u64;
            self.since.batches += 1;
            let of = epoch(kept.entry.log_id.leader_id.term);
            self.teller.committed(Committed { epoch: of, records, end: kept.end });
        }
        self.writer.committed(self.image.end());
        self.writer.note_now_and_then()?;
        self.snapshot_if_due()
    }

    fn snapshot_if_due(&mut self) -> Result<(), Stopped> {
        let Since { at, bytes, batches } = &self.since;
        let is_due = *batches > 0 && self.every.is_due(*bytes, *batches, at.elapsed());
        let Some(last) = self.memory.committed.filter(|_| is_due) else { return Ok(()) };
        let checkpoint = Checkpoint { last, members: self.members.clone(), image: self.image.clone() };
        let bytes = checkpoint.encode(wall()).map_err(|error| Stopped(error.0))?;
        self.writer.snapshot(checkpoint.id(), &bytes)?;
        self.memory.snapshot = Some((last, self.image.end()));
        let start = self.memory.purge(last);
        self.since = Since::default();
        self.writer.start_at(&start)
    }

    /// Ends an orderly life.
    pub fn close(mut self) -> Result<(), Stopped> {
        self.writer.close()
    }
}

/// Whether a request comes from a leader that takes this node for a member of the quorum. Then it is one: its
/// observer is closed, and [`crate::Member::start`] goes on with the log. A voter whose disk was replaced is not who
/// the leader calls.
pub fn is_call(request: &[u8], cluster_id: &str, me: &Voter) -> bool {
    let Ok((addressed, mut body)) = message::decode_addressed(request) else { return false };
    let is_me = addressed.to == node(me.id) && me.directory == addressed.directory;
    let is_ours = addressed.cluster == cluster_id && is_me;
    is_ours && matches!(message::decode_request(&mut body), Ok(Request::Append(_) | Request::Snapshot(_)))
}

/// The answer of a node that is no member of the quorum.
pub fn refuse(me: &Voter, why: &str) -> Bytes {
    message::encode_answer(&me.home(), &Answered::Refused(why.to_owned()))
}
