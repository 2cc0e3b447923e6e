//! Time, owned by the run: the monotonic clock only goes forward, the wall clock may jump.

use std::time::Duration;

use base::{Now, TimestampMs};

/// When simulated time begins by the wall clock. Any moment will do; this one is far from zero, so
/// that a clock set back stays positive.
const WALL_START_MS: i64 = 1_700_000_000_000;

/// Both clocks of the simulated machine.
#[derive(Debug, Clone)]
pub struct Clock {
    elapsed_ms: u64,
    /// What a set-back or set-forward has added to the wall clock so far.
    shifted_ms: i64,
}

impl Clock {
    /// A clock at the start of time.
    pub fn new() -> Self {
        Self { elapsed_ms: 0, shifted_ms: 0 }
    }

    /// What both clocks show.
    pub fn now(&self) -> Now {
        let wall = WALL_START_MS + self.elapsed_ms as i64 + self.shifted_ms;
        Now::new(Duration::from_millis(self.elapsed_ms), TimestampMs(wall))
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        self.elapsed_ms += ms;
    }

    /// Sets the wall clock forward, or back if negative; the monotonic clock does not notice.
    pub fn jump_wall(&mut self, ms: i64) {
        self.shifted_ms = (self.shifted_ms + ms).max(-WALL_START_MS / 2);
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_jump_leaves_the_monotonic_clock_alone() {
        let mut clock = Clock::new();
        clock.pass(5);
        let before = clock.now();
        clock.jump_wall(-1000);
        let after = clock.now();
        assert_eq!(after.elapsed, before.elapsed);
        assert_eq!(after.wall.0, before.wall.0 - 1000);
    }
}
