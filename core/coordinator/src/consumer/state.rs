//! What a group is by its records, and nothing else.
//!
//! **Invariant:** a partition has one owner: the member that has it, or has yet to give it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{PartitionIndex, TimestampMs, TopicId};

use super::member::{CurrentAssignment, Member, MemberId, MemberMetadata};
use super::record::{ConsumerGroupRecord, GroupEpoch, ResolvedRegex, TargetEpoch};
use crate::assign::Partitions;

/// The hard state. A clone is cheap: members and targets are shared.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct State {
    /// Grows with every change of who is in the group, what they want, and what there is to read.
    pub(super) group_epoch: i32,
    /// A hash over what was known of the topics when the epoch began.
    pub(super) metadata_hash: i64,
    /// The epoch that the targets are made for.
    pub(super) target_epoch: i32,
    /// When they were made.
    pub(super) target_at: Option<TimestampMs>,
    pub(super) members: BTreeMap<MemberId, Member>,
    /// What each member should have.
    pub(super) targets: BTreeMap<MemberId, Arc<Partitions>>,
    /// The topics of each pattern that somebody subscribed to.
    pub(super) regexes: BTreeMap<String, Arc<ResolvedRegex>>,
    /// Whether the log has a record of the topics as Kafka wrote it before 4.1.
    pub(super) has_partition_metadata: bool,
    // What follows from the members.
    static_members: BTreeMap<String, MemberId>,
    owners: BTreeMap<TopicId, BTreeMap<PartitionIndex, MemberId>>,
    topic_readers: BTreeMap<String, usize>,
    regex_readers: BTreeMap<String, usize>,
}

impl State {
    pub(super) fn replay(&mut self, record: &ConsumerGroupRecord) {
        match record {
            ConsumerGroupRecord::Metadata(value) => {
                let value = value.unwrap_or(GroupEpoch { epoch: 0, metadata_hash: 0 });
                self.group_epoch = value.epoch;
                self.metadata_hash = value.metadata_hash;
            }
            ConsumerGroupRecord::PartitionMetadata(value) => self.has_partition_metadata = value.is_some(),
            ConsumerGroupRecord::MemberMetadata(id, value) => self.replay_metadata(id, value.as_ref()),
            ConsumerGroupRecord::TargetAssignmentMetadata(value) => {
                let value = value.unwrap_or(TargetEpoch { epoch: 0, at: None });
                self.target_epoch = value.epoch;
                self.target_at = value.at;
            }
            ConsumerGroupRecord::TargetAssignmentMember(id, value) => match value {
                Some(partitions) => drop(self.targets.insert(id.clone(), partitions.clone())),
                None => drop(self.targets.remove(id)),
            },
            ConsumerGroupRecord::CurrentMemberAssignment(id, value) => {
                self.replay_current(id, value.as_ref())
            }
            ConsumerGroupRecord::RegularExpression(regex, value) => match value {
                Some(resolved) => drop(self.regexes.insert(regex.clone(), resolved.clone())),
                None => drop(self.regexes.remove(regex)),
            },
        }
    }

    /// Whether there is anything that a record said.
    pub(super) fn exists(&self) -> bool {
        self.group_epoch > 0 || !self.members.is_empty()
    }

    /// The member with this `group.instance.id`.
    pub(super) fn static_member(&self, instance_id: &str) -> Option<&MemberId> {
        self.static_members.get(instance_id)
    }

    /// Who has a partition, or has yet to give it back.
    pub(super) fn owner(&self, topic: TopicId, index: PartitionIndex) -> Option<&str> {
        self.owners.get(&topic)?.get(&index).map(|id| &**id)
    }

    /// The patterns that somebody subscribed to.
    pub(super) fn subscribed_regexes(&self) -> impl Iterator<Item = &String> {
        self.regex_readers.keys()
    }

    /// Whether somebody subscribed to this pattern.
    pub(super) fn is_regex_subscribed(&self, regex: &str) -> bool {
        self.regex_readers.contains_key(regex)
    }

    /// The topics that a member wants: those it named, and those of its pattern; in two sorted lists.
    pub(super) fn wish<'a>(&'a self, metadata: &'a MemberMetadata) -> [&'a [String]; 2] {
        let resolved = metadata.regex.as_ref().and_then(|regex| self.regexes.get(regex));
        [&metadata.topics, resolved.map_or(&[], |resolved| &resolved.topics)]
    }

    /// The names of all topics that somebody wants, sorted.
    pub(super) fn subscribed_topics(&self) -> Vec<&str> {
        let by_name = self.topic_readers.keys().map(String::as_str);
        let regexes = self.regex_readers.keys().filter_map(|regex| self.regexes.get(regex));
        let mut names: Vec<&str> =
            by_name.chain(regexes.flat_map(|it| it.topics.iter().map(String::as_str))).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether somebody wants a topic.
    pub(super) fn is_subscribed(&self, topic: &str) -> bool {
        let matches = |regex: &String| {
            self.regexes
                .get(regex)
                .is_some_and(|it| it.topics.binary_search_by(|name| name.as_str().cmp(topic)).is_ok())
        };
        self.topic_readers.contains_key(topic) || self.regex_readers.keys().any(matches)
    }

    fn replay_metadata(&mut self, id: &MemberId, value: Option<&Arc<MemberMetadata>>) {
        let before = self.members.get(id).map(|member| member.metadata.clone());
        if let Some(before) = &before {
            self.forget_metadata(id, before);
        }
        let Some(metadata) = value else {
            if let Some(member) = self.members.remove(id) {
                self.release(id, &member.current);
            }
            return;
        };
        if let Some(instance_id) = &metadata.instance_id {
            self.static_members.insert(instance_id.clone(), id.clone());
        }
        for topic in &metadata.topics {
            count(&mut self.topic_readers, topic);
        }
        if let Some(regex) = &metadata.regex {
            count(&mut self.regex_readers, regex);
        }
        self.members.entry(id.clone()).or_default().metadata = metadata.clone();
    }

    fn forget_metadata(&mut self, id: &MemberId, metadata: &MemberMetadata) {
        if let Some(instance_id) = &metadata.instance_id
            && self.static_members.get(instance_id) == Some(id)
        {
            self.static_members.remove(instance_id);
        }
        for topic in &metadata.topics {
            uncount(&mut self.topic_readers, topic);
        }
        if let Some(regex) = &metadata.regex {
            uncount(&mut self.regex_readers, regex);
        }
    }

    fn replay_current(&mut self, id: &MemberId, value: Option<&Arc<CurrentAssignment>>) {
        if let Some(before) = self.members.get(id).map(|member| member.current.clone()) {
            self.release(id, &before);
        }
        let Some(current) = value else {
            if let Some(member) = self.members.get_mut(id) {
                member.current = Arc::default();
            }
            return;
        };
        for (topic, index) in current.held() {
            self.owners.entry(topic).or_default().insert(index, id.clone());
        }
        // In a compacted log this may come before what the member said of itself.
        self.members.entry(id.clone()).or_default().current = current.clone();
    }

    fn release(&mut self, id: &MemberId, current: &CurrentAssignment) {
        for (topic, index) in current.held() {
            let Some(of) = self.owners.get_mut(&topic) else { continue };
            if of.get(&index) == Some(id) {
                of.remove(&index);
            }
            if of.is_empty() {
                self.owners.remove(&topic);
            }
        }
    }
}

fn count(readers: &mut BTreeMap<String, usize>, name: &str) {
    match readers.get_mut(name) {
        Some(count) => *count += 1,
        None => drop(readers.insert(name.to_owned(), 1)),
    }
}

fn uncount(readers: &mut BTreeMap<String, usize>, name: &str) {
    if let Some(count) = readers.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            readers.remove(name);
        }
    }
}
