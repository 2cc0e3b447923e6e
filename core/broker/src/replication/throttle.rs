//! How fast replicas that lack something are filled, where somebody limits it (KIP-73).
//!
//! Bytes are taken on credit: what comes is never cut, and nothing more is asked for, or given away, until
//! it is paid for at the limit.

use std::time::Duration;

use base::Now;

/// See the module.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Bytes a second; `None` for no limit.
    rate: Option<u64>,
    /// When all that was taken is paid for, by `Now::elapsed`.
    paid_at: Duration,
}

impl Throttle {
    /// So many bytes a second from now on; `None` for no limit. What was taken under another limit is
    /// forgiven: after a mistake of a thousandfold nobody waits for days.
    pub fn set_rate(&mut self, rate: Option<u64>) {
        if self.rate != rate {
            *self = Self { rate, paid_at: Duration::ZERO };
        }
    }

    /// So many bytes were taken.
    pub fn charge(&mut self, now: Now, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let seconds = bytes as f64 / rate.max(1) as f64;
        let cost = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        self.paid_at = self.paid_at.max(now.elapsed).saturating_add(cost);
    }

    /// Until when nothing more is to be taken, by `Now::elapsed`; `None` if something may be.
    pub fn until(&self, now: Now) -> Option<Duration> {
        (self.rate.is_some() && self.paid_at > now.elapsed).then_some(self.paid_at)
    }
}

#[cfg(test)]
mod tests {
    use base::TimestampMs;

    use super::*;

    fn at(ms: u64) -> Now {
        Now::new(Duration::from_millis(ms), TimestampMs(0))
    }

    #[test]
    fn what_was_taken_is_paid_for_at_the_limit() {
        let mut throttle = Throttle::default();
        throttle.charge(at(0), u64::MAX);
        assert_eq!(throttle.until(at(0)), None, "nobody limits it");
        throttle.set_rate(Some(1_000_000));
        throttle.charge(at(100), 500_000);
        throttle.charge(at(200), 500_000);
        assert_eq!(throttle.until(at(1_099)), Some(Duration::from_millis(1_100)));
        assert_eq!(throttle.until(at(1_100)), None);
        throttle.charge(at(5_000), 1_000);
        assert_eq!(throttle.until(at(5_000)), Some(Duration::from_millis(5_001)), "nothing was saved up");
    }

    #[test]
    fn another_limit_begins_anew() {
        let mut throttle = Throttle::default();
        throttle.set_rate(Some(0));
        throttle.charge(at(0), 1 << 40);
        assert!(throttle.until(at(1_000_000)).is_some());
        throttle.set_rate(Some(0));
        assert!(throttle.until(at(1_000_000)).is_some(), "it is the same");
        throttle.set_rate(Some(10));
        assert_eq!(throttle.until(at(1_000_000)), None);
        throttle.charge(at(1), u64::MAX);
        throttle.charge(at(2), u64::MAX);
        throttle.set_rate(None);
        assert_eq!(throttle.until(at(1_000_000)), None);
    }
}
