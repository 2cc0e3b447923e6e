//! What groups have read since a moment, and who has what they have not.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, Line, since};

/// Lines of other processes come a little late.
const LATE_NS: u64 = 10_000_000_000;

/// A group and a partition.
pub(super) type Place = (u32, i32);

/// Of what something was read after that; by member: its group.
pub(super) fn read_since(lines: &[Line], groups: &BTreeMap<u32, u32>, at: u64) -> BTreeSet<Place> {
    let lines = lines.iter().rev().take_while(|line| line.at + LATE_NS > at);
    let polls = lines.filter(|line| line.at > at).filter_map(|line| match &line.event {
        Event::Poll { who, partition, .. } => Some((*groups.get(who)?, *partition)),
        _ => None,
    });
    polls.collect()
}

/// Who was given a place last and has not given it back, and what it did there last, for people.
pub(super) fn holder(lines: &[Line], groups: &BTreeMap<u32, u32>, place: Place, at: u64) -> String {
    let mut given: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut names, mut polls) = (BTreeMap::new(), BTreeMap::new());
    let of_group = |who: &u32| groups.get(who) == Some(&place.0);
    for line in lines {
        match &line.event {
            Event::Reader { who, name } => drop(names.insert(*who, name.as_str())),
            Event::Poll { who, partition, .. } if *partition == place.1 => drop(polls.insert(*who, line.at)),
            Event::Assigned { who, partitions } if of_group(who) && partitions.contains(&place.1) => {
                given.insert(*who, line.at);
            }
            Event::Revoked { who, partitions } | Event::Lost { who, partitions }
                if partitions.contains(&place.1) =>
            {
                given.remove(who);
            }
            Event::Gone { who, .. } => drop(given.remove(who)),
            _ => {}
        }
    }
    let when = |then: u64| match then < at {
        true => format!("{:.1} s before", since(then, at).as_secs_f64()),
        false => format!("{:.1} s after", since(at, then).as_secs_f64()),
    };
    let held = given.iter().map(|(who, then)| {
        let name = names.get(who).unwrap_or(&"");
        let last = polls
            .get(who)
            .map_or_else(|| "never read it".to_owned(), |then| format!("read it last {}", when(*then)));
        format!("{who} ({name}) was given it {} and {last}", when(*then))
    });
    let held = held.collect::<Vec<_>>().join(", ");
    if held.is_empty() { "nobody has it".to_owned() } else { held }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Run;

    const S: u64 = 1_000_000_000;

    #[test]
    fn who_has_what_is_not_read_is_said() {
        let groups = BTreeMap::from([(1, 0), (2, 0), (3, 1)]);
        let poll = |who, partition| Event::Poll { who, partition, runs: vec![Run(7, 1, 7, 1)] };
        let given = |who, partitions: &[i32]| Event::Assigned { who, partitions: partitions.into() };
        let lines = [
            (1, Event::Reader { who: 2, name: "ours".to_owned() }),
            (2, given(1, &[0, 1])),
            (3, given(3, &[1])),
            (4, poll(1, 1)),
            (5, Event::Revoked { who: 1, partitions: vec![1] }),
            (6, given(2, &[1])),
            (7, poll(2, 1)),
            (22, poll(1, 0)),
            (23, poll(3, 1)),
        ];
        let lines = lines.map(|(at, event)| Line { at: at * S, event });
        assert_eq!(read_since(&lines, &groups, 20 * S), BTreeSet::from([(0, 0), (1, 1)]));
        let said = holder(&lines, &groups, (0, 1), 20 * S);
        assert_eq!(said, "2 (ours) was given it 14.0 s before and read it last 13.0 s before");
        assert_eq!(holder(&lines, &groups, (1, 0), 20 * S), "nobody has it");
        let gone = Event::Gone { who: 2, killed: true };
        let lines: Vec<_> = lines.into_iter().chain([Line { at: 24 * S, event: gone }]).collect();
        assert_eq!(holder(&lines, &groups, (0, 1), 20 * S), "nobody has it");
    }
}
