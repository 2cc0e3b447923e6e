//! One step of a member towards its target.
//!
//! ```text
//!   Stable ── the target is another ──▶ UnrevokedPartitions ── it no longer owns them ──▶ Stable
//!                                             │                                             ▲
//!                                             └──▶ UnreleasedPartitions ── all are free ────┘
//! ```
//!
//! First it gives back what it should not have, and stays in its epoch until it says that it no longer has it. Then
//! it enters the epoch of the target, and gets what is free of it; the rest as others give it back.

use base::{PartitionIndex, TopicId};

use super::member::{CurrentAssignment, MemberState, Owned};
use super::settings::ConsumerGroupError;
use crate::assign::Partitions;

/// What a member should have, and what else decides over its next step.
pub(super) struct Step<'a> {
    /// What it should have. What it does not subscribe to does not count.
    pub(super) target: &'a Partitions,
    /// The epoch of the targets.
    pub(super) target_epoch: i32,
    /// Whether the target may be older than what the member subscribes to.
    pub(super) target_is_old: bool,
    /// Whether it subscribes to a topic.
    pub(super) wants: &'a dyn Fn(TopicId) -> bool,
    /// Whether nobody else has a partition.
    pub(super) is_free: &'a dyn Fn(TopicId, PartitionIndex) -> bool,
    /// What the member says it has; `None` if it does not say.
    pub(super) owned: Option<&'a Partitions>,
}

/// What a member has after the step; `None` if that is what it had.
///
/// # Errors
/// If its state is one that this release does not know, and it does not begin anew.
pub(super) fn step(
    current: &CurrentAssignment,
    step: &Step<'_>,
) -> Result<Option<CurrentAssignment>, ConsumerGroupError> {
    let next = match current.state {
        MemberState::Stable => {
            let unwanted = step.target_is_old && current.assigned.keys().any(|topic| !(step.wants)(*topic));
            if current.epoch == step.target_epoch && !unwanted {
                return Ok(None);
            }
            advance(current, step)
        }
        MemberState::UnrevokedPartitions if step.owns(&current.revoking) => return Ok(None),
        MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => advance(current, step),
        MemberState::Unknown if step.owned.is_some_and(Partitions::is_empty) => advance(current, step),
        MemberState::Unknown => return Err(ConsumerGroupError::UnknownState),
    };
    Ok(Some(next).filter(|next| next != current))
}

fn advance(current: &CurrentAssignment, step: &Step<'_>) -> CurrentAssignment {
    let (mut assigned, revoking) = split(&current.assigned, step);
    if !revoking.is_empty() && step.owns(&revoking) {
        return CurrentAssignment {
            state: MemberState::UnrevokedPartitions,
            assigned,
            revoking,
            ..current.clone()
        };
    }
    let mut state = MemberState::Stable;
    for (topic, indexes) in step.target.iter().filter(|(topic, _)| (step.wants)(**topic)) {
        for index in indexes {
            if assigned.get(topic).is_some_and(|of| of.contains_key(index)) {
                continue;
            }
            if (step.is_free)(*topic, *index) {
                assigned.entry(*topic).or_default().insert(*index, step.target_epoch);
            } else {
                state = MemberState::UnreleasedPartitions;
            }
        }
    }
    CurrentAssignment { state, assigned, revoking: Owned::new(), ..current.at(step.target_epoch) }
}

/// What a member keeps of what it has, and what it has to give back.
fn split(assigned: &Owned, step: &Step<'_>) -> (Owned, Owned) {
    let (mut kept, mut revoking) = (Owned::new(), Owned::new());
    for (topic, of) in assigned {
        let target = step.target.get(topic).filter(|_| (step.wants)(*topic));
        for (index, epoch) in of {
            let stays = target.is_some_and(|target| target.contains(index));
            let side = if stays { &mut kept } else { &mut revoking };
            side.entry(*topic).or_default().insert(*index, *epoch);
        }
    }
    (kept, revoking)
}

impl Step<'_> {
    /// Whether the member may still have some of these: if it does not say, it may.
    fn owns(&self, revoking: &Owned) -> bool {
        self.owned.is_none_or(|owned| {
            owned.iter().any(|(topic, indexes)| {
                revoking.get(topic).is_some_and(|of| indexes.iter().any(|index| of.contains_key(index)))
            })
        })
    }
}
