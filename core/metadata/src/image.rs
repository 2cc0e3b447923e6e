//! The cluster at one place in the metadata log: topics, configs, brokers, features.
//!
//! Readers hold an [`Image`] and never see it change; the one who replays clones it, which copies a few
//! hundred pointers, and changes the clone. Per partition it takes about 200 bytes.

mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BrokerId, Offset, PartitionIndex, ProducerId, TopicId, TopicName};

use crate::metadata_record::ProducerIds;
use crate::parts::{Broker, ConfigMap, ConfigResource, Partition, Topic};
use crate::settings::CORDONED_DIRS;
use crate::shared_map::SharedMap;

static NO_CONFIGS: ConfigMap = ConfigMap::new();

/// The cluster after some prefix of its metadata log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    end: Offset,
    topics: SharedMap<TopicId, Arc<Topic>>,
    topic_ids: SharedMap<TopicName, TopicId>,
    partition_count: usize,
    configs: SharedMap<ConfigResource, Arc<ConfigMap>>,
    config_bytes: usize,
    brokers: BTreeMap<BrokerId, Arc<Broker>>,
    features: BTreeMap<String, i16>,
    producer_ids: ProducerIds,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            end: Offset::ZERO,
            topics: SharedMap::default(),
            topic_ids: SharedMap::default(),
            partition_count: 0,
            configs: SharedMap::default(),
            config_bytes: 0,
            brokers: BTreeMap::new(),
            features: BTreeMap::new(),
            producer_ids: ProducerIds::NONE_GIVEN,
        }
    }
}

impl Image {
    /// The offset after the last record that is in it.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// A topic by its name.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.topic_ids.get(name)?)
    }

    /// A topic by its id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topic_ids.values().filter_map(|id| self.topics.get(id))
    }

    /// All topics, by id: quicker where any order will do.
    pub fn topics_by_id(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// The topics whose name is `from` or later, by name.
    pub fn topics_from(&self, from: &str) -> impl Iterator<Item = &Arc<Topic>> {
        self.topic_ids.range_from(from).filter_map(|(_, id)| self.topics.get(id))
    }

    /// How many topics there are.
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// How many partitions there are, over all topics.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// A partition by its topic's id.
    pub fn partition(&self, topic: TopicId, index: PartitionIndex) -> Option<&Arc<Partition>> {
        self.topics.get(&topic)?.partition(index)
    }

    /// What was set for a resource over the defaults; empty if nothing was.
    pub fn configs(&self, resource: &ConfigResource) -> &ConfigMap {
        self.configs.get(resource).map_or(&NO_CONFIGS, |map| map)
    }

    /// What all that was set for resources takes, in bytes: about as much in a snapshot, and more in memory.
    pub fn config_bytes(&self) -> usize {
        self.config_bytes
    }

    /// Whether a broker gets no new replicas (KIP-1066).
    pub fn is_cordoned(&self, id: BrokerId) -> bool {
        let dirs = |resource| self.configs(resource).get(CORDONED_DIRS);
        let said = dirs(&ConfigResource::Broker(id)).or_else(|| dirs(&ConfigResource::DefaultBroker));
        said.is_some_and(|dirs| !dirs.trim().is_empty())
    }

    /// The resources for which something was set.
    pub fn configured(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<ConfigMap>)> {
        self.configs.iter()
    }

    /// A broker that is registered.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<Broker>> {
        self.brokers.get(&id)
    }

    /// All registered brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = &Arc<Broker>> {
        self.brokers.values()
    }

    /// The registered brokers that may lead and serve, by id.
    pub fn brokers_alive(&self) -> impl Iterator<Item = &Arc<Broker>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }

    /// The finalized features and their levels, by name.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// The first producer id that nobody was given.
    pub fn producer_id_next(&self) -> ProducerId {
        self.producer_ids.next
    }

    /// The last block of producer ids that was given away, if any was.
    pub fn producer_ids(&self) -> Option<&ProducerIds> {
        Some(&self.producer_ids).filter(|ids| **ids != ProducerIds::NONE_GIVEN)
    }
}
