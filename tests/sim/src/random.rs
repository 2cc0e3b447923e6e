//! Chance, owned by the seed.
//!
//! One seed is split into a stream per concern, so that one more draw in the workload does not shift
//! what the disk does. The generator is written here because a seed that is kept as a regression
//! must mean the same run after every dependency update.

/// A stream of random numbers: xoshiro256**, seeded through SplitMix64.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of `concern` under `seed`.
    pub fn stream(seed: u64, concern: &str) -> Self {
        let mut label = 0xcbf2_9ce4_8422_2325_u64;
        for byte in concern.bytes() {
            label = (label ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut mix = seed ^ label.rotate_left(17);
        Self { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = b << 17;
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ shifted, d.rotate_left(45)];
        result
    }

    /// A number in `0..end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: no modulo, and a bias far below what a test can see.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// An index into something of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Whether something with this many chances in a thousand happens.
    pub fn chance(&mut self, per_thousand: u32) -> bool {
        self.below(1000) < u64::from(per_thousand)
    }

    /// One of the choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// An index drawn with the given weights; they must not all be zero.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut left = self.below(total);
        for (index, &weight) in weights.iter().enumerate() {
            if left < u64::from(weight) {
                return index;
            }
            left -= u64::from(weight);
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut stream = Random::stream(1, "disk");
        let first: Vec<u64> = (0..3).map(|_| stream.bits()).collect();
        assert_eq!(first, [1_908_337_332_233_944_882, 11_922_908_297_435_733_323, 6_836_642_484_997_173_990]);
    }

    #[test]
    fn concerns_do_not_share_numbers() {
        let (mut disk, mut load) = (Random::stream(7, "disk"), Random::stream(7, "workload"));
        assert!((0..8).any(|_| disk.bits() != load.bits()));
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut stream = Random::stream(3, "range");
        for _ in 0..1000 {
            assert!(stream.below(7) < 7);
            assert!((3..=5).contains(&stream.between(3, 5)));
            assert_eq!(stream.weighted(&[0, 4, 0]), 1);
        }
        assert_eq!(stream.below(0), 0);
        assert!(!stream.chance(0));
        assert!(stream.chance(1000));
    }
}
