//! How far a group came, partition by partition.
//!
//! Names and partitions are chosen by peers, so the maps are trees. What a client says beside an offset is empty
//! nearly always, and takes no memory then.

use std::collections::BTreeMap;

use base::{TimestampMs, TopicName, Uuid};

use crate::record::OffsetCommitValue;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OffsetAndMetadata {
    /// The next record to read.
    pub(crate) offset: i64,
    /// The leader epoch of the last record that was read; -1 if the client did not say.
    pub(crate) leader_epoch: i32,
    /// What the client wrote beside it.
    pub(crate) metadata: Box<str>,
    /// When it was committed.
    pub(crate) committed_at: TimestampMs,
    /// When it expires, if the client said so; [`TimestampMs::NONE`] if not.
    pub(crate) expires_at: TimestampMs,
    /// Which of the topics of that name; [`Uuid::ZERO`] if it is not known.
    pub(crate) topic_id: Uuid,
}

impl From<OffsetCommitValue> for OffsetAndMetadata {
    fn from(value: OffsetCommitValue) -> Self {
        Self {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.into(),
            committed_at: TimestampMs(value.commit_timestamp),
            expires_at: TimestampMs(value.expire_timestamp),
            topic_id: value.topic_id,
        }
    }
}

impl OffsetAndMetadata {
    /// Whether it is an offset of the topic that now has this id.
    pub(crate) fn is_of(&self, topic_id: Uuid) -> bool {
        self.topic_id.is_zero() || topic_id.is_zero() || self.topic_id == topic_id
    }
}

/// A group's offsets, by topic and partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupOffsets {
    topics: BTreeMap<TopicName, BTreeMap<i32, OffsetAndMetadata>>,
}

impl GroupOffsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&OffsetAndMetadata> {
        self.topics.get(topic)?.get(&partition)
    }

    /// By topic.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (&TopicName, &BTreeMap<i32, OffsetAndMetadata>)> {
        self.topics.iter()
    }

    /// The offsets in one topic.
    pub(crate) fn in_topic(&self, topic: &str) -> Option<&BTreeMap<i32, OffsetAndMetadata>> {
        self.topics.get(topic)
    }

    /// Puts an offset in; whether there was none. A name that is not legal is nobody's, and is not kept.
    pub(crate) fn put(&mut self, topic: &str, partition: i32, offset: OffsetAndMetadata) -> bool {
        if let Some(partitions) = self.topics.get_mut(topic) {
            return partitions.insert(partition, offset).is_none();
        }
        let Ok(name) = TopicName::new(topic) else { return false };
        self.topics.insert(name, BTreeMap::from([(partition, offset)]));
        true
    }

    /// Forgets an offset; whether there was one.
    pub(crate) fn remove(&mut self, topic: &str, partition: i32) -> bool {
        let Some(partitions) = self.topics.get_mut(topic) else { return false };
        let was_there = partitions.remove(&partition).is_some();
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
        was_there
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.topics.values().map(BTreeMap::len).sum()
    }
}
