//! Who reads what: the assignors that the server has (KIP-848).
//!
//! Functions of plain values: the members with what they want and have, the topics, and out comes what each member
//! should have. What is given does not depend on the order in which the members came.
//!
//! ```text
//!   uniform   a: 0 3 6   b: 1 4 7   c: 2 5     as even as can be; whoever has a partition keeps it if that is even
//!   range     a: 0 1 2   b: 3 4 5   c: 6 7     topics of one size: the same numbers go to the same member
//! ```
//!
//! **Invariant:** every partition that somebody wants is given to exactly one member, which wants it.

mod range;
#[cfg(test)]
mod tests;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use base::{PartitionIndex, TopicId};

/// Partitions, by their topic.
pub type Partitions = BTreeMap<TopicId, BTreeSet<PartitionIndex>>;

/// How partitions are given to members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    /// As even as can be over all topics, with as few moves as can be.
    Uniform,
    /// A range of each topic; topics of one size with the same readers are cut at the same places.
    Range,
}

impl Assignor {
    /// All of them; the first is the one of a group whose members ask for none.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// Its name in requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }
}

/// A member, as an assignor sees it.
#[derive(Debug, Clone, Copy)]
pub struct Subscriber<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its `group.instance.id`, which stays the same when it comes back under another id.
    pub instance_id: Option<&'a str>,
    /// The rack it runs in.
    pub rack: Option<&'a str>,
    /// What it wants to read: places in the list of topics, ascending.
    pub topics: &'a [usize],
    /// What it was to have before.
    pub owned: Option<&'a Partitions>,
}

/// A topic, as an assignor sees it.
#[derive(Debug, Clone)]
pub struct Topic<'a> {
    /// Its id.
    pub id: TopicId,
    /// How many partitions it has, numbered from 0.
    pub partitions: usize,
    /// The racks with a replica, for each partition; empty if no racks are known.
    pub racks: Vec<Vec<&'a str>>,
}

impl Topic<'_> {
    /// Whether a partition has a replica in a rack.
    fn is_near(&self, partition: usize, rack: Option<&str>) -> bool {
        let racks = self.racks.get(partition).map_or(&[][..], Vec::as_slice);
        rack.is_some_and(|rack| racks.contains(&rack))
    }
}

/// What each member should have, in the order of the members.
pub fn assign(assignor: Assignor, members: &[Subscriber<'_>], topics: &[Topic<'_>]) -> Vec<Partitions> {
    // A static member keeps its place when it comes back under another id.
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&at| {
        let member = &members[at];
        (member.instance_id.is_none(), member.instance_id.unwrap_or(member.id), member.id)
    });
    let sorted: Vec<Subscriber<'_>> = order.iter().map(|&at| members[at]).collect();
    let given = match assignor {
        Assignor::Uniform => uniform::assign(&sorted, topics),
        Assignor::Range => range::assign(&sorted, topics),
    };
    let mut answer = vec![Partitions::new(); members.len()];
    for (partitions, at) in given.into_iter().zip(order) {
        answer[at] = partitions;
    }
    answer
}

/// Members that want the same, by what they want.
struct Classes {
    /// The class of each member.
    of: Vec<usize>,
    /// The members of each class, ascending.
    members: Vec<Vec<usize>>,
    /// The classes that want a topic, for each topic, ascending.
    readers: Vec<Vec<usize>>,
}

impl Classes {
    fn new(members: &[Subscriber<'_>], topics: usize) -> Self {
        let mut by_wish: BTreeMap<&[usize], usize> = BTreeMap::new();
        let mut classes = Self {
            of: Vec::with_capacity(members.len()),
            members: Vec::new(),
            readers: vec![Vec::new(); topics],
        };
        for (at, member) in members.iter().enumerate() {
            let class = *by_wish.entry(member.topics).or_insert_with(|| {
                classes.members.push(Vec::new());
                for &topic in member.topics {
                    classes.readers[topic].push(classes.members.len() - 1);
                }
                classes.members.len() - 1
            });
            classes.of.push(class);
            classes.members[class].push(at);
        }
        classes
    }

    /// How many members want a topic.
    fn readers_of(&self, topic: usize) -> usize {
        self.readers[topic].iter().map(|&class| self.members[class].len()).sum()
    }
}

/// The number of a partition in its topic, as the protocol has it.
fn index(partition: usize) -> PartitionIndex {
    PartitionIndex(i32::try_from(partition).expect("no topic has more partitions than fit an i32"))
}
