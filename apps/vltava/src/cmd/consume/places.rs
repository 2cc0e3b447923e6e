//! Where each partition is read from, and to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use base::{Offset, TimestampMs};
use client::admin::{At, Topic};
use client::consumer::{Consumer, Start};

use crate::cmd::target::Cluster;

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// At the first record there is.
    Beginning,
    /// Behind the last.
    End,
    /// At an offset.
    Offset(i64),
    /// So many records before the end.
    Back(i64),
    /// At the first record of this time, in milliseconds since 1970, or later.
    Time(i64),
}

/// Where to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nowhere.
    Never,
    /// At the end.
    End,
    /// Before the first record of this time, in milliseconds since 1970, or later; or at the end.
    Time(i64),
}

/// What `-o` can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Begin(Begin),
    Stop(Stop),
}

/// Reads what stands behind `-o`.
pub(super) fn parse(text: &str) -> Result<Bound, String> {
    let wrong = || {
        format!(
            "{text:?} is no place: say beginning, end, an offset, -N (before the end), s@MS (from a time) or e@MS (to a time)"
        )
    };
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number >= 0).ok_or_else(wrong);
    Ok(match text {
        "beginning" | "earliest" | "smallest" => Bound::Begin(Begin::Beginning),
        "end" | "latest" | "largest" => Bound::Begin(Begin::End),
        "stored" => return Err("stored offsets belong to groups: this command reads without one".to_owned()),
        _ => match (text.strip_prefix("s@"), text.strip_prefix("e@"), text.strip_prefix('-')) {
            (Some(time), _, _) => Bound::Begin(Begin::Time(number(time)?)),
            (_, Some(time), _) => Bound::Stop(Stop::Time(number(time)?)),
            (_, _, Some(back)) => Bound::Begin(Begin::Back(number(back)?)),
            _ => Bound::Begin(Begin::Offset(number(text)?)),
        },
    })
}

/// A partition, and what is read of it.
#[derive(Debug)]
pub(super) struct Place {
    topic: String,
    partition: i32,
    start: i64,
    /// Whether it begins at whatever is the first record when it is asked for: retention may be faster.
    is_from_beginning: bool,
    /// Not read any more.
    end: i64,
    /// What whoever asked for it should know.
    pub(super) warning: Option<String>,
}

/// Finds the partitions of topics, or those that are asked for, and what is to be read of them.
pub(super) fn find(
    cluster: &mut Cluster,
    names: &[String],
    wanted: &[i32],
    from: Begin,
    until: Stop,
) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for name in names {
        let topic = cluster.topic(name)?;
        let partitions = partitions(&topic, wanted)?;
        let firsts = cluster.offsets(&topic, &partitions, At::Earliest)?;
        let lasts = cluster.offsets(&topic, &partitions, At::Latest)?;
        let mut at = |time| cluster.offsets(&topic, &partitions, At::Time(TimestampMs(time)));
        let starts = match from {
            Begin::Time(time) => at(time)?,
            _ => Vec::new(),
        };
        let ends = match until {
            Stop::Time(time) => at(time)?,
            _ => Vec::new(),
        };
        for (place, &partition) in partitions.iter().enumerate() {
            let (first, last) = (firsts[place], lasts[place]);
            // Where no record is as late, it is behind the last.
            let known = |offsets: &[i64]| offsets.get(place).copied().filter(|at| *at >= 0).unwrap_or(last);
            let start = match from {
                Begin::Beginning => first,
                Begin::End => last,
                Begin::Offset(offset) => offset.clamp(first, last),
                Begin::Back(count) => last.saturating_sub(count).max(first),
                Begin::Time(_) => known(&starts),
            };
            let warning = match from {
                Begin::Offset(offset) if offset != start => Some(format!(
                    "{name} [{partition}] has offsets {first} to {last}: it is read from {start} on, not from {offset}"
                )),
                _ => None,
            };
            places.push(Place {
                topic: name.clone(),
                partition,
                start,
                is_from_beginning: from == Begin::Beginning,
                end: if until == Stop::Never { i64::MAX } else { known(&ends) },
                warning,
            });
        }
    }
    Ok(places)
}

/// Those that are asked for, or all.
fn partitions(topic: &Topic, wanted: &[i32]) -> Result<Vec<i32>> {
    let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index.0).collect();
    if wanted.is_empty() {
        return Ok(all);
    }
    if let Some(missing) = wanted.iter().find(|index| !all.contains(index)) {
        bail!("topic {} has {} partitions, and no partition {missing}", topic.name, all.len());
    }
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

/// Readers of committed records do not come to the end while a transaction is open: the ends are where they
/// come to.
pub(super) fn end_where_stable(consumer: &mut Consumer, places: &mut [Place]) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let deadline = Instant::now() + PATIENCE;
    consumer.assign(places.iter().map(|place| (&*place.topic, place.partition, Start::Latest)));
    for place in &*places {
        consumer.pause(&place.topic, place.partition);
    }
    for place in places {
        let stable = loop {
            if let Some(offset) = consumer.position(&place.topic, place.partition) {
                break offset.0;
            }
            // Nothing comes of a paused partition, but what is wrong with it is told.
            consumer.next_batch_within(Duration::from_millis(5))?;
            if Instant::now() > deadline {
                bail!("{} [{}] does not say where it ends", place.topic, place.partition);
            }
        };
        place.end = place.end.min(stable);
    }
    consumer.assign([]);
    Ok(())
}

/// The places, as they are read.
pub(super) struct ByPartition {
    places: BTreeMap<String, BTreeMap<i32, Place>>,
    /// How many are not at their end.
    open: usize,
}

impl ByPartition {
    pub(super) fn new(places: Vec<Place>) -> Self {
        let open = places.iter().filter(|place| !place.is_done()).count();
        let mut by_partition: BTreeMap<String, BTreeMap<i32, Place>> = BTreeMap::new();
        for place in places {
            by_partition.entry(place.topic.clone()).or_default().insert(place.partition, place);
        }
        Self { places: by_partition, open }
    }

    fn not_done(&self) -> impl Iterator<Item = &Place> {
        self.places.values().flat_map(BTreeMap::values).filter(|place| !place.is_done())
    }

    /// For the consumer.
    pub(super) fn assignment(&self) -> impl Iterator<Item = (&str, i32, Start)> {
        self.not_done().map(|place| {
            let start =
                if place.is_from_beginning { Start::Earliest } else { Start::Offset(Offset(place.start)) };
            (&*place.topic, place.partition, start)
        })
    }

    /// The end of a partition.
    pub(super) fn end(&self, topic: &str, partition: i32) -> Option<i64> {
        Some(self.places.get(topic)?.get(&partition)?.end)
    }

    /// A partition was read up to an offset. Whether it is at its end.
    pub(super) fn read_to(&mut self, topic: &str, partition: i32, offset: i64) -> bool {
        let Some(place) = self.places.get_mut(topic).and_then(|of_topic| of_topic.get_mut(&partition)) else {
            return true;
        };
        let was_done = place.is_done();
        place.start = place.start.max(offset);
        self.open -= usize::from(!was_done && place.is_done());
        place.is_done()
    }

    /// Whether all were read to their ends.
    pub(super) fn are_done(&self) -> bool {
        self.open == 0
    }

    /// Whether the consumer has been sent all that lies before the ends, also what is not for readers.
    pub(super) fn are_passed(&self, consumer: &Consumer) -> bool {
        let is_passed = |place: &Place| {
            let position = consumer.position(&place.topic, place.partition);
            position.is_some_and(|position| position.0 >= place.end)
        };
        self.not_done().all(is_passed)
    }
}

impl Place {
    fn is_done(&self) -> bool {
        self.start >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_kcats() {
        let cases = [
            ("beginning", Bound::Begin(Begin::Beginning)),
            ("end", Bound::Begin(Begin::End)),
            ("0", Bound::Begin(Begin::Offset(0))),
            ("-10", Bound::Begin(Begin::Back(10))),
            ("s@1000", Bound::Begin(Begin::Time(1000))),
            ("e@1000", Bound::Stop(Stop::Time(1000))),
        ];
        for (text, bound) in cases {
            assert_eq!(parse(text), Ok(bound));
        }
        for wrong in ["", "-", "--1", "s@", "e@-1", "soon", "99999999999999999999"] {
            assert!(parse(wrong).expect_err(wrong).contains("is no place"));
        }
        assert!(parse("stored").expect_err("there are no groups").contains("without one"));
    }
}
