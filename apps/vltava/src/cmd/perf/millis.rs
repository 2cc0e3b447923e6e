//! Latencies as Kafka's tools count them, for the lines that are theirs: in whole milliseconds, which makes
//! their average lower than the truth by half of one.

use std::time::Duration;

/// How many records had each latency.
#[derive(Debug, Default)]
pub(super) struct Millis {
    /// By milliseconds.
    counts: Vec<u64>,
    records: u64,
    sum: u64,
    max: u64,
}

/// An hour. Longer latencies count as that long, so that the counts never take more than 29 MB.
const COUNTED_MAX: u128 = 3_600_000;

impl Millis {
    #[inline]
    pub(super) fn record(&mut self, latency: Duration) {
        let millis = latency.as_millis().min(COUNTED_MAX) as u64;
        let at = millis as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.records += 1;
        self.sum += millis;
        self.max = self.max.max(millis);
    }

    pub(super) fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.records += other.records;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Not a number if there is none, which Java writes as Rust does.
    pub(super) fn average(&self) -> f64 {
        self.sum as f64 / self.records as f64
    }

    pub(super) fn max(&self) -> f64 {
        self.max as f64
    }

    /// The latency that so large a share of the records, without the one it belongs to, did not exceed.
    pub(super) fn at(&self, share: f64) -> u64 {
        let mut before = (share * self.records as f64) as u64;
        for (millis, &count) in (0..).zip(&self.counts) {
            if before < count {
                return millis;
            }
            before -= count;
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_kafkas() {
        let (mut millis, mut later) = (Millis::default(), Millis::default());
        assert!(millis.average().is_nan() && millis.at(0.5) == 0);
        for micros in [1_999, 8_100] {
            millis.record(Duration::from_micros(micros));
        }
        for micros in [1_000, 2_000] {
            later.record(Duration::from_micros(micros));
        }
        millis.add(&later);
        // Sorted: 1 1 2 8. Kafka takes the element whose index is the share of their number.
        assert_eq!([0.0, 0.49, 0.5, 0.75, 0.999].map(|share| millis.at(share)), [1, 1, 2, 8, 8]);
        assert_eq!((millis.average(), millis.max()), (3.0, 8.0));
        millis.record(Duration::MAX);
        assert_eq!(millis.at(0.99), 3_600_000);
    }
}
