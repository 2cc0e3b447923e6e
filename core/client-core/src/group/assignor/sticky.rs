//! Evenly, and with as few partitions as can be that change hands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{TopicName, TopicPartition};

use super::{Assignment, Members, partition};

/// What is known while it is decided. Members are called by their place, in the order of their ids.
struct Table<'a> {
    ids: Vec<&'a Arc<str>>,
    /// Who wants a topic.
    wanting: BTreeMap<&'a TopicName, BTreeSet<usize>>,
    has: Vec<BTreeSet<TopicPartition>>,
    /// How much each has, with its place.
    by_load: BTreeSet<(usize, usize)>,
}

pub(super) fn assign(members: &Members, topics: &BTreeMap<TopicName, i32>, assigned: &mut Assignment) {
    let mut table = Table::new(members, topics);
    let owners = owners(members);
    let mut free = Vec::new();
    for (topic, &count) in topics {
        for index in 0..count {
            let part = partition(topic, index);
            let owner = owners.get(&part).copied();
            match owner.filter(|place| table.wanting.get(topic).is_some_and(|all| all.contains(place))) {
                Some(place) => table.give(place, part),
                None => free.push(part),
            }
        }
    }
    for part in free {
        if let Some(place) = table.least_loaded(&part.topic) {
            table.give(place, part);
        }
    }
    table.even_out();
    for (id, parts) in table.ids.iter().zip(table.has) {
        assigned.insert(Arc::clone(id), parts);
    }
}

/// Takes out what another member says it reads still: it gets it once that one has given it up, with the
/// rebalance that follows. Whatever generation the claim is of: who makes it may be reading.
pub(super) fn hold_back_what_moves(members: &Members, assigned: &mut Assignment) {
    let mut claims: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
    for part in members.values().flat_map(|member| &member.owned) {
        *claims.entry(part).or_default() += 1;
    }
    for (id, parts) in assigned {
        parts.retain(|part| {
            let own = usize::from(members[id].owned.contains(part));
            claims.get(part).copied().unwrap_or(0) == own
        });
    }
}

/// Who has what, as the members say: of two who claim the same the one of the later assignment; of the same
/// one nobody can be believed.
fn owners(members: &Members) -> BTreeMap<TopicPartition, usize> {
    let mut claims: BTreeMap<&TopicPartition, (i32, Option<usize>)> = BTreeMap::new();
    for (place, member) in members.values().enumerate() {
        for part in &member.owned {
            let claim = claims.entry(part).or_insert((i32::MIN, None));
            if member.generation > claim.0 {
                *claim = (member.generation, Some(place));
            } else if member.generation == claim.0 {
                claim.1 = None;
            }
        }
    }
    claims.into_iter().filter_map(|(part, (_, place))| Some((part.clone(), place?))).collect()
}

impl<'a> Table<'a> {
    fn new(members: &'a Members, topics: &'a BTreeMap<TopicName, i32>) -> Self {
        let mut wanting: BTreeMap<&TopicName, BTreeSet<usize>> = BTreeMap::new();
        for (place, member) in members.values().enumerate() {
            for topic in member.topics.iter().filter(|topic| topics.contains_key(*topic)) {
                wanting.entry(topic).or_default().insert(place);
            }
        }
        Self {
            ids: members.keys().collect(),
            wanting,
            has: vec![BTreeSet::new(); members.len()],
            by_load: (0..members.len()).map(|place| (0, place)).collect(),
        }
    }

    fn give(&mut self, place: usize, part: TopicPartition) {
        let load = self.has[place].len();
        self.by_load.remove(&(load, place));
        self.has[place].insert(part);
        self.by_load.insert((load + 1, place));
    }

    fn take(&mut self, place: usize, part: &TopicPartition) {
        let load = self.has[place].len();
        self.by_load.remove(&(load, place));
        self.has[place].remove(part);
        self.by_load.insert((load - 1, place));
    }

    fn least_loaded(&self, topic: &TopicName) -> Option<usize> {
        let wanting = self.wanting.get(topic)?;
        self.by_load.iter().map(|&(_, place)| place).find(|place| wanting.contains(place))
    }

    /// Moves partitions from who has more to who has two fewer at least, until nobody is left to. Each move
    /// makes the sum of the squares of the loads smaller, so it ends.
    fn even_out(&mut self) {
        // The most loaded first; who has nothing to give is not asked again unless it got something.
        let mut from = self.by_load.last().copied();
        while let Some((load, place)) = from {
            match self.movable(load, place) {
                Some((part, to)) => {
                    self.take(place, &part);
                    self.give(to, part);
                    from = self.by_load.last().copied();
                }
                None => from = self.by_load.range(..(load, place)).next_back().copied(),
            }
        }
    }

    fn movable(&self, load: usize, place: usize) -> Option<(TopicPartition, usize)> {
        let mut last: Option<(&TopicName, Option<usize>)> = None;
        for part in self.has[place].iter().rev() {
            let to = match last {
                Some((topic, to)) if *topic == part.topic => to,
                _ => self.least_loaded(&part.topic),
            };
            last = Some((&part.topic, to));
            if let Some(to) = to.filter(|&to| self.has[to].len() + 1 < load) {
                return Some((part.clone(), to));
            }
        }
        None
    }
}
