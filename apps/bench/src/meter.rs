//! What each sender and each reader counts while it works, and what is made of it every second and at the end.
//!
//! ```text
//!   sender or reader ── under its own lock, once a batch ──▶ Meter ── every second ──▶ window: taken out
//!                                                              └───── at the end ────▶ steady state
//! ```
//!
//! Which times belong to the steady state is said by when a record was due, and not by when somebody looked; its
//! throughput is of what came through in it, and which records it measured says [`Counting`]. Windows and totals of
//! several meters are added, histogram to histogram.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::histogram::{histogram, whole};

/// Records and the bytes of their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How many.
    pub records: u64,
    /// Of their values.
    pub bytes: u64,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

/// Some time of one or more senders or readers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// What was measured and came through.
    pub counts: Counts,
    /// What came through while it was measured, be it due before: its throughput.
    pub came: Counts,
    /// From when a record was due until it was acknowledged, or read.
    #[serde(with = "whole")]
    pub response: Histogram<u64>,
    /// From when it was taken until it was acknowledged; of readers nothing.
    #[serde(with = "whole")]
    pub service: Histogram<u64>,
    /// From when it first left the client until it was acknowledged; of readers nothing.
    #[serde(with = "whole")]
    pub wire: Histogram<u64>,
    /// From when it was due until it was taken, of records that are sent at times that were set before; of readers
    /// nothing.
    #[serde(with = "whole")]
    pub delay: Histogram<u64>,
    /// When the last of it came through.
    pub last: Duration,
    /// Records that were given up.
    pub failed: u64,
    /// How long it took from when a client began until its first record came through, of several the longest: to
    /// connect, and to find out who has what.
    #[serde(default)]
    pub first: Option<Duration>,
}

impl Default for Measured {
    fn default() -> Self {
        let [response, service, wire, delay] = std::array::from_fn(|_| histogram());
        Self {
            counts: Counts::default(),
            came: Counts::default(),
            response,
            service,
            wire,
            delay,
            last: Duration::ZERO,
            failed: 0,
            first: None,
        }
    }
}

impl Measured {
    /// Adds what others measured.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(other.counts);
        self.came.add(other.came);
        self.response.add(&other.response).expect("they have the same bounds");
        self.service.add(&other.service).expect("they have the same bounds");
        self.wire.add(&other.wire).expect("they have the same bounds");
        self.delay.add(&other.delay).expect("they have the same bounds");
        self.last = self.last.max(other.last);
        self.failed += other.failed;
        self.first = self.first.max(other.first);
    }
}

/// The steady state of all senders, or of all readers.
#[derive(Debug)]
pub struct Flow {
    /// What was measured.
    pub measured: Measured,
    /// How long it took.
    pub seconds: f64,
}

impl Flow {
    /// From then on, until the last of it came through.
    pub(crate) fn from(measured: Measured, from: Duration) -> Self {
        // Less than a millisecond is no time to have a rate.
        let seconds = measured.last.saturating_sub(from).as_secs_f64().max(0.001);
        Self { measured, seconds }
    }

    /// Records that came through in a second.
    pub fn records_per_sec(&self) -> f64 {
        self.measured.came.records as f64 / self.seconds
    }
}

/// Which records are those of the steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Those that were due in it: at a set rate, what comes late is late, and still of it.
    Due,
    /// Those that came through in it: at full speed nothing is due before there is room.
    Came,
}

/// What one sender or reader counts.
pub(crate) struct Meter(Mutex<Slot>);

/// What a meter holds; whoever has it keeps others from it.
pub(crate) struct Slot {
    steady_from: Duration,
    counting: Counting,
    began: Duration,
    window: Measured,
    steady: Measured,
    /// Whether what comes in belongs to the steady state, and is not in the histograms yet.
    is_steady: bool,
    responses: Streak,
    services: Streak,
}

/// Times that came one after the other and are in one bucket of a histogram, as those of a batch mostly are: they are
/// counted at once, and not a bucket is looked for each.
#[derive(Debug, Default)]
struct Streak {
    count: u64,
    /// The first of them, and the bounds of its bucket.
    first: u64,
    lowest: u64,
    highest: u64,
}

impl Streak {
    /// Takes one more. What ends with it, how often, if it is in another bucket of this histogram.
    #[inline]
    fn take(&mut self, value: u64, of: &Histogram<u64>) -> Option<(u64, u64)> {
        if self.count > 0 && (self.lowest..=self.highest).contains(&value) {
            self.count += 1;
            return None;
        }
        let ended = self.end();
        let (lowest, highest) = (of.lowest_equivalent(value), of.highest_equivalent(value));
        *self = Self { count: 1, first: value, lowest, highest };
        ended
    }

    fn end(&mut self) -> Option<(u64, u64)> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then_some((self.first, count))
    }
}

impl Meter {
    /// Times are by the clock of the clients.
    pub(crate) fn new(steady_from: Duration, counting: Counting) -> Self {
        let (window, steady) = (Measured::default(), Measured::default());
        Self(Mutex::new(Slot {
            steady_from,
            counting,
            began: Duration::ZERO,
            window,
            steady,
            is_steady: false,
            responses: Streak::default(),
            services: Streak::default(),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The client begins.
    pub(crate) const fn begin(&mut self, at: Duration) {
        self.began = at;
    }

    #[inline]
    fn came(&mut self, at: Duration) {
        if self.steady.first.is_none() {
            self.steady.first = Some(at.saturating_sub(self.began));
        }
    }

    /// Counts a record that was due then and came through at `at`; taken then, if that is another time.
    /// Whether its times belong to the steady state.
    #[inline]
    pub(crate) fn record(
        &mut self,
        due: Duration,
        taken: Option<Duration>,
        at: Duration,
        bytes: u64,
    ) -> bool {
        self.came(at);
        self.window.counts.add(Counts { records: 1, bytes });
        let is_steady = due >= self.steady_from;
        if is_steady != self.is_steady {
            self.settle();
            self.is_steady = is_steady;
        }
        let response = at.saturating_sub(due).as_nanos() as u64;
        let ended = self.responses.take(response, &self.window.response);
        self.count_responses(ended);
        if let Some(taken) = taken.filter(|_| is_steady) {
            let service = at.saturating_sub(taken).as_nanos() as u64;
            let ended = self.services.take(service, &self.steady.service);
            self.count_services(ended);
        }
        if is_steady && self.counting == Counting::Due {
            self.steady.counts.add(Counts { records: 1, bytes });
        }
        // What waited in line when it began takes time from what is due in it, the more the slower the system is.
        if at >= self.steady_from {
            self.steady.came.add(Counts { records: 1, bytes });
            self.steady.last = at;
        }
        is_steady
    }

    #[inline]
    fn count_responses(&mut self, times: Option<(u64, u64)>) {
        let Some((nanos, count)) = times else { return };
        self.window.response.saturating_record_n(nanos, count);
        if self.is_steady {
            self.steady.response.saturating_record_n(nanos, count);
        }
    }

    #[inline]
    fn count_services(&mut self, times: Option<(u64, u64)>) {
        if let Some((nanos, count)) = times {
            self.steady.service.saturating_record_n(nanos, count);
        }
    }

    /// Puts what came in last into the histograms.
    fn settle(&mut self) {
        let (responses, services) = (self.responses.end(), self.services.end());
        self.count_responses(responses);
        self.count_services(services);
    }

    /// Says when a batch left the client that came through at `at`: so many records, and those of them that
    /// belong to the steady state. Its records left together, so that it is counted once and not for each.
    pub(crate) fn record_left(&mut self, left: Duration, at: Duration, records: u64, steady: u64) {
        let nanos = at.saturating_sub(left).as_nanos() as u64;
        self.window.wire.saturating_record_n(nanos, records);
        self.steady.wire.saturating_record_n(nanos, steady);
    }

    /// Says how long after it was due a record was taken, and whether it belongs to the steady state.
    #[inline]
    pub(crate) fn record_delay(&mut self, delay: Duration, is_steady: bool) {
        let nanos = delay.as_nanos() as u64;
        self.window.delay.saturating_record(nanos);
        if is_steady {
            self.steady.delay.saturating_record(nanos);
        }
    }

    /// Counts records of which nobody knows when they were due; they count from `at` on.
    #[inline]
    pub(crate) fn record_untimed(&mut self, counts: Counts, at: Duration) {
        self.came(at);
        self.window.counts.add(counts);
        if at >= self.steady_from {
            if self.counting == Counting::Due {
                self.steady.counts.add(counts);
            }
            self.steady.came.add(counts);
            self.steady.last = at;
        }
    }

    /// Counts records that were given up.
    pub(crate) fn fail(&mut self, records: u64) {
        self.window.failed += records;
    }

    /// Adds what came since the last time to `window`, and begins anew.
    pub(crate) fn take_window(&mut self, window: &mut Measured) {
        self.settle();
        window.add(&self.window);
        self.window.counts = Counts::default();
        self.window.failed = 0;
        self.window.response.reset();
        self.window.wire.reset();
        self.window.delay.reset();
    }

    pub(crate) fn steady(&mut self) -> &Measured {
        self.settle();
        if self.counting == Counting::Came {
            self.steady.counts = self.steady.came;
        }
        &self.steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn the_steady_state_is_what_was_due_in_it() {
        let ms = Duration::from_millis;
        let meter = Meter::new(ms(1_000), Counting::Due);
        meter.lock().begin(ms(890));
        // A cluster that stalls: due before, acknowledged behind.
        meter.lock().record(ms(900), Some(ms(950)), ms(1_100), 100);
        meter.lock().record(ms(1_000), Some(ms(1_400)), ms(1_500), 100);
        meter.lock().record_left(ms(1_480), ms(1_500), 2, 1);
        meter.lock().record_untimed(Counts { records: 2, bytes: 7 }, ms(1_600));
        let mut window = Measured::default();
        meter.lock().take_window(&mut window);
        assert_eq!(window.counts, Counts { records: 4, bytes: 207 });
        assert_eq!(window.response.len(), 2);
        let steady = meter.lock().steady().clone();
        assert_eq!(steady.first, Some(ms(210)), "in the warm-up, too");
        assert_eq!((steady.counts, steady.last), (Counts { records: 3, bytes: 107 }, ms(1_600)));
        assert_eq!(steady.came, Counts { records: 4, bytes: 207 }, "a line that waited took its time");
        assert_eq!(steady.response.max(), histogram_of(500_000_000).max());
        assert_eq!(steady.service.max(), histogram_of(100_000_000).max());
        assert_eq!((steady.wire.max(), steady.wire.len()), (histogram_of(20_000_000).max(), 1));
        assert_eq!(window.wire.len(), 2, "of a batch, each of its records");
        meter.lock().record_delay(ms(5), false);
        meter.lock().record_delay(ms(7), true);
        meter.lock().take_window(&mut window);
        assert_eq!((window.delay.len(), meter.lock().steady().delay.len()), (2, 1));
        assert_eq!(meter.lock().steady().delay.max(), histogram_of(7_000_000).max());
        let mut next = Measured::default();
        meter.lock().take_window(&mut next);
        assert_eq!((next.counts, next.response.len()), (Counts::default(), 0), "it was taken out");
    }

    /// Nothing is lost by it, whatever follows what.
    #[test]
    fn times_that_are_counted_at_once_are_those_that_came() {
        let (steady_from, mut chance) = (Duration::from_millis(5), Chance::new(7, 0));
        let meter = Meter::new(steady_from, Counting::Came);
        let mut expected = Measured::default();
        let (mut windows, mut all) = (Measured::default(), histogram());
        for number in 0..50_000_u64 {
            let at = Duration::from_nanos(20_000_000 + number * 100);
            // Streaks of some, jumps of many, and times at the very ends.
            let waited = match number % 97 {
                0 => 0,
                1 => u64::MAX / 2,
                _ => 1_000 + number / 50 * 700 % 19_000_000 + (chance.unit() * 900.0) as u64,
            };
            let due = at.saturating_sub(Duration::from_nanos(waited));
            let taken = due + Duration::from_nanos(40 * (number % 3));
            meter.lock().record(due, Some(taken), at, 1);
            let nanos = |since: Duration| at.saturating_sub(since).as_nanos() as u64;
            all.saturating_record(nanos(due));
            if due >= steady_from {
                expected.response.saturating_record(nanos(due));
                expected.service.saturating_record(nanos(taken));
            }
            if number % 9_999 == 0 {
                meter.lock().take_window(&mut windows);
            }
        }
        meter.lock().take_window(&mut windows);
        let steady = meter.lock().steady().clone();
        assert_eq!(windows.response, all);
        assert_eq!((steady.response, steady.service), (expected.response, expected.service));
    }

    fn histogram_of(nanos: u64) -> Histogram<u64> {
        let mut found = histogram();
        found.saturating_record(nanos);
        found
    }
    #[test]
    fn at_full_speed_counts_what_came_in_the_steady_state() {
        let ms = Duration::from_millis;
        let meter = Meter::new(ms(1_000), Counting::Came);
        // A hundred records wait in line when it begins, for as many milliseconds: one comes through each millisecond.
        for number in 0..1_100 {
            let due = ms(u64::saturating_sub(900 + number, 100));
            meter.lock().record(due, Some(due), ms(900 + number), 100);
        }
        let steady = meter.lock().steady().clone();
        assert_eq!((steady.counts.records, steady.came.records, steady.last), (1_000, 1_000, ms(1_999)));
        // How long they took is told of those that were due in it.
        assert_eq!(steady.response.len(), 900);
    }
}
