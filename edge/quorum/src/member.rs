//! A node of the quorum.
//!
//! ```text
//!   Proposer::propose ─▶ log, here and at a majority ─▶ applied ─▶ Committed ─▶ tell
//!   Network::send ◀────── entries, votes, snapshots ──────▶ Member::handle
//! ```
//!
//! A node alone in its cluster is a quorum of one, by the same code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::LeaderEpoch;
use bytes::Bytes;
use controller::{MetadataQuorum, Proposal};
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, Fatal, ForwardReason, InitializeError, RaftError};
use openraft::raft::ClientWriteResult;
use openraft::{Config, Raft, ServerState, SnapshotPolicy};
use parking_lot::Mutex;
use storage::disk::Disk;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::batch;
use crate::error::{OpenError, Stopped};
use crate::machine::{Machine, SnapshotEvery};
use crate::members::Voter;
use crate::network::{Connections, HeardOf, Network, Sender};
use crate::open;
use crate::receive::Incoming;
use crate::serve::Readers;
use crate::store::{LogStore, Store};
use crate::tell::{Tell, Teller};
use crate::types::{Answer, CommittedLeaderId, Records, Types, epoch, node};
use crate::writer::wall;

pub(crate) type Core = Raft<Types, Machine>;

/// When the nodes of a quorum lose patience with each other. Nothing here looks at a wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader lets itself be heard.
    pub heartbeat: Duration,
    /// A follower that has heard nothing for twice this at most stands for election.
    pub election_timeout: Duration,
}

impl Default for Timing {
    /// The loss of a leader is settled within a second and a little.
    fn default() -> Self {
        Self { heartbeat: Duration::from_millis(100), election_timeout: Duration::from_millis(500) }
    }
}

/// What a node of a quorum is made of.
pub struct Start {
    /// Where its log is.
    pub disk: Arc<dyn Disk>,
    /// The log directory that has the metadata log, or gets it.
    pub log_dir: PathBuf,
    /// Itself.
    pub me: Voter,
    /// The cluster's id: whoever says another is refused.
    pub cluster_id: String,
    /// Who votes when the cluster begins, itself among them, the same on every node; of no meaning once
    /// there is a log. Empty on a node that waits to be added.
    pub voters: Vec<Voter>,
    /// How the others are reached.
    pub network: Arc<dyn Network>,
    /// When patience ends.
    pub timing: Timing,
    /// When snapshots are taken.
    pub snapshot_every: SnapshotEvery,
    /// Who is told of what is committed and of who leads. What the disk knew to be committed is told before
    /// [`Member::start`] returns.
    pub tell: Tell,
}

/// A node of the quorum.
pub struct Member {
    pub(crate) core: Core,
    pub(crate) store: Arc<Store>,
    pub(crate) machine: Machine,
    pub(crate) me: Voter,
    pub(crate) cluster_id: String,
    pub(crate) timing: Timing,
    pub(crate) heard: HeardOf,
    pub(crate) readers: Mutex<Readers>,
    pub(crate) incoming: Mutex<Option<Incoming>>,
    /// Held while the members change.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    proposer: Proposer,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

fn config(start: &Start) -> Result<Config, OpenError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let timeout = millis(start.timing.election_timeout);
    let config = Config {
        cluster_name: start.cluster_id.clone(),
        heartbeat_interval: millis(start.timing.heartbeat),
        election_timeout_min: timeout / 2,
        election_timeout_max: timeout,
        // Of one part of it.
        install_snapshot_timeout: 10_000,
        max_payload_entries: 1_000,
        max_append_entries: Some(1_000),
        // As long as the entries are there they are sent: a snapshot is larger.
        replication_lag_threshold: u64::MAX / 2,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: start.snapshot_every.batches / 10,
        enable_pre_vote: Some(true),
        // A leader that comes back is elected again, in an epoch of its own: what it proposed before may be
        // committed meanwhile, or not.
        enable_leader_restore: Some(false),
        backoff: "50ms 100ms 200ms ...500ms".into(),
        ..Config::default()
    };
    config.validate().map_err(|error| OpenError::Quorum(error.to_string()))
}

impl Member {
    /// Opens the log, tells what is known to be committed, and takes its place among the others.
    ///
    /// Needs a Tokio runtime with its clock.
    pub async fn start(mut start: Start) -> Result<Self, OpenError> {
        let id = node(start.me.id);
        let config = Arc::new(config(&start)?);
        let quorum = |error: String| OpenError::Quorum(error);
        let (disk, log_dir, home) = (start.disk.clone(), start.log_dir.clone(), start.me.home());
        let found = tokio::task::spawn_blocking(move || {
            let mut found = open::open(disk, &log_dir, id)?;
            if found.is_alone {
                open::adopt(&mut found, home)?;
            }
            Ok::<_, OpenError>(found)
        });
        let found = found.await.map_err(|error| quorum(error.to_string()))??;
        if let Some(cut) = &found.cut {
            tracing::warn!(at = %cut.at, bytes = cut.bytes, damage = %cut.damage, "cut a torn end off the metadata log");
        }
        let is_fresh = found.memory.last().is_none() && found.memory.vote.is_none();
        let tell = std::mem::replace(&mut start.tell, Box::new(|_| {}));
        let teller = Arc::new(Teller::new(id, tell));
        let store =
            Store::start(found.writer, found.memory, teller).map_err(|error| quorum(error.to_string()))?;
        let machine = Machine::new(store.clone(), found.checkpoint.as_ref(), start.snapshot_every);
        let heard = HeardOf::default();
        let sender = Sender { cluster: start.cluster_id.clone(), from: id, directory: start.me.directory };
        let connections = Connections {
            network: start.network.clone(),
            sender,
            heard: heard.clone(),
            store: store.clone(),
        };
        let core = Raft::new(id, config, connections, LogStore(store.clone()), machine.clone()).await;
        let core = core.map_err(|error| quorum(error.to_string()))?;
        let (queue, proposals) = unbounded_channel();
        let proposer = Proposer { queue, store: store.clone() };
        let mut member = Self {
            core,
            store,
            machine,
            me: start.me.clone(),
            cluster_id: start.cluster_id.clone(),
            timing: start.timing,
            heard,
            readers: Mutex::default(),
            incoming: Mutex::new(None),
            changing: Arc::default(),
            proposer,
            tasks: tokio::sync::Mutex::default(),
        };
        member.spawn(proposals);
        if is_fresh && !start.voters.is_empty() {
            member.bootstrap(&start.voters).await?;
        }
        member.elect_first(is_fresh).await;
        Ok(member)
    }

    fn spawn(&mut self, proposals: UnboundedReceiver<Proposed>) {
        let tasks = self.tasks.get_mut();
        tasks.spawn(propose_all(self.core.clone(), self.store.clone(), proposals, self.timing.heartbeat));
        tasks.spawn(watch_leadership(self.core.clone(), self.store.clone()));
        tasks.spawn(watch_errors(self.core.clone(), self.store.clone()));
        tasks.spawn(crate::change::note_directories(crate::change::Noting {
            core: self.core.clone(),
            heard: self.heard.clone(),
            changing: self.changing.clone(),
            me: self.me.clone(),
            every: self.timing.election_timeout,
        }));
        let (core, due) = (self.core.clone(), self.machine.snapshot_due.clone());
        tasks.spawn(async move {
            loop {
                due.notified().await;
                if core.trigger().snapshot().await.is_err() {
                    return;
                }
            }
        });
    }

    async fn bootstrap(&self, voters: &[Voter]) -> Result<(), OpenError> {
        let nodes: BTreeMap<_, _> = voters.iter().map(|voter| (node(voter.id), voter.home())).collect();
        match self.core.initialize(nodes).await {
            // Somebody else was faster, and this node has heard of it.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(error) => Err(OpenError::Quorum(error.to_string())),
        }
    }

    /// Who is alone need not wait to hear of others; and of those who begin together one goes first.
    async fn elect_first(&self, is_fresh: bool) {
        let id = node(self.me.id);
        let voters: Vec<u64> = self.core.voter_ids().collect();
        let is_alone = voters == [id];
        let is_first = is_fresh && voters.iter().min() == Some(&id);
        if is_alone || is_first {
            // If it has stopped, that is told elsewhere.
            let _ = self.core.trigger().elect(!is_alone).await;
        }
    }

    /// Proposes for the controller of this node.
    pub fn proposer(&self) -> Proposer {
        self.proposer.clone()
    }

    /// Waits until the quorum of this node cannot go on, and says why. The node must stop then.
    pub async fn stopped(&self) -> Stopped {
        let mut stopped = self.store.stopped();
        match stopped.wait_for(Option::is_some).await {
            Ok(stopped) => stopped.clone().unwrap_or_else(|| Stopped("it was closed".into())),
            Err(_) => Stopped("it was closed".into()),
        }
    }

    /// Ends an orderly life: nothing is told any more once it returns.
    pub async fn close(&self) {
        let mut tasks = self.tasks.lock().await;
        tasks.abort_all();
        if let Err(error) = self.core.shutdown().await {
            tracing::warn!(%error, "the metadata quorum did not end in order");
        }
        while tasks.join_next().await.is_some() {}
        let store = self.store.clone();
        // A panic of it was told already.
        let _ = tokio::task::spawn_blocking(move || store.close()).await;
    }
}

struct Proposed {
    term: u64,
    batch: Bytes,
}

/// Proposes to the quorum. A clone proposes to the same.
#[derive(Clone)]
pub struct Proposer {
    queue: UnboundedSender<Proposed>,
    store: Arc<Store>,
}

impl MetadataQuorum for Proposer {
    fn propose(&mut self, proposal: Proposal) {
        let Ok(term) = u64::try_from(proposal.epoch.0) else { return };
        match batch::propose(&proposal.records, wall()) {
            // If the quorum has stopped, nothing is committed any more.
            Ok(batch) => drop(self.queue.send(Proposed { term, batch })),
            // No record of the epoch may be committed after one that was not, and there is no way back.
            Err(error) => self.store.stop(Stopped(format!("it cannot commit what it decided: {error}"))),
        }
    }
}

/// Hands proposals on, in order, each only when the one before was taken. After one that was refused none of
/// its epoch is taken: it is over.
async fn propose_all(
    core: Core,
    store: Arc<Store>,
    mut proposals: UnboundedReceiver<Proposed>,
    heartbeat: Duration,
) {
    let mut over = LeaderEpoch::NONE;
    while let Some(proposed) = proposals.recv().await {
        let of = epoch(proposed.term);
        while of > over {
            match propose(&core, &proposed).await {
                Ok(Taken::Yes) => break,
                Ok(Taken::NotYet) => tokio::time::sleep(heartbeat).await,
                Ok(Taken::No) => over = of,
                Err(error) => {
                    store.stop(Stopped(error.to_string()));
                    return;
                }
            }
        }
    }
}

/// Whether a proposal is in the leader's log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    /// A majority was not heard of for a while. That may pass, and the epoch with it or not.
    NotYet,
    /// This node does not lead the epoch any more, or is about to hand it over.
    No,
}

async fn propose(core: &Core, proposed: &Proposed) -> Result<Taken, Fatal<Types>> {
    let refused = Arc::new(Mutex::new(None));
    let told = refused.clone();
    let answer = Answer::new(move |outcome: ClientWriteResult<Types>| {
        if let Err(error) = outcome {
            *told.lock() = Some(error);
        }
    });
    let records = Records(proposed.batch.clone());
    core.write(records).with_leader(CommittedLeaderId::new(proposed.term)).responder(answer).await?;
    // What is asked next is answered next: then a refusal is known.
    core.with_raft_state(|_| ()).await?;
    let refused = refused.lock().take();
    Ok(match refused {
        None => Taken::Yes,
        Some(ClientWriteError::ForwardToLeader(to)) if to.reason == ForwardReason::LeaseExpired => {
            Taken::NotYet
        }
        Some(error) => {
            tracing::debug!(%error, epoch = proposed.term, "a proposal was not taken");
            Taken::No
        }
    })
}

/// Tells when this node stops leading although nobody else does: it is no voter any more.
async fn watch_leadership(core: Core, store: Arc<Store>) {
    let mut metrics = core.server_metrics();
    while metrics.changed().await.is_ok() {
        let (of, state) = {
            let seen = metrics.borrow_watched();
            (epoch(seen.vote.leader_id.term), seen.state)
        };
        let has_left = matches!(state, ServerState::Follower | ServerState::Learner);
        if has_left && store.teller.led() == Some(of) {
            store.teller.following(of, None);
        }
    }
}

async fn watch_errors(core: Core, store: Arc<Store>) {
    let mut metrics = core.metrics();
    loop {
        let failed = metrics.borrow_watched().running_state.clone();
        if let Err(error) = failed {
            store.stop(Stopped(error.to_string()));
            return;
        }
        if metrics.changed().await.is_err() {
            store.stop(Stopped("its core has ended".into()));
            return;
        }
    }
}
