//! A node of the quorum.
//!
//! ```text
//!   Proposer::propose ─▶ log, here and at a majority ─▶ applied ─▶ Committed ─▶ tell
//!   Network::send ◀────── entries, votes, snapshots ──────▶ Member::handle
//! ```
//!
//! A node alone in its cluster is a quorum of one, by the same code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Offset, TimestampMs};
use openraft::async_runtime::WatchReceiver;
use openraft::{Instant as _, Raft};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::error::Stopped;
use crate::machine::Machine;
use crate::members::Voter;
use crate::network::{HeardOf, Network};
use crate::propose::Proposer;
use crate::snapshot::SnapshotId;
use crate::store::Store;
use crate::types::{Home, Types, Vote, node};

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

/// How long a node waits for its vote while no leader speaks to it, in election timeouts.
const SILENCE_MAX: u32 = 4;

/// A snapshot on its way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) from: u64,
    pub(crate) vote: Vote,
    pub(crate) id: SnapshotId,
    pub(crate) total: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A node that follows the log without a vote.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) home: Home,
    /// Whether it can be given a vote.
    pub(crate) may_vote: bool,
    /// Up to where it has the log.
    pub(crate) end: Offset,
    pub(crate) read_at: TimestampMs,
    pub(crate) caught_up_at: TimestampMs,
}

/// Who reads.
pub(crate) type Readers = BTreeMap<u64, Reader>;

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
    /// When a leader was last heard.
    pub(crate) called_at: Mutex<Instant>,
    /// Held while the members change.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) proposer: Proposer,
    pub(crate) tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl Member {
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

    /// How long ago this node led for certain: what a majority has answered since was sent then, and none of them
    /// had turned to another. `None` if it does not lead, as far as it knows.
    pub fn led_ago(&self) -> Option<Duration> {
        if self.voters().iter().all(|voter| voter.id == self.me.id) {
            return Some(Duration::ZERO);
        }
        let metrics = self.core.metrics();
        let acked = metrics.borrow_watched().last_quorum_acked;
        acked.map(|at| at.into_inner().elapsed())
    }

    /// Waits until this node was taken out of the quorum, or was to get a vote and nobody speaks of it any more.
    /// From then on it hears of nothing here: it goes on as an [`crate::Observer`].
    pub async fn left(&self) {
        let mut left = self.store.left();
        let id = node(self.me.id);
        loop {
            tokio::select! {
                left = left.wait_for(|left| *left) => match left {
                    Ok(_) => return,
                    Err(_) => std::future::pending().await,
                },
                () = tokio::time::sleep(self.timing.election_timeout) => {}
            }
            let silence = self.called_at.lock().elapsed();
            // The log knows it at once; what the library shows is as late as the disk on which it votes.
            let is_voter = self.store.memory.lock().members.voter_ids().any(|voter| voter == id);
            if !is_voter && silence > self.timing.election_timeout * SILENCE_MAX {
                return;
            }
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
