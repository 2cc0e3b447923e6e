//! As even as can be over all topics, with as few moves as can be.
//!
//! ```text
//!   keep    whoever has a partition that still is and that it still wants keeps it
//!   fill    what nobody has goes to whoever has least: near ones first, as long as they have less than their share
//!   level   from whoever has most, one partition to whoever has least of those who want it, until nothing gets more
//!           even; only what must move moves
//! ```
//!
//! Members that want the same are one class, with its members by load: finding the least loaded reader of a topic
//! costs a look at each class that wants it, which for most groups is one.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::{Classes, Partitions, Subscriber, Topic, index};

/// Looks at classes that levelling may take. It stops there, less even than could be: members that all want
/// something else could otherwise make it as expensive as they like.
const LOOKS_MAX: usize = 4_000_000;
/// How often all members are levelled at most: a member that has nothing to give at first may have it later.
const ROUNDS_MAX: usize = 64;
/// How many of a member's partitions of one topic are compared before one is moved.
const COMPARED_MAX: usize = 64;

/// Members of a class by how much they have, the least loaded first.
type ByLoad = BTreeSet<(usize, usize)>;

pub(super) fn assign(members: &[Subscriber<'_>], topics: &[Topic<'_>]) -> Vec<Partitions> {
    let mut plan = Plan::new(members, topics);
    plan.keep();
    plan.fill();
    plan.level();
    plan.answer()
}

struct Plan<'a> {
    members: &'a [Subscriber<'a>],
    topics: &'a [Topic<'a>],
    /// Partitions have numbers over all topics: this is the first of each topic, and the end.
    starts: Vec<usize>,
    classes: Classes,
    /// For each class.
    by_load: Vec<ByLoad>,
    /// For each class, the same by rack; only if racks are known on both sides.
    by_rack: Vec<BTreeMap<&'a str, ByLoad>>,
    racks_known: bool,
    /// Whether a partition is with whoever had it before.
    kept: Vec<bool>,
    given: Vec<bool>,
    /// The partitions of each member.
    held: Vec<BTreeSet<usize>>,
}

impl<'a> Plan<'a> {
    fn new(members: &'a [Subscriber<'a>], topics: &'a [Topic<'a>]) -> Self {
        let mut starts = vec![0];
        for topic in topics {
            starts.push(starts[starts.len() - 1] + topic.partitions);
        }
        let classes = Classes::new(members, topics.len());
        let total = starts[topics.len()];
        let racks_known = members.iter().any(|member| member.rack.is_some())
            && topics.iter().any(|topic| !topic.racks.is_empty());
        Self {
            members,
            topics,
            starts,
            by_load: vec![ByLoad::new(); classes.members.len()],
            by_rack: vec![BTreeMap::new(); classes.members.len()],
            classes,
            racks_known,
            kept: vec![false; total],
            given: vec![false; total],
            held: vec![BTreeSet::new(); members.len()],
        }
    }

    fn keep(&mut self) {
        let places: BTreeMap<_, usize> =
            self.topics.iter().enumerate().map(|(at, topic)| (topic.id, at)).collect();
        for (at, member) in self.members.iter().enumerate() {
            for (topic, partitions) in member.owned.into_iter().flatten() {
                let place = places.get(topic).filter(|place| member.topics.binary_search(place).is_ok());
                let Some(&topic) = place else { continue };
                for partition in partitions.iter().filter_map(|index| usize::try_from(index.0).ok()) {
                    let number = self.starts[topic] + partition;
                    if partition < self.topics[topic].partitions && !self.given[number] {
                        self.given[number] = true;
                        self.kept[number] = true;
                        self.held[at].insert(number);
                    }
                }
            }
        }
        for at in 0..self.members.len() {
            self.enter(at);
        }
    }

    fn fill(&mut self) {
        let mut topics: Vec<usize> = (0..self.topics.len()).collect();
        topics.sort_by_key(|&topic| self.classes.readers_of(topic));
        let mut free: Vec<(usize, usize)> = Vec::new();
        for topic in topics {
            let numbers = self.starts[topic]..self.starts[topic + 1];
            free.extend(numbers.filter(|&number| !self.given[number]).map(|number| (topic, number)));
        }
        if self.racks_known {
            let share = self.given.len() / self.members.len().max(1);
            // Those with the fewest racks to choose from choose first.
            free.sort_by_key(|&(topic, number)| self.racks(topic, number).len());
            free.retain(|&(topic, number)| match self.least_near(topic, number) {
                Some((load, member)) if load < share => {
                    self.give(member, number);
                    false
                }
                _ => true,
            });
        }
        for (topic, number) in free {
            if let Some((_, member)) = self.least(topic) {
                self.give(member, number);
            }
        }
    }

    fn level(&mut self) {
        let mut looks = 0;
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            let mut most: BinaryHeap<(usize, usize)> =
                self.held.iter().enumerate().map(|(at, held)| (held.len(), at)).collect();
            while let Some((load, giver)) = most.pop() {
                if load != self.held[giver].len() {
                    // It got something since.
                    most.push((self.held[giver].len(), giver));
                    continue;
                }
                if looks > LOOKS_MAX {
                    return;
                }
                if let Some((topic, receiver)) = self.receiver(giver, &mut looks) {
                    let number = self.choose(giver, receiver, topic);
                    self.take(giver, number);
                    self.give(receiver, number);
                    most.push((load - 1, giver));
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// To whom a member should give one partition of which topic, if that makes anything more even.
    fn receiver(&self, giver: usize, looks: &mut usize) -> Option<(usize, usize)> {
        let held = &self.held[giver];
        let mut found: Option<(usize, usize, usize)> = None;
        let mut from = 0;
        while let Some(&number) = held.range(from..).next() {
            let topic = self.topic_of(number);
            *looks += self.classes.readers[topic].len();
            if let Some((load, receiver)) = self.least(topic)
                && load + 2 <= held.len()
                && found.is_none_or(|(least, ..)| load < least)
            {
                found = Some((load, receiver, topic));
            }
            // With one class, the least loaded member is the same for all topics.
            if self.by_load.len() == 1 {
                break;
            }
            from = self.starts[topic + 1];
        }
        found.map(|(_, receiver, topic)| (topic, receiver))
    }

    /// Which of the giver's partitions of a topic moves: one that is on the move anyway, then the one that comes
    /// nearest to its reader, then the last.
    fn choose(&self, giver: usize, receiver: usize, topic: usize) -> usize {
        let numbers = self.starts[topic]..self.starts[topic + 1];
        let near = |number: usize, member: usize| {
            self.topics[topic].is_near(number - self.starts[topic], self.members[member].rack)
        };
        let compared = self.held[giver].range(numbers).rev().take(COMPARED_MAX);
        let best = compared.max_by_key(|&&number| {
            (!self.kept[number], i32::from(near(number, receiver)) - i32::from(near(number, giver)), number)
        });
        *best.expect("the giver has a partition of this topic")
    }

    fn answer(self) -> Vec<Partitions> {
        let mut answer = Vec::with_capacity(self.members.len());
        for held in &self.held {
            let mut partitions = Partitions::new();
            for &number in held {
                let topic = self.topic_of(number);
                let of = partitions.entry(self.topics[topic].id).or_default();
                of.insert(index(number - self.starts[topic]));
            }
            answer.push(partitions);
        }
        answer
    }

    fn give(&mut self, member: usize, number: usize) {
        self.leave(member);
        self.given[number] = true;
        self.held[member].insert(number);
        self.enter(member);
    }

    fn take(&mut self, member: usize, number: usize) {
        self.leave(member);
        self.kept[number] = false;
        self.held[member].remove(&number);
        self.enter(member);
    }

    fn enter(&mut self, member: usize) {
        let (class, entry) = (self.classes.of[member], (self.held[member].len(), member));
        self.by_load[class].insert(entry);
        if let Some(rack) = self.members[member].rack.filter(|_| self.racks_known) {
            self.by_rack[class].entry(rack).or_default().insert(entry);
        }
    }

    fn leave(&mut self, member: usize) {
        let (class, entry) = (self.classes.of[member], (self.held[member].len(), member));
        self.by_load[class].remove(&entry);
        if let Some(rack) = self.members[member].rack.filter(|_| self.racks_known) {
            self.by_rack[class].entry(rack).or_default().remove(&entry);
        }
    }

    /// Whoever has least of those who want a topic, and how much that is.
    fn least(&self, topic: usize) -> Option<(usize, usize)> {
        self.classes.readers[topic].iter().filter_map(|&class| self.by_load[class].first().copied()).min()
    }

    /// The same of those who are in a rack with a replica of a partition.
    fn least_near(&self, topic: usize, number: usize) -> Option<(usize, usize)> {
        let racks = self.racks(topic, number);
        let classes = self.classes.readers[topic].iter();
        let near =
            classes.flat_map(|&class| racks.iter().filter_map(move |rack| self.by_rack[class].get(rack)));
        near.filter_map(|by_load| by_load.first().copied()).min()
    }

    fn racks(&self, topic: usize, number: usize) -> &[&'a str] {
        self.topics[topic].racks.get(number - self.starts[topic]).map_or(&[], Vec::as_slice)
    }

    fn topic_of(&self, number: usize) -> usize {
        self.starts.partition_point(|&start| start <= number) - 1
    }
}
