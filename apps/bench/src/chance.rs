//! Numbers by chance, the same ones for the same seed.

/// xorshift64*: a few instructions for a number, which is what a record may cost here.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A stream of its own for each seed and each producer.
    pub fn new(seed: u64, stream: u64) -> Self {
        // Neighbours must not resemble each other: splitmix64.
        let mut state = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ (state >> 31)) | 1)
    }

    #[inline]
    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `end`; 0 if that is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// From 0 to less than 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let draws = |seed, stream| {
            let mut chance = Chance::new(seed, stream);
            [chance.draw(), chance.draw(), chance.draw()]
        };
        assert_eq!(draws(1, 0), draws(1, 0));
        assert_ne!(draws(1, 0), draws(1, 1));
        assert_ne!(draws(1, 0), draws(2, 0));
    }

    #[test]
    fn draws_are_even() {
        let mut chance = Chance::new(7, 0);
        let mut counts = [0_u32; 10];
        let mut sum = 0.0;
        for _ in 0..100_000 {
            counts[chance.below(10) as usize] += 1;
            sum += chance.unit();
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert!((0.49..0.51).contains(&(sum / 100_000.0)), "{sum}");
    }
}
