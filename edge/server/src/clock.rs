//! The two clocks of this process.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Now, TimestampMs};

/// Reads the time for those who must not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
        Now::new(self.start.elapsed(), wall)
    }

    /// The moment `elapsed` after the start, as the runtime's timers want it.
    pub(crate) fn instant(&self, elapsed: Duration) -> tokio::time::Instant {
        // A deadline beyond what the clock can say is a year away: no connection lives as long.
        let far = Duration::from_secs(365 * 24 * 3600);
        tokio::time::Instant::from_std(self.start + elapsed.min(self.start.elapsed() + far))
    }
}
