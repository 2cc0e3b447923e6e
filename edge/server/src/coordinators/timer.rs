//! When shards have to be stepped although nothing happens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;

/// One timer for all shards. It is set again at every step of any of them, so that costs no more than a look at a
/// number unless the time comes nearer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// When it goes off, in milliseconds of `Now::elapsed`.
    due_ms: AtomicU64,
    nearer: Notify,
}

impl Default for Timer {
    fn default() -> Self {
        Self { due_ms: AtomicU64::new(u64::MAX), nearer: Notify::new() }
    }
}

impl Timer {
    /// Some shard is to be stepped at this time.
    pub(crate) fn set(&self, due: Option<Duration>) {
        let Some(due) = due else { return };
        let due_ms = ceil_ms(due);
        if self.due_ms.fetch_min(due_ms, Ordering::SeqCst) > due_ms {
            self.nearer.notify_one();
        }
    }

    /// Waits until it goes off. Whatever is set from then on counts.
    pub(super) async fn due(&self, clock: Clock) {
        loop {
            let due_ms = self.due_ms.load(Ordering::SeqCst);
            tokio::select! {
                () = tokio::time::sleep_until(clock.instant(Duration::from_millis(due_ms))) => break,
                () = self.nearer.notified() => {}
            }
        }
        self.due_ms.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Whole milliseconds, none too early.
fn ceil_ms(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
