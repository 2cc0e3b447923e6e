//! The keys of records: which of how many, and how often each.

use std::str::FromStr;

use crate::chance::Chance;

/// What `--keys` says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keys {
    /// Records have none.
    None,
    /// One after the other.
    RoundRobin {
        /// How many there are.
        keys: u64,
    },
    /// Each as often as the others.
    Uniform {
        /// How many there are.
        keys: u64,
    },
    /// The n-th as often as n to the power of -`exponent`: few keys have most of the records.
    Zipf {
        /// How many there are.
        keys: u64,
        /// How unequal they are; 1 is Zipf's own.
        exponent: f64,
    },
}

impl Keys {
    /// Of each key.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::RoundRobin { .. } | Self::Uniform { .. } | Self::Zipf { .. } => DIGITS,
        }
    }
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(':').collect();
        let keys = || {
            words.get(1).and_then(|word| word.parse().ok()).filter(|keys: &u64| (1..=KEYS_MAX).contains(keys))
        };
        let exponent = match words.get(2) {
            Some(word) => word.parse().ok().filter(|&exponent: &f64| exponent > 0.0 && exponent.is_finite()),
            None => Some(1.0),
        };
        match (words[0], words.len(), keys(), exponent) {
            ("none", 1, ..) => Ok(Self::None),
            ("round-robin", 2, Some(keys), _) => Ok(Self::RoundRobin { keys }),
            ("uniform", 2, Some(keys), _) => Ok(Self::Uniform { keys }),
            ("zipf", 2 | 3, Some(keys), Some(exponent)) => Ok(Self::Zipf { keys, exponent }),
            _ => Err("expected none, round-robin:N, uniform:N, zipf:N or zipf:N:EXPONENT".to_owned()),
        }
    }
}

/// The keys of one sender's records, one after the other.
pub struct KeyStream {
    kind: Kind,
    chance: Chance,
    text: [u8; DIGITS],
}

/// A key is its number in so many decimal digits, so that all have the same size.
const DIGITS: usize = 10;
/// As many as there are numbers of so many digits.
const KEYS_MAX: u64 = 10_000_000_000;

enum Kind {
    RoundRobin { keys: u64, next: u64 },
    Uniform { keys: u64 },
    Zipf(Zipf),
}

impl KeyStream {
    /// `None` if records have no keys.
    pub fn new(keys: Keys, sender: u64, chance: Chance) -> Option<Self> {
        let kind = match keys {
            Keys::None => return None,
            Keys::RoundRobin { keys } => Kind::RoundRobin { keys, next: sender % keys },
            Keys::Uniform { keys } => Kind::Uniform { keys },
            Keys::Zipf { keys, exponent } => Kind::Zipf(Zipf::new(keys, exponent)),
        };
        Some(Self { kind, chance, text: [b'0'; DIGITS] })
    }

    #[inline]
    /// The key of the next record.
    pub fn next_key(&mut self) -> &[u8] {
        let mut number = match &mut self.kind {
            Kind::RoundRobin { keys, next } => {
                let number = *next;
                *next = if number + 1 == *keys { 0 } else { number + 1 };
                number
            }
            Kind::Uniform { keys } => self.chance.below(*keys),
            Kind::Zipf(zipf) => zipf.draw(&mut self.chance) - 1,
        };
        for digit in self.text.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        &self.text
    }
}

/// Numbers from 1 on, the n-th as often as n^-s, without a table: rejection-inversion, by Hörmann and
/// Derflinger (1996), as Apache Commons RNG has it.
struct Zipf {
    keys: f64,
    exponent: f64,
    /// The integral up to one and a half, less the first number's share; and up to the last number.
    from: f64,
    to: f64,
    /// Nearer than this to the number above it, a draw needs no second look.
    near: f64,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Self {
        let mut zipf = Self { keys: keys as f64, exponent, from: 0.0, to: 0.0, near: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.keys + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let drawn = self.to + chance.unit() * (self.from - self.to);
            let at = self.inverse(drawn);
            let number = at.round().clamp(1.0, self.keys);
            if number - at <= self.near || drawn >= self.integral(number + 0.5) - self.weight(number) {
                return number as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of [`Zipf::weight`], from 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (x.ln(), 1.0 - self.exponent);
        if power.abs() < 1e-9 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 {
            return integral.exp();
        }
        // Rounding may lead beyond where the logarithm ends.
        ((power * integral).max(-1.0).ln_1p() / power).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: &str, of: usize, draws: u32) -> Vec<f64> {
        let keys = keys.parse().expect("it says which keys");
        let mut stream = KeyStream::new(keys, 0, Chance::new(1, 0)).expect("there are keys");
        let mut counts = vec![0.0; of];
        for _ in 0..draws {
            let text = std::str::from_utf8(stream.next_key()).expect("a key is text");
            counts[text.parse::<usize>().expect("it is a number")] += 1.0;
        }
        counts
    }

    #[test]
    fn each_distribution_is_what_it_says() {
        assert_eq!(counts("round-robin:3", 3, 9), [3.0, 3.0, 3.0]);
        let uniform = counts("uniform:10", 10, 100_000);
        assert!(uniform.iter().all(|count| (9_500.0..10_500.0).contains(count)), "{uniform:?}");
        for exponent in [0.5_f64, 1.0, 1.5] {
            let found = counts(&format!("zipf:100:{exponent}"), 100, 200_000);
            let sum: f64 = (1..=100).map(|n| f64::from(n).powf(-exponent)).sum();
            for n in [1_u32, 2, 5, 20, 100] {
                let expected = 200_000.0 * f64::from(n).powf(-exponent) / sum;
                let off = (found[n as usize - 1] - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "{exponent} {n}: {off} off {expected}");
            }
        }
    }

    #[test]
    fn all_keys_have_the_size_that_is_told() {
        for said in ["round-robin:3", "uniform:10", "zipf:100"] {
            let keys: Keys = said.parse().expect("it says which keys");
            let mut stream = KeyStream::new(keys, 0, Chance::new(1, 0)).expect("there are keys");
            assert_eq!(stream.next_key().len(), keys.bytes(), "{said}");
        }
        assert_eq!(Keys::None.bytes(), 0);
    }

    #[test]
    fn keys_are_said_plainly() {
        assert_eq!("none".parse(), Ok(Keys::None));
        assert_eq!("zipf:5".parse(), Ok(Keys::Zipf { keys: 5, exponent: 1.0 }));
        for wrong in [
            "",
            "uniform",
            "uniform:0",
            "uniform:10000000001",
            "uniform:3:4",
            "zipf:3:0",
            "zipf:3:x",
            "all",
            "none:1",
        ] {
            assert!(wrong.parse::<Keys>().is_err(), "{wrong}");
        }
    }
}
