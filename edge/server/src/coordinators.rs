//! The shards of the group coordinator on this node: those whose partitions of `__consumer_offsets` it leads.
//!
//! ```text
//!   hosting thread ── leads ──▶ a shard that loads ── loader: reads the log ──▶ answers
//!                └── leads no more ──▶ taken out, who waits is told
//!   connections ── ask ──▶ shard ── append ──▶ partition ── committed ──▶ bell ──▶ answers ──▶ connections
//!   timer ── deadline ──▶ shard
//! ```
//!
//! A shard is behind a lock of its own, which is held while its records are appended, so that they are in the log in
//! the order in which they were decided. Whoever holds it may take the partition's lock, never the other way round.
//!
//! **Invariant:** a shard that fails, or whose log cannot be read, is one shard less until its log is read anew, soon at
//! first and then once a minute; nobody else notices. A node that has
//! begun to stop takes none up.

mod cell;
mod lags;
mod load;
mod timer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{BrokerId, Map, PartitionIndex};
use broker::groups::OFFSETS_TOPIC;
use coordinator::ShardSettings;
use coordinator::assign::Assignor;
use coordinator::consumer::{ConsumerGroupSettings, MigrationPolicy};
use metadata::settings::GroupSettings;
use metadata::{Delta, Image};
use parking_lot::Mutex;
use telemetry::Metrics;
use tracing::error;

use crate::clock::Clock;
use crate::table::PartitionTable;

pub(crate) use cell::ShardCell;
pub(crate) use lags::Lags;
use timer::Timer;

/// See the module.
pub(crate) struct Coordinators {
    node: BrokerId,
    settings: ShardSettings,
    table: Arc<PartitionTable>,
    image: Arc<ArcSwap<Image>>,
    clock: Clock,
    metrics: Arc<Metrics>,
    /// Changes with `is_stopping` locked.
    shards: ArcSwap<Shards>,
    timer: Arc<Timer>,
    loads: mpsc::Sender<Arc<ShardCell>>,
    /// Those in the place of shards that failed more than once, and when they are to be loaded.
    later: Mutex<Vec<(Duration, Arc<ShardCell>)>>,
    is_stopping: Mutex<bool>,
    me: Weak<Self>,
}

type Shards = Map<PartitionIndex, Arc<ShardCell>>;

impl Coordinators {
    /// None is led. The other end gets what is to be loaded.
    pub(crate) fn new(
        node: BrokerId,
        settings: &GroupSettings,
        (table, image): (Arc<PartitionTable>, Arc<ArcSwap<Image>>),
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, mpsc::Receiver<Arc<ShardCell>>) {
        let (loads, to_load) = mpsc::channel();
        let coordinators = Arc::new_cyclic(|me| Self {
            node,
            settings: shard_settings(settings),
            table,
            image,
            clock,
            metrics,
            shards: ArcSwap::default(),
            timer: Arc::default(),
            loads,
            later: Mutex::default(),
            is_stopping: Mutex::new(false),
            me: me.clone(),
        });
        (coordinators, to_load)
    }

    /// The shard that is this partition.
    pub(crate) fn get(&self, partition: PartitionIndex) -> Option<Arc<ShardCell>> {
        self.shards.load().get(&partition).cloned()
    }

    /// All shards, in no order that means anything.
    pub(crate) fn all(&self) -> Vec<Arc<ShardCell>> {
        self.shards.load().values().cloned().collect()
    }

    /// Takes up the shards that this node leads from here on, and lets go of those that it leads no more.
    pub(crate) fn take_roles(&self, image: &Image) {
        let is_stopping = self.is_stopping.lock();
        if *is_stopping {
            return;
        }
        let (gone, new) = self.change_roles(image);
        drop(is_stopping);
        gone.iter().for_each(|shard| shard.unload());
        // If nobody loads any more, the node stops.
        new.into_iter().for_each(|shard| drop(self.loads.send(shard)));
    }

    /// Which shards are this node's no more, and which it has to load.
    fn change_roles(&self, image: &Image) -> (Vec<Arc<ShardCell>>, Vec<Arc<ShardCell>>) {
        let before = self.shards.load_full();
        let mut after = Shards::default();
        let mut new = Vec::new();
        let topic = image.topic(OFFSETS_TOPIC);
        let partitions =
            topic.into_iter().flat_map(|topic| topic.partitions().iter().map(|it| (topic.id, it)));
        for (topic, partition) in partitions.filter(|(_, it)| it.leader == self.node) {
            let Some(cell) = self.table.get(topic, partition.index) else { continue };
            let known = before.get(&partition.index).filter(|shard| {
                shard.epoch() == partition.leader_epoch && Arc::ptr_eq(shard.partition(), &cell)
            });
            let shard = known.cloned().unwrap_or_else(|| {
                let shard = ShardCell::new(self, (cell, partition.leader_epoch), 0);
                new.push(Arc::clone(&shard));
                shard
            });
            after.insert(partition.index, shard);
        }
        if new.is_empty() && after.len() == before.len() {
            return Default::default();
        }
        let is_kept = |index: &PartitionIndex, shard: &Arc<ShardCell>| {
            after.get(index).is_some_and(|kept: &Arc<ShardCell>| Arc::ptr_eq(kept, shard))
        };
        let gone = before.iter().filter(|(index, shard)| !is_kept(index, shard));
        let gone = gone.map(|(_, shard)| Arc::clone(shard)).collect();
        self.shards.store(Arc::new(after));
        (gone, new)
    }

    /// A shard was given up: another takes its place, unless the partition is not this node's any more.
    fn renew(&self, broken: &ShardCell) {
        let is_stopping = self.is_stopping.lock();
        let before = self.shards.load_full();
        let place = before.iter().find(|(_, shard)| std::ptr::eq(Arc::as_ptr(shard), broken));
        let Some((index, _)) = place.filter(|_| !*is_stopping) else { return };
        let (shard, due) = broken.successor(self);
        let mut after = Shards::clone(&before);
        after.insert(*index, Arc::clone(&shard));
        self.shards.store(Arc::new(after));
        if due <= self.clock.now().elapsed {
            return drop(self.loads.send(shard));
        }
        self.later.lock().push((due, shard));
        drop(is_stopping);
        self.timer.set(Some(due));
    }

    /// Reads the log of a shard although it may have been read.
    #[cfg(test)]
    pub(crate) fn load_again(&self, shard: Arc<ShardCell>) {
        let _ = self.loads.send(shard);
    }

    /// Topics are gone: so is how far groups came in them.
    pub(crate) fn forget_topics(&self, delta: &Delta) {
        if delta.topics_deleted.is_empty() {
            return;
        }
        let topics: Vec<_> = delta.topics_deleted.values().cloned().collect();
        self.all().iter().for_each(|shard| shard.forget_topics(&topics));
    }

    /// The node stops: who waits is told to look elsewhere, and no shard is taken up any more, whatever is decided
    /// until the end.
    pub(crate) fn stop(&self) {
        let mut is_stopping = self.is_stopping.lock();
        *is_stopping = true;
        let before = self.shards.swap(Arc::default());
        self.later.lock().clear();
        drop(is_stopping);
        before.values().for_each(|shard| shard.unload());
    }

    /// Steps shards when it is time, until the coordinators are gone. While it waits nothing is held by it: the log
    /// directories of a node that has stopped are free for the next.
    pub(crate) fn keep_time(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let (weak, timer, clock) = (Arc::downgrade(self), Arc::clone(&self.timer), self.clock);
        async move {
            loop {
                timer.due(clock).await;
                let Some(coordinators) = weak.upgrade() else { return };
                coordinators.tick();
            }
        }
    }

    fn tick(&self) {
        self.all().iter().for_each(|shard| shard.tick());
        let now = self.clock.now().elapsed;
        let mut later = self.later.lock();
        let due: Vec<_> = later.extract_if(.., |(due, _)| *due <= now).collect();
        self.timer.set(later.iter().map(|(due, _)| *due).min());
        drop(later);
        due.into_iter().for_each(|(_, shard)| drop(self.loads.send(shard)));
    }
}

/// Loads shards, one after the other, until nobody takes up any.
pub(crate) fn run_loads(to_load: &mpsc::Receiver<Arc<ShardCell>>) {
    while let Ok(shard) = to_load.recv() {
        // What is in one log keeps nobody from reading the others.
        if catch_unwind(AssertUnwindSafe(|| load::load(&shard))).is_err() {
            error!(
                partition = %shard.partition().name,
                "reading the groups of this partition failed, see above: its log is read anew"
            );
            shard.fail();
        }
    }
}

fn shard_settings(settings: &GroupSettings) -> ShardSettings {
    ShardSettings {
        initial_rebalance_delay_max: settings.initial_rebalance_delay_max,
        session_timeout_min: settings.session_timeout_min,
        session_timeout_max: settings.session_timeout_max,
        members_max: settings.members_max,
        offset_metadata_bytes_max: settings.offset_metadata_bytes_max,
        offsets_retention: settings.offsets_retention,
        offsets_retention_check_interval: settings.offsets_retention_check_interval,
        commit_timeout: settings.commit_timeout,
        disconnect_shortens_session: settings.disconnect_shortens_session,
        consumer: Arc::new(consumer_settings(settings)),
    }
}

/// What groups of the new protocol keep to.
fn consumer_settings(settings: &GroupSettings) -> ConsumerGroupSettings {
    let assignors = settings.consumer_assignors.iter().filter_map(|name| Assignor::from_name(name));
    ConsumerGroupSettings {
        size_max: settings.consumer_members_max,
        session_timeout: settings.consumer_session_timeout,
        session_timeout_range: settings.consumer_session_timeout_range.clone(),
        heartbeat_interval: settings.consumer_heartbeat_interval,
        heartbeat_interval_range: settings.consumer_heartbeat_interval_range.clone(),
        assignment_interval: settings.consumer_assignment_interval,
        assignment_interval_range: settings.consumer_assignment_interval_range.clone(),
        regex_refresh_interval: settings.consumer_regex_refresh_interval,
        assignors: assignors.collect(),
        migration: MigrationPolicy::from_name(&settings.consumer_migration_policy).unwrap_or_default(),
    }
}
