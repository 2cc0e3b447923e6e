//! What an active controller has under way.

use std::collections::VecDeque;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset};
use metadata::{Delta, MetadataRecord};

use crate::command::{Command, Reply};
use crate::error::ControllerError;

/// Records that may wait to be proposed or committed: twice what the largest command makes, and at most a
/// few hundred bytes each.
const RECORDS_WAITING_MAX: usize = 400_000;

/// Commands that may wait to be answered.
const ANSWERS_WAITING_MAX: usize = 16_384;

/// A command that waits for its answer, by the caller's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// Whether this controller is the active one.
#[derive(Debug)]
pub(crate) enum Office {
    /// It is not.
    Vacant {
        /// Whose is, if that is known.
        active: Option<BrokerId>,
    },
    /// It is.
    Held(Term),
}

/// What is under way in a leadership of the quorum.
#[derive(Debug)]
pub(crate) struct Term {
    /// Which leadership.
    pub(crate) epoch: LeaderEpoch,
    /// The first of them is committed next.
    pub(crate) proposed: VecDeque<Batch>,
    /// What is proposed once there is room.
    pub(crate) forming: VecDeque<Batch>,
    /// Records that are not committed.
    pub(crate) records_waiting: usize,
    /// Commands that are not answered.
    pub(crate) answers_waiting: usize,
    /// When this controller was stepped last.
    pub(crate) stepped: Duration,
    /// When to look after the leaders next.
    pub(crate) balance_at: Option<Duration>,
}

/// Records that become true together, and who is answered then.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The records.
    pub(crate) records: Vec<MetadataRecord>,
    /// What they take.
    pub(crate) bytes: usize,
    /// How many of them were proposed, once they are gone.
    pub(crate) len: usize,
    /// What they change.
    pub(crate) delta: Delta,
    /// Who is answered, and what.
    pub(crate) answers: Vec<(CommandId, Result<Reply, ControllerError>)>,
    /// Whose heartbeats are among them.
    pub(crate) heard: Vec<BrokerId>,
}

impl Term {
    /// Where the metadata will end once all is committed that waits, at the earliest: the quorum may put
    /// batches of its own in between.
    pub(crate) fn end_after(&self, committed: Offset) -> Offset {
        let waiting = i64::try_from(self.records_waiting).unwrap_or(i64::MAX);
        Offset(committed.0.saturating_add(waiting))
    }

    /// Whether there is no room for a command.
    pub(crate) fn is_full(&self, command: &Command) -> bool {
        let share = if command.is_of_life() { 1 } else { 2 };
        self.records_waiting > RECORDS_WAITING_MAX / share
            || self.answers_waiting >= ANSWERS_WAITING_MAX / share
    }
}
