//! Where a partition is read.

use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Now, Offset, TimestampMs, TopicPartition, Uuid};

use super::{ConsumeError, Effect, Reset};
use crate::cluster::Leader;

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first record there is.
    Earliest,
    /// Behind the last.
    Latest,
    /// At this offset.
    Offset(Offset),
    /// At the first record with this timestamp or a later one; behind the last if there is none.
    Time(TimestampMs),
}

impl Start {
    /// As ListOffsets asks for it.
    pub(super) const fn timestamp(self) -> Option<i64> {
        match self {
            Self::Earliest => Some(-2),
            Self::Latest => Some(-1),
            Self::Time(time) => Some(time.0),
            Self::Offset(_) => None,
        }
    }
}

/// The next record to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// To be asked for.
    Wanted(Start),
    /// Asked for.
    Asked(Start),
    /// Known, and the epoch of the batch before it, if one was read.
    Known(Offset, LeaderEpoch),
}

impl Position {
    pub(super) const fn known(self) -> Option<Offset> {
        match self {
            Self::Known(offset, _) => Some(offset),
            Self::Wanted(_) | Self::Asked(_) => None,
        }
    }

    /// Elsewhere in what was written by the same leader.
    pub(super) const fn at(self, offset: Offset) -> Self {
        match self {
            Self::Known(_, epoch) => Self::Known(offset, epoch),
            unknown => unknown,
        }
    }

    pub(super) const fn without_epoch(self) -> Self {
        match self {
            Self::Known(offset, _) => Self::Known(offset, LeaderEpoch::NONE),
            unknown => unknown,
        }
    }
}

/// A partition that is assigned.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) position: Position,
    /// The topic that the position was told of; the zero id before.
    pub(super) topic_id: Uuid,
    /// Which assignment or seek this is: what comes for an earlier one is dropped.
    pub(super) generation: u32,
    pub(super) is_paused: bool,
    /// It waits for its owner to say how to go on.
    pub(super) is_failed: bool,
    pub(super) leader: Option<BrokerId>,
    pub(super) leader_epoch: LeaderEpoch,
    /// A replica nearby that the leader has sent the reader to, and until when it is read there (KIP-392).
    pub(super) nearby: Option<(BrokerId, Duration)>,
    /// Until then its leader is asked, and not told where the reader is: a replica nearby gave nothing, and the leader,
    /// which does not know that, would name it again.
    pub(super) stays_until: Duration,
    pub(super) failures: u32,
    pub(super) retry_at: Duration,
    /// When its leader first said that the position is not in the log; `None` once it was read on.
    pub(super) doubted_at: Option<Duration>,
}

impl Part {
    pub(super) const fn new(start: Start, generation: u32) -> Self {
        let position = match start {
            Start::Offset(offset) => Position::Known(offset, LeaderEpoch::NONE),
            start => Position::Wanted(start),
        };
        Self {
            position,
            topic_id: Uuid::ZERO,
            generation,
            is_paused: false,
            is_failed: false,
            leader: None,
            leader_epoch: LeaderEpoch::NONE,
            nearby: None,
            stays_until: Duration::ZERO,
            failures: 0,
            retry_at: Duration::ZERO,
            doubted_at: None,
        }
    }

    /// Another broker leads it, or the same for longer.
    pub(super) fn lead(&mut self, leader: Leader) {
        if (self.leader, self.leader_epoch) != (leader.broker, leader.epoch) {
            // Whom it sends readers to is for the new one to say.
            self.nearby = None;
        }
        self.leader = leader.broker;
        self.leader_epoch = leader.epoch;
    }

    /// Who is asked for its records.
    pub(super) fn source(&mut self, now: Now) -> Option<BrokerId> {
        self.nearby = self.nearby.filter(|&(_, until)| now.elapsed < until);
        self.nearby.map(|(broker, _)| broker).or(self.leader)
    }

    /// Whether this broker is asked for it, and does not lead it.
    pub(super) fn is_nearby(&self, broker: BrokerId) -> bool {
        self.nearby.is_some_and(|(nearby, _)| nearby == broker)
    }

    /// The replica nearby gives nothing: its leader is asked until then.
    pub(super) fn leave_nearby(&mut self, until: Duration) {
        self.nearby = None;
        self.stays_until = self.stays_until.max(until);
    }

    /// It cannot be read on.
    pub(super) fn fail(&mut self, of: &TopicPartition, error: ConsumeError) -> Effect {
        self.is_failed = true;
        Effect::Failed { of: of.clone(), generation: self.generation, error }
    }

    /// Goes on as the settings say, if they do.
    pub(super) const fn reset(&mut self, to: Reset) -> bool {
        let start = match to {
            Reset::Earliest => Start::Earliest,
            Reset::Latest => Start::Latest,
            Reset::None => return false,
        };
        self.position = Position::Wanted(start);
        true
    }
}
