//! What a group gives and takes, as the reader is told.
//!
//! ```text
//!   the group wants a partition back ──▶ the reader asks for its next record: all that it was lent it is done
//!     with ──▶ listener.revoked ──▶ what was read is committed ──▶ another member may read on
//! ```
//!
//! All of this happens on the thread that asks for records, between two of them, while nothing is locked; and a
//! listener has no way to the consumer. So it cannot wait for itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering;

use base::{Offset, PartitionIndex, TopicName, TopicPartition};
use client_core::group::{Membership, OffsetAndMetadata, RevocationId};

use super::Consumer;

/// Who is told what the group gives and takes. It is called on the thread that asks for records, which waits
/// for it; after `max.poll.interval.ms` the group goes on without this member.
pub trait RebalanceListener: Send {
    /// These may be read, too, from now on. They begin where they were committed; a
    /// [`seek`](Consumer::seek) after the next record came is too late to begin elsewhere, so that who keeps
    /// offsets elsewhere asks for none before it has sought.
    fn assigned(&mut self, _partitions: &[TopicPartition]) {}

    /// Nothing more comes of these: all that came was asked past. What is to be committed of them is said now.
    fn revoked(&mut self, _revoked: &mut Revoked<'_>) {}

    /// The group took this member for dead: others may read these already, and nothing can be committed.
    fn lost(&mut self, _partitions: &[TopicPartition]) {}
}

/// Partitions that are about to become another's.
pub struct Revoked<'a> {
    partitions: &'a [TopicPartition],
    positions: BTreeMap<TopicPartition, OffsetAndMetadata>,
    offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
}

impl fmt::Debug for Revoked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revoked").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

impl<'a> Revoked<'a> {
    /// Which.
    pub const fn partitions(&self) -> &'a [TopicPartition] {
        self.partitions
    }

    /// Commits all that was read of them, before another member gets them. With `enable.auto.commit` that is
    /// done without being asked for.
    pub fn commit(&mut self) {
        self.offsets.clone_from(&self.positions);
    }

    /// Commits that one of them is to be read on from here. Whether it is one of them.
    pub fn commit_offset(&mut self, topic: &str, partition: i32, offset: Offset) -> bool {
        let Ok(topic) = TopicName::new(topic) else { return false };
        let of = TopicPartition { topic, partition: PartitionIndex(partition) };
        let is_one = self.partitions.contains(&of);
        if is_one {
            self.offsets.insert(of, OffsetAndMetadata::at(offset));
        }
        is_one
    }
}

/// What the reader is to be told.
pub(super) enum Rebalance {
    Assigned(Vec<TopicPartition>),
    Revoking { id: RevocationId, partitions: BTreeSet<TopicPartition> },
    Lost(BTreeSet<TopicPartition>),
}

/// What was taken back need not be given back any more.
pub(super) fn forget_revocations(events: &mut VecDeque<Rebalance>) {
    events.retain(|event| !matches!(event, Rebalance::Revoking { .. }));
}

impl Consumer {
    /// Tells this one from now on what the group gives and takes.
    pub fn set_rebalance_listener(&mut self, listener: impl RebalanceListener + 'static) {
        self.listener = Some(Box::new(listener));
    }

    /// Does what the group asks for, now that all that was lent has been read.
    #[cold]
    pub(super) fn rebalance(&mut self) {
        loop {
            let event = {
                let mut state = self.shared.state.lock();
                let event = state.group.as_mut().and_then(|group| {
                    let event = group.events.pop_front();
                    if let Some(Rebalance::Lost(partitions)) = &event {
                        group.membership.on_loss_heard(partitions);
                    }
                    event
                });
                if event.is_none() {
                    self.shared.has_rebalances.store(false, Ordering::Release);
                }
                event
            };
            match event {
                None => return,
                Some(Rebalance::Assigned(partitions)) => {
                    if let Some(listener) = &mut self.listener {
                        listener.assigned(&partitions);
                    }
                }
                Some(Rebalance::Revoking { id, partitions }) => self.give_back_partitions(id, &partitions),
                Some(Rebalance::Lost(partitions)) => {
                    self.after_change();
                    if let Some(listener) = &mut self.listener {
                        listener.lost(&Vec::from_iter(partitions));
                    }
                }
            }
        }
    }

    fn give_back_partitions(&mut self, id: RevocationId, partitions: &BTreeSet<TopicPartition>) {
        let offsets = self.ask_what_to_commit(partitions);
        {
            let now = self.shared.clock.now();
            let mut state = self.shared.state.lock();
            // While the listener was asked they may have been lost and assigned again: those are others.
            let is_asked = match &mut state.group {
                Some(group) => group.membership.release(id, offsets, now),
                None => true,
            };
            if is_asked {
                partitions.iter().for_each(|of| state.core.give_up(of));
            }
        }
        self.after_change();
    }

    /// What the listener wants to be committed of partitions that go.
    pub(super) fn ask_what_to_commit(
        &mut self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        self.note_positions();
        let Some(listener) = &mut self.listener else { return BTreeMap::new() };
        let positions = {
            let state = self.shared.state.lock();
            let membership: Option<&Membership> = state.group.as_ref().map(|group| &group.membership);
            membership.map(|membership| membership.unsaved(partitions)).unwrap_or_default()
        };
        let partitions: Vec<TopicPartition> = partitions.iter().cloned().collect();
        let mut revoked = Revoked { partitions: &partitions, positions, offsets: BTreeMap::new() };
        listener.revoked(&mut revoked);
        revoked.offsets
    }
}
