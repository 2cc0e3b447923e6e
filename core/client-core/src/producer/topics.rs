//! The topics that records go to.

use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Map, Now, TopicId, TopicName, Uuid};

use super::Place;
use super::batch::Partition;
use super::partitioner::Sticky;
use crate::cluster::TopicMetadata;

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    pub(super) id: TopicId,
    /// None: it is not known yet.
    pub(super) partitions: Vec<Partition>,
    /// How many of them there are. Those behind were of a topic of the same name that had more; what they
    /// hold waits for one that has so many again, until its time is over.
    pub(super) count: usize,
    pub(super) sticky: Sticky,
    /// The cluster refuses it, until it is asked again.
    pub(super) refused: Option<(ErrorCode, Duration)>,
    pub(super) wish: Wish,
    /// Why it is not known, and since when the cluster says so.
    pub(super) trouble: Option<(Duration, Arc<str>)>,
    /// When a record was last to go there.
    pub(super) used_at: Duration,
}

/// Whether somebody waits to hear of a topic that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wish {
    #[default]
    Nobody,
    Waits,
    /// And the question is on its way. Whoever waits still after the answer says so again.
    Asked,
}

/// All topics, by number.
#[derive(Debug, Default)]
pub(super) struct Topics {
    all: Vec<Topic>,
    /// Numbers that no topic has.
    free: Vec<u32>,
    by_name: Map<Arc<str>, u32>,
    /// Most records go where the last one went.
    last: Option<u32>,
}

impl Topics {
    /// The number of a topic, which is a new one if need be; `None` if no topic can have the name.
    #[inline]
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(last) = self.last
            && *self.all[last as usize].name == *name
        {
            return Some(last);
        }
        let number = match self.by_name.get(name) {
            Some(&number) => number,
            // It might not even fit into a request for metadata, in which all topics are.
            None if TopicName::new(name).is_err() => return None,
            None => self.add(name),
        };
        self.last = Some(number);
        Some(number)
    }

    fn add(&mut self, name: &str) -> u32 {
        let name: Arc<str> = name.into();
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Topic::new("".into()));
            u32::try_from(self.all.len() - 1).expect("memory ends long before")
        });
        self.by_name.insert(name.clone(), number);
        self.all[number as usize] = Topic::new(name);
        number
    }

    /// Lets go of topics that nothing was written to for so long: they are not asked for any more. What
    /// the brokers know of the producer stays with those that were ever written to: a sequence that is
    /// used twice would be taken for a repetition. Their names.
    pub(super) fn let_idle_go(&mut self, idle_max: Duration, now: Now) -> Vec<Arc<str>> {
        let mut idle = Vec::new();
        for (topic, number) in self.all.iter_mut().zip(0..) {
            let is_idle = now.elapsed >= topic.used_at + idle_max && topic.wish == Wish::Nobody;
            if topic.name.is_empty() || !is_idle || topic.has_batches() {
                continue;
            }
            idle.push(topic.name.clone());
            if topic.partitions.iter().all(Partition::is_untouched) {
                self.by_name.remove(&topic.name);
                *topic = Topic::new("".into());
                self.free.push(number);
            } else {
                topic.rest();
            }
        }
        if !idle.is_empty() {
            self.last = None;
        }
        idle
    }

    /// How many partitions a topic has, if that is known.
    pub(super) fn partition_count(&self, name: &str) -> Option<usize> {
        let count = self.get(self.find(name)?).count;
        (count > 0).then_some(count)
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Topic {
        &self.all[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Topic {
        &mut self.all[number as usize]
    }

    #[inline]
    pub(super) fn partition(&mut self, place: Place) -> &mut Partition {
        &mut self.all[place.topic as usize].partitions[place.partition as usize]
    }

    /// Those that are to be kept known.
    pub(super) fn known(&self) -> impl Iterator<Item = &Topic> {
        self.all.iter().filter(|topic| topic.count > 0 || topic.has_batches())
    }

    /// Those that somebody waits for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &Topic> {
        self.all.iter().filter(|topic| topic.wish == Wish::Waits)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.all.iter_mut()
    }

    /// Every partition there is.
    pub(super) fn places(&self) -> Vec<Place> {
        let topics = self.all.iter().zip(0..);
        let places = topics.flat_map(|(topic, number)| {
            (0..topic.partitions.len() as u32).map(move |partition| Place { topic: number, partition })
        });
        places.collect()
    }
}

impl Topic {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            id: TopicId(Uuid::default()),
            partitions: Vec::new(),
            count: 0,
            sticky: Sticky::default(),
            refused: None,
            wish: Wish::Nobody,
            trouble: None,
            used_at: Duration::ZERO,
        }
    }

    pub(super) fn has_batches(&self) -> bool {
        self.partitions.iter().any(|partition| partition.batches() > 0)
    }

    /// It is not known any more: who writes to it asks for it again.
    pub(super) fn rest(&mut self) {
        self.count = 0;
        self.sticky = Sticky::default();
        self.partitions.iter_mut().for_each(|partition| partition.leader = None);
    }

    /// Takes over what the cluster says. Partitions only come; their batches stay with them, also when
    /// the topic was deleted and made anew.
    pub(super) fn learn(&mut self, said: &TopicMetadata, epoch: base::ProducerEpoch) {
        if self.id != said.id {
            // The logs of one that was made anew have never heard of this producer.
            self.partitions.iter_mut().for_each(|partition| partition.met_at = None);
        }
        self.id = said.id;
        self.refused = None;
        self.trouble = None;
        self.count = said.partitions.len();
        self.partitions.iter_mut().skip(self.count).for_each(|partition| partition.leader = None);
        if self.sticky.current().is_some_and(|current| current >= self.count) {
            self.sticky = Sticky::default();
        }
        for (index, leader) in said.partitions.iter().enumerate() {
            match self.partitions.get_mut(index) {
                Some(partition) => partition.lead(*leader),
                None => {
                    let mut partition = Partition::new(*leader);
                    partition.epoch = epoch;
                    self.partitions.push(partition);
                }
            }
        }
    }
}
