//! Membership by the classic protocol: all members meet, and one of them assigns.
//!
//! ```text
//!   preparing ──JoinGroup──▶ joining ──the leader──▶ leading ─┐
//!     ▲                         └───────the others────────────┴─SyncGroup──▶ syncing ──▶ stable
//!     └── a heartbeat says so, or topics changed, or a cooperative member gave something up ──┘
//! ```
//!
//! Preparing, an eager member gives up all that it has; a cooperative one keeps it (KIP-429), and gives up only
//! what the next assignment takes away, upon which all meet again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Now, TopicName};
use wire::ApiKey;
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::JoinGroupResponse;

use super::offsets::Committer;
use super::topics::Need;
use super::{Asked, GroupError, GroupSettings, Life, Members, Membership, blobs};
use crate::cluster::Cluster;
use crate::links::Asking;

/// From here on Heartbeat and SyncGroup can say the instance id; JoinGroup from 5.
pub(super) const VERSION_INSTANCE_MIN: i16 = 3;

/// Where the member stands between two assignments.
#[derive(Debug)]
pub(super) enum Stage {
    /// It joins once its owner has given up what has to be.
    Preparing,
    /// JoinGroup was asked.
    Joining,
    /// It is to assign.
    Leading(Leading),
    /// SyncGroup is to be asked, with what each member gets if it leads.
    Assigned(Vec<(Arc<str>, Vec<u8>)>),
    /// SyncGroup was asked.
    Syncing,
    /// It has its part.
    Stable,
}

/// What the one who leads has to assign to.
#[derive(Debug)]
pub(super) struct Leading {
    pub(super) members: Members,
    /// Nothing: it only watches over what was assigned before (KIP-814).
    pub(super) only_watches: bool,
    /// The cluster said what there is of all topics since it began.
    pub(super) is_told: bool,
}

impl Leading {
    pub(super) fn read(said: &JoinGroupResponse<'_>) -> Self {
        let members = said.members.iter().map(|member| {
            let said = blobs::decode_subscription(member.metadata, member.group_instance_id);
            (Arc::from(member.member_id), said)
        });
        Self { members: members.collect(), only_watches: said.skip_assignment, is_told: false }
    }

    pub(super) fn topics(&self) -> BTreeSet<TopicName> {
        self.members.values().flat_map(|member| &member.topics).cloned().collect()
    }
}

/// How many partitions a topic has; none if it is not known.
pub(super) fn count(cluster: &Cluster, topic: &TopicName) -> i32 {
    let count = cluster.topic(topic.as_str()).map_or(0, |topic| topic.partitions.len());
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A member.
#[derive(Debug)]
pub(super) struct Classic {
    pub(super) member_id: Arc<str>,
    /// -1 while it has no part in an assignment.
    pub(super) generation: i32,
    pub(super) stage: Stage,
    pub(super) is_cooperative: bool,
    pub(super) is_heartbeat_asked: bool,
    pub(super) heartbeat_due: Duration,
    heartbeat_interval: Duration,
    /// Something changed that only another meeting makes good.
    pub(super) wants_rejoin: bool,
    /// What was chosen of what all members can do.
    pub(super) protocol: Arc<str>,
    /// If it leads, how many partitions the topics of all members had when it assigned.
    pub(super) led: Option<BTreeMap<TopicName, i32>>,
}

impl Classic {
    pub(super) fn new(settings: &GroupSettings) -> Self {
        Self {
            member_id: Arc::default(),
            generation: -1,
            stage: Stage::Preparing,
            is_cooperative: settings.assignors.iter().all(|assignor| assignor.is_cooperative()),
            is_heartbeat_asked: false,
            heartbeat_due: Duration::ZERO,
            heartbeat_interval: settings.heartbeat_interval,
            wants_rejoin: false,
            protocol: Arc::default(),
            led: None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.may_beat().then_some(self.heartbeat_due)
    }

    /// Whether it has a place to keep, and nothing is on its way that keeps it as well.
    fn may_beat(&self) -> bool {
        let is_placed = matches!(self.stage, Stage::Preparing | Stage::Stable) && self.generation >= 0;
        is_placed && !self.is_heartbeat_asked
    }

    pub(super) const fn committer(&self) -> Committer {
        match &self.stage {
            Stage::Preparing | Stage::Stable if self.generation >= 0 => Committer::Member(self.generation),
            Stage::Preparing | Stage::Stable => Committer::Nobody,
            // The answer to JoinGroup may take as long as a rebalance, and changes the generation.
            Stage::Joining | Stage::Leading(_) | Stage::Assigned(_) | Stage::Syncing => Committer::Later,
        }
    }

    /// The owner has given up what the assignment took away: others wait for it.
    pub(super) const fn on_given_up(&mut self) {
        if self.is_cooperative && matches!(self.stage, Stage::Stable) {
            self.wants_rejoin = true;
        }
    }

    /// The topics of all members, if it is this one that assigns them.
    pub(super) fn led_topics(&self) -> Option<BTreeSet<TopicName>> {
        match &self.stage {
            Stage::Leading(leading) => Some(leading.topics()),
            _ => self.led.as_ref().map(|led| led.keys().cloned().collect()),
        }
    }

    /// The cluster said how many partitions there are of what it was asked about.
    pub(super) fn on_topics(&mut self, cluster: &Cluster, asked: &Need) {
        if let Stage::Leading(leading) = &mut self.stage {
            // What was asked before it led may be about other topics.
            leading.is_told |= asked.covers(&leading.topics());
            return;
        }
        let is_settled = matches!(self.stage, Stage::Preparing | Stage::Stable);
        let Some(led) = self.led.as_ref().filter(|_| is_settled) else { return };
        self.wants_rejoin |= led.iter().any(|(topic, &before)| count(cluster, topic) != before);
    }

    fn beat_again(&mut self, now: Now) {
        self.is_heartbeat_asked = false;
        self.heartbeat_due = now.elapsed.saturating_add(self.heartbeat_interval);
    }
}

impl Membership {
    pub(super) fn classic(&mut self) -> Option<&mut Classic> {
        match &mut self.life {
            Life::Classic(classic) => Some(classic),
            _ => None,
        }
    }

    pub(super) fn keep_classic(&mut self, now: Now) {
        let is_settled = !self.ownership.is_busy();
        let Some(classic) = self.classic() else { return };
        match &classic.stage {
            Stage::Stable if classic.wants_rejoin && is_settled => self.prepare(),
            Stage::Stable | Stage::Preparing => self.keep_heartbeat(now),
            Stage::Joining | Stage::Leading(_) | Stage::Assigned(_) | Stage::Syncing => {}
        }
        self.join(now);
        self.lead(now);
        self.sync(now);
    }

    /// All meet again: what need not be kept until then is given up.
    pub(super) fn prepare(&mut self) {
        let Life::Classic(classic) = &mut self.life else { return };
        classic.stage = Stage::Preparing;
        classic.wants_rejoin = false;
        // What it had not begun to read yet may go to another, as it does not say that it has it.
        self.ownership.taking = None;
        let kept = if classic.is_cooperative { self.ownership.kept() } else { BTreeSet::new() };
        self.aim_at(kept);
    }

    fn keep_heartbeat(&mut self, now: Now) {
        let is_due = |classic: &Classic| classic.may_beat() && classic.heartbeat_due <= now.elapsed;
        if self.retry_at > now.elapsed || !matches!(&self.life, Life::Classic(classic) if is_due(classic)) {
            return;
        }
        let Some(peer) = self.usable_coordinator(now) else { return };
        let Life::Classic(classic) = &mut self.life else { return };
        let Ok(version) = self.links.version(peer, ApiKey::Heartbeat) else {
            return self.fail(GroupError::Unsupported("classic"));
        };
        let instance_id = self.settings.instance_id.as_deref();
        let request = HeartbeatRequest {
            group_id: &self.settings.group_id,
            generation_id: classic.generation,
            member_id: &classic.member_id,
            group_instance_id: instance_id.filter(|_| version >= VERSION_INSTANCE_MIN),
        };
        let about = Asked::Heartbeat(self.life_number);
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        match self.links.send((peer, now), &request, asking, &mut self.net) {
            Ok(()) => classic.is_heartbeat_asked = true,
            Err(_) => self.fail(GroupError::Unsayable),
        }
    }

    pub(super) fn on_heartbeat(&mut self, life: u32, said: HeartbeatResponse, now: Now) {
        if life != self.life_number {
            return;
        }
        let Some(classic) = self.classic() else { return };
        classic.beat_again(now);
        match ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError) {
            ErrorCode::None => self.succeeded(),
            ErrorCode::RebalanceInProgress => {
                // It may have been asked before the member joined.
                if matches!(classic.stage, Stage::Stable) {
                    self.prepare();
                }
            }
            code => self.on_classic_refused(code, now),
        }
    }

    /// A heartbeat gets no answer.
    pub(super) fn on_heartbeat_lost(&mut self, life: u32, now: Now) {
        if life != self.life_number {
            return;
        }
        if let Some(classic) = self.classic() {
            classic.is_heartbeat_asked = false;
            classic.heartbeat_due = now.elapsed;
        }
        self.failed_once(now);
    }

    /// What every request of the protocol may be told.
    pub(super) fn on_classic_refused(&mut self, code: ErrorCode, now: Now) {
        let Some(classic) = self.classic() else { return };
        match code {
            // The generation went on without it: what it had is another's. Its id is still good.
            ErrorCode::IllegalGeneration => {
                let member_id = classic.member_id.clone();
                self.begin_classic_anew(member_id);
            }
            ErrorCode::UnknownMemberId => self.begin_classic_anew(Arc::default()),
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                classic.heartbeat_due = now.elapsed;
                self.lose_coordinator();
                self.failed_once(now);
            }
            ErrorCode::FencedInstanceId if self.may_be_fenced_by_itself(now) => {
                self.begin_classic_anew(Arc::default());
            }
            code if code.is_retriable() || code == ErrorCode::UnknownServerError => self.failed_once(now),
            code => self.fail(GroupError::Refused(code)),
        }
    }

    pub(super) fn begin_classic_anew(&mut self, member_id: Arc<str>) {
        self.lose();
        self.begin_classic();
        if let Some(classic) = self.classic() {
            classic.member_id = member_id;
        }
    }
}
