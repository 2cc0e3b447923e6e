//! A partition of a simulated process.
//!
//! What a step asks for is written down and done when the request that set it off is through: so an effect
//! never meets a step that has not ended.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Effects, Offset, PartitionIndex, TopicPartition};
use broker::host::{Effect, Hosted, HostedPartition};
use broker::parked::{WaiterId, Wake};
use coordinator::Count;
use metadata::settings::TopicSettings;
use replica::Partition;

use super::PartitionKey;

/// A partition of a process.
pub(crate) struct Cell {
    pub(crate) key: PartitionKey,
    pub(crate) name: TopicPartition,
    /// Which of the directories of its node it lies in.
    pub(crate) home: usize,
    state: Mutex<Hosted>,
    settings: Mutex<Arc<TopicSettings>>,
    outbox: Arc<Outbox>,
    /// Whether its records were found damaged.
    is_damaged: AtomicBool,
}

/// What the cells of a process want done.
#[derive(Default)]
pub(crate) struct Outbox {
    effects: Mutex<VecDeque<(PartitionKey, Effect)>>,
    /// Cells that were stepped.
    touched: Mutex<BTreeSet<PartitionKey>>,
    woken: Mutex<BTreeSet<WaiterId>>,
    /// Cells whose starts are to be written down.
    starts: Mutex<BTreeSet<PartitionKey>>,
    /// Shards whose partitions may be committed further.
    rung: Mutex<BTreeSet<PartitionIndex>>,
    /// What shards counted.
    counted: Mutex<Vec<(PartitionIndex, Count)>>,
}

impl Outbox {
    pub(crate) fn next_effect(&self) -> Option<(PartitionKey, Effect)> {
        lock(&self.effects).pop_front()
    }

    pub(crate) fn take_touched(&self) -> BTreeSet<PartitionKey> {
        std::mem::take(&mut lock(&self.touched))
    }

    pub(crate) fn take_woken(&self) -> BTreeSet<WaiterId> {
        std::mem::take(&mut lock(&self.woken))
    }

    pub(crate) fn next_start(&self) -> Option<PartitionKey> {
        lock(&self.starts).pop_first()
    }

    /// The bell of a shard rings: it is looked at once whatever rang it is through.
    pub(crate) fn ring(&self, shard: PartitionIndex) {
        lock(&self.rung).insert(shard);
    }

    pub(crate) fn next_rung(&self) -> Option<PartitionIndex> {
        lock(&self.rung).pop_first()
    }

    pub(crate) fn count(&self, shard: PartitionIndex, count: Count) {
        lock(&self.counted).push((shard, count));
    }

    pub(crate) fn take_counted(&self) -> Vec<(PartitionIndex, Count)> {
        std::mem::take(&mut lock(&self.counted))
    }
}

/// The bell of a connection.
pub(crate) struct Bell {
    pub(crate) id: WaiterId,
    pub(crate) outbox: Arc<Outbox>,
}

impl Wake for Bell {
    fn wake(&self) {
        lock(&self.outbox.woken).insert(self.id);
    }
}

impl Cell {
    pub(crate) fn new(
        (key, name, home): (PartitionKey, TopicPartition, usize),
        partition: Partition,
        settings: Arc<TopicSettings>,
        outbox: &Arc<Outbox>,
    ) -> Arc<Self> {
        let (state, settings) = (Mutex::new(Hosted::new(partition)), Mutex::new(settings));
        let (outbox, is_damaged) = (Arc::clone(outbox), AtomicBool::new(false));
        Arc::new(Self { key, name, home, state, settings, outbox, is_damaged })
    }

    /// Looks at the partition.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Partition) -> R) -> R {
        act(&mut lock(&self.state).partition)
    }

    /// A step of the partition.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut Partition, &mut Effects<replica::Effect>) -> R) -> R {
        let mut act = Some(act);
        let mut result = None;
        self.step(&mut |hosted, out| result = act.take().map(|act| hosted.with(out, act)));
        result.expect("a step runs its action")
    }

    pub(crate) fn set_settings(&self, settings: Arc<TopicSettings>) {
        *lock(&self.settings) = settings;
    }

    /// Its records were found damaged: it takes no more writes, and is to begin anew.
    pub(crate) fn on_damaged(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
        self.retire();
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Where its log starts is written down.
    pub(crate) fn on_start_saved(&self, start: Offset) {
        self.step(&mut |hosted, out| hosted.on_start_saved(start, out));
    }

    /// Takes no more writes; whoever waits is told.
    pub(crate) fn retire(&self) {
        self.step(&mut |hosted, out| {
            hosted.partition.retire();
            hosted.parked.gone(|waiter| out.push(Effect::Wake(waiter)));
        });
    }
}

impl HostedPartition for Cell {
    fn settings(&self) -> Arc<TopicSettings> {
        Arc::clone(&lock(&self.settings))
    }

    fn step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>)) {
        let mut effects = Effects::new();
        act(&mut lock(&self.state), &mut effects);
        lock(&self.outbox.touched).insert(self.key);
        let mut outbox = lock(&self.outbox.effects);
        for effect in effects.drain() {
            match effect {
                Effect::Wake(waiter) => waiter.bell.wake(),
                effect => outbox.push_back((self.key, effect)),
            }
        }
    }

    fn append_step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>)) {
        self.step(act);
    }

    fn has_room(&self) -> bool {
        true
    }

    fn save_start(&self) {
        lock(&self.outbox.starts).insert(self.key);
    }
}

/// What a replica looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) epoch: base::LeaderEpoch,
    pub(crate) leads: bool,
    pub(crate) start: Offset,
    pub(crate) stable: Offset,
    pub(crate) committed: Offset,
    pub(crate) durable: Offset,
    pub(crate) end: Offset,
    pub(crate) has_failed: bool,
}

impl View {
    pub(crate) fn of(partition: &Partition) -> Self {
        let log = partition.log();
        Self {
            epoch: partition.epoch(),
            leads: partition.is_leader(),
            start: log.start(),
            stable: partition.last_stable(),
            committed: partition.high_watermark(),
            durable: log.durable_end(),
            end: log.end(),
            has_failed: partition.is_failed(),
        }
    }
}

/// Nothing panics while it holds one of these.
pub(crate) fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
