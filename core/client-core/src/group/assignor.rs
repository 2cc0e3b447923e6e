//! Who reads what, decided by the member that leads a classic group.
//!
//! All members of a group have to have an assignor in common, by its name; these answer to those of Kafka's
//! clients, and whoever leads decides for members of any make.
//!
//! **Invariant:** each partition of a topic that somebody wants goes to exactly one of those who want it,
//! or, cooperatively, to none as long as another still reads it.

mod sticky;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{PartitionIndex, TopicName, TopicPartition};

/// A way to assign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Of each topic a stretch of partitions to each member; `range`.
    Range,
    /// The partitions of all topics in turn; `roundrobin`.
    RoundRobin,
    /// Evenly, and as few as can be change hands; who loses one gives it up before another gets it
    /// (KIP-429); `cooperative-sticky`.
    CooperativeSticky,
}

/// What a member said when it joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// What it wants.
    pub topics: BTreeSet<TopicName>,
    /// What it reads still.
    pub owned: BTreeSet<TopicPartition>,
    /// Since when it reads that, counted in assignments.
    pub generation: i32,
}

/// The members of a group, by their ids.
pub type Members = BTreeMap<Arc<str>, Member>;

/// What each member gets.
pub type Assignment = BTreeMap<Arc<str>, BTreeSet<TopicPartition>>;

impl Assignor {
    /// As the protocol says it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Range, Self::RoundRobin, Self::CooperativeSticky].into_iter().find(|it| it.name() == name)
    }

    /// Whether members keep what they have while they agree on who gets what.
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// Assigns the partitions of these topics, of which there are so many each.
    pub fn assign(self, members: &Members, topics: &BTreeMap<TopicName, i32>) -> Assignment {
        let mut assigned: Assignment = members.keys().map(|id| (id.clone(), BTreeSet::new())).collect();
        match self {
            Self::Range => range(members, topics, &mut assigned),
            Self::RoundRobin => round_robin(members, topics, &mut assigned),
            Self::CooperativeSticky => {
                sticky::assign(members, topics, &mut assigned);
                sticky::hold_back_what_moves(members, &mut assigned);
            }
        }
        assigned
    }
}

fn partition(topic: &TopicName, index: i32) -> TopicPartition {
    TopicPartition { topic: topic.clone(), partition: PartitionIndex(index) }
}

/// Members in the order in which Kafka's assignors give: those with an instance id first, by it, so that they
/// get the same when they come back with another member id.
fn in_order<'a>(members: &'a Members, topic: Option<&TopicName>) -> Vec<&'a Arc<str>> {
    let wanting = members.iter().filter(|(_, it)| topic.is_none_or(|topic| it.topics.contains(topic)));
    let mut wanting: Vec<_> = wanting.collect();
    wanting.sort_by_key(|(id, it)| (it.instance_id.is_none(), &it.instance_id, *id));
    wanting.into_iter().map(|(id, _)| id).collect()
}

fn range(members: &Members, topics: &BTreeMap<TopicName, i32>, assigned: &mut Assignment) {
    for (topic, &count) in topics {
        let wanting = in_order(members, Some(topic));
        let heads = i32::try_from(wanting.len()).unwrap_or(i32::MAX);
        if heads == 0 {
            continue;
        }
        let (each, more) = (count / heads, count % heads);
        let mut next = 0;
        for (id, place) in wanting.into_iter().zip(0..) {
            let end = next + each + i32::from(place < more);
            let parts = (next..end).map(|index| partition(topic, index));
            assigned.get_mut(id).expect("all members are in it").extend(parts);
            next = end;
        }
    }
}

fn round_robin(members: &Members, topics: &BTreeMap<TopicName, i32>, assigned: &mut Assignment) {
    let all = in_order(members, None);
    let mut turn = 0;
    for (topic, &count) in topics {
        if !members.values().any(|member| member.topics.contains(topic)) {
            continue;
        }
        for index in 0..count {
            while !members[all[turn % all.len()]].topics.contains(topic) {
                turn += 1;
            }
            let id = all[turn % all.len()];
            assigned.get_mut(id).expect("all members are in it").insert(partition(topic, index));
            turn += 1;
        }
    }
}

#[cfg(test)]
mod tests;
