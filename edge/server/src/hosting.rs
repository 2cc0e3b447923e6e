//! Makes and removes the logs of this node as the image says.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use base::{BrokerId, TopicId, TopicPartition, Uuid};
use metadata::settings::{BrokerSettings, Layers, TopicSettings};
use metadata::{ConfigResource, Delta, Image, Topic};
use parking_lot::Mutex;
use replica::Partition;
use storage::Log;
use storage::disk::DiskError;
use telemetry::Metrics;
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::log_dir::LogDirectory;
use crate::partition::{PartitionCell, flush_policy, log_settings};
use crate::random::random;
use crate::table::PartitionTable;
use crate::threads::on_threads;

/// A directory that is out of use and can be removed when there is time.
pub(crate) struct Discarded {
    pub(crate) dir: Arc<LogDirectory>,
    pub(crate) name: String,
}

/// Threads that make logs: each waits for the disk most of the time, and their waits are shared.
const MAKING_THREADS: usize = 16;

/// See the module.
pub(crate) struct Hosting {
    pub(crate) node: BrokerId,
    pub(crate) settings: BrokerSettings,
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) dirs: Vec<Arc<LogDirectory>>,
    pub(crate) discarded: mpsc::Sender<Discarded>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// Held while a place for a partition is chosen.
    pub(crate) placing: Mutex<()>,
}

impl Hosting {
    /// Makes what is new and puts changed settings in force.
    pub(crate) fn prepare(&self, image: &Image, delta: &Delta) {
        let mut new = Vec::new();
        for topic in delta.topics_created.iter().filter_map(|id| image.topic_by_id(*id)) {
            let settings = self.topic_settings(image, topic);
            new.extend(topic.partitions().iter().map(|partition| (topic, partition, Arc::clone(&settings))));
        }
        for (id, index) in &delta.partitions_added {
            let found = image.topic_by_id(*id).and_then(|topic| Some((topic, topic.partition(*index)?)));
            new.extend(found.map(|(topic, partition)| (topic, partition, self.topic_settings(image, topic))));
        }
        new.retain(|(_, partition, _)| partition.replicas.contains(&self.node));
        let made = on_threads(MAKING_THREADS, &new, |(topic, partition, settings)| {
            self.make(topic, partition, settings)
        });
        self.table.add(made.into_iter().flatten());
        self.reconfigure(image, delta);
    }

    /// Removes what is gone.
    pub(crate) fn clear(&self, delta: &Delta) {
        for id in delta.topics_deleted.keys() {
            for cell in self.table.remove(*id) {
                cell.retire();
                self.discard(&cell);
            }
        }
    }

    /// The settings of a topic in force.
    pub(crate) fn topic_settings(&self, image: &Image, topic: &Topic) -> Arc<TopicSettings> {
        let layers = Layers {
            broker: image.configs(&ConfigResource::Broker(self.node)),
            default_broker: image.configs(&ConfigResource::DefaultBroker),
            fixed: &self.settings.fixed,
        };
        let overrides = image.configs(&ConfigResource::Topic(topic.name.clone()));
        Arc::new(TopicSettings::resolve(overrides, layers))
    }

    /// Makes a new partition's log where there are fewest; `None` if no disk takes it.
    pub(crate) fn make(
        &self,
        topic: &Topic,
        partition: &metadata::Partition,
        settings: &Arc<TopicSettings>,
    ) -> Option<Arc<PartitionCell>> {
        let name = TopicPartition { topic: topic.name.clone(), partition: partition.index };
        let Some(dir) = self.reserve() else {
            error!(partition = %name, "no log directory is left to make the partition in");
            return None;
        };
        match self.create(dir, &name, topic.id, partition, settings) {
            Ok(cell) => Some(cell),
            Err(why) => {
                dir.partitions.fetch_sub(1, Ordering::Relaxed);
                dir.retire(&why);
                None
            }
        }
    }

    fn create(
        &self,
        dir: &Arc<LogDirectory>,
        name: &TopicPartition,
        topic: TopicId,
        partition: &metadata::Partition,
        settings: &Arc<TopicSettings>,
    ) -> Result<Arc<PartitionCell>, DiskError> {
        self.make_way(dir, name)?;
        let log = Log::create(
            Arc::clone(&dir.disk),
            PathBuf::from(name.to_string()),
            topic,
            log_settings(settings, self.settings.producer_id_expiration),
            self.clock.now(),
        )?;
        Ok(self.host(dir, name.clone(), log, partition, settings))
    }

    /// Renames a directory that has the partition's name but is none of this cluster's, records and
    /// all: a person may want them, and a client that makes the topic must not be able to stop a node.
    fn make_way(&self, dir: &LogDirectory, name: &TopicPartition) -> Result<(), DiskError> {
        let path = PathBuf::from(name.to_string());
        let has_records = |entry: &storage::disk::DirEntry| entry.name.ends_with(".log") && entry.len > 0;
        // A directory that cannot be listed is not there.
        if !dir.disk.list(&path).is_ok_and(|entries| entries.iter().any(has_records)) {
            return Ok(());
        }
        let unique = u128::from_be_bytes(Uuid::from_random(random()).0);
        let aside = format!("{name}.{unique:032x}-stray");
        warn!(dir = %dir.path.display(), partition = %name, aside, "a directory of no topic of this cluster was in the way");
        dir.disk.rename(&path, &PathBuf::from(aside))?;
        dir.disk.sync_dir(&PathBuf::new())
    }

    /// Takes the lead of a log that is open.
    pub(crate) fn host(
        &self,
        dir: &Arc<LogDirectory>,
        name: TopicPartition,
        log: Log,
        partition: &metadata::Partition,
        settings: &Arc<TopicSettings>,
    ) -> Arc<PartitionCell> {
        let topic = log.topic_id();
        let led = Partition::lead(log, partition.leader_epoch, flush_policy(settings));
        PartitionCell::new(name, topic, Arc::clone(dir), led, Arc::clone(settings))
    }

    /// The directory with the fewest partitions, which has one more from here on.
    fn reserve(&self) -> Option<&Arc<LogDirectory>> {
        let _one_at_a_time = self.placing.lock();
        let healthy = self.dirs.iter().filter(|dir| !dir.is_retired());
        let dir = healthy.min_by_key(|dir| dir.partitions.load(Ordering::Relaxed))?;
        dir.partitions.fetch_add(1, Ordering::Relaxed);
        Some(dir)
    }

    fn reconfigure(&self, image: &Image, delta: &Delta) {
        let everything = delta.configs_changed.iter().any(|resource| match resource {
            ConfigResource::Broker(id) => *id == self.node,
            ConfigResource::DefaultBroker => true,
            ConfigResource::Topic(_) => false,
        });
        for topic in image.topics() {
            let changed = || delta.configs_changed.contains(&ConfigResource::Topic(topic.name.clone()));
            if everything || changed() {
                let settings = self.topic_settings(image, topic);
                for cell in self.table.topic(topic.id) {
                    cell.reconfigure(Arc::clone(&settings), self.settings.producer_id_expiration);
                }
            }
        }
    }

    /// Renames a partition's directory out of the way, so that a topic of the same name can be made.
    fn discard(&self, cell: &PartitionCell) {
        cell.dir.partitions.fetch_sub(1, Ordering::Relaxed);
        if cell.dir.is_retired() {
            return;
        }
        if let Some(name) = cell.dir.mark(|marks| marks.set_aside(&cell.name, Uuid::from_random(random()))) {
            info!(partition = %cell.name, "partition deleted");
            // The other end is gone only when the node stops; then it is removed at the next start.
            let _ = self.discarded.send(Discarded { dir: Arc::clone(&cell.dir), name });
        }
    }
}
