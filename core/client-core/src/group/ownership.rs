//! What a member owns, what it is to own, and what is on its way between the two.

use std::collections::BTreeSet;
use std::time::Duration;

use base::TopicPartition;

use super::{CommitId, FetchId, RevocationId};

/// Partitions of a member, whatever the protocol.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    /// What the group wants it to own; `None` before anybody said.
    pub(super) target: Option<BTreeSet<TopicPartition>>,
    /// What its owner was told to read and has not given up.
    pub(super) owned: BTreeSet<TopicPartition>,
    pub(super) revoking: Option<Revoking>,
    /// The question for the committed offsets of what it is to read, too.
    pub(super) taking: Option<(FetchId, BTreeSet<TopicPartition>)>,
    /// What was lost, and may be owned again, while the owner has not said that it heard of it: what it says of
    /// these is about what it read before, which may be behind what another has read since.
    unheard: BTreeSet<TopicPartition>,
    revocation_next: u64,
}

/// What the owner was told to give up.
#[derive(Debug)]
pub(super) struct Revoking {
    pub(super) id: RevocationId,
    pub(super) partitions: BTreeSet<TopicPartition>,
    pub(super) since: Duration,
    pub(super) state: Release,
}

/// How far the owner has come with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// It may be reading still.
    Awaited,
    /// It does not any more, and what it read is being committed.
    Committing(CommitId),
    /// It is over.
    Done,
}

impl Ownership {
    /// What is owned and should not be, if nothing is being given up already.
    pub(super) fn surplus(&self) -> Option<BTreeSet<TopicPartition>> {
        let target = self.target.as_ref().filter(|_| self.revoking.is_none())?;
        let surplus: BTreeSet<_> = self.owned.difference(target).cloned().collect();
        (!surplus.is_empty()).then_some(surplus)
    }

    /// What is owned and not about to be given up.
    pub(super) fn kept(&self) -> BTreeSet<TopicPartition> {
        let goes =
            |part: &&TopicPartition| self.revoking.as_ref().is_some_and(|it| it.partitions.contains(*part));
        self.owned.iter().filter(|part| !goes(part)).cloned().collect()
    }

    /// What should be owned and is not.
    pub(super) fn missing(&self) -> BTreeSet<TopicPartition> {
        let target = self.target.iter().flatten();
        target.filter(|part| !self.owned.contains(*part)).cloned().collect()
    }

    /// What is owned, and what may be at any moment.
    pub(super) fn claimed(&self) -> BTreeSet<TopicPartition> {
        self.owned.union(&self.missing()).cloned().collect()
    }

    /// Whether what is owned is about to change.
    pub(super) fn is_busy(&self) -> bool {
        self.revoking.is_some() || self.target.as_ref().is_some_and(|target| *target != self.owned)
    }

    pub(super) fn revoke(&mut self, partitions: BTreeSet<TopicPartition>, since: Duration) -> RevocationId {
        assert!(self.revoking.is_none(), "one demand at a time: {:?}", self.revoking);
        let id = RevocationId(self.revocation_next);
        self.revocation_next += 1;
        self.revoking = Some(Revoking { id, partitions, since, state: Release::Awaited });
        id
    }

    /// Since when the owner is awaited.
    pub(super) fn revoking_since(&self) -> Option<Duration> {
        let awaited = |revoking: &&Revoking| revoking.state == Release::Awaited;
        self.revoking.as_ref().filter(awaited).map(|revoking| revoking.since)
    }

    /// What was revoked, if that is done; it is not owned any more.
    pub(super) fn finish_revocation(&mut self) -> Option<BTreeSet<TopicPartition>> {
        let revoking = self.revoking.take_if(|revoking| revoking.state == Release::Done)?;
        for part in &revoking.partitions {
            self.owned.remove(part);
        }
        Some(revoking.partitions)
    }

    /// A commit was settled, one way or the other.
    pub(super) fn on_settled(&mut self, commit: CommitId) {
        if let Some(revoking) = &mut self.revoking
            && revoking.state == Release::Committing(commit)
        {
            revoking.state = Release::Done;
        }
    }

    /// All is gone at once.
    pub(super) fn clear(&mut self) -> BTreeSet<TopicPartition> {
        (self.target, self.revoking, self.taking) = (None, None, None);
        std::mem::take(&mut self.owned)
    }

    /// These are lost, as the owner is yet to hear.
    pub(super) fn on_lost(&mut self, lost: &BTreeSet<TopicPartition>) {
        self.unheard.extend(lost.iter().cloned());
    }

    /// The owner has heard that these were lost.
    pub(super) fn on_heard(&mut self, lost: &BTreeSet<TopicPartition>) {
        self.unheard.retain(|of| !lost.contains(of));
    }

    /// The owner gave up all that it had, by itself.
    pub(super) fn on_left(&mut self) -> BTreeSet<TopicPartition> {
        self.unheard.clear();
        self.clear()
    }

    /// Whether one of these was lost, and the owner does not know.
    pub(super) fn is_unheard<'a>(&self, mut of: impl Iterator<Item = &'a TopicPartition>) -> bool {
        of.any(|of| self.unheard.contains(of))
    }
}
