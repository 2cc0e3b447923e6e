//! A range of each topic for each of its readers.
//!
//! Topics with the same number of partitions and the same readers are cut at the same places, so that a member that
//! joins two topics by their keys finds both halves of a key with itself. Racks are heeded only for all topics of
//! such a set at once, and never at the price of balance: each member gets as many as it would without racks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Classes, Partitions, Subscriber, Topic, index};

pub(super) fn assign(members: &[Subscriber<'_>], topics: &[Topic<'_>]) -> Vec<Partitions> {
    let classes = Classes::new(members, topics.len());
    // Sets of topics that are cut at the same places: by their size and who wants them.
    let mut sets: BTreeMap<(usize, &[usize]), Vec<usize>> = BTreeMap::new();
    for (at, topic) in topics.iter().enumerate() {
        if !classes.readers[at].is_empty() {
            sets.entry((topic.partitions, &classes.readers[at])).or_default().push(at);
        }
    }
    let mut answer = vec![Partitions::new(); members.len()];
    for ((partitions, of), set) in sets {
        let mut readers: Vec<usize> =
            of.iter().flat_map(|&class| classes.members[class].iter().copied()).collect();
        readers.sort_unstable();
        let set: Vec<&Topic<'_>> = set.into_iter().map(|at| &topics[at]).collect();
        let plain = in_order(partitions, readers.len());
        let given = match with_racks(partitions, &readers, members, &set) {
            Some(near)
                if matches(&near, &readers, members, &set) > matches(&plain, &readers, members, &set) =>
            {
                near
            }
            _ => plain,
        };
        for (partition, reader) in given.into_iter().enumerate() {
            for topic in &set {
                answer[readers[reader]].entry(topic.id).or_default().insert(index(partition));
            }
        }
    }
    answer
}

/// How many of `partitions` the reader at a place gets: the first ones get what is left over.
fn quota(partitions: usize, readers: usize, at: usize) -> usize {
    partitions / readers + usize::from(at < partitions % readers)
}

/// The reader of each partition, one range after the other.
fn in_order(partitions: usize, readers: usize) -> Vec<usize> {
    (0..readers).flat_map(|at| std::iter::repeat_n(at, quota(partitions, readers, at))).collect()
}

/// The reader of each partition, near it where that is possible; `None` if nobody's rack is known.
fn with_racks(
    partitions: usize,
    readers: &[usize],
    members: &[Subscriber<'_>],
    set: &[&Topic<'_>],
) -> Option<Vec<usize>> {
    let mut room: Vec<usize> = (0..readers.len()).map(|at| quota(partitions, readers.len(), at)).collect();
    // Whoever has room, by rack.
    let mut by_rack: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (at, &reader) in readers.iter().enumerate() {
        if let Some(rack) = members[reader].rack.filter(|_| room[at] > 0) {
            by_rack.entry(rack).or_default().insert(at);
        }
    }
    if by_rack.is_empty() || set.iter().all(|topic| topic.racks.is_empty()) {
        return None;
    }
    let mut given: Vec<Option<usize>> = vec![None; partitions];
    for (partition, reader) in given.iter_mut().enumerate() {
        let racks = set[0].racks.get(partition).map_or(&[][..], Vec::as_slice);
        let is_shared = |rack: &&str| set.iter().all(|topic| topic.is_near(partition, Some(*rack)));
        let shared = racks.iter().copied().filter(is_shared);
        let nearest = shared.filter_map(|rack| by_rack.get(rack)?.first().map(|&at| (at, rack))).min();
        if let Some((at, rack)) = nearest {
            *reader = Some(at);
            room[at] -= 1;
            if room[at] == 0 {
                by_rack.entry(rack).or_default().remove(&at);
            }
        }
    }
    let mut rest = room.iter().enumerate().flat_map(|(at, &room)| std::iter::repeat_n(at, room));
    given.into_iter().map(|reader| reader.or_else(|| rest.next())).collect()
}

/// How many partitions are near their reader in every topic of the set.
fn matches(given: &[usize], readers: &[usize], members: &[Subscriber<'_>], set: &[&Topic<'_>]) -> usize {
    let near = |(partition, at): &(usize, &usize)| {
        set.iter().all(|topic| topic.is_near(*partition, members[readers[**at]].rack))
    };
    given.iter().enumerate().filter(near).count()
}
