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
    /// Where they really began, also those before the start of the log whose records are still there: a
    /// log that is cut at its start has them as its newest.
    starts: Vec<(LeaderEpoch, Offset)>,
    log_start: Offset,
}

impl Epochs {
    /// From entries in which both fields grow strictly, as [`crate::checkpoint::parse_epochs`] gives them.
    pub fn from_starts(starts: Vec<(LeaderEpoch, Offset)>) -> Self {
        let epochs = Self { starts, log_start: Offset::ZERO };
        epochs.check();
        epochs
    }

    /// Epochs and where they began, oldest first, as they are kept.
    pub fn kept(&self) -> &[(LeaderEpoch, Offset)] {
        &self.starts
    }

    /// Epochs and where they begin in the log, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (LeaderEpoch, Offset)> + '_ {
        self.visible().iter().map(|&(epoch, from)| (epoch, from.max(self.log_start)))
    }

    /// Without those that ended before the start of the log.
    fn visible(&self) -> &[(LeaderEpoch, Offset)] {
        let reached = self.starts.partition_point(|&(_, from)| from <= self.log_start);
        &self.starts[reached.saturating_sub(1)..]
    }

    /// The newest epoch.
    pub fn last(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|&(epoch, _)| epoch)
    }

    /// Where the first epoch begins that is not older than `epoch`.
    pub fn begin_of(&self, epoch: LeaderEpoch) -> Option<Offset> {
        let older = self.starts.partition_point(|&(known, _)| known < epoch);
        self.starts.get(older).map(|&(_, from)| from)
    }

    /// The first epoch that is newer than `epoch`.
    pub fn first_after(&self, epoch: LeaderEpoch) -> Option<LeaderEpoch> {
        let known = self.starts.partition_point(|&(known, _)| known <= epoch);
        self.starts.get(known).map(|&(newer, _)| newer)
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
        self.log_start = self.log_start.min(end);
        changed
    }

    /// The log begins here for its readers.
    pub fn advance_start(&mut self, start: Offset) {
        self.log_start = start;
    }

    /// Forgets what ended before the first record that is still there.
    pub fn forget_before(&mut self, first: Offset) {
        let reached = self.starts.partition_point(|&(_, from)| from <= first);
        self.starts.drain(..reached.saturating_sub(1));
    }

    /// Forgets everything. Whether that changed anything.
    pub fn clear(&mut self) -> bool {
        let changed = !self.starts.is_empty();
        *self = Self::default();
        changed
    }

    /// The epoch in which the record at `offset` was written.
    pub fn at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let reached = self.starts.partition_point(|&(_, from)| from <= offset);
        reached.checked_sub(1).map(|i| self.starts[i].0).filter(|_| offset >= self.log_start)
    }

    /// Kafka's OffsetForLeaderEpoch: the largest known epoch that is not above `requested`, and where
    /// it ended. `(NONE, NONE)` if `requested` is above everything known.
    pub fn end_of(&self, requested: LeaderEpoch, log_end: Offset) -> (LeaderEpoch, Offset) {
        const UNKNOWN: (LeaderEpoch, Offset) = (LeaderEpoch::NONE, Offset::NONE);
        let starts = self.visible();
        let above = starts.partition_point(|&(epoch, _)| epoch <= requested);
        match (above.checked_sub(1).map(|i| starts[i].0), starts.get(above)) {
            _ if requested < LeaderEpoch::FIRST => UNKNOWN,
            (Some(floor), Some(&(_, end))) => (floor, end),
            // Everything the log has is of a later epoch: it agrees up to where that begins.
            (None, Some(&(_, end))) => (requested, end.max(self.log_start)),
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
        let listed = |epochs: &Epochs| epochs.iter().map(|(e, o)| (e.0, o.0)).collect::<Vec<_>>();
        let mut found = epochs(&[(1, 10), (3, 40), (4, 90)]);
        assert!(found.truncate(Offset(90)));
        assert_eq!(listed(&found), [(1, 10), (3, 40)]);
        assert!(!found.truncate(Offset(41)));
        found.advance_start(Offset(5));
        assert_eq!(listed(&found), [(1, 10), (3, 40)]);
        found.advance_start(Offset(20));
        assert_eq!(listed(&found), [(1, 20), (3, 40)]);
        assert_eq!(found.end_of(LeaderEpoch(0), Offset(50)), (LeaderEpoch(0), Offset(20)));
        found.advance_start(Offset(70));
        assert_eq!(listed(&found), [(3, 70)]);
        assert_eq!(found.kept().len(), 2);
        found.forget_before(Offset(40));
        assert_eq!(found.kept(), [(LeaderEpoch(3), Offset(40))]);
        assert_eq!(found.at(Offset(69)), None);
        assert_eq!(found.at(Offset(70)), Some(LeaderEpoch(3)));
        assert!(found.begin(LeaderEpoch(9), Offset(70)), "the one before is empty");
        assert_eq!(listed(&found), [(9, 70)]);
    }
}
