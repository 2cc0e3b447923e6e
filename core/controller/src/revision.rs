//! What becomes of one partition: who is in sync, who is eligible, who leads.
//!
//! ```text
//!   the partition as it is ─▶ Revision: what must change ─▶ settle: what follows ─▶ PartitionChange
//!                             in sync, replicas, in doubt      reassignment done?
//!                                                              eligible replicas (KIP-966)
//!                                                              leader
//! ```
//!
//! Whoever leaves the in-sync set while it is smaller than min.insync.replicas had all that was committed
//! then, and nothing is committed until the set is large enough again: such a replica stays eligible, and is
//! elected when nobody is in sync. A leader comes from the in-sync set, else from the eligible replicas,
//! in the order of the replicas. If nobody is in either, the last leader is remembered, and elected when it
//! is back. Any other election loses what was acknowledged, and happens only where that was allowed.

use base::{BrokerId, TopicId, Uuid};
use metadata::{Partition, PartitionChange};

/// A change of a partition in the making.
#[derive(Debug)]
pub(crate) struct Revision<'a> {
    /// The topic it belongs to.
    pub(crate) topic: TopicId,
    /// The partition as it is.
    pub(crate) before: &'a Partition,
    /// Who shall be in sync.
    pub(crate) isr: Vec<BrokerId>,
    /// Who shall have it, in order of preference.
    pub(crate) replicas: Vec<BrokerId>,
    /// Who of them is on the way in.
    pub(crate) adding: Vec<BrokerId>,
    /// Who of them is on the way out.
    pub(crate) removing: Vec<BrokerId>,
    /// Whether the leader still recovers from an unclean election.
    pub(crate) recovering: bool,
    /// A replica that may lack what it once acknowledged.
    pub(crate) in_doubt: Option<BrokerId>,
    /// A replica's log is in that directory from here on.
    pub(crate) assigned: Option<(BrokerId, Uuid)>,
    /// Which leader is wanted.
    pub(crate) election: Election,
    /// What becomes of the leadership if nobody can take it.
    pub(crate) if_nobody: IfNobody,
    /// Who is eligible as it is.
    pub(crate) eligible: Vec<BrokerId>,
    /// Who led last, if nobody can.
    pub(crate) last_known: Vec<BrokerId>,
}

/// Which leader is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Election {
    /// The one there is, else the first that can.
    Any,
    /// The first replica if it can.
    Preferred,
    /// Whoever lives, if nobody can.
    Unclean,
}

/// What becomes of a leadership that nobody can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfNobody {
    /// It ends: nobody leads.
    End,
    /// It stays with whoever has it, who is about to stop or has not come back yet.
    Stay,
    /// It stays with whoever has it and begins anew, for the end of the log may have been lost.
    Restart,
}

/// What a partition's settings and the cluster say about its elections.
pub(crate) struct Rules<F> {
    /// `min.insync.replicas`.
    pub(crate) insync_min: usize,
    /// Whether the replica of a broker can lead: it lives, and so does the directory.
    pub(crate) can_lead: F,
}

impl<'a> Revision<'a> {
    /// Nothing has changed yet.
    pub(crate) fn of(topic: TopicId, before: &'a Partition) -> Self {
        Self {
            topic,
            before,
            isr: before.isr.to_vec(),
            replicas: before.replicas.to_vec(),
            adding: before.adding().to_vec(),
            removing: before.removing().to_vec(),
            recovering: before.recovering,
            in_doubt: None,
            assigned: None,
            election: Election::Any,
            if_nobody: IfNobody::Stay,
            eligible: before.eligible().to_vec(),
            last_known: before.last_known_eligible().to_vec(),
        }
    }

    /// Without this broker in sync.
    pub(crate) fn without(mut self, broker: BrokerId) -> Self {
        self.isr.retain(|id| *id != broker);
        self
    }

    /// Without this broker, which may lack what it once acknowledged; `None` if it is not counted on anyway.
    /// Where nobody else has the partition, nobody has more than it.
    pub(crate) fn in_doubt(self, broker: BrokerId) -> Option<Self> {
        let in_doubt = (self.before.replicas.len() > 1).then_some(broker);
        counts_on(self.before, broker).then(|| Self {
            in_doubt,
            if_nobody: IfNobody::End,
            ..self.without(broker)
        })
    }

    /// All that follows; `None` if nothing changes.
    pub(crate) fn settle(mut self, rules: &Rules<impl Fn(BrokerId) -> bool>) -> Option<PartitionChange> {
        self.keep_eligible(rules.insync_min);
        if self.finish_reassignment(rules.insync_min) {
            self.keep_eligible(rules.insync_min);
        }
        let (leader, is_new) = self.elect(rules);
        let is_new = is_new || ((self.takes_away() || self.begins_anew()) && leader != BrokerId::NONE);
        self.remember_last_leader(leader);
        self.change(leader, is_new)
    }

    /// Whether somebody has a replica no more. Then the leadership begins anew: what the old replica still has
    /// to say must not count for one that is given again, with nothing in it.
    fn takes_away(&self) -> bool {
        self.before.replicas.iter().any(|id| !self.replicas.contains(id))
    }

    /// Whether a follower that had given its log up has one from here on: for the same reason. What the log of a
    /// disk that was replaced had to say is of an earlier life of its broker.
    fn begins_anew(&self) -> bool {
        let lost = Some(Partition::DIRECTORY_LOST);
        self.assigned.is_some_and(|(id, directory)| {
            id != self.before.leader && self.before.directory_of(id) == lost && Some(directory) != lost
        })
    }

    /// Once all who come are in sync, those who go are gone (KIP-455); but never are those who have all that was
    /// committed, in sync or eligible, fewer than the minimum because of that alone. Whether they are gone.
    fn finish_reassignment(&mut self, insync_min: usize) -> bool {
        if self.adding.is_empty() && self.removing.is_empty() {
            return false;
        }
        let those_who_stay = |ids: &[BrokerId]| -> Vec<BrokerId> {
            ids.iter().filter(|id| !self.removing.contains(id)).copied().collect()
        };
        let (isr, replicas) = (those_who_stay(&self.isr), those_who_stay(&self.replicas));
        let have_all = isr.len() + those_who_stay(&self.eligible).len();
        let enough = insync_min.min(replicas.len()).min(self.isr.len() + self.eligible.len());
        if isr.is_empty() || have_all < enough || !self.adding.iter().all(|id| isr.contains(id)) {
            return false;
        }
        (self.isr, self.replicas) = (isr, replicas);
        self.adding.clear();
        self.removing.clear();
        true
    }

    fn keep_eligible(&mut self, insync_min: usize) {
        if self.isr.len() >= insync_min.min(self.replicas.len()) {
            self.eligible.clear();
            self.last_known.clear();
            return;
        }
        let left = self.before.isr.iter().filter(|id| !self.eligible.contains(id));
        let mut eligible: Vec<BrokerId> = self.eligible.iter().chain(left).copied().collect();
        eligible
            .retain(|id| !self.isr.contains(id) && self.replicas.contains(id) && self.in_doubt != Some(*id));
        self.eligible = eligible;
    }

    /// Who leads, and whether that is a new leadership.
    fn elect(&mut self, rules: &Rules<impl Fn(BrokerId) -> bool>) -> (BrokerId, bool) {
        let current = self.before.leader;
        let has_all =
            |id: BrokerId| self.isr.contains(&id) || (self.isr.is_empty() && self.eligible.contains(&id));
        let is_valid = |id: &BrokerId| has_all(*id) && (rules.can_lead)(*id);
        let preferred = self.replicas.first().copied().filter(|_| self.election == Election::Preferred);
        let chosen = preferred
            .filter(is_valid)
            .or_else(|| Some(current).filter(is_valid))
            .or_else(|| self.replicas.iter().copied().find(|id| is_valid(id)));
        if let Some(leader) = chosen {
            if !self.isr.contains(&leader) {
                self.lead_alone(leader, rules.insync_min);
            }
            return (leader, leader != current);
        }
        let nobody_has_all = self.isr.is_empty() && self.eligible.is_empty();
        let last = match self.last_known.as_slice() {
            [last] if nobody_has_all => Some(*last),
            _ => None,
        };
        let any = self.replicas.iter().copied().filter(|_| self.election == Election::Unclean);
        if let Some(leader) = last.into_iter().chain(any).find(|id| (rules.can_lead)(*id)) {
            self.lead_alone(leader, 0);
            self.recovering = true;
            return (leader, true);
        }
        if self.if_nobody == IfNobody::End || !self.replicas.contains(&current) {
            return (BrokerId::NONE, current != BrokerId::NONE);
        }
        if !self.isr.contains(&current) {
            let stays = |id: &&BrokerId| self.replicas.contains(id);
            self.isr = self.before.isr.iter().filter(stays).copied().collect();
            self.eligible = self.before.eligible().iter().filter(stays).copied().collect();
        }
        (current, self.if_nobody == IfNobody::Restart)
    }

    /// A leader that was not in sync begins the set anew. What others have beyond it is not committed.
    fn lead_alone(&mut self, leader: BrokerId, insync_min: usize) {
        self.isr = vec![leader];
        if insync_min.min(self.replicas.len()) > 1 {
            self.eligible.retain(|id| *id != leader);
        } else {
            self.eligible.clear();
        }
    }

    fn remember_last_leader(&mut self, leader: BrokerId) {
        if leader != BrokerId::NONE {
            self.last_known.clear();
        } else if self.isr.is_empty() && !self.before.isr.is_empty() {
            let last = match self.before.leader {
                BrokerId::NONE => self.before.isr.first().copied(),
                leader => Some(leader),
            };
            self.last_known = last.into_iter().filter(|id| self.replicas.contains(id)).collect();
        } else {
            self.last_known.retain(|id| self.replicas.contains(id));
        }
    }

    fn change(self, leader: BrokerId, is_new: bool) -> Option<PartitionChange> {
        let before = self.before;
        let directories = self.directories();
        let directories = (*directories != *before.directories).then_some(directories);
        let if_other = |now: Vec<BrokerId>, then: &[BrokerId]| (*now != *then).then_some(now);
        let nothing = PartitionChange::of(self.topic, before.index);
        let change = PartitionChange {
            leader: is_new.then_some(leader),
            isr: if_other(self.isr, &before.isr),
            replicas: if_other(self.replicas, &before.replicas),
            adding: if_other(self.adding, before.adding()),
            removing: if_other(self.removing, before.removing()),
            eligible: if_other(self.eligible, before.eligible()),
            last_known_eligible: if_other(self.last_known, before.last_known_eligible()),
            recovering: (self.recovering != before.recovering).then_some(self.recovering),
            directories,
            ..nothing.clone()
        };
        (change != nothing).then_some(change)
    }

    fn directories(&self) -> Vec<Uuid> {
        let of = |id: &BrokerId| match self.assigned {
            Some((assigned, directory)) if assigned == *id => directory,
            _ => self.before.directory_of(*id).unwrap_or(Partition::DIRECTORY_UNASSIGNED),
        };
        self.replicas.iter().map(of).collect()
    }
}

/// Whether a broker's replica is in sync or eligible.
pub(crate) fn counts_on(partition: &Partition, broker: BrokerId) -> bool {
    partition.isr.contains(&broker) || partition.eligible().contains(&broker)
}
