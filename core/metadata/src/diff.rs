//! Two images, compared.

use std::sync::Arc;

use crate::delta::Delta;
use crate::image::Image;
use crate::parts::{ConfigResource, Topic};

impl Delta {
    /// What changed from one image to a later one, whatever lies in between.
    pub fn between(before: &Image, after: &Image) -> Self {
        let mut delta = Self::default();
        for old in before.topics() {
            match after.topic_by_id(old.id) {
                None => drop(delta.topics_deleted.insert(old.id, Arc::clone(old))),
                Some(new) if Arc::ptr_eq(old, new) => {}
                Some(new) => delta.compare(old, new),
            }
        }
        let is_new = |topic: &&Arc<Topic>| before.topic_by_id(topic.id).is_none();
        delta.topics_created = after.topics().filter(is_new).map(|topic| topic.id).collect();
        let configured = before.configured().chain(after.configured()).map(|(resource, _)| resource);
        let is_there = |resource: &&ConfigResource| match resource {
            ConfigResource::Topic(name) => after.topic(name.as_str()).is_some(),
            ConfigResource::Broker(_) | ConfigResource::DefaultBroker | ConfigResource::Group(_) => true,
        };
        let is_other = |resource: &&ConfigResource| before.configs(resource) != after.configs(resource);
        delta.configs_changed = configured.filter(is_there).filter(is_other).cloned().collect();
        let brokers = before.brokers().chain(after.brokers()).map(|broker| broker.id);
        delta.brokers_changed = brokers.filter(|id| before.broker(*id) != after.broker(*id)).collect();
        delta.features_changed = before.features() != after.features();
        delta
    }

    fn compare(&mut self, old: &Topic, new: &Topic) {
        for partition in new.partitions() {
            let key = (new.id, partition.index);
            match old.partition(partition.index) {
                None => self.partitions_added.insert(key),
                Some(before) if Arc::ptr_eq(before, partition) || before == partition => false,
                Some(_) => self.partitions_changed.insert(key),
            };
        }
    }
}
