//! What a thread that sends sees of the time.

use std::time::Duration;

use client::producer::{Delivery, Producer, Record, SendError};
use hdrhistogram::Histogram;

use crate::histogram::histogram;
use crate::schedule::Punctuality;

/// Calls of `send` for each that is timed, where records are sent as fast as they are taken.
const CALLS_OF_A_LOOK: u64 = 8;
/// So long no calls take that wait for nothing: one did that was not timed, if that much went by since the last
/// look.
const LONG: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug)]
pub struct Watch {
    /// When it looked last.
    pub seen: Duration,
    /// How long calls of send took, in nanoseconds.
    pub call: Histogram<u64>,
    /// How late records were sent that count.
    pub punctuality: Punctuality,
    /// Calls since the last look, which were not timed.
    untimed: u64,
    /// How long the last call took that was timed and not long.
    usual: Duration,
}

impl Watch {
    /// One that looked just now.
    pub fn new(seen: Duration) -> Self {
        Self {
            seen,
            call: histogram(),
            punctuality: Punctuality::default(),
            untimed: 0,
            usual: Duration::ZERO,
        }
    }

    /// Sends a record: which of the thread's it is, when it was due, and whether its times count.
    ///
    /// # Errors
    /// What the producer says of the record.
    #[inline]
    pub fn send(
        &mut self,
        producer: &Producer,
        record: &Record<'_>,
        place: (u64, Option<Duration>, bool),
    ) -> Result<Delivery, SendError> {
        self.time(|| producer.elapsed(), place, || producer.send_blocking(record))
    }

    /// The same of any call, by any clock.
    ///
    /// A call of a record that was due is timed, also when the thread is late: which of them wait is what is
    /// asked. As fast as can be, the two looks at the clock would be a large part of what is measured: one call
    /// stands for several, and of the others those that are long are seen from the next look.
    #[inline]
    fn time<T>(
        &mut self,
        clock: impl Fn() -> Duration,
        (index, due, counts): (u64, Option<Duration>, bool),
        call: impl FnOnce() -> T,
    ) -> T {
        if due.is_none() && !index.is_multiple_of(CALLS_OF_A_LOOK) {
            self.untimed += u64::from(counts);
            return call();
        }
        let before = clock();
        let done = call();
        let between = before.saturating_sub(self.seen);
        self.seen = clock();
        let untimed = std::mem::take(&mut self.untimed);
        if counts {
            self.count(self.seen.saturating_sub(before), between, untimed);
            if let Some(due) = due {
                self.punctuality.record(before.saturating_sub(due));
            }
        }
        done
    }

    /// Counts a call, and those before it that were not timed and took so long together with whatever else was
    /// done.
    #[inline]
    fn count(&mut self, took: Duration, between: Duration, mut untimed: u64) {
        if untimed > 0 && between >= LONG {
            self.call.saturating_record(between.as_nanos() as u64);
            untimed -= 1;
        }
        if took < LONG {
            self.usual = took;
        }
        self.call.saturating_record(took.as_nanos() as u64);
        // One that is long stands for itself: others are seen when they happen.
        self.call.saturating_record_n(self.usual.as_nanos() as u64, untimed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Calls that take a microsecond, but for one of them, and all that is said of them.
    fn watched(long: u64, due: Option<Duration>) -> Histogram<u64> {
        let now = Cell::new(Duration::from_secs(5));
        let mut watch = Watch::new(now.get());
        for index in 0..800 {
            let takes = if index == long { Duration::from_millis(250) } else { Duration::from_micros(1) };
            watch.time(|| now.get(), (index, due, true), || now.set(now.get() + takes));
        }
        watch.call
    }

    #[test]
    fn a_call_that_waits_is_seen_whichever_it_is() {
        // Late for all of them, or with no time at which they are due.
        for due in [Some(Duration::from_secs(1)), None] {
            for long in 400..408 {
                let found = watched(long, due);
                let (max, longer) = (found.max(), found.count_between(MS, u64::MAX));
                assert!((249 * MS..=251 * MS).contains(&max), "{due:?} {long}: {max}");
                assert_eq!(longer, 1, "{due:?} {long}: it is one call");
                assert!(found.len() >= 793 && found.value_at_quantile(0.99) <= 1_001, "{due:?} {long}");
            }
        }
    }
}
