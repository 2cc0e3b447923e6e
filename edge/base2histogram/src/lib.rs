//! Stands in for the crate `base2histogram` that openraft counts its batches with, and that nobody here reads.
//!
//! That crate prepares tables for sixteen widths of buckets as soon as one is counted: 26 MiB that stay, and 15 ms
//! before a node can begin. This one keeps a count for each power of two, and has what openraft calls.

use std::fmt;
use std::marker::PhantomData;

/// Numbers of bits that a value may need.
const SIZES: usize = u64::BITS as usize + 1;

/// How often values of each size were counted. `T` names slots of time, of which there is one here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    /// By the number of bits that a value needs.
    counts: [u64; SIZES],
    slots: PhantomData<T>,
}

impl<T> Histogram<T> {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self { counts: [0; SIZES], slots: PhantomData }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value so many times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        let count = &mut self.counts[(u64::BITS - value.leading_zeros()) as usize];
        *count = count.saturating_add(times);
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// What the values come to, rounded up to one less than a power of two.
    pub fn percentile_stats(&self) -> PercentileStats {
        let samples = self.total();
        let at = |share: f64| {
            let wanted = (samples as f64 * share).ceil().max(1.0) as u64;
            let mut seen = 0_u64;
            let size = self.counts.iter().position(|count| {
                seen = seen.saturating_add(*count);
                seen >= wanted
            });
            size.map_or(0, |size| u64::MAX.checked_shr(u64::BITS - size as u32).unwrap_or(0))
        };
        PercentileStats {
            samples,
            p0_1: at(0.001),
            p1: at(0.01),
            p5: at(0.05),
            p10: at(0.1),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
        }
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a histogram comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is said by its name: the share of values that are no greater, in percent"
)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, p50, p90, p99, p99_9, .. } = self;
        write!(f, "[samples: {samples}, P50: {p50}, P90: {p90}, P99: {p99}, P99.9: {p99_9}]")
    }
}

/// Histograms below each other; as text, a line for each.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart {
    lines: Vec<(String, PercentileStats)>,
}

impl AsciiChart {
    /// Nothing drawn yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With another histogram.
    #[must_use]
    pub fn add<T>(mut self, name: &str, histogram: Histogram<T>) -> Self {
        self.lines.push((name.to_owned(), histogram.percentile_stats()));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(name, stats)| writeln!(f, "{name}: {stats}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_their_size() {
        let mut histogram = Histogram::<()>::new();
        histogram.record(0);
        histogram.record_n(5, 98);
        histogram.record(u64::MAX);
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, stats.p1, stats.p50, stats.p99), (100, 0, 7, 7));
        assert_eq!(stats.p99_9, u64::MAX);
        assert_eq!(Histogram::<()>::new().percentile_stats().p50, 0);
    }
}
