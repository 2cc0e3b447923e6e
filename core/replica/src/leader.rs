//! What a leader knows of its followers.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{BrokerEpoch, BrokerId, LeaderEpoch, Now, Offset};

use crate::given::Given;
use crate::isr::{AlterIsr, Isr, IsrAnswer};

/// A follower that fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerId {
    /// Which broker.
    pub broker: BrokerId,
    /// In which of its lives (KIP-903); [`BrokerEpoch::NONE`] if it does not say.
    pub epoch: BrokerEpoch,
}

/// Leads.
#[derive(Debug)]
pub(crate) struct Leader {
    me: BrokerId,
    epoch: LeaderEpoch,
    /// Where the log ended when this leadership began: who has not got here may lack what others have.
    start: Offset,
    /// What lies below was deleted before this leadership, or on request since: who does not know must not lead.
    deleted: Offset,
    isr: Isr,
    followers: BTreeMap<BrokerId, Follower>,
    /// Whether the last proposal was refused, and until when none is made that adds somebody.
    was_refused: bool,
    quiet_until: Duration,
}

/// How long nobody is proposed after a refusal: the controller knows something that is not known here yet.
const QUIET: Duration = Duration::from_millis(500);

/// What one follower said of itself.
#[derive(Debug, Clone, Copy)]
struct Follower {
    broker_epoch: BrokerEpoch,
    /// Where its log ends; [`Offset::NONE`] before its first fetch of this leadership.
    end: Offset,
    /// Where its log starts, as it said when it fetched last.
    start: Offset,
    fetched_at: Duration,
    /// Where the leader's log ended when it fetched last.
    leader_end: Offset,
    /// When it last had all that there was.
    caught_up_at: Duration,
    /// What it was given last.
    given: Given,
}

/// What the controller decided of a partition, as far as its leader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leadership {
    pub(crate) epoch: LeaderEpoch,
    pub(crate) partition_epoch: i32,
    pub(crate) replicas: Vec<BrokerId>,
    pub(crate) isr: Vec<BrokerId>,
}

impl Leader {
    /// Leads a log from `deleted` to `start`.
    pub(crate) fn new(
        now: Now,
        me: BrokerId,
        (deleted, start): (Offset, Offset),
        leadership: Leadership,
    ) -> Self {
        let Leadership { epoch, partition_epoch, replicas, isr } = leadership;
        let mut leader = Self {
            me,
            epoch,
            start,
            deleted,
            isr: Isr::new(isr, partition_epoch),
            followers: BTreeMap::new(),
            was_refused: false,
            quiet_until: Duration::ZERO,
        };
        leader.set_replicas(now, &replicas);
        leader
    }

    /// The same leadership goes on with other replicas, or another in-sync set. Whether anything changed.
    pub(crate) fn change(&mut self, now: Now, leadership: Leadership) -> bool {
        if !self.isr.commit(leadership.isr, leadership.partition_epoch) {
            return false;
        }
        (self.was_refused, self.quiet_until) = (false, Duration::ZERO);
        self.set_replicas(now, &leadership.replicas);
        true
    }

    fn set_replicas(&mut self, now: Now, replicas: &[BrokerId]) {
        self.followers.retain(|id, _| replicas.contains(id));
        for &id in replicas.iter().filter(|&&id| id != self.me) {
            // Who is in sync is given time to show it.
            let caught_up_at = if self.isr.committed().contains(&id) { now.elapsed } else { Duration::ZERO };
            self.followers.entry(id).or_insert(Follower {
                broker_epoch: BrokerEpoch::NONE,
                end: Offset::NONE,
                start: Offset::NONE,
                fetched_at: Duration::ZERO,
                leader_end: Offset::NONE,
                caught_up_at,
                given: Given::default(),
            });
        }
    }

    pub(crate) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Whether it is one of the replicas, and its broker's life no earlier than the last that was heard of:
    /// what an earlier one had may be lost (KIP-903).
    pub(crate) fn accepts(&self, follower: FollowerId) -> bool {
        let known = self.followers.get(&follower.broker);
        known.is_some_and(|known| follower.epoch == BrokerEpoch::NONE || follower.epoch >= known.broker_epoch)
    }

    /// What a follower was given last.
    pub(crate) fn given(&mut self, follower: BrokerId) -> Option<&mut Given> {
        self.followers.get_mut(&follower).map(|follower| &mut follower.given)
    }

    /// Where the log of each follower ends; [`Offset::NONE`] if it did not say yet.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Offset> {
        self.followers.values().map(|follower| follower.end)
    }

    pub(crate) fn isr(&self) -> &[BrokerId] {
        self.isr.committed()
    }

    pub(crate) const fn start(&self) -> Offset {
        self.start
    }

    /// Whether all replicas are in sync.
    pub(crate) fn is_whole(&self) -> bool {
        self.followers.keys().all(|id| self.isr().contains(id))
    }

    /// How many must be in sync: a setting above the number of replicas asks for all of them.
    pub(crate) fn isr_min(&self, setting: usize) -> usize {
        setting.min(self.followers.len() + 1)
    }

    /// A follower asks for what comes behind what it has.
    pub(crate) fn on_fetch(
        &mut self,
        now: Now,
        from: FollowerId,
        (start, end): (Offset, Offset),
        leader_end: Offset,
    ) {
        let Some(follower) = self.followers.get_mut(&from.broker) else { return };
        if end >= leader_end {
            follower.caught_up_at = follower.caught_up_at.max(now.elapsed);
        } else if follower.leader_end != Offset::NONE && end >= follower.leader_end {
            follower.caught_up_at = follower.caught_up_at.max(follower.fetched_at);
        }
        *follower = Follower {
            broker_epoch: from.epoch,
            end,
            start,
            fetched_at: now.elapsed,
            leader_end,
            ..*follower
        };
    }

    /// The followers in sync that have what is at an offset, or are where it will be; each with the end of
    /// its log.
    pub(crate) fn replicas_with(&self, offset: Offset) -> impl Iterator<Item = (BrokerId, Offset)> {
        let in_sync = self.isr.committed().iter();
        let known = in_sync.filter_map(|id| Some((*id, self.followers.get(id)?)));
        let have = known.filter(move |(_, it)| (it.start..=it.end).contains(&offset));
        have.map(|(id, follower)| (id, follower.end))
    }

    /// Up to where everybody who may be in sync has the log.
    pub(crate) fn shared_end(&self, own_end: Offset) -> Offset {
        let end = |id: BrokerId| match id == self.me {
            true => own_end,
            false => self.followers.get(&id).map_or(Offset::NONE, |follower| follower.end),
        };
        self.isr.all().map(end).min().unwrap_or(Offset::NONE).min(own_end)
    }

    /// Somebody has what lies below deleted.
    pub(crate) fn on_deleted(&mut self, upto: Offset) {
        self.deleted = self.deleted.max(upto);
    }

    /// Where the logs of all who may be in sync start, as far as they said; [`Offset::NONE`] if one said nothing yet.
    pub(crate) fn shared_start(&self, own_start: Offset) -> Offset {
        let followers = self.isr.all().filter(|id| *id != self.me);
        let starts =
            followers.map(|id| self.followers.get(&id).map_or(Offset::NONE, |follower| follower.start));
        starts.min().unwrap_or(own_start).min(own_start)
    }

    /// A follower has all that is committed, and all that any leader before knew to be, and nothing that was deleted: it
    /// is to be in sync.
    pub(crate) fn expand(
        &mut self,
        now: Now,
        follower: BrokerId,
        high_watermark: Offset,
    ) -> Option<AlterIsr> {
        if std::mem::take(&mut self.was_refused) {
            self.quiet_until = now.elapsed + QUIET;
        }
        if now.elapsed < self.quiet_until {
            return None;
        }
        let state = self.followers.get(&follower)?;
        let is_there = self.isr.committed().contains(&follower);
        let has_all = state.end >= high_watermark.max(self.start);
        if is_there || !self.isr.is_settled() || !has_all || state.start < self.deleted {
            return None;
        }
        let mut isr = self.isr.committed().to_vec();
        isr.push(follower);
        Some(self.propose(isr))
    }

    /// Those who have not kept up for too long are not to be in sync any more.
    pub(crate) fn shrink(&mut self, now: Now, lag_max: Duration, end: Offset) -> Option<AlterIsr> {
        if !self.isr.is_settled() {
            return None;
        }
        let lags = |id: BrokerId| {
            let follower = self.followers.get(&id);
            id != self.me
                && follower.is_none_or(|follower| {
                    follower.end != end && now.elapsed.saturating_sub(follower.caught_up_at) > lag_max
                })
        };
        let isr: Vec<BrokerId> = self.isr.committed().iter().copied().filter(|&id| !lags(id)).collect();
        (isr.len() < self.isr.committed().len()).then(|| self.propose(isr))
    }

    fn propose(&mut self, isr: Vec<BrokerId>) -> AlterIsr {
        let epoch = |id| self.followers.get(&id).map_or(BrokerEpoch::NONE, |follower| follower.broker_epoch);
        let proposal = AlterIsr {
            leader_epoch: self.epoch,
            partition_epoch: self.isr.partition_epoch(),
            isr: isr.into_iter().map(|id| (id, epoch(id))).collect(),
        };
        self.isr.propose(proposal.clone());
        proposal
    }

    /// The controller answered a proposal of this leadership. What is to be said to it next, if anything.
    pub(crate) fn on_isr_answer(&mut self, asked: &AlterIsr, answer: IsrAnswer) -> Option<AlterIsr> {
        self.was_refused |= answer == IsrAnswer::Refused;
        self.isr.on_answer(asked, answer)
    }
}
