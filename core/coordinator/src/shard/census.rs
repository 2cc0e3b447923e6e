//! What a shard has, for those who count it: groups, their states, and how far they came.
//!
//! It is told in slices, so that nobody waits for a million offsets to be looked at.

use std::sync::Arc;

use base::{Offset, PartitionIndex, TopicName, Uuid};

use super::{Phase, Shard};
use crate::group::Group;

/// A group, as it is at the moment: what it is about to commit is among its offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedGroup {
    /// Its id.
    pub group: Arc<str>,
    /// `classic` or `consumer`.
    pub kind: &'static str,
    /// Its state, as Kafka calls it.
    pub state: &'static str,
    /// How far it came, by topic.
    pub topics: Vec<CountedTopic>,
}

/// How far a group came in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedTopic {
    /// Its name.
    pub name: TopicName,
    /// By partition: which topic of that name it was, [`Uuid::ZERO`] if that is not known, and the next record to read.
    pub offsets: Vec<(PartitionIndex, Uuid, Offset)>,
}

impl Shard {
    /// The groups behind `after`, by id: as many as have `offsets_max` offsets together, and one at least. Nothing
    /// while it does not answer requests.
    pub fn count_groups(&self, after: Option<&str>, offsets_max: usize) -> Vec<CountedGroup> {
        let mut counted = Vec::new();
        if self.phase != Phase::Active {
            return counted;
        }
        let mut offsets = 0;
        for (id, group) in self.groups.after(after) {
            counted.push(count(id, group));
            // A group without offsets takes a moment, too.
            offsets += group.offsets.len() + 1;
            if offsets >= offsets_max {
                break;
            }
        }
        counted
    }
}

fn count(id: &Arc<str>, group: &Group) -> CountedGroup {
    let topics = group.offsets.topics().map(|(name, partitions)| CountedTopic {
        name: name.clone(),
        offsets: partitions
            .iter()
            .map(|(&index, at)| (PartitionIndex(index), at.topic_id, Offset(at.offset)))
            .collect(),
    });
    let (kind, state) = (group.kind.name(), group.kind.state_name());
    CountedGroup { group: id.clone(), kind, state, topics: topics.collect() }
}
