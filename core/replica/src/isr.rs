//! Who is in sync, as the controller has it and as this leader wants it.
//!
//! ```text
//!                    propose                    the controller agrees
//!   committed ──────────────────▶ committed ─────────────────────────▶ committed'
//!                                 + proposed ──────────┐
//!                                     ▲   unknown:     │ it refuses
//!                                     └── said again   ▼
//!                                                    committed
//! ```
//!
//! While a proposal is on its way, both sets count: who may already be in sync must have what is
//! committed, and so must whoever may still be. That the partition has changed since is no refusal: what
//! changed it may be an earlier copy of the proposal. Both sets count until the metadata tell.
//!
//! Nor is a refusal the end of a proposal that was said more than once: an earlier copy may still be on its
//! way, to a controller that refuses it no more. The leader then asks for what is so already. That changes
//! nothing but the partition epoch, and with it no copy is in time any more.

use base::{BrokerEpoch, BrokerId, LeaderEpoch};

/// A change of the in-sync set that this leader asks of the controller (KIP-497, KIP-903).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterIsr {
    /// The leadership that asks.
    pub leader_epoch: LeaderEpoch,
    /// The change of the partition that it was made from: if there was another meanwhile, it is refused.
    pub partition_epoch: i32,
    /// Who shall be in sync, each with the life of its broker in which it caught up;
    /// [`BrokerEpoch::NONE`] for this broker, and where it is not known.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// What the controller made of an [`AlterIsr`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IsrAnswer {
    /// It is so.
    Altered {
        /// Who is in sync.
        isr: Vec<BrokerId>,
        /// The change of the partition that made it so.
        partition_epoch: i32,
    },
    /// It is not so, and will not be.
    Refused,
    /// The partition is not what the proposal was made from: it is so already, or never will be. The
    /// metadata tell.
    Outdated,
    /// Nobody knows.
    Unknown,
}

impl IsrAnswer {
    /// Whether the leader may say something again at once, which may be answered like this at once: the controller is
    /// to be left in peace for a while.
    pub const fn may_come_again(&self) -> bool {
        matches!(self, Self::Refused | Self::Unknown)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Isr {
    committed: Vec<BrokerId>,
    partition_epoch: i32,
    proposed: Option<AlterIsr>,
    /// Whether what is proposed was said before, and nobody knows what became of it.
    is_repeated: bool,
    /// Who was in a proposal that was refused while an earlier copy of it may still be taken.
    refused: Vec<BrokerId>,
}

impl Isr {
    pub(crate) fn new(committed: Vec<BrokerId>, partition_epoch: i32) -> Self {
        Self { committed, partition_epoch, proposed: None, is_repeated: false, refused: Vec::new() }
    }

    /// Who is in sync as far as the controller said.
    pub(crate) fn committed(&self) -> &[BrokerId] {
        &self.committed
    }

    pub(crate) const fn partition_epoch(&self) -> i32 {
        self.partition_epoch
    }

    /// Who may be in sync: nothing is committed that one of them does not have.
    pub(crate) fn all(&self) -> impl Iterator<Item = BrokerId> + '_ {
        let proposed = self.proposed.iter().flat_map(|proposed| &proposed.isr).map(|&(id, _)| id);
        let more = proposed.chain(self.refused.iter().copied()).filter(|id| !self.committed.contains(id));
        self.committed.iter().copied().chain(more)
    }

    /// Whether no proposal is on its way.
    pub(crate) const fn is_settled(&self) -> bool {
        self.proposed.is_none()
    }

    pub(crate) fn propose(&mut self, proposal: AlterIsr) {
        (self.proposed, self.is_repeated) = (Some(proposal), false);
    }

    /// The controller answered what was proposed, maybe long ago. What is to be said to it next, if anything.
    pub(crate) fn on_answer(&mut self, asked: &AlterIsr, answer: IsrAnswer) -> Option<AlterIsr> {
        // Another may be on its way by now, of which a refusal says nothing.
        let is_current = self.proposed.as_ref() == Some(asked);
        match answer {
            IsrAnswer::Altered { isr, partition_epoch } => {
                self.commit(isr, partition_epoch);
                None
            }
            IsrAnswer::Refused if is_current => {
                self.on_refused();
                self.proposed.clone()
            }
            IsrAnswer::Unknown if is_current => {
                self.is_repeated = true;
                self.proposed.clone()
            }
            IsrAnswer::Refused | IsrAnswer::Outdated | IsrAnswer::Unknown => None,
        }
    }

    fn on_refused(&mut self) {
        let Some(proposed) = self.proposed.take() else { return };
        if self.is_repeated {
            // What is so already may be refused, too, and again and again.
            let more = proposed.isr.iter().map(|&(id, _)| id).filter(|id| !self.refused.contains(id));
            self.refused.extend(more.collect::<Vec<_>>());
            let isr = self.committed.iter().map(|&id| (id, BrokerEpoch::NONE)).collect();
            self.proposed = Some(AlterIsr { isr, ..proposed });
        }
    }

    /// The set is this since that change of the partition, which may be of the past.
    pub(crate) fn commit(&mut self, isr: Vec<BrokerId>, partition_epoch: i32) -> bool {
        if partition_epoch <= self.partition_epoch {
            return false;
        }
        // A proposal was made from an older state: it is true by now, or never will be.
        self.proposed = None;
        self.refused.clear();
        self.partition_epoch = partition_epoch;
        self.committed = isr;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_again_and_again_is_remembered_once() {
        let mut isr = Isr::new(vec![BrokerId(1)], 4);
        let wanted = [1, 2].map(|id| (BrokerId(id), BrokerEpoch::NONE)).to_vec();
        let mut asked = AlterIsr { leader_epoch: LeaderEpoch(1), partition_epoch: 4, isr: wanted };
        isr.propose(asked.clone());
        assert!(isr.on_answer(&asked, IsrAnswer::Unknown).is_some());
        for _ in 0..100 {
            asked = isr.on_answer(&asked, IsrAnswer::Refused).expect("an earlier copy may still be taken");
        }
        assert_eq!(isr.all().collect::<Vec<_>>(), [BrokerId(1), BrokerId(2)]);
        assert_eq!(isr.refused.len(), 2);
    }
}
