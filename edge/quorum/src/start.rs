//! How a node takes its place in the quorum.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use openraft::{Config, Raft, ServerState, SnapshotPolicy};
use parking_lot::Mutex;
use storage::disk::Disk;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::change::{Tending, tend_voters};
use crate::error::{OpenError, Stopped};
use crate::machine::{Machine, SnapshotEvery};
use crate::member::{Core, Member, Timing};
use crate::members::Voter;
use crate::network::{Connections, HeardOf, Network, Sender};
use crate::open;
use crate::propose::{Proposed, Proposer, propose_all};
use crate::store::{LogStore, Store};
use crate::tell::{Tell, Teller};
use crate::types::{epoch, node};

/// What a node of a quorum is made of.
pub struct MemberStart {
    /// Where its log is.
    pub disk: Arc<dyn Disk>,
    /// The log directory that has the metadata log, or gets it.
    pub log_dir: PathBuf,
    /// Itself.
    pub me: Voter,
    /// The cluster's id: whoever says another is refused.
    pub cluster_id: String,
    /// Who votes when the cluster begins, itself among them, the same on every node; of no meaning once
    /// there is a log. Each by its directory, if it is known: who is not does not count until the leader has heard
    /// of it. Empty on a node that waits to be added, or to be heard of.
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

fn config(start: &MemberStart) -> Result<Config, OpenError> {
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
        // A leader without a majority is silent for a while, so that those whom it still reaches may elect another
        // with those whom it does not. As short as it may be: a lease, and the longest wait for a vote.
        quorum_loss_probe_interval: Some(2 * timeout),
        backoff: "50ms 100ms 200ms ...500ms".into(),
        ..Config::default()
    };
    config.validate().map_err(|error| OpenError::Quorum(error.to_string()))
}

impl Member {
    /// Opens the log, tells what is known to be committed, and takes its place among the others.
    ///
    /// Needs a Tokio runtime with its clock.
    pub async fn start(mut start: MemberStart) -> Result<Self, OpenError> {
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
        if let Some(vote) = found.memory.vote.as_ref().filter(|vote| vote.leader_id.voted_for != id) {
            // Whoever led may lead still, and then no vote is saved that would tell.
            teller.voted(vote);
        }
        let store =
            Store::start(found.writer, found.memory, teller).map_err(|error| quorum(error.to_string()))?;
        let machine = Machine::new(store.clone(), found.checkpoint.as_ref(), start.snapshot_every);
        let heard = HeardOf::default();
        let sender = Sender { cluster: start.cluster_id.clone(), from: id, home: start.me.home() };
        let connections = Connections {
            network: start.network.clone(),
            sender,
            heard: heard.clone(),
            store: store.clone(),
        };
        let core = Raft::new(id, config, connections, LogStore(store.clone()), machine.clone()).await;
        let core = core.map_err(|error| quorum(error.to_string()))?;
        let (queue, proposals) = unbounded_channel();
        let proposer = Proposer::new(queue, store.clone());
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
            called_at: Mutex::new(Instant::now()),
            changing: Arc::default(),
            network: start.network,
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
        tasks.spawn(tend_voters(Tending {
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
}

/// Tells when this node stops leading although nobody else does: it is no voter any more.
async fn watch_leadership(core: Core, store: Arc<Store>) {
    let mut metrics = core.server_metrics();
    let mut before = ServerState::Learner;
    while metrics.changed().await.is_ok() {
        let (of, state) = {
            let seen = metrics.borrow_watched();
            (epoch(seen.vote.leader_id.term), seen.state)
        };
        if state == ServerState::Learner && before != ServerState::Learner {
            store.leave();
        }
        before = state;
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
