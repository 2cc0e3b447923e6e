//! Whether what is tried again and again still becomes better.

/// By what factor a try has to be better than the best before to be worth another.
pub const GAIN_MIN: f64 = 1.05;

/// How many tries that make nothing faster are enough to warm brokers up.
pub const WARMUP_IN_VAIN_MAX: u16 = 2;

/// What was tried so far.
#[derive(Debug)]
pub struct Tries {
    found: Vec<f64>,
    best: f64,
    in_vain: u16,
    max: u16,
    in_vain_max: u16,
}

impl Tries {
    /// No more than `max`, and none behind `in_vain_max` in a row of which none was better than all before it.
    pub const fn new(max: u16, in_vain_max: u16) -> Self {
        Self { found: Vec::new(), best: 0.0, in_vain: 0, max, in_vain_max }
    }

    /// What one came to; the more the better.
    pub fn tried(&mut self, found: f64) {
        self.found.push(found);
        self.in_vain = if found > self.best * GAIN_MIN { 0 } else { self.in_vain + 1 };
        self.best = self.best.max(found);
    }

    /// Whether another is worth it.
    pub fn goes_on(&self) -> bool {
        self.count() < self.max && self.in_vain < self.in_vain_max
    }

    /// What the best came to; 0 if there was none.
    pub const fn best(&self) -> f64 {
        self.best
    }

    /// How many there were.
    pub fn count(&self) -> u16 {
        u16::try_from(self.found.len()).unwrap_or(u16::MAX)
    }

    /// What each came to.
    pub fn into_found(self) -> Vec<f64> {
        self.found
    }
}

/// Whether tries to warm brokers up ended because the last were not better than all before them.
pub fn ended_steady(found: &[f64]) -> bool {
    let mut tries = Tries::new(u16::MAX, WARMUP_IN_VAIN_MAX);
    found.iter().for_each(|found| tries.tried(*found));
    !tries.goes_on()
}

/// By what share the last of several was better than the best before it; less than 0 if it was worse. `None` of one.
pub fn last_gain(found: &[f64]) -> Option<f64> {
    let (last, before) = found.split_last()?;
    let best = before.iter().copied().reduce(f64::max)?;
    (best > 0.0).then(|| last / best - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(max: u16, in_vain_max: u16, found: &[f64]) -> Tries {
        let mut tries = Tries::new(max, in_vain_max);
        for found in found {
            assert!(tries.goes_on(), "{tries:?}");
            tries.tried(*found);
        }
        tries
    }

    #[test]
    fn what_becomes_no_better_is_tried_no_more() {
        let tries = of(9, 2, &[100.0, 150.0, 140.0, 170.0, 172.0, 178.0]);
        assert_eq!((tries.goes_on(), tries.best(), tries.count()), (false, 178.0, 6));
        assert!(of(9, 2, &[100.0, 150.0, 140.0, 170.0, 172.0]).goes_on(), "one in vain may be chance");
        assert!(!of(3, 1, &[1.0, 2.0, 3.0]).goes_on(), "it was becoming better to the end");
        assert!(!Tries::new(0, 1).goes_on());
    }

    #[test]
    fn whoever_was_still_becoming_better_did_not_end_steady() {
        assert!(ended_steady(&[1.0, 2.0, 1.9, 2.05]));
        for found in [&[1.0][..], &[1.0, 2.0, 2.05], &[1.0, 1.0, 1.1]] {
            assert!(!ended_steady(found), "{found:?}");
        }
    }

    #[test]
    fn the_last_is_held_against_the_best_before_it() {
        assert_eq!(last_gain(&[100.0, 200.0, 250.0]), Some(0.25));
        assert_eq!(last_gain(&[100.0, 200.0, 150.0]), Some(-0.25));
        assert_eq!((last_gain(&[]), last_gain(&[1.0]), last_gain(&[0.0, 1.0])), (None, None, None));
    }
}
