//! How far a worker's clock is from ours, and how far that may be wrong.
//!
//! ```text
//!   ours     asked ────────────────────── heard
//!   its              └── it says t ──┘
//! ```
//!
//! Whatever the way there and back took each, `t` was said between `asked` and `heard`: taken for the middle, it
//! is wrong by half of what lies between them at most. Of many times the shortest is taken: nothing stood in its way.
//! What two clocks grow apart during a run is seen by asking again behind it, and counts as an error: nobody knows
//! when it happened.

use std::time::Duration;

/// A question and its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    /// By our clock.
    pub(super) asked: Duration,
    /// By its clock.
    pub(super) said: Duration,
    /// By our clock.
    pub(super) heard: Duration,
}

/// What is known of a clock at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Its time less ours, in nanoseconds.
    pub(super) nanos: i64,
    /// By how much that is wrong at most.
    pub(super) error_ns: u64,
}

impl Offset {
    /// `None` without any exchange.
    pub(super) fn estimate(exchanges: &[Exchange]) -> Option<Self> {
        let way = |exchange: &Exchange| exchange.heard.saturating_sub(exchange.asked);
        let best = exchanges.iter().min_by_key(|exchange| way(exchange))?;
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let half = way(best) / 2;
        Some(Self {
            nanos: nanos(best.said) - nanos(best.asked + half),
            // Halving, and rounding a time to what a record can carry.
            error_ns: half.as_nanos() as u64 + 1 + ROUNDED_NS,
        })
    }

    /// How much it grew since, and how far anything may be wrong that was timed in between with this.
    pub(super) fn until(self, later: Self) -> (i64, u64) {
        let drift = later.nanos.saturating_sub(self.nanos);
        (drift, self.error_ns.max(later.error_ns) + drift.unsigned_abs())
    }
}

/// Times are told to this.
const ROUNDED_NS: u64 = 128;

/// How far a latency between any two of these machines may be wrong: those of the two that are known least.
pub(crate) fn worst_pair(errors_ns: impl IntoIterator<Item = u64>) -> u64 {
    let mut errors: Vec<u64> = errors_ns.into_iter().collect();
    errors.sort_unstable_by(|a, b| b.cmp(a));
    // A machine that is alone reads what it sent itself, by one clock.
    if errors.len() < 2 { 0 } else { errors[0] + errors[1] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// A clock that is so far ahead, asked over ways of chance.
    fn exchanges(ahead_ns: i64, seed: u64) -> Vec<Exchange> {
        let mut chance = Chance::new(seed, 0);
        let mut ask = |number: u64| {
            let [there, back] = [0, 1].map(|_| 20_000 + (chance.unit().powi(8) * 5e6) as u64);
            let asked = 1_000_000_000 + number * 10_000_000;
            let said = (asked + there).saturating_add_signed(ahead_ns);
            let heard = asked + there + back;
            let [asked, said, heard] = [asked, said, heard].map(Duration::from_nanos);
            Exchange { asked, said, heard }
        };
        (0..32).map(&mut ask).collect()
    }

    #[test]
    fn the_offset_is_within_its_error() {
        for (seed, ahead_ns) in [0, 1, 17_000_000_000, -900_000_000].into_iter().enumerate() {
            let offset = Offset::estimate(&exchanges(ahead_ns, seed as u64)).expect("it was asked");
            let wrong = (offset.nanos - ahead_ns).unsigned_abs();
            assert!(wrong <= offset.error_ns, "{offset:?}, and it is {ahead_ns}");
            assert!(offset.error_ns < 100_000, "the shortest way counts: {offset:?}");
        }
        assert_eq!(Offset::estimate(&[]), None);
    }

    #[test]
    fn a_way_that_took_its_time_in_one_direction_is_within_the_error_too() {
        let [asked, said, heard] = [1_000, 1_990, 2_000].map(Duration::from_nanos);
        let offset = Offset::estimate(&[Exchange { asked, said, heard }]).expect("it was asked");
        assert!(offset.nanos == 490 && offset.error_ns >= 500, "{offset:?}");
    }

    #[test]
    fn drift_is_an_error() {
        let before = Offset { nanos: 1_000, error_ns: 50 };
        let behind = Offset { nanos: 700, error_ns: 80 };
        assert_eq!(before.until(behind), (-300, 380));
    }

    #[test]
    fn two_machines_are_wrong_by_both() {
        for (errors, expected) in [(vec![], 0), (vec![9], 0), (vec![9, 4], 13), (vec![1, 9, 4], 13)] {
            assert_eq!(worst_pair(errors.clone()), expected, "{errors:?}");
        }
    }
}
