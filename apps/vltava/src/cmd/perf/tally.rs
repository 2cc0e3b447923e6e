//! What the producers of a run tell of, while it runs and behind it.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::producer::{DeliveryReport, Reported};

use super::stats::Stats;

pub(super) struct Tally {
    window: Mutex<Stats>,
    total: Mutex<Stats>,
    steady: Mutex<Option<Stats>>,
    /// The window that the steady state cut short.
    warm_up: Mutex<Option<Window>>,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
    /// The producers and the tags of the records that were given up, if somebody wants to know them.
    given_up: Option<Mutex<Vec<(u16, u64)>>>,
    /// Whether a tag is the time when a record was due, and not its number.
    is_due_by_tag: bool,
    warmup_records: u64,
    is_steady_said: AtomicBool,
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
            window: Mutex::new(Stats::since(Duration::ZERO)),
            total: Mutex::new(Stats::since(Duration::ZERO)),
            steady: Mutex::new(None),
            warm_up: Mutex::new(None),
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            warmup_records,
            is_steady_said: AtomicBool::new(false),
        }
    }

    pub(super) fn start(&self, at: Duration) {
        *lock(&self.window) = Stats::since(at);
        *lock(&self.total) = Stats::since(at);
    }

    /// Runs on a producer's own thread, once for each batch.
    pub(super) fn on_delivery(&self, producer: u16, report: &DeliveryReport<'_>) {
        let count = report.records.len() as u64;
        if let Err(error) = report.outcome {
            return self.fail(producer, report.records.iter().map(|record| record.tag), error);
        }
        let before = self.acknowledged.fetch_add(count, Ordering::Relaxed);
        // The last record of the warm-up may be any of a batch.
        let left = self.warmup_records.checked_sub(before).filter(|left| (1..=count).contains(left));
        let (warm_up, rest) = report.records.split_at(left.unwrap_or(0) as usize);
        self.record(warm_up, report.at);
        if left.is_some() {
            self.begin_steady_state(report.at);
        }
        self.record(rest, report.at);
    }

    /// The records with these tags were given up.
    pub(super) fn fail(&self, producer: u16, tags: impl ExactSizeIterator<Item = u64>, why: &dyn Error) {
        self.fail_untaken(tags.len() as u64, why);
        if let Some(given_up) = &self.given_up {
            lock(given_up).extend(tags.map(|tag| (producer, tag)));
        }
    }

    /// So many records will not even be handed to a producer.
    pub(super) fn fail_untaken(&self, count: u64, why: &dyn Error) {
        self.failed.fetch_add(count, Ordering::Relaxed);
        lock(&self.first_failure).get_or_insert_with(|| why.to_string());
    }

    /// The tags of the records of a producer that were given up, in their order.
    pub(super) fn given_up(&self, producer: u16) -> Vec<u64> {
        let Some(given_up) = &self.given_up else { return Vec::new() };
        let given_up = lock(given_up);
        let of_producer = given_up.iter().filter(|(number, _)| *number == producer);
        let mut tags: Vec<u64> = of_producer.map(|&(_, tag)| tag).collect();
        tags.sort_unstable();
        tags
    }

    fn record(&self, records: &[Reported], at: Duration) {
        let mut window = lock(&self.window);
        for record in records {
            let service = at.saturating_sub(Duration::from_nanos(record.taken_ns));
            let latency = match self.is_due_by_tag {
                true => at.saturating_sub(Duration::from_nanos(record.tag)),
                false => service,
            };
            window.record(record.value_bytes.into(), latency, service);
        }
    }

    /// What came before is warm-up.
    fn begin_steady_state(&self, at: Duration) {
        let mut steady = lock(&self.steady);
        if steady.is_none() {
            *lock(&self.warm_up) = Some(Window { stats: self.take(at), ended: at, is_warm_up: true });
            *steady = Some(Stats::since(at));
        }
    }

    /// Adds the window to the total, and begins the next.
    fn take(&self, at: Duration) -> Stats {
        let window = std::mem::replace(&mut *lock(&self.window), Stats::since(at));
        lock(&self.total).add(&window);
        window
    }

    /// How long until an interval is over.
    pub(super) fn until_next_line(&self, now: Duration, interval: Duration) -> Duration {
        (lock(&self.window).started() + interval).saturating_sub(now)
    }

    /// The window that the end of the warm-up cut short, once it is over.
    pub(super) fn take_warm_up(&self) -> Option<Window> {
        lock(&self.warm_up).take()
    }

    /// The window up to now, and begins the next.
    pub(super) fn take_window(&self, now: Duration) -> Window {
        let stats = self.take(now);
        let mut steady = lock(&self.steady);
        if let Some(steady) = &mut *steady {
            steady.add(&stats);
        }
        Window { stats, ended: now, is_warm_up: self.warmup_records > 0 && steady.is_none() }
    }

    /// Whether the steady state began since it was asked last.
    pub(super) fn became_steady(&self) -> bool {
        lock(&self.steady).is_some() && !self.is_steady_said.swap(true, Ordering::Relaxed)
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
        let total = lock(&self.total).total_line(now, false);
        let steady = lock(&self.steady).as_ref().map(|steady| steady.total_line(now, true));
        [total].into_iter().chain(steady).collect()
    }

    /// What the result is taken from: the steady state, or all if there was no warm-up.
    pub(super) fn with_result<T>(&self, of: impl FnOnce(&Stats) -> T) -> T {
        match &*lock(&self.steady) {
            Some(steady) => of(steady),
            None => of(&lock(&self.total)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
