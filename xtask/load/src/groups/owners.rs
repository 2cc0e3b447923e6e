//! Who reads what, as the members themselves were told.

use std::collections::BTreeMap;

use base::TopicPartition;

/// A member, by its place among all.
pub(super) type MemberId = usize;

/// The partitions of one topic, and who owns them.
#[derive(Debug, Default)]
pub(super) struct Owners {
    of: BTreeMap<i32, MemberId>,
    /// How many partitions those have that have any.
    counts: BTreeMap<MemberId, usize>,
    /// What no group may do, if it did it.
    wrong: Option<String>,
}

impl Owners {
    /// A member was told to read these, too.
    pub(super) fn take<'a>(
        &mut self,
        member: MemberId,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) {
        for partition in partitions {
            let index = partition.partition.0;
            if let Some(other) = self.of.insert(index, member) {
                self.wrong
                    .get_or_insert(format!("partition {index} is given to {member}, and {other} has it"));
                self.uncount(other);
            }
            *self.counts.entry(member).or_default() += 1;
        }
    }

    /// A member does not read these any more. One that it has given up already is as it is.
    pub(super) fn give<'a>(
        &mut self,
        member: MemberId,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) {
        for partition in partitions {
            let index = partition.partition.0;
            if self.of.get(&index) == Some(&member) {
                self.of.remove(&index);
                self.uncount(member);
            }
        }
    }

    /// A member is no more.
    pub(super) fn forget(&mut self, member: MemberId) {
        self.of.retain(|_, owner| *owner != member);
        self.counts.remove(&member);
    }

    fn uncount(&mut self, member: MemberId) {
        if let Some(count) = self.counts.get_mut(&member) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&member);
            }
        }
    }

    /// Whether so many partitions have an owner.
    pub(super) fn is_whole(&self, partitions: usize) -> bool {
        self.of.len() == partitions
    }

    /// Whether so many partitions have as many owners.
    pub(super) fn is_even(&self, partitions: usize) -> bool {
        self.is_whole(partitions) && self.counts.len() == partitions
    }

    /// Who has a partition.
    pub(super) fn owner(&self, partition: i32) -> Option<MemberId> {
        self.of.get(&partition).copied()
    }

    /// The first partition that a member has.
    pub(super) fn partition(&self, member: MemberId) -> Option<i32> {
        self.of.iter().find(|(_, owner)| **owner == member).map(|(partition, _)| *partition)
    }

    /// What was wrong first, if anything was.
    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// How many have an owner, and how many owners there are; for people.
    pub(super) fn words(&self) -> String {
        format!("{} partitions have an owner, of {} owners", self.of.len(), self.counts.len())
    }
}

#[cfg(test)]
mod tests {
    use base::{PartitionIndex, TopicName};

    use super::*;

    fn of(index: i32) -> TopicPartition {
        TopicPartition { topic: TopicName::new("t").unwrap(), partition: PartitionIndex(index) }
    }

    #[test]
    fn a_partition_has_one_owner() {
        let mut owners = Owners::default();
        owners.take(1, [of(0), of(1)].iter());
        assert!(owners.is_whole(2) && !owners.is_even(2));
        owners.give(1, [of(1)].iter());
        owners.take(2, [of(1)].iter());
        assert!(owners.is_even(2) && owners.wrong().is_none());
        assert_eq!((owners.owner(1), owners.partition(1)), (Some(2), Some(0)));
        // It gave that up before.
        owners.give(1, [of(1)].iter());
        assert!(owners.is_even(2));
        owners.forget(2);
        assert!(owners.is_whole(1));
        owners.take(3, [of(0)].iter());
        assert!(owners.wrong().is_some_and(|wrong| wrong.contains("given to 3, and 1 has it")));
    }
}
