//! Counts and latencies of a run, and the lines that Kafka's tool prints about them.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// A histogram of nanoseconds, exact to three digits, up to an hour.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are in order")
}

/// What was acknowledged, from some moment on.
pub(super) struct Stats {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// From when a record was due to its acknowledgement.
    pub(super) latency: Histogram<u64>,
    /// From when it was taken.
    pub(super) service: Histogram<u64>,
    started: Duration,
}

impl Stats {
    pub(super) fn since(started: Duration) -> Self {
        Self { records: 0, bytes: 0, latency: histogram(), service: histogram(), started }
    }

    #[inline]
    pub(super) fn record(&mut self, bytes: u64, latency: Duration, service: Duration) {
        self.records += 1;
        self.bytes += bytes;
        self.latency.saturating_record(latency.as_nanos() as u64);
        self.service.saturating_record(service.as_nanos() as u64);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("they have the same bounds");
        self.service.add(&other.service).expect("they have the same bounds");
    }

    pub(super) const fn started(&self) -> Duration {
        self.started
    }

    pub(super) fn seconds(&self, now: Duration) -> f64 {
        // Kafka's tool counts milliseconds; a run shorter than one would have no rate.
        now.saturating_sub(self.started).as_secs_f64().max(0.001)
    }

    /// Kafka's line about an interval.
    pub(super) fn window_line(&self, now: Duration) -> String {
        let seconds = self.seconds(now);
        format!(
            "{} records sent, {:.1} records/sec ({:.2} MB/sec), {:.1} ms avg latency, {:.1} ms max latency.",
            self.records,
            self.records as f64 / seconds,
            self.bytes as f64 / seconds / MIB,
            self.latency.mean() / 1e6,
            millis(self.latency.max()),
        )
    }

    /// Kafka's line about a whole run, or about its steady state.
    pub(super) fn total_line(&self, now: Duration, is_steady_state: bool) -> String {
        let seconds = self.seconds(now);
        let at = |quantile| self.latency.value_at_quantile(quantile) / 1_000_000;
        format!(
            "{}{} records sent, {:.6} records/sec ({:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, \
             {} ms 50th, {} ms 95th, {} ms 99th, {} ms 99.9th.",
            self.records,
            if is_steady_state { " steady state" } else { "" },
            self.records as f64 / seconds,
            self.bytes as f64 / seconds / MIB,
            self.latency.mean() / 1e6,
            millis(self.latency.max()),
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999),
        )
    }

    /// The same for programs.
    pub(super) fn json(&self, now: Duration) -> Value {
        let seconds = self.seconds(now);
        let bytes = self.bytes as f64 / seconds;
        json!({
            "records": self.records,
            "seconds": seconds,
            "records_per_sec": self.records as f64 / seconds,
            "mb_per_sec": bytes / 1e6,
            "mib_per_sec": bytes / MIB,
            "latency_ns": quantiles(&self.latency),
            "service_ns": quantiles(&self.service),
        })
    }
}

pub(super) const MIB: f64 = 1024.0 * 1024.0;

/// A rate in the three units that people use.
pub(super) fn rate_line(records: u64, bytes: u64, seconds: f64) -> String {
    let (records, bytes) = (records as f64 / seconds, bytes as f64 / seconds);
    format!("rate: {records:.0} records/s, {:.2} MB/s ({:.2} MiB/s)", bytes / 1e6, bytes / MIB)
}

/// The quantiles of a histogram, for people.
pub(super) fn latency_line(what: &str, histogram: &Histogram<u64>) -> String {
    let at = |quantile| in_words(histogram.value_at_quantile(quantile));
    format!(
        "{what}: p50 {}, p99 {}, p99.9 {}, p99.99 {}, p99.999 {}, max {}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(0.99999),
        in_words(histogram.max())
    )
}

/// Kafka's tool counts whole milliseconds.
fn millis(nanos: u64) -> f64 {
    (nanos / 1_000_000) as f64
}

/// The quantiles of a histogram, for programs.
pub(super) fn quantiles(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "min": histogram.min(),
        "mean": histogram.mean(),
        "p50": at(0.5),
        "p75": at(0.75),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
        "p99999": at(0.99999),
        "max": histogram.max(),
    })
}

/// A time for people, in a unit that fits it.
fn in_words(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{nanos} ns"),
        10_000..10_000_000 => format!("{} µs", nanos / 1_000),
        10_000_000..100_000_000_000 => format!("{} ms", nanos / 1_000_000),
        _ => format!("{} s", nanos / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of Apache Kafka's ProducerPerformance 4.3.1, with its numbers.
    #[test]
    fn lines_are_those_of_kafkas_tool() {
        let mut stats = Stats::since(Duration::ZERO);
        for latency in [1, 1, 2, 8] {
            stats.record(262_144, Duration::from_millis(latency), Duration::ZERO);
        }
        let now = Duration::from_secs(1);
        assert_eq!(
            stats.window_line(now),
            "4 records sent, 4.0 records/sec (1.00 MB/sec), 3.0 ms avg latency, 8.0 ms max latency."
        );
        assert_eq!(
            stats.total_line(now, false),
            "4 records sent, 4.000000 records/sec (1.00 MB/sec), 3.00 ms avg latency, 8.00 ms max latency, \
             1 ms 50th, 8 ms 95th, 8 ms 99th, 8 ms 99.9th."
        );
        assert!(stats.total_line(now, true).starts_with("4 steady state records sent, 4.000000 records/sec"));
    }
}
