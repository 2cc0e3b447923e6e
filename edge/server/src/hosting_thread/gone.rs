//! What the metadata took from this broker before its logs are open.
//!
//! What was seen to be taken away is removed from the disks, as it would have been had the broker been there.
//! That the metadata do not know something proves nothing: they may be older than what is on the disks.

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex, TopicId, TopicPartition};
use metadata::{Delta, Image};

/// See the module.
#[derive(Default)]
pub(crate) struct Gone {
    /// By topic and index: the name, and whether the broker was away when it was decided.
    partitions: BTreeMap<(TopicId, PartitionIndex), (TopicPartition, bool)>,
}

impl Gone {
    /// The metadata changed.
    pub(crate) fn note(&mut self, me: BrokerId, before: &Image, after: &Image, delta: &Delta) {
        // Who is there acts on it at once; what lies there later was put there by somebody.
        let is_away = after.broker(me).is_none_or(|broker| broker.fenced || broker.in_controlled_shutdown);
        for topic in delta.topics_deleted.values() {
            let mine = topic.partitions().iter().filter(|partition| partition.replicas.contains(&me));
            for partition in mine {
                let name = TopicPartition { topic: topic.name.clone(), partition: partition.index };
                self.partitions.insert((topic.id, partition.index), (name, is_away));
            }
        }
        let has = |image: &Image, (topic, index): &(TopicId, PartitionIndex)| {
            image.partition(*topic, *index).is_some_and(|partition| partition.replicas.contains(&me))
        };
        for key in &delta.partitions_changed {
            if has(after, key) {
                self.partitions.remove(key);
            } else if has(before, key)
                && let Some(topic) = after.topic_by_id(key.0)
            {
                let name = TopicPartition { topic: topic.name.clone(), partition: key.1 };
                self.partitions.insert(*key, (name, is_away));
            }
        }
    }

    /// Whether the log of this topic that lies under this name is one of them. Behind an orderly stop only what
    /// was decided while the broker was away can still be there.
    pub(crate) fn has(&self, topic: TopicId, name: &TopicPartition, after_crash: bool) -> bool {
        let gone = self.partitions.get(&(topic, name.partition));
        gone.is_some_and(|(known, is_away)| known == name && (*is_away || after_crash))
    }
}

#[cfg(test)]
mod tests {
    use base::{BrokerEpoch, Offset, TopicName, Uuid};
    use metadata::{Broker, MetadataRecord, NewPartition, NewTopic, PartitionChange};

    use super::*;

    const ME: BrokerId = BrokerId(3);
    const TOPIC: TopicId = TopicId(Uuid([7; 16]));

    fn me(fenced: bool) -> MetadataRecord {
        MetadataRecord::RegisterBroker(Broker {
            id: ME,
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

    fn name(topic: &str) -> TopicPartition {
        TopicPartition { topic: TopicName::new(topic).expect("legal"), partition: PartitionIndex(0) }
    }

    fn topic(id: TopicId) -> [MetadataRecord; 2] {
        let replicas = || vec![BrokerId(1), ME];
        [
            MetadataRecord::Topic(NewTopic { name: name("t").topic, id }),
            MetadataRecord::Partition(NewPartition::first(id, PartitionIndex(0), replicas(), replicas())),
        ]
    }

    fn given_to(replicas: &[i32]) -> MetadataRecord {
        let replicas = replicas.iter().copied().map(BrokerId).collect();
        MetadataRecord::PartitionChange(PartitionChange {
            replicas: Some(replicas),
            ..PartitionChange::of(TOPIC, PartitionIndex(0))
        })
    }

    /// What is gone after these commits.
    fn after(commits: &[&[MetadataRecord]]) -> Gone {
        let (mut gone, mut image) = (Gone::default(), Image::default());
        for (at, records) in (1..).zip(commits) {
            let (next, delta) = image.after(*records, Offset(at));
            gone.note(ME, &image, &next, &delta);
            image = next;
        }
        gone
    }

    #[test]
    fn only_what_was_seen_to_be_taken_away_is_gone() {
        let has = |gone: &Gone, after_crash| gone.has(TOPIC, &name("t"), after_crash);
        let nothing = after(&[]);
        assert!(!has(&nothing, true), "an empty image proves nothing");
        let deleted = after(&[&[me(true)], &topic(TOPIC), &[MetadataRecord::RemoveTopic(TOPIC)]]);
        assert!(has(&deleted, false) && has(&deleted, true));
        assert!(!deleted.has(TOPIC, &name("copy"), true), "a copy is somebody's");
        let others = TopicId(Uuid([8; 16]));
        assert!(!deleted.has(others, &name("t"), true), "nor is another topic of the name gone");
        let while_up = after(&[&[me(false)], &topic(TOPIC), &[MetadataRecord::RemoveTopic(TOPIC)]]);
        assert!(has(&while_up, true), "a crash came in between");
        assert!(!has(&while_up, false), "it was acted on, and somebody put it back");
        let moved = after(&[&[me(true)], &topic(TOPIC), &[given_to(&[1, 2])]]);
        assert!(has(&moved, false));
        let back = after(&[&[me(true)], &topic(TOPIC), &[given_to(&[1, 2])], &[given_to(&[1, 3])]]);
        assert!(!has(&back, true), "it was given back");
        let never = after(&[&[me(true)], &topic(TOPIC), &[given_to(&[1, 2, 3])]]);
        assert!(!has(&never, true));
    }
}
