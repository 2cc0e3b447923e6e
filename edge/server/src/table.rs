//! The partitions of this node, by topic and index.
//!
//! Read by every request, changed by the control thread alone: readers take a snapshot and never wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base::{Map, PartitionIndex, TopicId, TopicPartition, Uuid};
use parking_lot::Mutex;

use crate::log_dir::LogDirectory;
use crate::partition::PartitionCell;

type Topic = Arc<[Option<Arc<PartitionCell>>]>;

/// See the module.
#[derive(Default)]
pub(crate) struct PartitionTable {
    served: ArcSwap<Map<TopicId, Topic>>,
    offline: Mutex<BTreeMap<(TopicId, PartitionIndex), Offline>>,
}

/// A partition of this node that has no log which could be served.
pub(crate) struct Offline {
    pub(crate) name: TopicPartition,
    /// The log directory that its log is in, or should be in, if that is there.
    pub(crate) dir: Option<Arc<LogDirectory>>,
    /// Whether its log lies in `dir`.
    pub(crate) has_log: bool,
    /// Whether it has no log yet, and one can be made.
    pub(crate) unmade: bool,
    /// Whether it had a log that is nowhere now, or is of no use: it may begin anew once another leads.
    pub(crate) is_gone: bool,
}

impl PartitionTable {
    pub(crate) fn get(&self, topic: TopicId, partition: PartitionIndex) -> Option<Arc<PartitionCell>> {
        let index = usize::try_from(partition.0).ok()?;
        self.served.load().get(&topic)?.get(index)?.clone()
    }

    /// Whether it is a partition of this node, served or not.
    pub(crate) fn has(&self, topic: TopicId, partition: PartitionIndex) -> bool {
        self.get(topic, partition).is_some() || self.offline.lock().contains_key(&(topic, partition))
    }

    /// All partitions, in no order that means anything.
    pub(crate) fn all(&self) -> Vec<Arc<PartitionCell>> {
        self.served.load().values().flat_map(|topic| topic.iter().flatten().cloned()).collect()
    }

    /// The partitions in a log directory.
    pub(crate) fn in_dir(&self, dir: Uuid) -> Vec<Arc<PartitionCell>> {
        self.some_in_dir(dir, |_| true)
    }

    /// Those of the partitions in a log directory that are wanted.
    pub(crate) fn some_in_dir(
        &self,
        dir: Uuid,
        is_wanted: impl Fn(&PartitionCell) -> bool,
    ) -> Vec<Arc<PartitionCell>> {
        let table = self.served.load();
        let cells = table.values().flat_map(|topic| topic.iter().flatten());
        cells.filter(|cell| cell.dir.id == dir && is_wanted(cell)).cloned().collect()
    }

    /// The partitions of a topic.
    pub(crate) fn topic(&self, topic: TopicId) -> Vec<Arc<PartitionCell>> {
        self.served
            .load()
            .get(&topic)
            .map_or_else(Vec::new, |topic| topic.iter().flatten().cloned().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.served.load().values().map(|topic| topic.iter().flatten().count()).sum()
    }

    /// Puts partitions in, all at once.
    pub(crate) fn add(&self, cells: Vec<Arc<PartitionCell>>) {
        let mut map = Map::clone(&self.served.load());
        let mut grown: Map<TopicId, Vec<Option<Arc<PartitionCell>>>> = Map::default();
        for cell in &cells {
            let topic = grown
                .entry(cell.topic)
                .or_insert_with(|| map.get(&cell.topic).map_or_else(Vec::new, |topic| topic.to_vec()));
            let index = usize::try_from(cell.name.partition.0).expect("a partition's index is not negative");
            if topic.len() <= index {
                topic.resize(index + 1, None);
            }
            topic[index] = Some(Arc::clone(cell));
        }
        map.extend(grown.into_iter().map(|(id, topic)| (id, topic.into())));
        self.served.store(Arc::new(map));
        let mut offline = self.offline.lock();
        cells.iter().for_each(|cell| drop(offline.remove(&(cell.topic, cell.name.partition))));
        drop(offline);
        // Those whose directory was given up before they were in the table heard nothing of it.
        cells.iter().filter(|cell| cell.dir.is_retired()).for_each(|cell| cell.retire());
    }

    /// Takes note of a partition that cannot be served.
    pub(crate) fn add_offline(&self, topic: TopicId, offline: Offline) {
        self.offline.lock().insert((topic, offline.name.partition), offline);
    }

    /// Partitions that have no log yet because it could not be made.
    pub(crate) fn unmade(&self) -> Vec<(TopicId, PartitionIndex)> {
        let offline = self.offline.lock();
        offline.iter().filter(|(_, partition)| partition.unmade).map(|(key, _)| *key).collect()
    }

    /// Whether there are any, or some that may begin anew.
    pub(crate) fn lacks_logs(&self) -> bool {
        self.offline.lock().values().any(|partition| partition.unmade || partition.is_gone)
    }

    /// Partitions that had a log which is nowhere now, or is of no use: damaged.
    pub(crate) fn gone(&self) -> Vec<(TopicId, PartitionIndex)> {
        let damaged = self.all().into_iter().filter(|cell| cell.is_damaged());
        let mut gone: Vec<_> = damaged.map(|cell| (cell.topic, cell.name.partition)).collect();
        let offline = self.offline.lock();
        gone.extend(offline.iter().filter(|(_, partition)| partition.is_gone).map(|(key, _)| *key));
        gone
    }

    /// Partitions whose logs cannot be served although their directories are as good as any: damaged, gone, or
    /// failed alone.
    pub(crate) fn lost(&self) -> Vec<(TopicId, PartitionIndex)> {
        let is_lost = |dir: &Arc<LogDirectory>| !dir.is_retired();
        let failed = self.all().into_iter().filter(|cell| cell.is_offline() && is_lost(&cell.dir));
        let mut lost: Vec<_> = failed.map(|cell| (cell.topic, cell.name.partition)).collect();
        let offline = self.offline.lock();
        lost.extend(
            offline.iter().filter(|(_, it)| it.dir.as_ref().is_some_and(is_lost)).map(|(key, _)| *key),
        );
        lost
    }

    /// How many partitions of this node cannot be served.
    pub(crate) fn offline_count(&self) -> usize {
        let failed = self.all().iter().filter(|cell| cell.is_offline()).count();
        self.offline.lock().len() + failed
    }

    /// Whether a partition that lies in this directory, or should, cannot be served.
    pub(crate) fn is_any_offline_in(&self, dir: Uuid) -> bool {
        let is_here = |offline: &Offline| offline.dir.as_ref().is_some_and(|other| other.id == dir);
        self.offline.lock().values().any(is_here) || self.in_dir(dir).iter().any(|cell| cell.is_offline())
    }

    /// Takes all partitions of a retired directory out of service.
    pub(crate) fn retire_in(&self, dir: Uuid) {
        self.in_dir(dir).iter().for_each(|cell| cell.retire());
    }

    /// Takes one partition out, served or not.
    pub(crate) fn remove_one(
        &self,
        topic: TopicId,
        partition: PartitionIndex,
    ) -> (Vec<Arc<PartitionCell>>, Vec<Offline>) {
        let cell = self.get(topic, partition);
        if cell.is_some() {
            let mut map = Map::clone(&self.served.load());
            let mut cells = map.get(&topic).map_or_else(Vec::new, |topic| topic.to_vec());
            if let Some(place) = usize::try_from(partition.0).ok().and_then(|index| cells.get_mut(index)) {
                *place = None;
            }
            map.insert(topic, cells.into());
            self.served.store(Arc::new(map));
        }
        let offline = self.offline.lock().remove(&(topic, partition));
        (cell.into_iter().collect(), offline.into_iter().collect())
    }

    /// Takes a topic out: those that were served, and those that were not.
    pub(crate) fn remove(&self, topic: TopicId) -> (Vec<Arc<PartitionCell>>, Vec<Offline>) {
        let cells = self.topic(topic);
        let mut map = Map::clone(&self.served.load());
        map.remove(&topic);
        self.served.store(Arc::new(map));
        let mut offline = self.offline.lock();
        let gone = offline.extract_if(.., |(id, _), _| *id == topic).map(|(_, offline)| offline).collect();
        (cells, gone)
    }
}
