//! What each partition's offset is, and what it is to be.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use base::{Offset, TimestampMs, TopicPartition};
use client::Admin;
use client::admin::{At, OffsetAndMetadata};
use serde_json::{Value, json};

use super::super::logs::{self, Log};
use crate::output::Table;

/// Where a partition's offset is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Earliest,
    Latest,
    /// At the first record of this time, in milliseconds since 1970, or later.
    Time(i64),
    /// So many offsets from where it is.
    Shift(i64),
    Offset(i64),
}

/// What happens to one partition's offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) of: TopicPartition,
    pub(super) from: Option<Offset>,
    /// `None` if it cannot be told.
    pub(super) to: Option<Offset>,
    /// Where the log begins and ends.
    range: (i64, i64),
    /// Why it is not what was asked for.
    why: Option<String>,
}

/// Finds out what is to be set. Fails if one of the partitions is not there, or nobody leads it: then nothing is set.
pub(super) fn plan(
    admin: &Admin,
    goals: &BTreeMap<TopicPartition, Goal>,
    committed: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    logs: &BTreeMap<TopicPartition, Log>,
) -> Result<Vec<Move>> {
    let timed: Vec<(&TopicPartition, i64)> = goals
        .iter()
        .filter_map(|(of, goal)| match goal {
            Goal::Time(ms) => Some((of, *ms)),
            Goal::Earliest | Goal::Latest | Goal::Shift(_) | Goal::Offset(_) => None,
        })
        .collect();
    let mut ranges = BTreeMap::new();
    for of in goals.keys() {
        let log = logs.get(of);
        match log.and_then(Log::known) {
            Some(range) => ranges.insert(of, range),
            None => bail!(
                "partition {of}: {}: where it begins and ends is not known; nothing was set",
                log.and_then(Log::error).unwrap_or("nobody says")
            ),
        };
    }
    let places = timed.iter().map(|(of, ms)| logs::place(of, At::Time(TimestampMs(*ms))));
    let mut at_time = BTreeMap::new();
    for ((of, _), found) in timed.iter().zip(admin.list_offsets(places).wait()) {
        at_time.insert(*of, found?.offset);
    }
    let one = |(of, range): (&TopicPartition, (i64, i64))| {
        let from = committed.get(of).map(|committed| committed.offset);
        let found = at_time.get(of).copied().flatten();
        aim(of, goals[of], (from, range), found)
    };
    Ok(ranges.into_iter().map(one).collect())
}

/// Where one partition's offset goes; `found` is the first one of a time.
fn aim(
    of: &TopicPartition,
    goal: Goal,
    (from, range): (Option<Offset>, (i64, i64)),
    found: Option<Offset>,
) -> Move {
    let (start, end) = range;
    let (asked, mut why) = match (goal, from) {
        (Goal::Earliest, _) => (Some(start), None),
        (Goal::Latest, _) => (Some(end), None),
        (Goal::Time(_), _) => match found {
            Some(offset) => (Some(offset.0), None),
            None => (Some(end), Some("no record is as late".to_owned())),
        },
        (Goal::Shift(by), Some(from)) => (Some(from.0.saturating_add(by)), None),
        (Goal::Shift(_), None) => (None, Some("nothing is committed to count from".to_owned())),
        (Goal::Offset(offset), _) => (Some(offset), None),
    };
    let to = asked.map(|asked| {
        // The end may have been behind the record of a time when it was asked for.
        let to = if matches!(goal, Goal::Time(_)) { asked.max(start) } else { asked.clamp(start, end) };
        match (asked < start, asked > to) {
            (true, _) => why = Some(format!("not {asked}: the log begins at {start}")),
            (_, true) => why = Some(format!("not {asked}: the log ends at {end}")),
            (false, false) => {}
        }
        Offset(to)
    });
    Move { of: of.clone(), from, to, range, why }
}

impl Move {
    /// How many records are between an offset and the end.
    fn lag(&self, offset: Option<Offset>) -> Option<i64> {
        Some(self.range.1.saturating_sub(offset?.0).max(0))
    }

    pub(super) fn as_value(&self) -> Value {
        json!({
            "topic": self.of.topic.to_string(),
            "partition": self.of.partition.0,
            "old_offset": self.from.map(|offset| offset.0),
            "new_offset": self.to.map(|offset| offset.0),
            "earliest_offset": self.range.0,
            "latest_offset": self.range.1,
            "old_lag_records": self.lag(self.from),
            "new_lag_records": self.lag(self.to),
            "note": self.why,
        })
    }
}

/// What is going to happen, for people.
pub(super) fn table(moves: &[Move]) -> Table {
    let mut table =
        Table::new(&["topic", "partition", "offset", "new offset", "lag", "new lag", "change", "note"]);
    let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    for it in moves {
        let (old, new) = (it.lag(it.from), it.lag(it.to));
        let change = old.zip(new).map(|(old, new)| match new - old {
            0 => "0".to_owned(),
            change => format!("{change:+}"),
        });
        table.row([
            it.of.topic.to_string(),
            it.of.partition.to_string(),
            number(it.from.map(|offset| offset.0)),
            number(it.to.map(|offset| offset.0)),
            number(old),
            number(new),
            change.unwrap_or_default(),
            it.why.clone().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use base::{PartitionIndex, TopicName};

    use super::*;

    #[test]
    fn an_offset_goes_where_it_is_asked_to_and_the_log_has_it() {
        let topic = TopicName::new("orders").expect("it is legal");
        let of = TopicPartition { topic, partition: PartitionIndex(0) };
        //   goal                 committed  found      to          why
        let cases = [
            (Goal::Earliest, Some(50), None, Some(10), None),
            (Goal::Latest, None, None, Some(100), None),
            (Goal::Time(5), Some(50), Some(60), Some(60), None),
            (Goal::Time(5), Some(50), None, Some(100), Some("no record is as late")),
            (Goal::Shift(-5), Some(50), None, Some(45), None),
            (Goal::Shift(i64::MIN), Some(50), None, Some(10), Some("the log begins at 10")),
            (Goal::Shift(51), Some(50), None, Some(100), Some("not 101: the log ends at 100")),
            (Goal::Shift(1), None, None, None, Some("nothing is committed")),
            (Goal::Offset(9), None, None, Some(10), Some("not 9: the log begins at 10")),
            (Goal::Offset(100), None, None, Some(100), None),
        ];
        for (goal, from, found, to, why) in cases {
            let moved = aim(&of, goal, (from.map(Offset), (10, 100)), found.map(Offset));
            assert_eq!(moved.to, to.map(Offset), "{moved:?}");
            assert_eq!(moved.why.is_some(), why.is_some(), "{moved:?}");
            assert!(moved.why.as_deref().unwrap_or_default().contains(why.unwrap_or_default()), "{moved:?}");
        }
    }
}
