//! How long a partition acknowledged nothing when something was done to its leader: from the last
//! acknowledgement of the old one to the first of the new one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::history::{Event, Line};

/// Something that was done to the leader of some partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blow {
    /// What.
    pub kind: &'static str,
    /// When, as histories have it.
    pub at: u64,
    /// What it led.
    pub partitions: Vec<i32>,
}

/// Times of one kind of blow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many partitions lost their leader and came back.
    pub count: usize,
    /// Partitions that did not come back before the next blow.
    pub never: usize,
    /// The one in the middle.
    pub p50_ms: u64,
    /// One of a hundred is longer.
    pub p99_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

/// An answer that the old leader gave before the blow may be heard that much later.
const HEARD_AFTER_NS: u64 = 1_000_000_000;

/// The times of each kind.
pub fn times(lines: &[Line], blows: &[Blow]) -> BTreeMap<&'static str, Times> {
    let mut heard = BTreeMap::<i32, Vec<u64>>::new();
    for line in lines {
        if let Event::Ok { sent, .. } = &line.event {
            heard.entry(sent.partition).or_default().push(line.at);
        }
    }
    // Lines of other processes are written down a little later than they happened.
    heard.values_mut().for_each(|times| times.sort_unstable());
    let mut found = BTreeMap::<_, Vec<Option<u64>>>::new();
    for (index, blow) in blows.iter().enumerate() {
        for partition in &blow.partitions {
            let next = blows[index + 1..].iter().find(|next| next.partitions.contains(partition));
            let end = next.map_or(u64::MAX, |next| next.at);
            let heard = heard.get(partition).map_or(&[][..], Vec::as_slice);
            found.entry(blow.kind).or_default().push(gap(heard, blow.at, end));
        }
    }
    found.into_iter().map(|(kind, gaps)| (kind, summed(&gaps))).collect()
}

/// The longest silence that begins around a time and ends before another.
fn gap(heard: &[u64], at: u64, end: u64) -> Option<u64> {
    let first = heard.partition_point(|time| *time <= at).saturating_sub(1);
    let heard = &heard[first..heard.partition_point(|time| *time < end).max(first)];
    let pairs = heard.windows(2).filter(|pair| pair[1] > at && pair[0] < at + HEARD_AFTER_NS);
    pairs.map(|pair| pair[1] - pair[0]).max()
}

fn summed(gaps: &[Option<u64>]) -> Times {
    let mut known: Vec<u64> = gaps.iter().flatten().copied().collect();
    known.sort_unstable();
    let at = |part: usize| {
        let index = (known.len() * part).div_ceil(100).saturating_sub(1);
        known.get(index).map_or(0, |ns| Duration::from_nanos(*ns).as_millis() as u64)
    };
    Times {
        count: known.len(),
        never: gaps.len() - known.len(),
        p50_ms: at(50),
        p99_ms: at(99),
        max_ms: at(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Sent;

    const MS: u64 = 1_000_000;

    fn heard(partition: i32, at_ms: &[u64]) -> Vec<Line> {
        let sent = Sent { by: 1, partition, first: 0, count: 1 };
        at_ms.iter().map(|ms| Line { at: ms * MS, event: Event::Ok { sent, offset: Some(0) } }).collect()
    }

    fn blow(at_ms: u64, partitions: &[i32]) -> Blow {
        Blow { kind: "kill", at: at_ms * MS, partitions: partitions.to_vec() }
    }

    #[test]
    fn a_gap_is_from_the_last_answer_to_the_first() {
        // The answer at 1001 was on its way when the leader was killed at 1000.
        let lines = heard(0, &[980, 990, 1001, 2301, 2310, 9000]);
        let found = times(&lines, &[blow(1000, &[0])]);
        let expected = Times { count: 1, never: 0, p50_ms: 1300, p99_ms: 1300, max_ms: 1300 };
        assert_eq!(found["kill"], expected);
    }

    #[test]
    fn a_blow_ends_where_the_next_begins() {
        let lines = heard(0, &[990, 5000, 5010, 9000]);
        let found = times(&lines, &[blow(1000, &[0]), blow(5005, &[0]), blow(9500, &[0])]);
        let expected = Times { count: 2, never: 1, p50_ms: 3990, p99_ms: 4010, max_ms: 4010 };
        assert_eq!(found["kill"], expected);
        let found = times(&lines, &[blow(1000, &[0]), blow(4000, &[0])]);
        assert_eq!((found["kill"].count, found["kill"].never), (1, 1));
    }

    #[test]
    fn partitions_are_apart() {
        let lines = [heard(0, &[990, 1500]), heard(1, &[995, 1005])].concat();
        assert_eq!(times(&lines, &[blow(1000, &[0])])["kill"].max_ms, 510);
        assert_eq!(times(&lines, &[blow(1000, &[1])])["kill"].max_ms, 10);
        assert_eq!(times(&lines, &[blow(1000, &[2])])["kill"].never, 1);
    }
}
