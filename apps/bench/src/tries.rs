//! Whether what is tried again and again still becomes better.

/// By what factor a try has to be better than the best before to be worth another.
const GAIN_MIN: f64 = 1.05;

/// What was tried so far.
#[derive(Debug)]
pub struct Tries {
    best: f64,
    count: u16,
    in_vain: u16,
    max: u16,
    in_vain_max: u16,
}

impl Tries {
    /// No more than `max`, and none behind `in_vain_max` in a row of which none was better than all before it.
    pub const fn new(max: u16, in_vain_max: u16) -> Self {
        Self { best: 0.0, count: 0, in_vain: 0, max, in_vain_max }
    }

    /// What one came to; the more the better.
    pub fn tried(&mut self, found: f64) {
        self.count += 1;
        self.in_vain = if found > self.best * GAIN_MIN { 0 } else { self.in_vain + 1 };
        self.best = self.best.max(found);
    }

    /// Whether another is worth it.
    pub const fn goes_on(&self) -> bool {
        self.count < self.max && !self.is_steady()
    }

    /// Whether it became no better.
    pub const fn is_steady(&self) -> bool {
        self.in_vain >= self.in_vain_max
    }

    /// What the best came to; 0 if there was none.
    pub const fn best(&self) -> f64 {
        self.best
    }

    /// How many there were.
    pub const fn count(&self) -> u16 {
        self.count
    }
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
        assert_eq!(
            (tries.goes_on(), tries.is_steady(), tries.best(), tries.count()),
            (false, true, 178.0, 6)
        );
        assert!(of(9, 2, &[100.0, 150.0, 140.0, 170.0, 172.0]).goes_on(), "one in vain may be chance");
        let tries = of(3, 1, &[1.0, 2.0, 3.0]);
        assert_eq!((tries.goes_on(), tries.is_steady()), (false, false), "it was becoming better to the end");
        assert!(!Tries::new(0, 1).goes_on());
    }
}
