//! How long to wait before another try.

use std::time::Duration;

use crate::chance::Chance;

/// Waits that double from one failure to the next, each made up to a fifth longer or shorter by chance
/// so that many clients do not come back at the same moment (KIP-580).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// However many there were.
    pub max: Duration,
}

impl Backoff {
    /// How long to wait after so many failures in a row; nothing after none.
    pub fn after(&self, failures: u32, chance: &mut Chance) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let wait = self.first.saturating_mul(1 << doublings.min(20)).min(self.max);
        let fifth = u64::try_from(wait.as_nanos() / 5).unwrap_or(u64::MAX / 4);
        wait - Duration::from_nanos(fifth) + Duration::from_nanos(chance.below(2 * fifth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_to_its_end() {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_millis(1_000) };
        let mut chance = Chance::new(1);
        assert_eq!(backoff.after(0, &mut chance), Duration::ZERO);
        for (failures, about) in [(1, 100), (2, 200), (4, 800), (5, 1_000), (u32::MAX, 1_000)] {
            for _ in 0..100 {
                let wait = backoff.after(failures, &mut chance).as_millis();
                assert!((about * 8 / 10..=about * 12 / 10).contains(&wait), "{failures}: {wait}");
            }
        }
    }
}
