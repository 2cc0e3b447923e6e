//! When each record is due.

use std::thread;
use std::time::Duration;

/// An open load: records are due at times that do not depend on how fast they are taken, so that a
/// cluster that stalls is charged for all that waited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Records a second; `None` for as fast as they are taken.
    pub(super) rate: Option<f64>,
}

impl Load {
    /// From what `--throughput` says: at most so many records a second, or -1.
    pub(super) fn new(throughput: f64) -> Self {
        Self { rate: Some(throughput).filter(|&rate| rate > 0.0) }
    }

    /// When the record with this number is due after the start; `None` if it is due when its turn comes.
    pub(super) fn due(&self, number: u64) -> Option<Duration> {
        self.rate.map(|rate| Duration::from_secs_f64(number as f64 / rate))
    }
}

/// Waits until a time by a clock, as exactly as the system lets a thread.
pub(super) fn wait_until(due: Duration, clock: impl Fn() -> Duration) {
    /// The system wakes a thread some fifty microseconds late: for the last of it, look at the clock.
    const WATCHED: Duration = Duration::from_micros(80);
    loop {
        let now = clock();
        match due.checked_sub(now) {
            None => return,
            Some(left) if left > WATCHED => thread::sleep(left - WATCHED),
            Some(_) => std::hint::spin_loop(),
        }
    }
}
