//! How long a partition acknowledged nothing when something was done to a broker: from the last
//! acknowledgement before a silence to the first after it. And how long a group committed nothing, when
//! something was done to its coordinator or became of a member.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::history::{Away, Event, Line};

/// Something that was done to a broker that some partitions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blow {
    /// What.
    pub kind: &'static str,
    /// When, as histories have it.
    pub at: u64,
    /// Until when a silence that begins is its doing, if that is more than [`HEARD_AFTER_NS`] later.
    pub until: u64,
    /// Whose silence counts: partitions, or groups.
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
    let until_next = |index: usize, partition: i32| {
        let next = blows[index + 1..].iter().find(|next| next.partitions.contains(&partition));
        next.map_or(u64::MAX, |next| next.at)
    };
    silences(heard, blows, until_next)
}

/// The times of each kind, of groups: from one acknowledged commit to the next, whoever made them. Members
/// that were killed, stopped or cut off are blows to their groups, too. A silence counts for each blow at its
/// beginning.
pub fn of_groups(lines: &[Line], blows: &[Blow]) -> BTreeMap<&'static str, Times> {
    let (mut heard, mut away) = (BTreeMap::<i32, Vec<u64>>::new(), BTreeMap::<u32, usize>::new());
    let mut of_members: Vec<Blow> = Vec::new();
    let members: BTreeMap<u32, i32> = lines.iter().filter_map(|line| member(&line.event)).collect();
    let blow = |kind, who: u32, at| Blow {
        kind,
        at,
        until: at,
        partitions: members.get(&who).copied().into_iter().collect(),
    };
    for line in lines {
        match line.event {
            Event::Committed { who, .. } => {
                heard.entry(members.get(&who).copied().unwrap_or(-1)).or_default().push(line.at);
            }
            Event::Gone { who, killed: true } => {
                of_members.push(blow("kill -9 of a member", who, line.at));
            }
            Event::Away { who, why: why @ (Away::Stopped | Away::CutOff) } => {
                let kind = if why == Away::Stopped { "a member stopped" } else { "a member cut off" };
                away.insert(who, of_members.len());
                of_members.push(blow(kind, who, line.at));
            }
            Event::Back { who } => {
                if let Some(index) = away.remove(&who) {
                    of_members[index].until = line.at;
                }
            }
            _ => {}
        }
    }
    let blows: Vec<Blow> = blows.iter().cloned().chain(of_members).collect();
    silences(heard, &blows, |_, _| u64::MAX)
}

fn member(event: &Event) -> Option<(u32, i32)> {
    match event {
        Event::Member { who, group } => Some((*who, *group as i32)),
        _ => None,
    }
}

fn silences(
    mut heard: BTreeMap<i32, Vec<u64>>,
    blows: &[Blow],
    end: impl Fn(usize, i32) -> u64,
) -> BTreeMap<&'static str, Times> {
    // Lines of other processes are written down a little later than they happened.
    heard.values_mut().for_each(|times| times.sort_unstable());
    let mut found = BTreeMap::<_, Vec<Option<u64>>>::new();
    for (index, blow) in blows.iter().enumerate() {
        for partition in &blow.partitions {
            let heard = heard.get(partition).map_or(&[][..], Vec::as_slice);
            found.entry(blow.kind).or_default().push(gap(heard, blow, end(index, *partition)));
        }
    }
    found.into_iter().map(|(kind, gaps)| (kind, summed(&gaps))).collect()
}

/// The longest silence that begins while a blow lasts and ends before a time.
fn gap(heard: &[u64], blow: &Blow, end: u64) -> Option<u64> {
    let (at, until) = (blow.at, blow.until.max(blow.at + HEARD_AFTER_NS));
    let first = heard.partition_point(|time| *time <= at).saturating_sub(1);
    let heard = &heard[first..heard.partition_point(|time| *time < end).max(first)];
    let pairs = heard.windows(2).filter(|pair| pair[1] > at && pair[0] < until);
    pairs.map(|pair| pair[1] - pair[0]).max()
}

/// Of times in nanoseconds; `None` is one that never ended.
pub(crate) fn summed(gaps: &[Option<u64>]) -> Times {
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
        Blow { kind: "kill", at: at_ms * MS, until: 0, partitions: partitions.to_vec() }
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
    fn a_blow_that_lasts_is_told_of_every_silence_that_begins_in_it() {
        let every_ms: Vec<u64> = (900..8000).step_by(10).collect();
        let silent = |from, to| every_ms.iter().copied().filter(move |ms| *ms <= from || *ms >= to);
        let lasts = Blow { until: 5000 * MS, ..blow(1000, &[0]) };
        let late = heard(0, &silent(4500, 4900).collect::<Vec<_>>());
        assert_eq!(times(&late, std::slice::from_ref(&lasts))["kill"].max_ms, 400);
        assert_eq!(times(&late, &[blow(1000, &[0])])["kill"].max_ms, 10);
        let after = heard(0, &silent(5100, 5900).collect::<Vec<_>>());
        assert_eq!(times(&after, &[lasts])["kill"].max_ms, 10);
    }

    #[test]
    fn a_group_is_silent_between_two_commits() {
        let line = |ms, event| Line { at: ms * MS, event };
        let committed = |who, ms| line(ms, Event::Committed { who, number: ms });
        let mut lines = vec![line(1, Event::Member { who: 7, group: 3 })];
        lines.push(line(1, Event::Member { who: 8, group: 3 }));
        lines.extend([
            committed(7, 900),
            committed(8, 950),
            line(1000, Event::Gone { who: 7, killed: true }),
        ]);
        lines.extend([committed(8, 7000), committed(8, 7100)]);
        lines.push(line(7200, Event::Away { who: 8, why: Away::Stopped }));
        lines.extend([committed(8, 9000), line(9500, Event::Back { who: 8 }), committed(8, 9600)]);
        let found = of_groups(&lines, &[blow(1000, &[3]), blow(1200, &[3])]);
        assert_eq!((found["a member stopped"].count, found["a member stopped"].max_ms), (1, 1900));
        assert_eq!((found["kill -9 of a member"].count, found["kill -9 of a member"].max_ms), (1, 6050));
        // Nobody knows which of the two it was.
        assert_eq!((found["kill"].count, found["kill"].p50_ms, found["kill"].never), (2, 6050, 0));
    }

    #[test]
    fn partitions_are_apart() {
        let lines = [heard(0, &[990, 1500]), heard(1, &[995, 1005])].concat();
        assert_eq!(times(&lines, &[blow(1000, &[0])])["kill"].max_ms, 510);
        assert_eq!(times(&lines, &[blow(1000, &[1])])["kill"].max_ms, 10);
        assert_eq!(times(&lines, &[blow(1000, &[2])])["kill"].never, 1);
    }
}
