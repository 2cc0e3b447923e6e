//! The node: everything its connections share.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{PartitionIndex, ProducerId, TopicId};
use broker::call::{Answer, Context};
use broker::fetch_session::FetchSessionRoom;
use broker::host::{Host, HostedPartition, HostedShard, LogDir, LogDirReplica};
use broker::parked::WaiterId;
use broker::replication::Throttle;
use metadata::Image;
use metadata::settings::BrokerSettings;
use net::{FrameLimits, MemoryBudget, WriteLimits};
use parking_lot::Mutex;
use telemetry::{ApiMetrics, Metrics};
use wire::ApiKey;

use crate::clock::Clock;
use crate::complaints::Complaints;
use crate::control::Control;
use crate::coordinators::Coordinators;
use crate::log_dir::LogDirectory;
use crate::random::random;
use crate::suspects::Suspects;
use crate::table::PartitionTable;
use crate::throttles::Throttles;

/// One running node.
pub(crate) struct Node {
    pub(crate) settings: BrokerSettings,
    pub(crate) cluster_id: String,
    pub(crate) image: Arc<ArcSwap<Image>>,
    pub(crate) partitions: Arc<PartitionTable>,
    pub(crate) dirs: Vec<Arc<LogDirectory>>,
    /// Log directories that it goes without, since their disks fail.
    pub(crate) dirs_failing: Vec<PathBuf>,
    pub(crate) control: Control,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) frame_limits: FrameLimits,
    pub(crate) write_limits: WriteLimits,
    pub(crate) request_memory: MemoryBudget,
    pub(crate) answer_memory: MemoryBudget,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) fetch_sessions: FetchSessionSlots,
    pub(crate) throttles: Arc<Throttles>,
    pub(crate) coordinators: Arc<Coordinators>,
    pub(crate) waiters: AtomicU64,
    pub(crate) complaints: Complaints,
    /// Files that answers cannot be sent from without a look.
    pub(crate) suspects: Arc<Suspects>,
}

impl Node {
    /// Runs `act` with what a request may look at, as of now.
    pub(crate) fn in_context<R>(&self, act: impl FnOnce(Context<'_>) -> R) -> R {
        let image = self.image.load();
        act(Context {
            node: self.settings.node_id,
            cluster_id: &self.cluster_id,
            settings: &self.settings,
            image: &image,
            host: self,
            now: self.clock.now(),
        })
    }

    /// Counts a request that was read and worked on, with its size.
    pub(crate) fn count_request(&self, key: Option<ApiKey>, bytes: usize, took: Duration) {
        self.api(key).worked(took);
        self.metrics.network.bytes_in.add(bytes as u64 + 4);
    }

    /// Counts a request that could not be served at all.
    pub(crate) fn count_failure(&self, key: Option<ApiKey>) {
        self.api(key).failed.inc();
    }

    fn api(&self, key: Option<ApiKey>) -> &ApiMetrics {
        // A key that could not be read is counted as none that there is.
        self.metrics.requests.api(key.map_or(-1, ApiKey::code))
    }

    /// Counts an answer that is about to be sent.
    pub(crate) fn count_answer(&self, key: Option<ApiKey>, took: Duration, answer: &Answer) {
        for (code, times) in &answer.frame.errors {
            self.metrics.requests.error(*code, u64::from(*times));
        }
        let records: u64 = answer.slices.iter().map(|slice| u64::from(slice.len)).sum();
        self.metrics.network.bytes_out.add(answer.frame.bytes.len() as u64 + records);
        if records > 0 {
            self.metrics.fetch.parts.add(answer.frame.holes.len() as u64);
            self.metrics.fetch.bytes.add(records);
        }
        self.api(key).answered(took);
    }

    /// A number for a connection.
    pub(crate) fn next_waiter(&self) -> WaiterId {
        WaiterId(self.waiters.fetch_add(1, Ordering::Relaxed))
    }
}

impl Host for Node {
    fn shard(&self, partition: PartitionIndex) -> Option<Arc<dyn HostedShard>> {
        self.coordinators.get(partition).map(|shard| shard as Arc<dyn HostedShard>)
    }

    fn shards(&self) -> Vec<Arc<dyn HostedShard>> {
        self.coordinators.all().into_iter().map(|shard| shard as Arc<dyn HostedShard>).collect()
    }

    fn leader_throttle(&self, act: &mut dyn FnMut(&mut Throttle)) {
        if self.throttles.limits_leader() {
            act(&mut self.throttles.leader.lock());
        }
    }

    fn partition(&self, topic: TopicId, partition: PartitionIndex) -> Option<Arc<dyn HostedPartition>> {
        self.partitions.get(topic, partition).map(|cell| cell as Arc<dyn HostedPartition>)
    }

    fn is_offline(&self, topic: TopicId, partition: PartitionIndex) -> bool {
        self.partitions.get(topic, partition).is_none_or(|cell| cell.is_offline())
    }

    fn log_dirs(&self) -> Vec<LogDir> {
        let mut dirs: Vec<LogDir> = self.dirs.iter().map(|dir| dir.describe()).collect();
        for cell in self.partitions.all() {
            let (bytes, lag) = cell.with(|partition| (partition.log().size_bytes(), partition.lag()));
            if let Some(at) = self.dirs.iter().position(|dir| Arc::ptr_eq(dir, &cell.dir)) {
                dirs[at].replicas.push(LogDirReplica { name: cell.name.clone(), bytes, lag });
            }
        }
        dirs.extend(self.dirs_failing.iter().map(|path| LogDir {
            path: path.display().to_string(),
            failed: true,
            bytes_total: None,
            bytes_usable: None,
            replicas: Vec::new(),
        }));
        dirs
    }

    fn producer_id(&self) -> Option<ProducerId> {
        self.producer_ids.next()
    }

    fn add_producer_ids(&self, block: Range<i64>) {
        self.producer_ids.add(block);
    }

    fn random(&self) -> u128 {
        random()
    }

    fn in_touch_until(&self) -> Duration {
        self.control.in_touch_until()
    }

    fn fetch_sessions(&self) -> &dyn FetchSessionRoom {
        &self.fetch_sessions
    }
}

/// Producer ids that the controller gave to this broker.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds(Mutex<Range<i64>>);

impl ProducerIds {
    fn next(&self) -> Option<ProducerId> {
        self.0.lock().next().map(ProducerId)
    }

    fn add(&self, block: Range<i64>) {
        let mut left = self.0.lock();
        // Two requests may have asked at once; what is left of the first block is given up.
        if left.is_empty() {
            *left = block;
        }
    }
}

/// How many fetch sessions there are, with how many partitions, and the number of the next.
#[derive(Debug)]
pub(crate) struct FetchSessionSlots {
    used: AtomicUsize,
    max: usize,
    partitions_left: AtomicUsize,
    next: AtomicI32,
    metrics: Arc<Metrics>,
}

impl FetchSessionSlots {
    pub(crate) fn new(max: usize, partitions_max: usize, metrics: Arc<Metrics>) -> Self {
        let partitions_left = AtomicUsize::new(partitions_max);
        Self { used: AtomicUsize::new(0), max, partitions_left, next: AtomicI32::new(1), metrics }
    }
}

impl FetchSessionRoom for FetchSessionSlots {
    fn begin(&self, partitions: usize) -> Option<i32> {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| (used < self.max).then_some(used + 1));
        taken.ok()?;
        if !self.resize(0, partitions) {
            self.used.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.metrics.state.fetch_sessions.add(1);
        Some(self.begin_of_node())
    }

    fn begin_of_node(&self) -> i32 {
        // 0 means "no session", and a negative id is not one.
        let id = self.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        id.max(1)
    }

    fn resize(&self, before: usize, after: usize) -> bool {
        let resized = |left: usize| (left + before).checked_sub(after);
        self.partitions_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, resized).is_ok()
    }

    fn end(&self, partitions: usize) {
        self.used.fetch_sub(1, Ordering::Relaxed);
        self.partitions_left.fetch_add(partitions, Ordering::Relaxed);
        self.metrics.state.fetch_sessions.sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_room_for_so_many_and_for_so_many_partitions() {
        let metrics = Metrics::new(telemetry::Build { version: "" }, &[]);
        let slots = FetchSessionSlots::new(2, 100, Arc::clone(&metrics));
        let live = || metrics.state.fetch_sessions.get();
        let first = slots.begin(60).expect("there is room");
        assert_eq!(slots.begin(41), None, "too many partitions");
        assert!(slots.begin(40).is_some_and(|second| second != first));
        assert_eq!((slots.begin(0), live()), (None, 2), "too many sessions");
        assert!(!slots.resize(40, 41));
        slots.end(60);
        assert!(slots.resize(40, 100));
        slots.end(100);
        assert_eq!((slots.begin(100).is_some(), live()), (true, 1));
    }
}
