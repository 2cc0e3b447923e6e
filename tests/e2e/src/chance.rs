//! Chance from a seed: the same seed plans the same faults.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};

/// A stream of numbers that its seed decides (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of `VLTAVA_SEED`, or of a seed that was never seen. Prints it, so that a failure can
    /// be planned again.
    pub fn from_env(story: &str) -> Result<Self> {
        let seed = match env::var("VLTAVA_SEED") {
            Ok(text) => text.parse().context("VLTAVA_SEED is not a number")?,
            Err(_) => RandomState::new().hash_one(story),
        };
        eprintln!("{story}: VLTAVA_SEED={seed}");
        Ok(Self(seed))
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of a range, which must not be empty.
    pub fn pick(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end - range.start)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.pick(0..times) == 0
    }

    /// One of them.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.pick(0..of.len() as u64) as usize]
    }

    /// A time below a bound.
    pub fn time(&mut self, below: Duration) -> Duration {
        Duration::from_micros(self.pick(0..below.as_micros().max(1) as u64))
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.draw().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let run = |seed| {
            let mut chance = Chance::new(seed);
            (chance.draw(), chance.pick(3..9), chance.bytes(13))
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        assert_eq!(run(7).2.len(), 13);
        assert!((3..9).contains(&run(7).1));
    }
}
