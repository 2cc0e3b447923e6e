//! From what is owned to what the group wants to be owned: first give up, then take.

use std::collections::{BTreeMap, BTreeSet};

use base::{Now, TopicPartition};

use super::offsets::For;
use super::ownership::Release;
use super::{CommittedOffsets, Effect, Life, Membership, OffsetAndMetadata, RevocationId};

impl Membership {
    /// The owner does not read any more what it was told to give up, and wants these offsets to be committed
    /// for it, beside those that are committed by themselves. Nothing, and false, if the demand is void by now: what it
    /// was about was lost meanwhile, and may have been assigned again since.
    pub fn release(
        &mut self,
        id: RevocationId,
        mut offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        now: Now,
    ) -> bool {
        let Some(revoking) = self.ownership.revoking.as_ref().filter(|revoking| revoking.id == id) else {
            return false;
        };
        if revoking.state != Release::Awaited {
            return false;
        }
        if self.settings.auto_commit.is_some() {
            for (of, upto) in self.offsets.unsaved(&revoking.partitions) {
                offsets.entry(of).or_insert(upto);
            }
        }
        let state = if offsets.is_empty() {
            Release::Done
        } else {
            // Who cannot be reached for so long does not hold the group up any longer.
            let until = now.elapsed + self.settings.links.request_timeout;
            Release::Committing(self.queue_commit(offsets, until, For::Itself))
        };
        if let Some(revoking) = &mut self.ownership.revoking {
            revoking.state = state;
        }
        true
    }

    /// The group wants this to be owned, and nothing else. Who leaves takes nothing any more.
    pub(super) fn aim_at(&mut self, target: BTreeSet<TopicPartition>) {
        if self.leaving.is_none() {
            self.ownership.target = Some(target);
        }
    }

    /// Goes a step from what is owned to what should be.
    pub(super) fn reconcile(&mut self, now: Now) {
        if let Some(gone) = self.ownership.finish_revocation() {
            self.offsets.forget(&gone);
            if let Life::Classic(classic) = &mut self.life {
                classic.on_given_up();
            }
        }
        if let Some(surplus) = self.ownership.surplus() {
            let id = self.ownership.revoke(surplus.clone(), now.elapsed);
            self.out.push(Effect::Revoking { id, partitions: surplus });
        }
        let missing = self.ownership.missing();
        if missing.is_empty() {
            self.ownership.taking = None;
        } else if self.ownership.taking.as_ref().is_none_or(|(_, asked)| *asked != missing) {
            let id = self.queue_fetch(missing.clone(), None);
            self.ownership.taking = Some((id, missing));
        }
    }

    /// The committed offsets of what is to be read, too, are known.
    pub(super) fn take(&mut self, mut found: CommittedOffsets) {
        self.ownership.taking = None;
        // What was assigned when this was asked may be another's by now.
        let missing = self.ownership.missing();
        found.retain(|of, _| missing.contains(of));
        for (of, committed) in &found {
            self.ownership.owned.insert(of.clone());
            self.offsets.begin(of, committed.as_ref());
        }
        if !found.is_empty() {
            self.out.push(Effect::Assigned(found));
        }
    }

    /// The group took the member for dead: what it owned may be another's.
    pub(super) fn lose(&mut self) {
        let gone = self.ownership.clear();
        self.offsets.forget(&gone);
        if !gone.is_empty() {
            self.ownership.on_lost(&gone);
            self.out.push(Effect::Lost(gone));
        }
    }

    /// The owner has heard that these were [`Effect::Lost`], and reads and says nothing more of what it had
    /// before. Until then whatever it commits of them fails, even if they are its own again.
    pub fn on_loss_heard(&mut self, lost: &BTreeSet<TopicPartition>) {
        self.ownership.on_heard(lost);
    }
}
