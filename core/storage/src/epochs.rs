//! Where each leader epoch began: what tells a follower how far it agrees with its leader.
//!
//! ```text
//!   epoch 0            epoch 2       epoch 5
//!   0 ──────────────── 40 ────────── 90 ─────────▶ log end
//! ```
//!
//! Epochs and starts both grow strictly. An epoch in which nothing was written is forgotten when the
//! next begins at the same offset. The list is rebuilt from the batches' own epochs if it is lost.

use base::{LeaderEpoch, Offset};

/// The epochs of one log, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Epochs {
    starts: Vec<(LeaderEpoch, Offset)>,
}

impl Epochs {
    /// From entries in which both fields grow strictly, as [`crate::checkpoint::parse_epochs`] gives them.
    pub fn from_starts(starts: Vec<(LeaderEpoch, Offset)>) -> Self {
        let epochs = Self { starts };
        epochs.check();
        epochs
    }

    /// Epochs and where they began, oldest first.
    pub fn starts(&self) -> &[(LeaderEpoch, Offset)] {
        &self.starts
    }

    /// The newest epoch.
    pub fn last(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|&(epoch, _)| epoch)
    }

    /// Notes that `epoch` begins at `start`. Whether that changed anything: an epoch that is known, or
    /// older than the newest, does not.
    pub fn begin(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch < LeaderEpoch::FIRST || self.last().is_some_and(|last| epoch <= last) {
            return false;
        }
        let kept = self.starts.partition_point(|&(_, from)| from < start);
        self.starts.truncate(kept);
        self.starts.push((epoch, start));
        self.check();
        true
    }

    /// Forgets what begins at or behind the new end of the log. Whether that changed anything.
    pub fn truncate(&mut self, end: Offset) -> bool {
        let kept = self.starts.partition_point(|&(_, from)| from < end);
        let changed = kept < self.starts.len();
        self.starts.truncate(kept);
        changed
    }

    /// Forgets what ended before the new start of the log; the epoch that reaches over it begins there.
    /// Whether that changed anything.
    pub fn advance_start(&mut self, start: Offset) -> bool {
        let reached = self.starts.partition_point(|&(_, from)| from <= start);
        let Some(covering) = reached.checked_sub(1) else { return false };
        let changed = covering > 0 || self.starts[covering].1 < start;
        self.starts.drain(..covering);
        self.starts[0].1 = start;
        self.check();
        changed
    }

    /// Forgets everything. Whether that changed anything.
    pub fn clear(&mut self) -> bool {
        let changed = !self.starts.is_empty();
        self.starts.clear();
        changed
    }

    /// The epoch in which the record at `offset` was written.
    pub fn at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let reached = self.starts.partition_point(|&(_, from)| from <= offset);
        reached.checked_sub(1).map(|i| self.starts[i].0)
    }

    /// Kafka's OffsetForLeaderEpoch: the largest known epoch that is not above `requested`, and where
    /// it ended. `(NONE, NONE)` if `requested` is above everything known.
    pub fn end_of(&self, requested: LeaderEpoch, log_end: Offset) -> (LeaderEpoch, Offset) {
        const UNKNOWN: (LeaderEpoch, Offset) = (LeaderEpoch::NONE, Offset::NONE);
        let above = self.starts.partition_point(|&(epoch, _)| epoch <= requested);
        match (above.checked_sub(1).map(|i| self.starts[i].0), self.starts.get(above)) {
            _ if requested < LeaderEpoch::FIRST => UNKNOWN,
            (Some(floor), Some(&(_, end))) => (floor, end),
            // Everything the log has is of a later epoch: it agrees up to where that begins.
            (None, Some(&(_, end))) => (requested, end),
            (Some(newest), None) if newest == requested => (newest, log_end),
            _ => UNKNOWN,
        }
    }

    fn check(&self) {
        let grows = self.starts.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1);
        assert!(grows, "{self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(starts: &[(i32, i64)]) -> Epochs {
        Epochs::from_starts(starts.iter().map(|&(e, o)| (LeaderEpoch(e), Offset(o))).collect())
    }

    #[test]
    fn an_epoch_without_records_is_forgotten() {
        let mut found = epochs(&[(0, 0), (2, 40)]);
        assert!(found.begin(LeaderEpoch(5), Offset(40)));
        assert_eq!(found, epochs(&[(0, 0), (5, 40)]));
        assert!(!found.begin(LeaderEpoch(5), Offset(60)), "known");
        assert!(!found.begin(LeaderEpoch(4), Offset(60)), "older");
        assert!(!found.begin(LeaderEpoch::NONE, Offset(60)), "none");
    }

    #[test]
    fn ends_are_kafkas() {
        let log_end = Offset(100);
        let known = epochs(&[(1, 10), (3, 40), (4, 90)]);
        let cases = [
            ("none", -1, (-1, -1)),
            ("below all", 0, (0, 10)),
            ("known", 1, (1, 40)),
            ("in a gap", 2, (1, 40)),
            ("before the last", 3, (3, 90)),
            ("the last", 4, (4, 100)),
            ("above all", 5, (-1, -1)),
        ];
        for (name, requested, (epoch, end)) in cases {
            let answer = known.end_of(LeaderEpoch(requested), log_end);
            assert_eq!(answer, (LeaderEpoch(epoch), Offset(end)), "{name}");
        }
        assert_eq!(Epochs::default().end_of(LeaderEpoch(0), log_end), (LeaderEpoch(-1), Offset(-1)));
    }

    #[test]
    fn both_ends_can_move() {
        let mut found = epochs(&[(1, 10), (3, 40), (4, 90)]);
        assert!(found.truncate(Offset(90)));
        assert_eq!(found, epochs(&[(1, 10), (3, 40)]));
        assert!(!found.truncate(Offset(41)));
        assert!(!found.advance_start(Offset(5)), "before all");
        assert!(found.advance_start(Offset(20)));
        assert_eq!(found, epochs(&[(1, 20), (3, 40)]));
        assert!(found.advance_start(Offset(70)));
        assert_eq!(found, epochs(&[(3, 70)]));
        assert!(!found.advance_start(Offset(70)), "there already");
        assert_eq!(found.at(Offset(69)), None);
        assert_eq!(found.at(Offset(70)), Some(LeaderEpoch(3)));
    }
}
