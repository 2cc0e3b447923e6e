//! What numbers are kept in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down, never below zero.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is so many.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// It is so many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// It is so many fewer.
    pub fn sub(&self, fewer: u64) {
        let before = self.0.fetch_sub(fewer, Ordering::Relaxed);
        debug_assert!(before >= fewer, "{before} - {fewer}");
    }

    /// How many it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets, in microseconds: from a page-cache write to a client's patience.
const BOUNDS_US: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000, 30_000_000,
];

/// How long something took, in fixed buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One per bound, and one for what is above them all.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Something took so long.
    pub fn observe(&self, took: Duration) {
        self.observe_n(took, 1);
    }

    /// So many things took so long, each.
    pub fn observe_n(&self, took: Duration, count: u64) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound_us| bound_us * 1_000 < ns);
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns.saturating_mul(count), Ordering::Relaxed);
    }

    /// How often something was observed.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// How long it took in all.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed))
    }

    /// Upper bound in seconds, and how many are in the bucket itself.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|bound_us| *bound_us as f64 / 1e6).chain([f64::INFINITY]);
        bounds.zip(self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::default();
        for us in [0, 50, 51, 30_000_000, 30_000_001] {
            histogram.observe(Duration::from_micros(us));
        }
        histogram.observe(Duration::from_nanos(50_001));
        let buckets = histogram.buckets();
        assert_eq!(buckets[0], (0.00005, 2));
        assert_eq!(buckets[1], (0.0001, 2));
        assert_eq!(buckets[16], (30.0, 1));
        assert_eq!(buckets[17], (f64::INFINITY, 1));
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.sum(), Duration::from_nanos(60_000_152_001));
    }

    #[test]
    fn bounds_ascend() {
        assert!(BOUNDS_US.is_sorted_by(|a, b| a < b));
    }
}
