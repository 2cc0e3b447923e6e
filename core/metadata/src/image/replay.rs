//! How a record changes an image.

use std::sync::Arc;

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId};

use super::Image;
use crate::delta::{Delta, UncleanElection};
use crate::metadata_record::{
    BrokerChange, ConfigChange, FeatureLevel, MetadataRecord, NewPartition, NewTopic, PartitionChange,
};
use crate::parts::{Broker, ConfigResource, Partition, Topic, Unsettled};

impl Image {
    /// The image after some more records, the last of them right before `end`, and what they changed.
    #[must_use]
    pub fn after<'a>(
        &self,
        records: impl IntoIterator<Item = &'a MetadataRecord>,
        end: Offset,
    ) -> (Self, Delta) {
        let (mut image, mut delta) = (self.clone(), Delta::default());
        for record in records {
            image.replay(record, &mut delta);
        }
        image.set_end(end);
        (image, delta)
    }

    /// Says that the last record that was replayed lies right before `end`: the log has other things in
    /// it than records of ours.
    pub fn set_end(&mut self, end: Offset) {
        self.end = end;
    }

    /// Takes one committed record in, and notes what it changed.
    ///
    /// What a record names and is not there is passed over: it cannot be in a log that a controller
    /// wrote, and every node passes over the same.
    pub fn replay(&mut self, record: &MetadataRecord, delta: &mut Delta) {
        self.end = self.end.next();
        match record {
            MetadataRecord::Topic(topic) => self.add_topic(topic, delta),
            MetadataRecord::Partition(new) => self.add_partition(new, delta),
            MetadataRecord::PartitionChange(change) => self.change_partition(change, delta),
            MetadataRecord::RemoveTopic(id) => self.remove_topic(*id, delta),
            MetadataRecord::Config(change) => self.change_config(change, delta),
            MetadataRecord::ProducerIds(ids) => self.producer_ids = *ids,
            MetadataRecord::RegisterBroker(broker) => self.put_broker(broker, delta),
            MetadataRecord::UnregisterBroker(id, _) => self.remove_broker(*id, delta),
            MetadataRecord::BrokerChange(change) => self.change_broker(change, delta),
            MetadataRecord::FeatureLevel(feature) => self.change_feature(feature, delta),
            MetadataRecord::NoOp => {}
        }
    }

    fn add_topic(&mut self, new: &NewTopic, delta: &mut Delta) {
        let topic = Topic::new(new.name.clone(), new.id);
        self.topic_ids.insert(new.name.clone(), new.id);
        self.topics.insert(new.id, Arc::new(topic));
        delta.topics_created.insert(new.id);
    }

    fn add_partition(&mut self, new: &NewPartition, delta: &mut Delta) {
        let Some(topic) = self.topics.get_mut(&new.topic) else { return };
        let added = Arc::make_mut(topic).put(new.partition.clone());
        self.partition_count += usize::from(added);
        if delta.topics_created.contains(&new.topic) {
            return;
        }
        let key = (new.topic, new.partition.index);
        if added {
            delta.partitions_added.insert(key);
        } else {
            delta.partition_changed(key);
        }
    }

    fn change_partition(&mut self, change: &PartitionChange, delta: &mut Delta) {
        let Some(topic) = self.topics.get_mut(&change.topic) else { return };
        let Some(partition) = Arc::make_mut(topic).partition_mut(change.partition) else { return };
        delta.unclean_elections.extend(partition.unclean_election(change));
        partition.change(change);
        delta.partition_changed((change.topic, change.partition));
    }

    fn remove_topic(&mut self, id: TopicId, delta: &mut Delta) {
        let Some(topic) = self.topics.remove(&id) else { return };
        if self.topic_ids.get(&topic.name) == Some(&id) {
            self.topic_ids.remove(&topic.name);
        }
        let resource = ConfigResource::Topic(topic.name.clone());
        let removed = self.configs.remove(&resource).unwrap_or_default();
        self.config_bytes -=
            removed.iter().map(|(name, value)| resource.setting_bytes(name, value)).sum::<usize>();
        self.partition_count -= topic.partitions().len();
        delta.topic_deleted(topic);
    }

    fn change_config(&mut self, change: &ConfigChange, delta: &mut Delta) {
        delta.configs_changed.insert(change.resource.clone());
        let ConfigChange { resource, name, value } = change;
        let was = match value {
            Some(value) => {
                let mut map = self.configs.get(resource).cloned().unwrap_or_default();
                let was = Arc::make_mut(&mut map).insert(name.clone(), value.clone());
                self.config_bytes += resource.setting_bytes(name, value);
                self.configs.insert(resource.clone(), map);
                was
            }
            None => {
                let Some(map) = self.configs.get_mut(resource) else { return };
                let was = Arc::make_mut(map).remove(name);
                if map.is_empty() {
                    self.configs.remove(resource);
                }
                was
            }
        };
        self.config_bytes -= was.map_or(0, |was| resource.setting_bytes(name, &was));
    }

    fn put_broker(&mut self, broker: &Broker, delta: &mut Delta) {
        self.brokers.insert(broker.id, Arc::new(broker.clone()));
        delta.brokers_changed.insert(broker.id);
    }

    fn remove_broker(&mut self, id: BrokerId, delta: &mut Delta) {
        if self.brokers.remove(&id).is_some() {
            delta.brokers_changed.insert(id);
        }
    }

    fn change_broker(&mut self, change: &BrokerChange, delta: &mut Delta) {
        let Some(broker) = self.brokers.get_mut(&change.broker) else { return };
        let broker = Arc::make_mut(broker);
        broker.fenced = change.fenced.unwrap_or(broker.fenced);
        broker.in_controlled_shutdown |= change.in_controlled_shutdown;
        if let Some(log_dirs) = &change.log_dirs {
            broker.log_dirs.clone_from(log_dirs);
        }
        delta.brokers_changed.insert(change.broker);
    }

    fn change_feature(&mut self, feature: &FeatureLevel, delta: &mut Delta) {
        if feature.level == 0 {
            self.features.remove(&feature.name);
        } else {
            self.features.insert(feature.name.clone(), feature.level);
        }
        delta.features_changed = true;
    }
}

impl Partition {
    /// What the partition is after a change.
    pub fn change(&mut self, change: &PartitionChange) {
        self.unclean_epoch = self.unclean_election(change).map_or(self.unclean_epoch, |it| it.epoch);
        if change.leader.is_some() {
            self.leader_epoch = self.next_leader_epoch();
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
        self.leader = change.leader.unwrap_or(self.leader);
        self.recovering = change.recovering.unwrap_or(self.recovering);
        if let Some(isr) = &change.isr {
            self.isr = isr.as_slice().into();
        }
        if let Some(replicas) = &change.replicas {
            self.replicas = replicas.as_slice().into();
        }
        if let Some(directories) = &change.directories {
            self.directories = directories.as_slice().into();
        }
        self.change_unsettled(change);
    }

    /// Whether a change elects somebody who is neither in sync nor eligible; then the leader recovers, until it
    /// says that it has. A leader that hands over may name one who has just come into sync, but recovers no more.
    fn unclean_election(&self, change: &PartitionChange) -> Option<UncleanElection> {
        let leader = change.leader.filter(|leader| *leader != BrokerId::NONE)?;
        let is_known = self.isr.contains(&leader) || self.eligible().contains(&leader);
        if is_known || !change.recovering.unwrap_or(self.recovering) {
            return None;
        }
        let last_known = self.last_known_eligible().first().copied();
        let before =
            if self.leader == BrokerId::NONE { last_known.unwrap_or(self.leader) } else { self.leader };
        let nobody_has_all = self.isr.is_empty() && self.eligible().is_empty();
        Some(UncleanElection {
            topic: change.topic,
            partition: change.partition,
            before,
            leader,
            epoch: self.next_leader_epoch(),
            is_last_known: nobody_has_all && last_known == Some(leader),
        })
    }

    fn next_leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.0.saturating_add(1))
    }

    fn change_unsettled(&mut self, change: &PartitionChange) {
        let mut unsettled = self.unsettled.take().map_or_else(Unsettled::default, |boxed| *boxed);
        let parts = [
            (&mut unsettled.adding, &change.adding),
            (&mut unsettled.removing, &change.removing),
            (&mut unsettled.eligible, &change.eligible),
            (&mut unsettled.last_known_eligible, &change.last_known_eligible),
        ];
        for (part, new) in parts {
            if let Some(new) = new {
                part.clone_from(new);
            }
        }
        self.unsettled = (unsettled != Unsettled::default()).then(|| Box::new(unsettled));
    }
}

impl Delta {
    fn partition_changed(&mut self, key: (TopicId, PartitionIndex)) {
        if !self.topics_created.contains(&key.0) && !self.partitions_added.contains(&key) {
            self.partitions_changed.insert(key);
        }
    }

    fn topic_deleted(&mut self, topic: Arc<Topic>) {
        let id = topic.id;
        self.configs_changed.remove(&ConfigResource::Topic(topic.name.clone()));
        self.partitions_added.retain(|(topic, _)| *topic != id);
        self.partitions_changed.retain(|(topic, _)| *topic != id);
        self.unclean_elections.retain(|election| election.topic != id);
        if !self.topics_created.remove(&id) {
            self.topics_deleted.insert(id, topic);
        }
    }
}
