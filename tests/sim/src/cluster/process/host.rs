//! Makes, opens, assigns and removes logs, as the metadata say.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Now, Offset, TopicPartition, Uuid};
use broker::directories::{begins_anew, place};
use broker::host::HostedPartition;
use broker::partition::{assignment, flush_policy, log_settings, partition_settings};
use controller::{AssignReplicasToDirs, Command};
use metadata::settings::TopicSettings;
use metadata::{ConfigResource, Delta, Partition, Topic};
use replica::PartitionSettings;
use storage::dirs::locate::Place;
use storage::disk::DiskError;
use storage::layout::stray_dir_name;
use storage::{Known, Log, LogSettings, OpenError};

use super::cell::Cell;
use super::command::Asker;
use super::home::Home;
use super::{Act, PartitionKey, Process};
use crate::cluster::plant::Plant;

/// A partition of this node that has no log which could be served.
pub(super) struct Offline {
    name: TopicPartition,
    /// The directory that its log is in, or should be in.
    pub(super) home: Option<usize>,
    /// Whether it is in there.
    has_log: bool,
    /// Whether it has no log yet, and one can be made.
    is_unmade: bool,
    /// Whether it had a log that is nowhere now, or is of no use.
    is_gone: bool,
}

/// Logs that are there and take no records yet: first it has to be written down where they are.
#[derive(Default)]
pub(crate) struct Placing {
    waiting: BTreeMap<PartitionKey, Arc<Cell>>,
    asked: Vec<PartitionKey>,
    retry_at: std::time::Duration,
}

impl Process {
    /// The metadata are something else: what it knows of the cluster, and of itself in it.
    pub(super) fn on_image(&mut self, now: Now) {
        self.image = Arc::new(self.controller.image().clone());
        let mine = self.image.broker(self.id).map(|broker| broker.epoch);
        let sees_itself = self.epoch.is_some() && mine == self.epoch;
        if (sees_itself || self.plant == Some(Plant::ActsTooSoon)) && !self.is_acting {
            self.is_acting = true;
            self.say("acts on the metadata".to_owned());
            let topics: Vec<Arc<Topic>> = self.image.topics().cloned().collect();
            for topic in topics {
                topic.partitions().iter().for_each(|partition| self.host(now, &topic, partition, true));
            }
            self.give_up_lost(now);
        }
        if let Some(lifecycle) = &mut self.lifecycle {
            lifecycle.on_image(now, &self.image);
            if self.is_acting {
                lifecycle.on_logs_open(now);
            }
        }
    }

    /// Something changed in the cluster.
    pub(super) fn on_changed(&mut self, now: Now, delta: &Delta) {
        let was_acting = self.is_acting;
        self.on_image(now);
        if !was_acting {
            return;
        }
        // Before another of the name is made: the directories have the same names, too.
        for id in delta.topics_deleted.keys() {
            let gone: Vec<_> = self.cells.keys().filter(|(topic, _)| topic == id).copied().collect();
            gone.into_iter().for_each(|key| self.discard(now, key));
            let gone: Vec<_> = self.offline.keys().filter(|(topic, _)| topic == id).copied().collect();
            gone.into_iter().for_each(|key| self.discard_offline(now, key));
        }
        for topic in delta
            .topics_created
            .iter()
            .filter_map(|id| self.image.topic_by_id(*id))
            .cloned()
            .collect::<Vec<_>>()
        {
            topic.partitions().iter().for_each(|partition| self.host(now, &topic, partition, false));
        }
        for key in delta.partitions_added.iter().chain(&delta.partitions_changed) {
            let topic = self.image.topic_by_id(key.0).cloned();
            if let Some(topic) = topic
                && let Some(partition) = topic.partition(key.1)
            {
                self.host(now, &topic, partition, false);
            }
        }
        self.begin_anew(now);
        self.reconfigure(delta);
    }

    /// Begins empty logs in the place of those that are nowhere, where others lead by now.
    fn begin_anew(&mut self, now: Now) {
        let gone = self.offline.iter().filter(|(_, offline)| offline.is_gone).map(|(key, _)| *key);
        let damaged = self.cells.values().filter(|cell| cell.is_damaged()).map(|cell| cell.key);
        let gone: Vec<PartitionKey> = gone.chain(damaged).collect();
        let ids = self.directory_ids();
        for key in gone {
            let Some(topic) = self.image.topic_by_id(key.0).cloned() else { continue };
            let Some(partition) = topic.partition(key.1) else { continue };
            if begins_anew(self.id, &self.image, partition, &ids) {
                self.let_go(key);
                self.open(now, &topic, partition, false);
            }
        }
    }

    /// A replica whose records were found damaged is served no more.
    fn let_go(&mut self, key: PartitionKey) {
        if let Some(cell) = self.cells.remove(&key) {
            self.say(format!("begins {} anew", cell.name));
            self.acts.push_back(Act::BeginAnew(key));
            self.doors.remove(key);
            self.placing.waiting.remove(&key);
            self.unfollow(key);
            self.flushes.remove(&key);
        }
    }

    fn directory_ids(&self) -> Vec<Uuid> {
        self.homes.iter().map(|home| home.dir.id()).collect()
    }

    /// Has one partition be here what the metadata say. `is_start` is whether logs are looked for where they
    /// were.
    fn host(&mut self, now: Now, topic: &Topic, partition: &Partition, is_start: bool) {
        let key = (topic.id, partition.index);
        let is_replica = partition.replicas.contains(&self.id);
        let Some(cell) = self.cells.get(&key).cloned() else {
            return match is_replica {
                true if self.offline.get(&key).is_none_or(|offline| offline.is_unmade) => {
                    self.open(now, topic, partition, is_start);
                }
                true => {}
                false => self.discard_offline(now, key),
            };
        };
        if !is_replica {
            return self.discard(now, key);
        }
        let is_deposed = partition.leader != self.id && cell.with(|partition| partition.is_leader());
        if self.plant == Some(Plant::LeadershipKept) && is_deposed {
            return;
        }
        cell.act(|it, out| it.assign(now, &assignment(partition), out));
    }

    fn open(&mut self, now: Now, topic: &Topic, partition: &Partition, is_start: bool) {
        let key = (topic.id, partition.index);
        let name = TopicPartition { topic: topic.name.clone(), partition: partition.index };
        let settings = Arc::new(self.topic_settings(topic));
        let image = Arc::clone(&self.image);
        let place = match is_start {
            true => {
                let (ids, named) = (self.directory_ids(), self.named(&name));
                place(self.id, &image, (topic.id, partition), &ids, &named, || settings.cleanup.compact)
            }
            false => Some(Place::Make),
        };
        let (at, opened) = match place {
            Some(Place::Open(at)) => {
                let is_lost = partition.directory_of(self.id) == Some(Partition::DIRECTORY_LOST);
                (at, self.open_log(now, at, &name, (&settings, is_lost)))
            }
            Some(Place::Make) => {
                let at = self.home_for_new();
                (at, self.make_log(now, at, topic, &name, &settings).map_err(OpenError::Disk))
            }
            Some(Place::Offline(lost)) => {
                self.say(format!("{name} is offline: {lost:?}"));
                let (home, is_gone) = (lost.at(), lost.is_nowhere());
                self.offline.insert(key, Offline { name, home, has_log: false, is_unmade: false, is_gone });
                return;
            }
            None => return,
        };
        let (log, high_watermark) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.say(format!("{name} is offline: {why}"));
                if let OpenError::Disk(why) = &why {
                    self.on_disk_error(now, at, why);
                }
                let has_log = place != Some(Place::Make);
                let home = has_log.then_some(at);
                let is_new = partition.directory_of(self.id) == Some(Partition::DIRECTORY_UNASSIGNED);
                let was_given_up = partition.directory_of(self.id) == Some(Partition::DIRECTORY_LOST);
                let is_useless = has_log && partition.replicas.len() > 1 && why.is_for_good(was_given_up);
                let (is_unmade, is_gone) = (!has_log && is_new, (!has_log && !is_new) || is_useless);
                self.offline.insert(key, Offline { name, home, has_log, is_unmade, is_gone });
                return;
            }
        };
        self.offline.remove(&key);
        let high_watermark =
            if self.plant == Some(Plant::CommittedToTheEnd) { log.end() } else { high_watermark };
        let epochs: Vec<_> = log.epochs().map(|(epoch, start)| (epoch.0, start.0)).collect();
        let (from, upto) = (log.start(), log.end());
        self.say(format!("opens {name} {from}..{upto}, committed to {high_watermark}, epochs {epochs:?}"));
        let own = self.partition_settings(&settings);
        let opened = replica::Partition::open(self.id, log, high_watermark, own);
        let cell = Cell::new((key, name, at), opened, settings, &self.outbox);
        self.cells.insert(key, Arc::clone(&cell));
        if self.homes[at].has_failed {
            // It was given up while its logs were opened, and told those that there were.
            cell.retire();
        }
        if partition.directory_of(self.id) == Some(self.homes[at].dir.id()) {
            self.doors.serve(Arc::clone(&cell));
        } else {
            self.placing.waiting.insert(key, Arc::clone(&cell));
        }
        cell.act(|it, out| it.assign(now, &assignment(partition), out));
    }

    /// The log of a partition in one of the directories, and up to where it is known to be committed.
    fn open_log(
        &mut self,
        now: Now,
        at: usize,
        name: &TopicPartition,
        (settings, is_lost): (&TopicSettings, bool),
    ) -> Result<(Log, Offset), OpenError> {
        let log_settings = tiny(log_settings(settings, self.settings.producer_id_expiration));
        let home = &mut self.homes[at];
        let is_lax = !flush_policy(settings).counts_durable();
        home.dir.note_lax(is_lax.then(|| name.clone())).map_err(OpenError::Disk)?;
        let (recovery_point, log_start, high_watermark) = home.noted(name);
        let clean = home.was_clean.is_some();
        let known = Known { recovery_point, log_start, clean, adopted: false };
        let dir = home.partition_dir(name);
        let (mut log, _) = Log::open(Arc::clone(&self.disk), dir, log_settings, known, now)?;
        if is_lost {
            // It was given up before, maybe for damage that a start does not look for.
            log.check_whole()?;
        }
        let clean_offsets = &home.dir.checkpoints().clean_offsets;
        log.set_clean_upto(clean_offsets.get(name).copied().unwrap_or(Offset::ZERO));
        let start = log.start();
        Ok((log, high_watermark.unwrap_or(start)))
    }

    /// A new log in one of the directories.
    fn make_log(
        &mut self,
        now: Now,
        at: usize,
        topic: &Topic,
        name: &TopicPartition,
        settings: &TopicSettings,
    ) -> Result<(Log, Offset), DiskError> {
        let log_settings = tiny(log_settings(settings, self.settings.producer_id_expiration));
        let unique = Uuid::from_random(broker::host::Host::random(&*self.doors));
        let home = &mut self.homes[at];
        let path = home.partition_dir(name);
        if self.disk.list(&path).is_ok() {
            make_way(home, name, unique)?;
        }
        let is_lax = !flush_policy(settings).counts_durable();
        home.dir.forget([name.clone()])?;
        home.dir.note_lax(is_lax.then(|| name.clone()))?;
        Ok((Log::create(Arc::clone(&self.disk), path, topic.id, log_settings, now)?, Offset::ZERO))
    }

    pub(super) fn partition_settings(&self, settings: &TopicSettings) -> PartitionSettings {
        let own = partition_settings(settings);
        match self.plant {
            Some(Plant::CacheCounts) => PartitionSettings { policy: replica::FlushPolicy::Os, ..own },
            Some(Plant::MinIsrIgnored) => PartitionSettings { isr_min: 1, ..own },
            _ => own,
        }
    }

    fn discard(&mut self, now: Now, key: PartitionKey) {
        let Some(cell) = self.cells.remove(&key) else { return };
        self.say(format!("discards {}", cell.name));
        self.doors.remove(key);
        self.placing.waiting.remove(&key);
        self.unfollow(key);
        cell.retire();
        self.flushes.remove(&key);
        self.set_aside(now, cell.home, &cell.name);
    }

    /// A partition is none of this node's any more, and could not be served.
    fn discard_offline(&mut self, now: Now, key: PartitionKey) {
        if let Some(Offline { name, home: Some(home), has_log: true, .. }) = self.offline.remove(&key) {
            self.set_aside(now, home, &name);
        }
    }

    fn set_aside(&mut self, now: Now, home: usize, name: &TopicPartition) {
        let unique = Uuid::from_random(broker::host::Host::random(&*self.doors));
        self.homes[home].found.remove(name);
        if !self.homes[home].has_failed
            && let Err(why) = self.homes[home].dir.set_aside(name, unique)
        {
            self.on_disk_error(now, home, &why);
        }
    }

    fn reconfigure(&mut self, delta: &Delta) {
        for resource in &delta.configs_changed {
            let ConfigResource::Topic(name) = resource else { continue };
            let Some(topic) = self.image.topic(name.as_str()).cloned() else { continue };
            let settings = Arc::new(self.topic_settings(&topic));
            let own = self.partition_settings(&settings);
            let log = tiny(log_settings(&settings, self.settings.producer_id_expiration));
            let is_lax = !flush_policy(&settings).counts_durable();
            let cells =
                self.cells.values().filter(|cell| cell.key.0 == topic.id && *cell.settings() != *settings);
            for cell in cells {
                // Before it counts what is not on the disk; where that cannot be noted, it goes on as it was.
                let noted = is_lax.then(|| cell.name.clone());
                let is_noted = self.homes[cell.home].dir.note_lax(noted).is_ok();
                let own = if is_noted {
                    own
                } else {
                    PartitionSettings { policy: replica::FlushPolicy::Ack, ..own }
                };
                cell.set_settings(Arc::clone(&settings));
                cell.act(|it, out| it.reconfigure(log.clone(), own, out));
            }
        }
    }

    /// Has it written down where new logs are, one command at a time.
    pub(super) fn place(&mut self, now: Now) {
        let due = self.placing.asked.is_empty() && now.elapsed >= self.placing.retry_at;
        let Some(epoch) = self.epoch.filter(|_| due && !self.placing.waiting.is_empty()) else { return };
        self.placing.asked = self.placing.waiting.keys().copied().collect();
        let whereabouts =
            |(key, cell): (&PartitionKey, &Arc<Cell>)| (key.0, key.1, self.homes[cell.home].dir.id());
        let replicas = self.placing.waiting.iter().map(whereabouts).collect();
        let command = AssignReplicasToDirs { broker: self.id, epoch, replicas };
        self.give(now, Asker::Placing, &Command::AssignReplicasToDirs(command));
    }

    /// It was written down where new logs are, or nobody knows.
    pub(super) fn on_placed(&mut self, now: Now, is_done: bool) {
        for key in std::mem::take(&mut self.placing.asked) {
            if is_done && let Some(cell) = self.placing.waiting.remove(&key) {
                self.doors.serve(cell);
                self.follow_on(now, key);
            }
        }
        if !is_done {
            self.placing.retry_at = now.elapsed + self.times.retry_after;
        }
    }

    pub(super) fn placing_deadline(&self) -> Option<std::time::Duration> {
        let waits = !self.placing.waiting.is_empty() && self.placing.asked.is_empty() && self.epoch.is_some();
        waits.then_some(self.placing.retry_at)
    }
}

/// Moves what lies there under a name out of the way.
fn make_way(home: &Home, name: &TopicPartition, unique: Uuid) -> Result<(), DiskError> {
    let (disk, aside) = (home.dir.disk(), stray_dir_name(name, unique));
    disk.rename(&home.partition_dir(name), &home.path.join(aside))?;
    disk.sync_dir(&home.path)
}

/// Small enough for a short run to see every edge.
fn tiny(settings: LogSettings) -> LogSettings {
    LogSettings { segment_bytes: 8192, index_interval_bytes: 256, index_bytes_max: 64 * 12, ..settings }
}
