//! How far a partition is committed: a number that only grows.

/// What is known of it.
#[derive(Debug)]
pub(super) struct Register {
    /// From which time on it was at least so much; both grow.
    floors: Vec<(u64, i64)>,
    /// The most that somebody asked for.
    most: i64,
}

impl Default for Register {
    fn default() -> Self {
        Self { floors: Vec::new(), most: Self::NOTHING }
    }
}

impl Register {
    /// Nothing is committed.
    pub(super) const NOTHING: i64 = -1;

    /// Somebody wants it to be so much.
    pub(super) fn asked(&mut self, offset: i64) {
        self.most = self.most.max(offset);
    }

    /// The most that it can be.
    pub(super) const fn most(&self) -> i64 {
        self.most
    }

    /// From a time on it is so much, or more. Times do not go back.
    pub(super) fn is_at_least(&mut self, offset: i64, at: u64) {
        let before = self.floors.last().map_or(Self::NOTHING, |(_, floor)| *floor);
        if offset > before {
            self.floors.push((at, offset));
        }
    }

    /// What it was before a time, if that is more than this.
    pub(super) fn above(&self, time: u64, offset: i64) -> Option<i64> {
        let known = self.floors.partition_point(|(at, _)| *at < time);
        let floor = self.floors[..known].last().map(|(_, floor)| *floor)?;
        (floor > offset).then_some(floor)
    }
}
