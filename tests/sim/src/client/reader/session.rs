//! Fetch sessions as Kafka's brokers have them.

use std::collections::BTreeMap;

use base::Uuid;
use wire::messages::fetch::{FetchPartition, FetchRequest};

/// The topics that are read.
pub(super) const TOPICS: [&str; 2] = ["first", "second"];

/// What a broker was told of a partition, by name or by id.
pub(super) type Key = (Option<usize>, Uuid, i32);

/// What a broker remembers of a reader (KIP-227).
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) epoch: i32,
    pub(super) told: BTreeMap<Key, FetchPartition>,
    /// The high watermark that was last said of each.
    pub(super) said: BTreeMap<Key, i64>,
}

impl Session {
    /// Takes over what is asked for and what is not any more.
    pub(super) fn tell(&mut self, request: &FetchRequest<'_>) {
        let name = |topic: &str| TOPICS.iter().position(|name| *name == topic);
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        for topic in &request.forgotten_topics_data {
            for &index in &topic.partitions {
                let key = (name(topic.topic), topic.topic_id, index);
                self.told.remove(&key).expect("only what was told is forgotten");
                self.said.remove(&key);
            }
        }
        for topic in &request.topics {
            for part in &topic.partitions {
                self.told.insert((name(topic.topic), topic.topic_id, part.partition), part.clone());
            }
        }
    }
}
