//! The doors of `broker::host`, as the requests of a simulated process see them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{Now, PartitionIndex, ProducerId, TimestampMs, TopicId};
use broker::fetch_session::FetchSessionRoom;
use broker::host::{Host, HostedPartition, HostedShard, LogDir};
use broker::replication::Throttle;

use super::PartitionKey;
use super::cell::{Cell, lock};
use super::shard_cell::ShardCell;

/// What lives in a process, as its requests see it.
pub(crate) struct Doors {
    served: Mutex<BTreeMap<PartitionKey, Arc<Cell>>>,
    /// The shards of the group coordinator.
    pub(super) shards: Mutex<BTreeMap<PartitionIndex, Arc<ShardCell>>>,
    /// The time, for whoever is not told it.
    pub(super) clock: Arc<Mutex<Now>>,
    /// Until when nobody else leads what is led here.
    pub(super) in_touch_until: Mutex<Duration>,
    ids: Mutex<VecDeque<Range<i64>>>,
    counter: Mutex<u64>,
    /// Tells this process from all others.
    salt: u64,
}

impl Doors {
    pub(crate) fn new(salt: u64) -> Self {
        let clock = Arc::new(Mutex::new(Now::new(Duration::ZERO, TimestampMs(0))));
        Self {
            served: Mutex::default(),
            shards: Mutex::default(),
            clock,
            in_touch_until: Mutex::default(),
            ids: Mutex::default(),
            counter: Mutex::new(0),
            salt,
        }
    }

    pub(crate) fn serve(&self, cell: Arc<Cell>) {
        lock(&self.served).insert(cell.key, cell);
    }

    pub(crate) fn remove(&self, key: PartitionKey) -> Option<Arc<Cell>> {
        lock(&self.served).remove(&key)
    }

    pub(crate) fn cell(&self, key: PartitionKey) -> Option<Arc<Cell>> {
        lock(&self.served).get(&key).cloned()
    }

    pub(crate) fn shard_cell(&self, partition: PartitionIndex) -> Option<Arc<ShardCell>> {
        lock(&self.shards).get(&partition).cloned()
    }

    pub(crate) fn shard_cells(&self) -> Vec<Arc<ShardCell>> {
        lock(&self.shards).values().cloned().collect()
    }

    fn count(&self) -> u64 {
        let mut counter = lock(&self.counter);
        *counter += 1;
        *counter
    }
}

impl FetchSessionRoom for Doors {
    fn begin(&self, _: usize) -> Option<i32> {
        i32::try_from(self.count()).ok()
    }

    fn begin_of_node(&self) -> i32 {
        i32::try_from(self.count()).unwrap_or(i32::MAX)
    }

    fn resize(&self, _: usize, _: usize) -> bool {
        true
    }

    fn end(&self, _: usize) {}
}

impl Host for Doors {
    fn shard(&self, partition: PartitionIndex) -> Option<Arc<dyn HostedShard>> {
        self.shard_cell(partition).map(|shard| shard as Arc<dyn HostedShard>)
    }

    fn shards(&self) -> Vec<Arc<dyn HostedShard>> {
        self.shard_cells().into_iter().map(|shard| shard as Arc<dyn HostedShard>).collect()
    }

    fn partition(&self, topic: TopicId, partition: PartitionIndex) -> Option<Arc<dyn HostedPartition>> {
        self.cell((topic, partition)).map(|cell| cell as Arc<dyn HostedPartition>)
    }

    fn is_offline(&self, topic: TopicId, partition: PartitionIndex) -> bool {
        self.cell((topic, partition)).is_none_or(|cell| cell.with(|partition| partition.is_failed()))
    }

    fn log_dirs(&self) -> Vec<LogDir> {
        Vec::new()
    }

    fn producer_id(&self) -> Option<ProducerId> {
        let mut blocks = lock(&self.ids);
        loop {
            let block = blocks.front_mut()?;
            match block.next() {
                Some(id) => return Some(ProducerId(id)),
                None => blocks.pop_front(),
            };
        }
    }

    fn add_producer_ids(&self, block: Range<i64>) {
        lock(&self.ids).push_back(block);
    }

    fn in_touch_until(&self) -> Duration {
        *lock(&self.in_touch_until)
    }

    fn fetch_sessions(&self) -> &dyn FetchSessionRoom {
        self
    }

    fn random(&self) -> u128 {
        u128::from(self.salt) << 64 | u128::from(self.count())
    }

    fn leader_throttle(&self, _act: &mut dyn FnMut(&mut Throttle)) {
        // Nobody limits replication in this world.
    }
}
