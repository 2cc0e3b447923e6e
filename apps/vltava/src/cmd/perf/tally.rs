//! What the producers of a run tell of, while it runs and behind it.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::producer::{DeliveryReport, Reported};

use super::stats::Stats;

pub(super) struct Tally {
    measured: Mutex<Measured>,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
    /// Which threads' records were given up, and which of them, if somebody wants to know.
    given_up: Option<Mutex<Vec<(u16, u64)>>>,
    /// Whether a tag tells when a record was due, and not its number.
    is_due_by_tag: bool,
    warmup_records: u64,
    is_steady_said: AtomicBool,
}

/// What a record is sent with, to know it again when its fate is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// Of those that send by the same producer.
    pub(super) thread: u8,
    /// Its number among those of the thread, or when it was due, in nanoseconds: below 2⁵⁶, which is two years.
    pub(super) which: u64,
}

impl Tag {
    const WHICH_BITS: u32 = 56;

    pub(super) fn pack(self) -> u64 {
        u64::from(self.thread) << Self::WHICH_BITS | self.which
    }

    fn unpack(packed: u64) -> Self {
        let which = packed & ((1 << Self::WHICH_BITS) - 1);
        Self { thread: (packed >> Self::WHICH_BITS) as u8, which }
    }
}

/// Under one lock: else a window could be taken before the end of the warm-up and counted behind it.
struct Measured {
    window: Stats,
    total: Stats,
    steady: Option<Stats>,
    /// The window that the steady state cut short.
    warm_up: Option<Window>,
}

/// An interval.
pub(super) struct Window {
    pub(super) stats: Stats,
    pub(super) ended: Duration,
    pub(super) is_warm_up: bool,
}

impl Tally {
    pub(super) fn new(warmup_records: u64, is_due_by_tag: bool, keeps_given_up: bool) -> Self {
        Self {
            given_up: keeps_given_up.then(Mutex::default),
            is_due_by_tag,
            measured: Mutex::new(Measured::since(Duration::ZERO)),
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            warmup_records,
            is_steady_said: AtomicBool::new(false),
        }
    }

    pub(super) fn start(&self, at: Duration) {
        *lock(&self.measured) = Measured::since(at);
    }

    /// Runs on a producer's own thread, once for each batch. Its threads are those from the `first` on.
    pub(super) fn on_delivery(&self, first: u16, report: &DeliveryReport<'_>) {
        let count = report.records.len() as u64;
        if let Err(error) = report.outcome {
            return self.fail(first, report.records.iter().map(|record| record.tag), error);
        }
        let mut measured = lock(&self.measured);
        let before = self.acknowledged.fetch_add(count, Ordering::Relaxed);
        // The last record of the warm-up may be any of a batch.
        let left = self.warmup_records.checked_sub(before).filter(|left| (1..=count).contains(left));
        let (warm_up, rest) = report.records.split_at(left.unwrap_or(0) as usize);
        measured.record(warm_up, report.at, self.is_due_by_tag);
        if left.is_some() {
            measured.begin_steady_state(report.at);
        }
        measured.record(rest, report.at, self.is_due_by_tag);
    }

    /// The records with these tags were given up, by the producer whose threads are those from the `first` on.
    pub(super) fn fail(&self, first: u16, tags: impl ExactSizeIterator<Item = u64>, why: &dyn Error) {
        self.fail_untaken(tags.len() as u64, why);
        if let Some(given_up) = &self.given_up {
            lock(given_up)
                .extend(tags.map(Tag::unpack).map(|tag| (first + u16::from(tag.thread), tag.which)));
        }
    }

    /// So many records will not even be handed to a producer.
    pub(super) fn fail_untaken(&self, count: u64, why: &dyn Error) {
        self.failed.fetch_add(count, Ordering::Relaxed);
        lock(&self.first_failure).get_or_insert_with(|| why.to_string());
    }

    /// Which records of a thread were given up, in their order.
    pub(super) fn given_up(&self, sender: u16) -> Vec<u64> {
        let Some(given_up) = &self.given_up else { return Vec::new() };
        let given_up = lock(given_up);
        let of_sender = given_up.iter().filter(|(number, _)| *number == sender);
        let mut which: Vec<u64> = of_sender.map(|&(_, which)| which).collect();
        which.sort_unstable();
        which
    }

    /// How long until an interval is over.
    pub(super) fn until_next_line(&self, now: Duration, interval: Duration) -> Duration {
        (lock(&self.measured).window.started() + interval).saturating_sub(now)
    }

    /// The window that the end of the warm-up cut short, once it is over.
    pub(super) fn take_warm_up(&self) -> Option<Window> {
        lock(&self.measured).warm_up.take()
    }

    /// The window up to now, and begins the next.
    pub(super) fn take_window(&self, now: Duration) -> Window {
        let mut measured = lock(&self.measured);
        let stats = measured.take(now);
        if let Some(steady) = &mut measured.steady {
            steady.add(&stats);
        }
        Window { stats, ended: now, is_warm_up: self.warmup_records > 0 && measured.steady.is_none() }
    }

    /// Whether the steady state began since it was asked last.
    pub(super) fn became_steady(&self) -> bool {
        lock(&self.measured).steady.is_some() && !self.is_steady_said.swap(true, Ordering::Relaxed)
    }

    /// Records whose fate is known.
    pub(super) fn settled(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed) + self.failed()
    }

    /// Records that were given up.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn first_failure(&self) -> Option<String> {
        lock(&self.first_failure).clone()
    }

    /// Kafka's lines about the whole run, and about its steady state if there is one.
    pub(super) fn total_lines(&self, now: Duration) -> Vec<String> {
        let measured = lock(&self.measured);
        let total = measured.total.total_line(now, false);
        let steady = measured.steady.as_ref().map(|steady| steady.total_line(now, true));
        [total].into_iter().chain(steady).collect()
    }

    /// What the result is taken from: the steady state, or all if there was no warm-up.
    pub(super) fn with_result<T>(&self, of: impl FnOnce(&Stats) -> T) -> T {
        let measured = lock(&self.measured);
        of(measured.steady.as_ref().unwrap_or(&measured.total))
    }
}

impl Measured {
    fn since(at: Duration) -> Self {
        Self { window: Stats::since(at), total: Stats::since(at), steady: None, warm_up: None }
    }

    fn record(&mut self, records: &[Reported], at: Duration, is_due_by_tag: bool) {
        for record in records {
            let service = at.saturating_sub(Duration::from_nanos(record.taken_ns));
            let latency = match is_due_by_tag {
                true => at.saturating_sub(Duration::from_nanos(Tag::unpack(record.tag).which)),
                false => service,
            };
            self.window.record(record.value_bytes.into(), latency, service);
        }
    }

    /// What came before is warm-up.
    fn begin_steady_state(&mut self, at: Duration) {
        if self.steady.is_none() {
            self.warm_up = Some(Window { stats: self.take(at), ended: at, is_warm_up: true });
            self.steady = Some(Stats::since(at));
        }
    }

    /// Adds the window to the total, and begins the next.
    fn take(&mut self, at: Duration) -> Stats {
        let window = std::mem::replace(&mut self.window, Stats::since(at));
        self.total.add(&window);
        window
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread::scope;

    use base::PartitionIndex;

    use super::*;

    /// Whoever shows the run takes windows when it likes, also while the warm-up ends.
    #[test]
    fn no_window_of_the_warm_up_counts_in_the_steady_state() {
        let record = Reported { tag: 0, taken_ns: 0, value_bytes: 1 };
        for _ in 0..60 {
            let tally = Tally::new(7 * 5 + 3, false, false);
            let is_over = AtomicBool::new(false);
            let begin = Barrier::new(2);
            scope(|scope| {
                scope.spawn(|| {
                    begin.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        tally.take_window(Duration::ZERO);
                    }
                });
                begin.wait();
                for _ in 0..10 {
                    tally.on_delivery(
                        0,
                        &DeliveryReport {
                            topic: "t",
                            partition: PartitionIndex(0),
                            records: &[record; 7],
                            left_at: None,
                            at: Duration::ZERO,
                            outcome: Ok(None),
                        },
                    );
                }
                is_over.store(true, Ordering::Relaxed);
            });
            tally.take_window(Duration::ZERO);
            tally.with_result(|steady| assert_eq!(steady.records, 70 - 38));
        }
    }

    /// A record that had to wait is charged for it from when it was due, not from when it was taken.
    #[test]
    fn a_latency_begins_when_the_record_was_due() {
        let at_ms = |ms: u64| ms * 1_000_000;
        for (is_due_by_tag, latency_ms) in [(true, 90), (false, 20)] {
            let tally = Tally::new(0, is_due_by_tag, false);
            let tag = Tag { thread: 3, which: at_ms(10) }.pack();
            let records = [Reported { tag, taken_ns: at_ms(80), value_bytes: 1 }];
            let (at, outcome) = (Duration::from_millis(100), Ok(None));
            let partition = PartitionIndex(0);
            let left_at = None;
            let report = DeliveryReport { topic: "t", partition, records: &records, left_at, at, outcome };
            tally.on_delivery(0, &report);
            tally.take_window(at);
            tally.with_result(|stats| {
                let about = |found: u64, ms| assert!((at_ms(ms)..at_ms(ms + 1)).contains(&found), "{found}");
                about(stats.latency.max(), latency_ms);
                about(stats.service.max(), 20);
            });
        }
    }
}
