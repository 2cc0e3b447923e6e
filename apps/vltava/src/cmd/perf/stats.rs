//! Counts and latencies of a run, and the lines that Kafka's tool prints about them.

use std::time::Duration;

use bench::histogram::{MIB, histogram, quantiles};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::millis::Millis;

/// What was acknowledged, from some moment on.
pub(super) struct Stats {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// From when a record was due to its acknowledgement.
    pub(super) latency: Histogram<u64>,
    /// From when it was taken.
    pub(super) service: Histogram<u64>,
    /// The latencies once more, for Kafka's lines.
    millis: Millis,
    started: Duration,
}

impl Stats {
    pub(super) fn since(started: Duration) -> Self {
        let (latency, service) = (histogram(), histogram());
        Self { records: 0, bytes: 0, latency, service, millis: Millis::default(), started }
    }

    #[inline]
    pub(super) fn record(&mut self, bytes: u64, latency: Duration, service: Duration) {
        self.records += 1;
        self.bytes += bytes;
        self.latency.saturating_record(latency.as_nanos() as u64);
        self.service.saturating_record(service.as_nanos() as u64);
        self.millis.record(latency);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("they have the same bounds");
        self.service.add(&other.service).expect("they have the same bounds");
        self.millis.add(&other.millis);
    }

    pub(super) const fn started(&self) -> Duration {
        self.started
    }

    pub(super) fn seconds(&self, now: Duration) -> f64 {
        // A run shorter than a millisecond would have no rate that means anything.
        now.saturating_sub(self.started).as_secs_f64().max(0.001)
    }

    /// The same in whole milliseconds, which Kafka's tool counts.
    fn seconds_of_kafka(&self, now: Duration) -> f64 {
        now.saturating_sub(self.started).as_millis().max(1) as f64 / 1_000.0
    }

    /// Kafka's line about an interval.
    pub(super) fn window_line(&self, now: Duration) -> String {
        let seconds = self.seconds_of_kafka(now);
        format!(
            "{} records sent, {:.1} records/sec ({:.2} MB/sec), {:.1} ms avg latency, {:.1} ms max latency.",
            self.records,
            self.records as f64 / seconds,
            self.bytes as f64 / seconds / MIB,
            // Kafka's tool says nothing of an interval without records.
            if self.records == 0 { 0.0 } else { self.millis.average() },
            self.millis.max(),
        )
    }

    /// Kafka's line about a whole run, or about its steady state.
    pub(super) fn total_line(&self, now: Duration, is_steady_state: bool) -> String {
        let seconds = self.seconds_of_kafka(now);
        format!(
            "{}{} records sent, {:.6} records/sec ({:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, \
             {} ms 50th, {} ms 95th, {} ms 99th, {} ms 99.9th.",
            self.records,
            if is_steady_state { " steady state" } else { "" },
            self.records as f64 / seconds,
            self.bytes as f64 / seconds / MIB,
            self.millis.average(),
            self.millis.max(),
            self.millis.at(0.5),
            self.millis.at(0.95),
            self.millis.at(0.99),
            self.millis.at(0.999),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies in milliseconds, and how many records of 100 bytes had each.
    fn stats(latencies: &[(u64, u64)]) -> Stats {
        let mut stats = Stats::since(Duration::from_secs(7));
        for &(millis, records) in latencies {
            // What is not whole is cut off.
            let latency = Duration::from_millis(millis) + Duration::from_micros(900);
            (0..records).for_each(|_| stats.record(100, latency, Duration::ZERO));
        }
        stats
    }

    /// Lines that Apache Kafka's ProducerPerformance 4.3.1 printed, from latencies that give its numbers.
    #[test]
    fn lines_are_those_of_kafkas_tool() {
        let after = |millis| Duration::from_secs(7) + Duration::from_millis(millis);
        let window = stats(&[(3, 6_985), (4, 11_000), (5, 1_000), (6, 970), (9, 6)]);
        assert_eq!(
            window.window_line(after(2_003)),
            "19961 records sent, 9965.6 records/sec (0.95 MB/sec), 3.8 ms avg latency, 9.0 ms max latency."
        );
        let total = stats(&[(4, 38_321), (5, 9_179), (9, 2_000), (15, 450), (25, 49), (346, 1)]);
        assert_eq!(
            total.total_line(after(5_002), false),
            "50000 records sent, 9996.001599 records/sec (0.95 MB/sec), 4.51 ms avg latency, 346.00 ms max \
             latency, 4 ms 50th, 9 ms 95th, 15 ms 99th, 25 ms 99.9th."
        );
        let steady = stats(&[(3, 12_360), (4, 16_140), (6, 1_200), (7, 270), (9, 30)]);
        assert_eq!(
            steady.total_line(after(3_007), true),
            "30000 steady state records sent, 9976.720984 records/sec (0.95 MB/sec), 3.70 ms avg latency, \
             9.00 ms max latency, 4 ms 50th, 6 ms 95th, 7 ms 99th, 9 ms 99.9th."
        );
    }

    #[test]
    fn an_average_is_never_above_the_longest() {
        let line = stats(&[(8, 1)]).window_line(Duration::from_secs(8));
        assert!(line.ends_with("8.0 ms avg latency, 8.0 ms max latency."), "{line}");
    }
}
