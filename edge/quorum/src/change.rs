//! Changing who votes, and who leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset, TimestampMs, Uuid};
use openraft::async_runtime::WatchReceiver;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, Instant as _};

use crate::member::{Core, Member, Reader};
use crate::members::Voter;
use crate::network::{Heard, HeardOf};
use crate::types::{Home, Membership, Types, broker, epoch, node};
use crate::writer::wall;

/// How far behind a new voter may be when it gets its vote: a few requests.
const LAG_MAX: u64 = 100;

/// How long one who reads is counted among those who follow after it was last heard: as in Kafka.
const READER_SESSION_MS: i64 = 300_000;

/// Why the quorum was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Another node leads, or none does.
    #[error("this node does not lead the metadata quorum")]
    NotLeader {
        /// Who does, if that is known.
        leader: Option<BrokerId>,
    },
    /// Another change is not done yet.
    #[error("another change of the metadata quorum is under way; try again when it is done")]
    InProgress,
    /// It is a voter already.
    #[error("node {0} is a voter already")]
    AlreadyVoter(BrokerId),
    /// It does not want to.
    #[error("node {0} cannot vote: its process.roles has no controller")]
    MayNotVote(BrokerId),
    /// It is no voter.
    #[error("node {0} is no voter of the metadata quorum")]
    NotVoter(BrokerId),
    /// Nobody would be left.
    #[error("node {0} is the last voter of the metadata quorum")]
    LastVoter(BrokerId),
    /// Too few of those that stay answer: the quorum would stand still without it. Nothing was changed.
    #[error(
        "without node {id} the metadata quorum would need {needed} of its voters, and nodes {silent:?} do not answer; \
         start them again, or remove them first"
    )]
    NoMajority {
        /// Who was to go.
        id: BrokerId,
        /// How many of those that stay have to be there.
        needed: usize,
        /// Who of them is not.
        silent: Vec<i32>,
    },
    /// It did not get there in time; nothing was changed.
    #[error(
        "node {id} at {address} did not catch up with the metadata within {after_ms} ms; see whether it runs and can be reached"
    )]
    TooSlow {
        /// The node.
        id: BrokerId,
        /// Where it was tried.
        address: String,
        /// How long.
        after_ms: u64,
    },
    /// Whether it was changed is not known.
    #[error("the change of the metadata quorum may or may not have been made: {0}")]
    Unknown(String),
}

/// A quorum at a glance: what DescribeQuorum tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumStatus {
    /// Who leads, as far as this node knows.
    pub leader: Option<BrokerId>,
    /// The epoch that this node is in.
    pub epoch: LeaderEpoch,
    /// Up to where the log is committed, as far as this node knows.
    pub high_watermark: Offset,
    /// Who votes.
    pub voters: Vec<ReplicaStatus>,
    /// Who follows without a vote.
    pub observers: Vec<ReplicaStatus>,
}

/// A node that has the metadata log. What is not known of it is known to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The node.
    pub id: BrokerId,
    /// Where other nodes reach it; empty if it does not say.
    pub address: String,
    /// Its directory.
    pub directory: Uuid,
    /// Up to where it has the log; `None` if not known.
    pub log_end: Option<Offset>,
    /// When it was last heard of; [`TimestampMs::NONE`] if not known.
    pub heard_at: TimestampMs,
    /// When it last had all that was committed; [`TimestampMs::NONE`] if not known.
    pub caught_up_at: TimestampMs,
}

impl Member {
    /// The quorum as this node knows it.
    pub fn status(&self) -> QuorumStatus {
        let metrics = self.core.metrics().borrow_watched().clone();
        let high_watermark = self.machine.end();
        let me = node(self.me.id);
        let memory = self.store.memory.lock();
        let voters: BTreeSet<u64> = memory.members.voter_ids().collect();
        let heard = self.heard.lock();
        let now = wall();
        let of = |id: u64, home: &Home| {
            let matched = metrics.replication.as_ref().and_then(|all| all.get(&id).copied().flatten());
            let log_end =
                if id == me { Some(memory.end()) } else { matched.and_then(|at| memory.end_of(at.index)) };
            let ago = heard.get(&id).map(|heard| heard.at.elapsed());
            let heard_at = match ago {
                _ if id == me => now,
                Some(ago) => {
                    TimestampMs(now.0.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
                }
                None => TimestampMs::NONE,
            };
            let has_all = log_end.is_some_and(|end| end >= high_watermark);
            let directory = if id == me { self.me.directory } else { home.directory };
            ReplicaStatus {
                id: broker(id),
                address: home.address.clone(),
                directory,
                log_end,
                heard_at,
                caught_up_at: if has_all { heard_at } else { TimestampMs::NONE },
            }
        };
        let (voting, learning): (Vec<_>, Vec<_>) =
            memory.members.nodes().partition(|(id, _)| voters.contains(id));
        let mut observers: Vec<_> = learning.into_iter().map(|(id, home)| of(*id, home)).collect();
        let readers = self.readers.lock();
        let is_here = |id: &u64, reader: &Reader| {
            // A voter that got another disk is told beside who it was.
            let member = memory.members.get_node(id);
            let is_member =
                member.is_some_and(|it| it.directory.is_zero() || it.directory == reader.home.directory);
            !is_member && now.0.saturating_sub(reader.read_at.0) < READER_SESSION_MS
        };
        observers.extend(readers.iter().filter(|(id, reader)| is_here(id, reader)).map(|(id, reader)| {
            ReplicaStatus {
                id: broker(*id),
                address: reader.home.address.clone(),
                directory: reader.home.directory,
                log_end: Some(reader.end),
                heard_at: reader.read_at,
                caught_up_at: reader.caught_up_at,
            }
        }));
        QuorumStatus {
            leader: metrics.current_leader.map(broker),
            epoch: epoch(metrics.vote.leader_id.term),
            high_watermark,
            voters: voting.into_iter().map(|(id, home)| of(*id, home)).collect(),
            observers,
        }
    }

    /// Who votes, as far as this node knows: where each can be asked.
    pub fn voters(&self) -> Vec<Voter> {
        let memory = self.store.memory.lock();
        let ids: BTreeSet<u64> = memory.members.voter_ids().collect();
        let nodes = memory.members.nodes().filter(|(id, _)| ids.contains(id));
        nodes.map(|(id, home)| Voter::of(*id, home)).collect()
    }

    fn voter_ids(&self) -> BTreeSet<u64> {
        self.core.voter_ids().collect()
    }

    fn check_leads(&self) -> Result<(), ChangeError> {
        match self.core.is_leader() {
            true => Ok(()),
            false => {
                let leader = self.core.server_metrics().borrow_watched().current_leader;
                Err(ChangeError::NotLeader { leader: leader.map(broker) })
            }
        }
    }

    /// Gives a node a vote: it follows first, and votes once it has nearly all of the log. Only the leader can.
    pub async fn add_voter(&self, voter: Voter, within: Duration) -> Result<(), ChangeError> {
        self.check_leads()?;
        let _changing = self.changing.try_lock().map_err(|_| ChangeError::InProgress)?;
        self.finish().await?;
        let id = node(voter.id);
        if self.voter_ids().contains(&id) {
            return Err(ChangeError::AlreadyVoter(voter.id));
        }
        if self.readers.lock().get(&id).is_some_and(|reader| !reader.may_vote) {
            return Err(ChangeError::MayNotVote(voter.id));
        }
        if members(&self.core).get_node(&id).is_some_and(|known| known.directory != voter.directory) {
            // What the disk had that it was added with before is not on this one.
            self.change(ChangeMembers::RemoveNodes([id].into()), true).await?;
        }
        let nodes: BTreeMap<_, _> = [(id, voter.home())].into();
        // In place of one that was added before and never got its vote.
        self.change(ChangeMembers::SetNodes(nodes), true).await?;
        if tokio::time::timeout(within, self.is_close(id)).await.is_err() {
            self.change(ChangeMembers::RemoveNodes([id].into()), true).await?;
            let after_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            return Err(ChangeError::TooSlow { id: voter.id, address: voter.address, after_ms });
        }
        self.change(ChangeMembers::AddVoterIds([id].into()), false).await
    }

    /// Takes a node's vote, and the node out of the quorum. Only the leader can, itself too: it leads on until
    /// that is committed.
    pub async fn remove_voter(&self, id: BrokerId) -> Result<(), ChangeError> {
        self.check_leads()?;
        let _changing = self.changing.try_lock().map_err(|_| ChangeError::InProgress)?;
        self.finish().await?;
        self.check_removal(id).await?;
        self.change(ChangeMembers::RemoveVoters([node(id)].into()), false).await
    }

    /// Whether a voter may be removed: a change that those who stay cannot commit would never end, and nothing else be
    /// committed behind it. Waits a moment for those who have not answered yet, as when this node has just begun to lead.
    pub async fn check_removal(&self, id: BrokerId) -> Result<(), ChangeError> {
        self.check_leads()?;
        let mut stay = self.voter_ids();
        if !stay.remove(&node(id)) {
            return Err(ChangeError::NotVoter(id));
        }
        if stay.is_empty() {
            return Err(ChangeError::LastVoter(id));
        }
        let needed = stay.len() / 2 + 1;
        let lately = self.timing.election_timeout * 2;
        let silent = || self.silent_for(lately, &stay);
        let are_enough = || stay.len() - silent().len() >= needed;
        let mut metrics = self.core.metrics();
        let answers = async { while !are_enough() && metrics.changed().await.is_ok() {} };
        match tokio::time::timeout(lately, answers).await.is_ok() && are_enough() {
            true => Ok(()),
            false => Err(ChangeError::NoMajority { id, needed, silent: silent() }),
        }
    }

    /// Who of these did not take what this node, which leads, sent for so long.
    fn silent_for(&self, long: Duration, voters: &BTreeSet<u64>) -> Vec<i32> {
        let metrics = self.core.metrics().borrow_watched().clone();
        let acked = |voter: &u64| metrics.heartbeat.as_ref()?.get(voter).copied().flatten();
        let is_silent = |voter: &u64| acked(voter).is_none_or(|at| at.into_inner().elapsed() > long);
        let others = voters.iter().filter(|voter| **voter != node(self.me.id));
        others.filter(|voter| is_silent(voter)).map(|voter| broker(*voter).0).collect()
    }

    /// Gives the lead to another voter, which is done when it returns well.
    pub async fn transfer_leader(&self, to: BrokerId) -> Result<(), ChangeError> {
        self.check_leads()?;
        if to == self.me.id {
            return Ok(());
        }
        if !self.voter_ids().contains(&node(to)) {
            return Err(ChangeError::NotVoter(to));
        }
        let unknown = |error: String| ChangeError::Unknown(error);
        self.core.trigger().transfer_leader(node(to)).await.map_err(|error| unknown(error.to_string()))?;
        let mut metrics = self.core.server_metrics();
        let led = async {
            while metrics.borrow_watched().current_leader != Some(node(to)) {
                if metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        let timeout = self.timing.election_timeout * 2;
        tokio::time::timeout(timeout, led).await.map_err(|_| unknown(format!("node {to} does not lead yet")))
    }

    /// Whether a node votes, as far as this one knows.
    pub fn is_voter(&self, id: BrokerId) -> bool {
        self.store.memory.lock().members.voter_ids().any(|voter| voter == node(id))
    }

    /// A node is known to be gone: it is not counted among those who follow, unless it is heard again.
    pub fn forget_reader(&self, id: BrokerId) {
        self.readers.lock().remove(&node(id));
    }

    /// Whether this node is that one, and leads.
    pub fn is_leader(&self, id: BrokerId) -> bool {
        id == self.me.id && self.core.is_leader()
    }

    /// Gives the lead to the voter that has most of the log; to whom, if this node led and there was one.
    pub async fn hand_over(&self) -> Result<Option<BrokerId>, ChangeError> {
        if self.check_leads().is_err() {
            return Ok(None);
        }
        let others = self.status().voters.into_iter().filter(|voter| voter.id != self.me.id);
        let Some(next) = others.max_by_key(|voter| (voter.log_end, voter.heard_at)) else { return Ok(None) };
        self.transfer_leader(next.id).await?;
        Ok(Some(next.id))
    }

    /// Brings a change to its end that another leader began, or that nobody waited for.
    async fn finish(&self) -> Result<(), ChangeError> {
        if is_between(&self.core) {
            self.change(no_change(), false).await?;
        }
        // It leads on for a moment after it was removed, and must change nothing more.
        match self.is_voter(self.me.id) {
            true => Ok(()),
            false => Err(ChangeError::NotLeader { leader: None }),
        }
    }

    async fn is_close(&self, id: u64) {
        let mut metrics = self.core.metrics();
        loop {
            let is_close = {
                let seen = metrics.borrow_watched();
                let last = seen.last_log_index.unwrap_or_default();
                let matched = seen.replication.as_ref().and_then(|all| all.get(&id).copied().flatten());
                matched.is_some_and(|matched| matched.index.saturating_add(LAG_MAX) >= last)
            };
            if is_close || metrics.changed().await.is_err() {
                return;
            }
        }
    }

    async fn change(&self, members: ChangeMembers<u64, Home>, retain: bool) -> Result<(), ChangeError> {
        match self.core.change_membership(members, retain).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(error)) => Err(change_error(error)),
            Err(RaftError::Fatal(error)) => Err(ChangeError::Unknown(error.to_string())),
        }
    }
}

/// What it takes to tend the voters.
pub(crate) struct Tending {
    pub(crate) core: Core,
    pub(crate) heard: HeardOf,
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    pub(crate) me: Voter,
    pub(crate) every: Duration,
}

/// Has the leader, again and again,
///
/// - bring to its end what another began to change of the voters, or what nobody waited for;
/// - put down which directory each voter has, where that was not known when the cluster began: before that it does not
///   count, so a voter that comes with an empty disk is never let in as who it was;
/// - put down where each listens, if that is elsewhere than before (as KIP-853's UpdateRaftVoter does): who was alone
///   may have listened nowhere, and who was moved is found by those who do not know it yet.
pub(crate) async fn tend_voters(tending: Tending) {
    loop {
        tokio::time::sleep(tending.every).await;
        if !tending.core.is_leader() {
            continue;
        }
        let Ok(_changing) = tending.changing.try_lock() else { continue };
        if is_between(&tending.core) {
            // It may be removed by that, and must change nothing more then: homes are noted the next time.
            if let Err(error) = tending.core.change_membership(no_change(), false).await {
                tracing::debug!(%error, "the change of the voters is finished later");
            }
            continue;
        }
        let nodes = tending.unnoted();
        if !nodes.is_empty()
            && let Err(error) = tending.core.change_membership(ChangeMembers::SetNodes(nodes), true).await
        {
            tracing::debug!(%error, "where the voters are is noted later");
        }
    }
}

/// Whether a change of the voters was begun and is at no end: both sets need a majority.
fn is_between(core: &Core) -> bool {
    members(core).get_joint_config().len() > 1
}

/// Who votes and who is known, as the log has it.
fn members(core: &Core) -> Membership {
    core.server_metrics().borrow_watched().membership_config.membership().clone()
}

/// What brings such a change to its end, and does nothing else.
fn no_change() -> ChangeMembers<u64, Home> {
    ChangeMembers::AddVoterIds(BTreeSet::new())
}

impl Tending {
    fn unnoted(&self) -> BTreeMap<u64, Home> {
        let metrics = self.core.server_metrics();
        let seen = metrics.borrow_watched();
        let heard = self.heard.lock();
        // What one said before another led may not be so any more.
        let is_new = |heard: &&Heard| heard.at.elapsed() < self.every * 2;
        let known = |id: u64| match id == node(self.me.id) {
            true => Some(self.me.home()),
            false => heard.get(&id).filter(is_new).map(|heard| heard.home.clone()),
        };
        let changed = seen.membership_config.nodes().filter_map(|(id, home)| {
            let known = known(*id)?;
            let directory = if home.directory == Uuid::ZERO { known.directory } else { home.directory };
            let address = if known.address.is_empty() { home.address.clone() } else { known.address };
            let now = Home { address, directory };
            (now != *home).then_some((*id, now))
        });
        changed.collect()
    }
}

fn change_error(error: ClientWriteError<Types>) -> ChangeError {
    match error {
        ClientWriteError::ForwardToLeader(to) => ChangeError::NotLeader { leader: to.leader_id.map(broker) },
        ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_) | ChangeMembershipError::UncommittedLeaderLog(_),
        ) => ChangeError::InProgress,
        error => ChangeError::Unknown(error.to_string()),
    }
}
