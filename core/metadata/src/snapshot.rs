//! An image as records that make it again, for a snapshot of the metadata log.

use std::sync::Arc;

use crate::image::Image;
use crate::metadata_record::{
    ConfigChange, FeatureLevel, MetadataRecord, NewPartition, NewTopic, ProducerIds,
};
use crate::parts::Topic;

impl Image {
    /// The records, in an order in which they can be replayed. As many at a time as are wanted: they are
    /// made one by one.
    pub fn to_records(&self) -> impl Iterator<Item = MetadataRecord> + '_ {
        let features = self.features().iter().map(|(name, level)| {
            MetadataRecord::FeatureLevel(FeatureLevel { name: name.clone(), level: *level })
        });
        let brokers = self.brokers().map(|broker| MetadataRecord::RegisterBroker((**broker).clone()));
        let ids = self.producer_ids().copied().map(MetadataRecord::ProducerIds);
        // A topic's settings come after it: what deletes a topic takes them along.
        let configs = self.configured().flat_map(|(resource, settings)| {
            settings.iter().map(move |(name, value)| {
                let (resource, name, value) = (resource.clone(), name.clone(), Some(value.clone()));
                MetadataRecord::Config(ConfigChange { resource, name, value })
            })
        });
        features.chain(brokers).chain(ids).chain(self.topics().flat_map(topic_records)).chain(configs)
    }
}

fn topic_records(topic: &Arc<Topic>) -> impl Iterator<Item = MetadataRecord> + '_ {
    let made = MetadataRecord::Topic(NewTopic { name: topic.name.clone(), id: topic.id });
    let partitions = topic.partitions().iter().map(|partition| {
        MetadataRecord::Partition(NewPartition { topic: topic.id, partition: (**partition).clone() })
    });
    std::iter::once(made).chain(partitions)
}

impl ProducerIds {
    /// What is true before any were given away.
    pub(crate) const NONE_GIVEN: Self = Self {
        broker: base::BrokerId::NONE,
        broker_epoch: base::BrokerEpoch::NONE,
        next: base::ProducerId(0),
    };
}
