//! A group as its coordinator keeps it, simply: one group, one topic table, both protocols.

use std::collections::{BTreeMap, BTreeSet};

use base::{ErrorCode, PartitionIndex, TopicName, TopicPartition, Uuid};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::coordinator_classic::Classic;
use super::coordinator_epochs::Epochs;

/// What names an answer that is due: which member's connection, and which request on it.
pub(crate) type Reply = (usize, u64, i32, i16);

/// The cluster's topics, and the group.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) topics: BTreeMap<&'static str, i32>,
    pub(crate) classic: Classic,
    pub(crate) epochs: Epochs,
    pub(crate) speaks_epochs: bool,
    /// What is committed: the offset, its epoch, and who did it last.
    pub(crate) offsets: BTreeMap<TopicPartition, (i64, i32)>,
    /// Each commit, in the order in which it was taken.
    pub(crate) commits: Vec<(TopicPartition, i64)>,
    /// What it answers to everything, if it is unwell.
    pub(crate) unwell: Option<ErrorCode>,
    /// What it answers to commits, if it takes none.
    pub(crate) refuses_commits: Option<ErrorCode>,
    /// Partitions of which it takes no commits, and what it answers of them.
    pub(crate) refuses_commits_of: BTreeMap<TopicPartition, ErrorCode>,
    /// Whether offsets are not told yet.
    pub(crate) holds_offsets: bool,
    /// How often all topics were deleted and made anew.
    pub(crate) times_anew: u8,
    /// Worlds in which a member's part in the group has ended without its knowledge.
    pub(crate) fenced: BTreeSet<usize>,
}

impl Coordinator {
    pub(crate) fn new(speaks_epochs: bool) -> Self {
        Self {
            topics: BTreeMap::from([("t", 4), ("u", 2)]),
            classic: Classic::default(),
            epochs: Epochs::default(),
            speaks_epochs,
            offsets: BTreeMap::new(),
            commits: Vec::new(),
            unwell: None,
            refuses_commits: None,
            refuses_commits_of: BTreeMap::new(),
            holds_offsets: false,
            times_anew: 0,
            fenced: BTreeSet::new(),
        }
    }

    pub(crate) fn id_of(&self, name: &str) -> Uuid {
        let mut id = [7 - self.times_anew; 16];
        id[15] = name.as_bytes()[0];
        Uuid(id)
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<&'static str> {
        self.topics.keys().copied().find(|name| self.id_of(name) == id)
    }

    pub(crate) fn partitions<'a>(&self, of: impl Iterator<Item = &'a str>) -> Vec<TopicPartition> {
        let mut all = Vec::new();
        for name in of {
            let count = self.topics.get(name).copied().unwrap_or(0);
            all.extend((0..count).map(|index| part(name, index)));
        }
        all
    }

    pub(crate) fn commit<'a>(&mut self, said: &OffsetCommitRequest<'a>) -> OffsetCommitResponse<'a> {
        let code = self.may_commit(said);
        let mut topics = Vec::new();
        for topic in &said.topics {
            let mut partitions = Vec::new();
            for it in &topic.partitions {
                let of = part(topic.name, it.partition_index);
                let refused = self.refuses_commits_of.get(&of).copied().filter(|_| code.is_none());
                let code = refused.unwrap_or(code);
                if code.is_none() {
                    self.offsets.insert(of.clone(), (it.committed_offset, it.committed_leader_epoch));
                    self.commits.push((of, it.committed_offset));
                }
                let (partition_index, error_code) = (it.partition_index, code.code());
                partitions.push(OffsetCommitResponsePartition { partition_index, error_code });
            }
            topics.push(OffsetCommitResponseTopic { name: topic.name, topic_id: Uuid::ZERO, partitions });
        }
        OffsetCommitResponse { throttle_time_ms: 0, topics }
    }

    fn may_commit(&self, said: &OffsetCommitRequest<'_>) -> ErrorCode {
        if let Some(code) = self.unwell.or(self.refuses_commits) {
            return code;
        }
        let (member, generation) = (said.member_id, said.generation_id_or_member_epoch);
        if generation < 0 && member.is_empty() {
            let is_empty = self.classic.members.is_empty() && self.epochs.members.is_empty();
            return if is_empty { ErrorCode::None } else { ErrorCode::UnknownMemberId };
        }
        match (self.classic.members.get(member), self.epochs.members.get(member)) {
            (Some(_), _) if generation != self.classic.generation => ErrorCode::IllegalGeneration,
            (Some(_), _) if self.classic.is_completing() => ErrorCode::RebalanceInProgress,
            (Some(_), _) => ErrorCode::None,
            (None, Some(it)) if it.epoch == generation => ErrorCode::None,
            (None, Some(_)) => ErrorCode::StaleMemberEpoch,
            (None, None) if self.classic.members.is_empty() && self.epochs.members.is_empty() => {
                ErrorCode::GroupIdNotFound
            }
            (None, None) => ErrorCode::UnknownMemberId,
        }
    }
}

pub(crate) fn part(topic: &str, index: i32) -> TopicPartition {
    TopicPartition { topic: TopicName::new(topic).expect("legal"), partition: PartitionIndex(index) }
}
