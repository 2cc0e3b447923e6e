//! How fast records are written while all that is stored fits in memory, and how fast behind that.

use serde::{Deserialize, Serialize};

use crate::load::Second;

/// The rate before what is stored outgrows the memory of the brokers' machine, and behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// Of the machine.
    pub memory_bytes: u64,
    /// Records a second while all of it fits.
    pub first_per_sec: f64,
    /// Records a second when more is stored than memory holds.
    pub last_per_sec: f64,
    /// The last for each of the first: 1 says that stored data costs nothing.
    pub ratio: f64,
}

/// A rate of less than so many seconds says little.
const SECONDS_MIN: f64 = 3.0;
/// What a log has of each record beside its value.
const BESIDE_VALUE_BYTES: u64 = 8;

impl Growth {
    /// From the seconds of a run that began with nothing stored, with so many copies of each record on one machine.
    /// `None` if it did not outgrow the memory, or has too few seconds on one side.
    pub(crate) fn of(seconds: &[Second], replicas: u16, memory_bytes: u64) -> Option<Self> {
        let (mut stored, mut first, mut last) = (0, Part::default(), Part::default());
        for second in seconds {
            let before = stored;
            let written = second.written.bytes + second.written.records * BESIDE_VALUE_BYTES;
            stored += written * u64::from(replicas);
            // What warms up is stored, and says nothing of a rate.
            if second.is_warmup {
                continue;
            }
            if stored <= memory_bytes {
                first.add(second);
            } else if before > memory_bytes {
                last.add(second);
            }
        }
        let (first_per_sec, last_per_sec) = (first.per_sec()?, last.per_sec()?);
        Some(Self { memory_bytes, first_per_sec, last_per_sec, ratio: last_per_sec / first_per_sec })
    }
}

#[derive(Default)]
struct Part {
    records: u64,
    seconds: f64,
}

impl Part {
    fn add(&mut self, second: &Second) {
        self.records += second.written.records;
        self.seconds += second.to - second.from;
    }

    fn per_sec(&self) -> Option<f64> {
        (self.seconds >= SECONDS_MIN && self.records > 0).then(|| self.records as f64 / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Counts;

    #[test]
    fn each_second_is_on_one_side_of_the_memory_or_across() {
        let second = |at: u64, records: u64| Second {
            from: at as f64,
            to: at as f64 + 1.0,
            is_warmup: at == 0,
            written: Counts { records, bytes: records * 92 },
            ..Second::default()
        };
        let rates = [1_000, 400, 400, 400, 300, 200, 200, 200, 200];
        let seconds: Vec<Second> = (0..).zip(rates).map(|(at, records)| second(at, records)).collect();
        // 100 bytes each, three copies: 300 kB to warm up, then 120 kB a second; the fifth is across.
        let found = Growth::of(&seconds, 3, 700_000).expect("it outgrows the memory");
        assert_eq!((found.first_per_sec, found.last_per_sec, found.ratio), (400.0, 200.0, 0.5));
        assert_eq!(Growth::of(&seconds, 3, 7_000_000), None, "all of it fits");
        assert_eq!(Growth::of(&seconds, 3, 400_000), None, "too little of it fitted");
    }
}
