//! Makes and removes the logs of this node as the image says.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{BrokerId, Offset, PartitionIndex, TopicId, TopicPartition, Uuid};
use broker::directories::begins_anew;
use broker::partition::{assignment, flush_policy, log_settings};
use metadata::settings::{BrokerSettings, INSYNC_MIN, Layers, TopicSettings};
use metadata::{ConfigResource, Delta, Image, Topic};
use replica::Partition;
use storage::Log;
use storage::disk::DiskError;
use storage::layout::stray_dir_name;
use telemetry::Metrics;
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::coordinators::Coordinators;
use crate::directories::is_unfinished;
use crate::elections::{self, By};
use crate::followers::Followers;
use crate::log_dir::LogDirectory;
use crate::partition::PartitionCell;
use crate::random::random;
use crate::requests::Outbox;
use crate::table::{Offline, PartitionTable};
use crate::threads::on_threads;
use crate::throttles::Throttles;

/// Threads that make logs: each waits for the disk most of the time, and their waits are shared.
const MAKING_THREADS: usize = 16;

/// Writes down which logs are about to count records that are not on media yet. If that fails, they count what is
/// durable until housekeeping can write it down.
pub(crate) fn note_lax(dir: &LogDirectory, names: Vec<TopicPartition>) {
    if !names.is_empty() {
        dir.mark(|marks| marks.note_lax(names));
    }
}

/// See the module.
pub(crate) struct Hosting {
    pub(crate) node: BrokerId,
    pub(crate) settings: BrokerSettings,
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) dirs: Vec<Arc<LogDirectory>>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// What the cluster is, as requests on this node see it.
    pub(crate) image: Arc<ArcSwap<Image>>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) throttles: Arc<Throttles>,
    pub(crate) coordinators: Arc<Coordinators>,
}

/// A partition that is to get a log.
pub(crate) struct Unmade<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) partition: &'a metadata::Partition,
    pub(crate) settings: Arc<TopicSettings>,
}

impl Unmade<'_> {
    fn name(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.name.clone(), partition: self.partition.index }
    }

    /// Whether this broker has had one before, that is nowhere now.
    fn had_a_log(&self, broker: BrokerId) -> bool {
        self.partition.directory_of(broker).is_some_and(|id| id != metadata::Partition::DIRECTORY_UNASSIGNED)
    }
}

impl Hosting {
    /// How long a silent producer is remembered, as the image has it.
    pub(crate) fn producer_expiry(&self, image: &Image) -> Duration {
        self.settings_now(image).producer_id_expiration
    }

    /// Limits how fast replicas are filled, as the image has it.
    pub(crate) fn set_limits(&self, image: &Image) {
        self.throttles.set(&self.settings_now(image));
    }

    /// Says that what this node was given at start is passed over, where all nodes must mean the same.
    pub(crate) fn compare_minimum(&self, image: &Image) {
        let cluster = image.configs(&ConfigResource::DefaultBroker).get(INSYNC_MIN);
        if let Some(given) = self.settings.fixed.get(INSYNC_MIN).filter(|given| Some(*given) != cluster) {
            let cluster = cluster.map_or("none of its own", String::as_str);
            warn!(
                given,
                cluster,
                "{INSYNC_MIN} of this node's settings is passed over, for the cluster has another: make them the same, or \
                 change the cluster's with kafka-configs.sh --entity-type brokers --entity-default"
            );
        }
    }

    /// This broker's settings, as the image has them.
    fn settings_now(&self, image: &Image) -> Cow<'_, BrokerSettings> {
        let default_broker = image.configs(&ConfigResource::DefaultBroker);
        let broker = image.configs(&ConfigResource::Broker(self.node));
        if default_broker.is_empty() && broker.is_empty() {
            return Cow::Borrowed(&self.settings);
        }
        Cow::Owned(self.settings.with(default_broker, broker))
    }

    /// Makes the logs of what is new, and of what could not be made before. They are not in the table
    /// yet: first it has to be written down where they are.
    pub(crate) fn make_new(&self, image: &Image, delta: &Delta) -> Vec<Arc<PartitionCell>> {
        // Whose name is given anew goes first: the directories have the same names, too.
        let replaced = delta.topics_deleted.values().filter(|gone| image.topic(gone.name.as_str()).is_some());
        replaced.for_each(|gone| self.remove(self.table.remove(gone.id)));
        let mut new = Vec::new();
        for topic in delta.topics_created.iter().filter_map(|id| image.topic_by_id(*id)) {
            let settings = self.topic_settings(image, topic);
            new.extend(topic.partitions().iter().map(|partition| Unmade {
                topic,
                partition,
                settings: Arc::clone(&settings),
            }));
        }
        let moved_here = delta.partitions_changed.iter().copied();
        let moved_here = moved_here.filter(|(topic, index)| !self.table.has(*topic, *index));
        let more = delta.partitions_added.iter().copied().chain(moved_here);
        let more = more.chain(self.table.unmade()).chain(self.begun_anew(image));
        for (id, index) in more.collect::<BTreeSet<_>>() {
            let found = image.topic_by_id(id).and_then(|topic| Some((topic, topic.partition(index)?)));
            new.extend(found.map(|(topic, partition)| Unmade {
                topic,
                partition,
                settings: self.topic_settings(image, topic),
            }));
        }
        new.retain(|new| new.partition.replicas.contains(&self.node));
        new.iter().for_each(|new| self.let_go(new));
        self.make_all(new, self.producer_expiry(image))
    }

    /// A replica that begins anew, for its records were found damaged, is served no more.
    fn let_go(&self, new: &Unmade<'_>) {
        let (topic, index) = (new.topic.id, new.partition.index);
        if !self.table.get(topic, index).is_some_and(|cell| cell.is_damaged()) {
            return;
        }
        let (cells, _) = self.table.remove_one(topic, index);
        for cell in cells {
            cell.follow(None);
            cell.await_flush();
            cell.dir.partitions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Logs of replicas that were taken from this node and given back before it heard of either, from a snapshot
    /// say: the metadata do not know any more where they are.
    pub(crate) fn given_back(&self, image: &Image, delta: &Delta) -> Vec<Arc<PartitionCell>> {
        let changed = delta.partitions_changed.iter().filter(|(topic, index)| {
            image.partition(*topic, *index).is_some_and(|partition| self.is_unassigned(partition))
        });
        let cells = changed.filter_map(|(topic, index)| self.table.get(*topic, *index));
        // What failed alone is given up, and that is said elsewhere.
        cells.filter(|cell| !cell.is_offline() || cell.dir.is_retired()).collect()
    }

    fn is_unassigned(&self, partition: &metadata::Partition) -> bool {
        partition.directory_of(self.node) == Some(metadata::Partition::DIRECTORY_UNASSIGNED)
    }

    /// What has lost its log and can be filled again by now, or was taken from this node and given back.
    fn begun_anew(&self, image: &Image) -> Vec<(TopicId, PartitionIndex)> {
        let gone = self.table.gone();
        let ids: Vec<Uuid> = self.dirs.iter().map(|dir| dir.id).collect();
        let can_be_filled = |(topic, index): &(TopicId, PartitionIndex)| {
            let partition = image.partition(*topic, *index);
            partition.is_some_and(|partition| {
                let is_given_back = self.is_unassigned(partition) && !partition.isr.contains(&self.node);
                is_given_back || begins_anew(self.node, image, partition, &ids)
            })
        };
        gone.into_iter().filter(can_be_filled).collect()
    }

    /// Makes logs, each where there are fewest. What cannot be made is offline.
    pub(crate) fn make_all(
        &self,
        new: Vec<Unmade<'_>>,
        producer_expiry: Duration,
    ) -> Vec<Arc<PartitionCell>> {
        let mut placed: Vec<_> = new.into_iter().map(|new| (self.reserve(), new)).collect();
        for dir in &self.dirs {
            let is_here = |place: &Option<&Arc<_>>| place.is_some_and(|place| Arc::ptr_eq(place, dir));
            let here = || placed.iter().filter(|(place, _)| is_here(place)).map(|(_, new)| new);
            let names: Vec<_> = here().map(Unmade::name).collect();
            if names.is_empty() {
                continue;
            }
            let lax = here().filter(|new| !flush_policy(&new.settings).counts_durable());
            let lax = lax.map(Unmade::name).collect();
            // What was noted of an earlier topic of the name would cut or hide the new one's records.
            if dir.mark(|marks| marks.forget(names)).is_some() {
                note_lax(dir, lax);
                continue;
            }
            for (place, _) in placed.iter_mut().filter(|(place, _)| is_here(place)) {
                *place = None;
                dir.partitions.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let made = on_threads(MAKING_THREADS, &placed, |(dir, new)| self.make(*dir, new, producer_expiry));
        made.into_iter().flatten().collect()
    }

    fn make(
        &self,
        dir: Option<&Arc<LogDirectory>>,
        new: &Unmade<'_>,
        producer_expiry: Duration,
    ) -> Option<Arc<PartitionCell>> {
        let (name, is_gone) = (new.name(), new.had_a_log(self.node));
        let made = dir.map(|dir| (dir, self.create(dir, &name, new, producer_expiry)));
        match made {
            Some((_, Ok(cell))) => {
                if is_gone {
                    warn!(
                        partition = %name, leader = %new.partition.leader,
                        "the log of this replica is gone, or is of no use: the leader fills an empty one"
                    );
                }
                return Some(cell);
            }
            Some((dir, Err(why))) => {
                dir.partitions.fetch_sub(1, Ordering::Relaxed);
                if !dir.on_error(&why) {
                    error!(
                        partition = %name, dir = %dir.path.display(), %why,
                        "partition is offline: its log could not be made; it is tried again now and then"
                    );
                }
            }
            None => error!(
                partition = %name,
                "partition is offline: no log directory takes it; it is tried again now and then"
            ),
        }
        let offline = Offline { name, dir: None, has_log: false, unmade: !is_gone, is_gone };
        self.table.add_offline(new.topic.id, offline);
        None
    }

    fn create(
        &self,
        dir: &Arc<LogDirectory>,
        name: &TopicPartition,
        new: &Unmade<'_>,
        producer_expiry: Duration,
    ) -> Result<Arc<PartitionCell>, DiskError> {
        self.make_way(dir, name)?;
        let log = Log::create(
            Arc::clone(&dir.disk),
            PathBuf::from(name.to_string()),
            new.topic.id,
            log_settings(&new.settings, producer_expiry),
            self.clock.now(),
        )?;
        let high_watermark = log.start();
        Ok(self.host(dir, (name.clone(), log, high_watermark), new.partition, &new.settings))
    }

    /// Renames a directory that has the partition's name but is none of this cluster's, records and
    /// all: a person may want them, and a client that makes the topic must not be able to stop a node.
    fn make_way(&self, dir: &LogDirectory, name: &TopicPartition) -> Result<(), DiskError> {
        let path = PathBuf::from(name.to_string());
        // A directory that cannot be listed is not there.
        if dir.disk.list(&path).is_err() {
            return Ok(());
        }
        if is_unfinished(dir.disk.as_ref(), &path) {
            return dir.disk.remove_dir(&path);
        }
        let aside = stray_dir_name(name, Uuid::from_random(random()));
        warn!(
            dir = %dir.path.display(), partition = %name, aside,
            "a directory that is of no topic of this cluster, or damaged, was in the way: it is kept, and a person can \
             remove it"
        );
        dir.disk.rename(&path, &PathBuf::from(aside))?;
        dir.disk.sync_dir(&PathBuf::new())
    }

    /// Takes what is gone out of service, and its directories out of the way.
    pub(crate) fn clear(&self, image: &Image, delta: &Delta) {
        let deleted = delta.topics_deleted.keys().map(|id| self.table.remove(*id));
        let moved_away = delta.partitions_changed.iter().filter(|(topic, index)| {
            let partition = image.partition(*topic, *index);
            partition.is_some_and(|partition| !partition.replicas.contains(&self.node))
        });
        let moved_away = moved_away.map(|(topic, index)| self.table.remove_one(*topic, *index));
        deleted.chain(moved_away).for_each(|gone| self.remove(gone));
    }

    fn remove(&self, (cells, offline): (Vec<Arc<PartitionCell>>, Vec<Offline>)) {
        for cell in &cells {
            cell.follow(None);
            cell.retire();
        }
        for cell in cells {
            cell.await_flush();
            cell.dir.partitions.fetch_sub(1, Ordering::Relaxed);
            self.discard(&cell.dir, &cell.name);
        }
        for Offline { name, dir, has_log, .. } in offline {
            if let Some(dir) = dir.filter(|_| has_log) {
                self.discard(&dir, &name);
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
        Arc::new(TopicSettings::resolve(topic.name.as_str(), overrides, layers))
    }

    /// Leads or follows with a log that is open, committed up to an offset at least.
    pub(crate) fn host(
        &self,
        dir: &Arc<LogDirectory>,
        (name, log, high_watermark): (TopicPartition, Log, Offset),
        partition: &metadata::Partition,
        settings: &Arc<TopicSettings>,
    ) -> Arc<PartitionCell> {
        let outside = (self.clock, Arc::clone(&self.outbox));
        let opened = |own| Partition::open(self.node, log, high_watermark, own);
        let cell = PartitionCell::new(name, Arc::clone(dir), opened, Arc::clone(settings), outside);
        cell.assign(&assignment(partition));
        cell.throttle(&partition.isr);
        cell
    }

    /// The directory with the fewest partitions, which has one more from here on.
    fn reserve(&self) -> Option<&Arc<LogDirectory>> {
        let takers = self.dirs.iter().filter(|dir| dir.takes_more());
        let dir = takers.min_by_key(|dir| dir.partitions.load(Ordering::Relaxed))?;
        dir.partitions.fetch_add(1, Ordering::Relaxed);
        Some(dir)
    }

    /// Takes up what this node leads from here on, or whatever else it is to partitions that changed.
    pub(crate) fn take_roles(&self, image: &Image, delta: &Delta, leads: bool) {
        for (topic, index) in &delta.partitions_changed {
            let partition = image.partition(*topic, *index).filter(|it| (it.leader == self.node) == leads);
            if let (Some(cell), Some(partition)) = (self.table.get(*topic, *index), partition) {
                cell.assign(&assignment(partition));
                cell.throttle(&partition.isr);
            }
        }
    }

    pub(crate) fn reconfigure(&self, image: &Image, delta: &Delta) {
        let everything = delta.configs_changed.iter().any(|resource| match resource {
            ConfigResource::Broker(id) => *id == self.node,
            ConfigResource::DefaultBroker => true,
            ConfigResource::Topic(_) | ConfigResource::Group(_) => false,
        });
        if everything {
            self.set_limits(image);
        }
        let producer_expiry = self.producer_expiry(image);
        for topic in image.topics() {
            let changed = || delta.configs_changed.contains(&ConfigResource::Topic(topic.name.clone()));
            if everything || changed() {
                let settings = self.topic_settings(image, topic);
                let cells = self.table.topic(topic.id);
                if !flush_policy(&settings).counts_durable() {
                    for dir in &self.dirs {
                        let here = cells.iter().filter(|cell| Arc::ptr_eq(&cell.dir, dir));
                        note_lax(dir, here.map(|cell| cell.name.clone()).collect());
                    }
                }
                for cell in cells {
                    cell.reconfigure(Arc::clone(&settings), producer_expiry);
                    if let Some(partition) = topic.partition(cell.name.partition) {
                        cell.throttle(&partition.isr);
                    }
                }
            }
        }
    }

    /// Has a replica ask its leader, if it follows one that can be reached.
    pub(crate) fn follow(&self, image: &Image, cell: &PartitionCell, followers: &Arc<Followers>) {
        let partition = image.partition(cell.topic, cell.name.partition);
        let leader = partition.map(|partition| partition.leader).filter(|leader| *leader != self.node);
        let address = leader.and_then(|leader| Some((leader, image.broker(leader)?.cluster_address()?)));
        cell.follow(address.map(|(leader, at)| followers.of(leader, &at.address())));
    }

    /// Counts what became of the partitions that this node leads, and says which of them it should not have had to.
    pub(crate) fn count_changes(&self, image: &Image, delta: &Delta) {
        let (before, replication) = (self.image.load(), &self.metrics.replication);
        for (topic, index) in &delta.partitions_changed {
            let (before, after) = (before.partition(*topic, *index), image.partition(*topic, *index));
            let (Some(before), Some(after)) = (before, after) else { continue };
            if after.leader != self.node {
                continue;
            }
            if before.isr.iter().any(|id| !after.isr.contains(id)) {
                replication.isr_shrinks.inc();
            }
            if after.isr.iter().any(|id| !before.isr.contains(id)) {
                replication.isr_expands.inc();
            }
        }
        elections::tell(By::Leader(self.node), image, delta, replication);
    }

    /// Shows how much there is.
    pub(crate) fn count(&self, image: &Image) {
        let state = &self.metrics.state;
        state.topics.set(image.topic_count() as u64);
        state.partitions.set(self.table.len() as u64);
    }

    /// Renames a partition's directory out of the way, so that a topic of the same name can be made.
    fn discard(&self, dir: &LogDirectory, name: &TopicPartition) {
        if dir.is_retired() {
            return;
        }
        if let Some(aside) = dir.mark(|marks| marks.set_aside(name, Uuid::from_random(random()))) {
            info!(partition = %name, "partition deleted");
            dir.discard(aside);
        }
    }
}
