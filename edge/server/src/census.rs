//! How the cluster is, counted from the metadata when somebody looks at the metrics.
//!
//! Of partitions the leader's node counts, so that the sum over the nodes is that of the cluster; what nobody
//! leads, and the brokers, every node counts as far as it was told.

use base::{BrokerId, Offset};
use metadata::settings::{Layers, insync_replicas_min};
use metadata::{ConfigMap, ConfigResource, Image, Partition};
use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Partitions that this broker leads; the next four are of these.
    pub(crate) led: u64,
    /// Fewer are in sync than there should be replicas.
    pub(crate) under_replicated: u64,
    /// Fewer are in sync than `min.insync.replicas` asks for.
    pub(crate) under_min_isr: u64,
    /// As many are in sync as `min.insync.replicas` asks for, and no more.
    pub(crate) at_min_isr: u64,
    /// Replicas are on their way in or out.
    pub(crate) reassigning: u64,
    /// Partitions of the cluster.
    pub(crate) partitions: u64,
    /// Of those, the ones that nobody leads who could.
    pub(crate) without_leader: u64,
    /// Of those, the ones that another leads than the first of their replicas.
    pub(crate) not_preferred: u64,
    /// Brokers that may lead and serve.
    pub(crate) brokers_active: u64,
    /// Brokers that are registered and may not.
    pub(crate) brokers_fenced: u64,
}

impl Census {
    fn of(image: &Image, me: BrokerId, fixed: &ConfigMap) -> Self {
        let layers = Layers {
            broker: image.configs(&ConfigResource::Broker(me)),
            default_broker: image.configs(&ConfigResource::DefaultBroker),
            fixed,
        };
        let mut census = Self { partitions: image.partition_count() as u64, ..Self::default() };
        for broker in image.brokers() {
            match broker.fenced {
                true => census.brokers_fenced += 1,
                false => census.brokers_active += 1,
            }
        }
        for topic in image.topics_by_id() {
            let overrides = || image.configs(&ConfigResource::Topic(topic.name.clone()));
            let mut insync_min = None;
            for partition in topic.partitions() {
                census.count(image, partition);
                if partition.leader == me {
                    let min = *insync_min.get_or_insert_with(|| insync_replicas_min(overrides(), layers));
                    census.count_led(partition, min);
                }
            }
        }
        census
    }

    fn count(&mut self, image: &Image, partition: &Partition) {
        if image.broker(partition.leader).is_none_or(|leader| leader.fenced) {
            self.without_leader += 1;
        } else if partition.replicas.first() != Some(&partition.leader) {
            self.not_preferred += 1;
        }
    }

    fn count_led(&mut self, partition: &Partition, insync_min: usize) {
        let (adding, removing) = (partition.adding(), partition.removing());
        // Who is on the way in is not missed yet.
        let wanted = partition.replicas.iter().filter(|id| !adding.contains(id)).count();
        let (in_sync, min) = (partition.isr.len(), insync_min.min(partition.replicas.len()));
        self.led += 1;
        self.under_replicated += u64::from(in_sync < wanted);
        self.under_min_isr += u64::from(in_sync < min);
        self.at_min_isr += u64::from(in_sync == min);
        self.reassigning += u64::from(!adding.is_empty() || !removing.is_empty());
    }
}

/// Counts once for each state of the metadata, however many numbers are looked at.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Option<(Offset, Census)>>);

impl Counted {
    pub(crate) fn get(&self, image: &Image, me: BrokerId, fixed: &ConfigMap) -> Census {
        let mut counted = self.0.lock();
        match *counted {
            Some((end, census)) if end == image.end() => census,
            _ => counted.insert((image.end(), Census::of(image, me, fixed))).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{BrokerEpoch, PartitionIndex, TopicId, TopicName, Uuid};
    use metadata::{Broker, ConfigChange, MetadataRecord, NewPartition, NewTopic, PartitionChange};

    use super::*;

    const TOPIC: TopicId = TopicId(Uuid([7; 16]));

    fn broker(id: i32, fenced: bool) -> MetadataRecord {
        MetadataRecord::RegisterBroker(Broker {
            id: BrokerId(id),
            epoch: BrokerEpoch(1),
            incarnation: Uuid::ZERO,
            endpoints: Vec::new(),
            features: Vec::new(),
            rack: None,
            fenced,
            in_controlled_shutdown: false,
            log_dirs: Vec::new(),
        })
    }

    fn partition(index: i32, replicas: &[i32], isr: &[i32]) -> MetadataRecord {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        MetadataRecord::Partition(NewPartition::first(TOPIC, PartitionIndex(index), ids(replicas), ids(isr)))
    }

    #[test]
    fn leaders_count_what_is_missing() {
        let name = TopicName::new("t").expect("legal");
        let moves = PartitionChange {
            replicas: Some(vec![BrokerId(1), BrokerId(2), BrokerId(4)]),
            adding: Some(vec![BrokerId(4)]),
            ..PartitionChange::of(TOPIC, PartitionIndex(4))
        };
        let records = [
            broker(1, false),
            broker(2, false),
            broker(3, true),
            MetadataRecord::Topic(NewTopic { name: name.clone(), id: TOPIC }),
            MetadataRecord::Config(ConfigChange {
                resource: ConfigResource::Topic(name),
                name: "min.insync.replicas".to_owned(),
                value: Some("2".to_owned()),
            }),
            partition(0, &[1, 2, 3], &[1, 2, 3]),
            partition(1, &[3, 1, 2], &[1, 2]),
            partition(2, &[1, 2, 3], &[1]),
            partition(3, &[2, 1, 3], &[2]),
            partition(4, &[1, 2], &[1, 2]),
            partition(5, &[3], &[3]),
            partition(6, &[1], &[1]),
            MetadataRecord::PartitionChange(moves),
        ];
        let image = Image::default().after(&records, Offset(20)).0;
        let counted = Counted::default();
        let census = counted.get(&image, BrokerId(1), &ConfigMap::new());
        let expected = Census {
            led: 5,
            under_replicated: 2,
            under_min_isr: 1,
            // One has one replica, and needs no more.
            at_min_isr: 3,
            reassigning: 1,
            partitions: 7,
            without_leader: 1,
            not_preferred: 1,
            brokers_active: 2,
            brokers_fenced: 1,
        };
        assert_eq!(census, expected);
        let later = image.after(&[partition(7, &[1], &[1])], Offset(21)).0;
        assert_eq!(counted.get(&later, BrokerId(1), &ConfigMap::new()).led, 6);
    }
}
