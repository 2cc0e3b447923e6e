//! The clock that all clients of this process share, for those who have no client at hand.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use client::producer::Producer;

use super::tag;

/// Of so many looks the one counts that took the least: whoever is kept from the processor in the midst of one
/// is wrong by as long.
const LOOKS: usize = 100;

/// Read as the clients' own is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    /// Has looks at the clock of a client, once for all of this process.
    pub(crate) fn start() -> Self {
        static ZERO: OnceLock<Instant> = OnceLock::new();
        Self { zero: *ZERO.get_or_init(zero) }
    }

    #[inline]
    pub(crate) fn now(&self) -> Duration {
        self.zero.elapsed()
    }
}

fn zero() -> Instant {
    // A producer that nobody sends with makes no connection. Without one, nobody has to agree with anybody.
    let Ok(producer) = Producer::new("127.0.0.1:1") else { return Instant::now() };
    let look = || {
        let before = Instant::now();
        let elapsed = producer.elapsed();
        let took = before.elapsed();
        (took, before.checked_sub(elapsed).unwrap_or(before) + took / 2)
    };
    let looks = (0..LOOKS).map(|_| look());
    looks.min_by_key(|(took, _)| *took).map_or_else(Instant::now, |(_, zero)| zero)
}

/// From this machine's clock to the one by which all that take part tell each other times.
///
/// A multiple of what a [`tag`] can tell, so that what is due at a border is on the same side of it everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shift(i64);

impl Shift {
    /// To be added to times here, in nanoseconds, as nearly as can be told.
    pub(crate) const fn of(nanos: i64) -> Self {
        Self(nanos.div_euclid(tag::UNIT_NS) * tag::UNIT_NS)
    }

    /// In nanoseconds.
    pub(crate) const fn nanos(self) -> i64 {
        self.0
    }

    /// A time here, as all tell it.
    #[inline]
    pub(crate) fn shared(self, here: Duration) -> Duration {
        Duration::from_nanos((here.as_nanos() as u64).saturating_add_signed(self.0))
    }

    /// A time that all tell, as it is here.
    #[inline]
    pub(crate) fn here(self, shared: Duration) -> Duration {
        Duration::from_nanos((shared.as_nanos() as u64).saturating_add_signed(self.0.saturating_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_at_a_border_is_on_one_side_of_it_everywhere() {
        let border = tag::exact(Duration::from_nanos(7_000_000_123));
        for nanos in [0, 1, -1, 999_999_937, -999_999_937] {
            let shift = Shift::of(nanos);
            let here = shift.here(border);
            assert_eq!(tag::exact(here), here, "{nanos}");
            assert_eq!(shift.shared(here), border, "{nanos}");
            assert!(shift.shared(here - Duration::from_nanos(1)) < border, "{nanos}");
        }
    }
}
