//! Chance as an argument: numbers from a seed that the caller brings.

/// A stream of numbers that look random, the same for the same seed. Not for secrets.
///
/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, each as likely as the next; 0 if `end` is.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of a product: its bias is below 2⁻³² for every `end` used here.
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_end_comes_about_as_often() {
        let mut chance = Chance::new(7);
        let mut seen = [0; 6];
        for _ in 0..6_000 {
            seen[chance.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| (850..1_150).contains(&times)), "{seen:?}");
        assert_eq!(chance.below(0), 0);
    }
}
