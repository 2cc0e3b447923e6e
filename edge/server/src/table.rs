//! The partitions of this node, by topic and index.
//!
//! Read by every request, changed by the control thread alone: readers take a snapshot and never wait.

use std::sync::Arc;

use arc_swap::ArcSwap;
use base::{Map, PartitionIndex, TopicId, Uuid};

use crate::partition::PartitionCell;

type Topic = Arc<[Option<Arc<PartitionCell>>]>;

/// See the module.
#[derive(Default)]
pub(crate) struct PartitionTable(ArcSwap<Map<TopicId, Topic>>);

impl PartitionTable {
    pub(crate) fn get(&self, topic: TopicId, partition: PartitionIndex) -> Option<Arc<PartitionCell>> {
        let index = usize::try_from(partition.0).ok()?;
        self.0.load().get(&topic)?.get(index)?.clone()
    }

    /// All partitions, in no order that means anything.
    pub(crate) fn all(&self) -> Vec<Arc<PartitionCell>> {
        self.0.load().values().flat_map(|topic| topic.iter().flatten().cloned()).collect()
    }

    /// The partitions of a topic.
    pub(crate) fn topic(&self, topic: TopicId) -> Vec<Arc<PartitionCell>> {
        self.0.load().get(&topic).map_or_else(Vec::new, |topic| topic.iter().flatten().cloned().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.load().values().map(|topic| topic.iter().flatten().count()).sum()
    }

    /// Puts partitions in, all at once.
    pub(crate) fn add(&self, cells: impl IntoIterator<Item = Arc<PartitionCell>>) {
        let mut map = Map::clone(&self.0.load());
        let mut grown: Map<TopicId, Vec<Option<Arc<PartitionCell>>>> = Map::default();
        for cell in cells {
            let topic = grown
                .entry(cell.topic)
                .or_insert_with(|| map.get(&cell.topic).map_or_else(Vec::new, |topic| topic.to_vec()));
            let index = usize::try_from(cell.name.partition.0).expect("a partition's index is not negative");
            if topic.len() <= index {
                topic.resize(index + 1, None);
            }
            topic[index] = Some(cell);
        }
        map.extend(grown.into_iter().map(|(id, topic)| (id, topic.into())));
        self.0.store(Arc::new(map));
    }

    /// Takes all partitions of a retired directory out of service.
    pub(crate) fn retire_in(&self, dir: Uuid) {
        self.all().iter().filter(|cell| cell.dir.id == dir).for_each(|cell| cell.retire());
    }

    /// Takes a topic out.
    pub(crate) fn remove(&self, topic: TopicId) -> Vec<Arc<PartitionCell>> {
        let cells = self.topic(topic);
        let mut map = Map::clone(&self.0.load());
        map.remove(&topic);
        self.0.store(Arc::new(map));
        cells
    }
}
