//! A partition over a disk in memory. What a step asks of its caller is told in words.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{
    BrokerId, Effects, LeaderEpoch, Now, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicId,
    Uuid,
};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Producer, Scratch};
use storage::disk::{Disk, DiskError};
use storage::memory::MemoryDisk;
use storage::{Flush, FlushScope, Flushed, Known, Log, LogSettings};
use vltava_replica::{
    AppendError, Appended, Assignment, Effect, Fetch, FetchError, Fetched, FlushPolicy, OffsetSpec,
    Partition, PartitionSettings, Reader,
};

const TOPIC: TopicId = TopicId(Uuid([7; 16]));

pub(crate) struct World {
    pub(crate) partition: Partition,
    disk: Arc<MemoryDisk>,
}

/// A consumer's read from an offset.
pub(crate) fn fetch(from: i64) -> Fetch {
    Fetch {
        reader: Reader::Consumer,
        from: Offset(from),
        current_epoch: LeaderEpoch::NONE,
        last_epoch: LeaderEpoch::NONE,
        bytes_max: 1 << 20,
        at_least_one: true,
        committed_only: false,
        log_start: Offset::NONE,
        is_again: false,
    }
}

fn now(ms: u64) -> Now {
    Now::new(Duration::from_millis(ms), TimestampMs(1_000))
}

fn dir() -> PathBuf {
    PathBuf::from("events-0")
}

fn settings(policy: FlushPolicy) -> PartitionSettings {
    PartitionSettings { policy, isr_min: 1 }
}

/// The only replica, which leads.
pub(crate) fn lead(log: Log, epoch: i32, policy: FlushPolicy) -> Partition {
    let me = BrokerId(1);
    let mut partition = Partition::open(me, log, Offset::ZERO, settings(policy));
    let assignment = Assignment {
        leader: Some(me),
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: epoch,
        replicas: vec![me],
        isr: vec![me],
        unclean_epoch: LeaderEpoch::NONE,
    };
    partition.assign(now(0), &assignment, &mut Effects::new());
    partition
}

impl World {
    pub(crate) fn new(policy: FlushPolicy) -> Self {
        let disk = Arc::new(MemoryDisk::new());
        let log = Log::create(disk.clone() as Arc<dyn Disk>, dir(), TOPIC, LogSettings::default(), now(0));
        Self { partition: lead(log.unwrap(), 0, policy), disk }
    }

    /// The same log after a crash of the process, led in a later epoch.
    pub(crate) fn led_in(self, epoch: i32) -> Self {
        let policy = self.partition.settings().policy;
        let (recovery_point, log_start) = (Offset::ZERO, Offset::ZERO);
        let known = Known { recovery_point, log_start, clean: false, adopted: false };
        let disk = self.disk.clone() as Arc<dyn Disk>;
        let (log, _) = Log::open(disk, dir(), LogSettings::default(), known, now(0)).unwrap();
        Self { partition: lead(log, epoch, policy), disk: self.disk }
    }

    /// Runs a step; what it asked for.
    fn step<R>(&mut self, act: impl FnOnce(&mut Partition, &mut Effects<Effect>) -> R) -> (R, String) {
        let mut effects = Effects::new();
        let result = act(&mut self.partition, &mut effects);
        let words = effects.drain().filter_map(|effect| match effect {
            Effect::Flush => Some("flush".to_owned()),
            Effect::Committed(upto) => Some(format!("committed {upto}")),
            Effect::Retire(error) => Some(format!("retire: {error}")),
            Effect::Offline(error) => Some(format!("offline: {error}")),
            Effect::Refused(error) => Some(format!("refused: {error}")),
            Effect::Appended { .. } | Effect::FetchOn => None,
            other => Some(format!("{other:?}")),
        });
        (result, words.collect::<Vec<_>>().join(" "))
    }

    pub(crate) fn append(&mut self, timestamps: &[i64]) -> String {
        let (appended, words) = self.append_as(Producer::NONE, timestamps);
        appended.unwrap();
        words
    }

    pub(crate) fn try_append(&mut self, timestamps: &[i64]) -> Result<Appended, AppendError> {
        self.append_as(Producer::NONE, timestamps).0
    }

    pub(crate) fn try_append_as(
        &mut self,
        id: i64,
        sequence: i32,
        timestamps: &[i64],
    ) -> Result<Appended, AppendError> {
        let (id, epoch) = (ProducerId(id), ProducerEpoch(0));
        self.append_as(Producer { id, epoch, base_sequence: Sequence(sequence) }, timestamps).0
    }

    fn append_as(&mut self, producer: Producer, times: &[i64]) -> (Result<Appended, AppendError>, String) {
        let mut builder = BatchBuilder::new(1 << 20);
        for time in times {
            builder.try_append(TimestampMs(*time), None, Some(b"value"), &[]).unwrap();
        }
        let (mut scratch, mut raw) = (Scratch::default(), Vec::new());
        builder
            .finish(&BatchOptions { producer, ..BatchOptions::default() }, &mut scratch, &mut raw)
            .unwrap();
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).unwrap();
        self.step(|partition, out| partition.append(now(0), &batch, true, out))
    }

    pub(crate) fn plan(&mut self) -> Option<Flush> {
        self.plan_of(FlushScope::Records)
    }

    pub(crate) fn plan_of(&mut self, scope: FlushScope) -> Option<Flush> {
        self.step(|partition, out| partition.flush_plan(scope, out)).0
    }

    pub(crate) fn flushed(&mut self, result: Result<Flushed, DiskError>) -> String {
        self.step(|partition, out| partition.on_flushed(result, out)).1
    }

    /// Plans a flush, runs it, and brings it back.
    pub(crate) fn flush(&mut self) -> String {
        let flushed = self.plan().expect("there is something to flush").run();
        self.flushed(flushed)
    }

    pub(crate) fn flush_is_due(&self, ms: u64) -> bool {
        self.partition.flush_is_due(now(ms))
    }

    pub(crate) fn reconfigure(&mut self, policy: FlushPolicy) -> String {
        self.step(|partition, out| partition.reconfigure(LogSettings::default(), settings(policy), out)).1
    }

    pub(crate) fn delete_records(&mut self, upto: Option<Offset>) -> Result<Offset, FetchError> {
        self.step(|partition, out| partition.delete_records(upto, out)).0
    }

    pub(crate) fn try_read(&mut self, fetch: Fetch) -> Result<Fetched, FetchError> {
        self.step(|partition, out| partition.fetch(now(0), &fetch, out)).0
    }

    /// The offset behind the last record that a read gives (0 for none), and its bytes.
    pub(crate) fn read(&mut self, fetch: Fetch) -> (i64, u64) {
        let fetched = self.try_read(fetch).unwrap();
        let mut bytes = Vec::new();
        for slice in &fetched.slices {
            let mut part = vec![0; slice.len as usize];
            slice.file.read_at(&mut part, slice.position).unwrap();
            bytes.extend(part);
        }
        let last = records::batches(&bytes).last().map(|batch| batch.unwrap().header().last_offset().0 + 1);
        (last.unwrap_or(0), fetched.bytes())
    }

    pub(crate) fn offset_for(
        &mut self,
        spec: OffsetSpec,
        current_epoch: i32,
    ) -> Result<Option<(TimestampMs, Offset, LeaderEpoch)>, FetchError> {
        let epoch = LeaderEpoch(current_epoch);
        self.step(|partition, out| partition.offset_for(spec, epoch, false, out)).0
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.partition.high_watermark().0
    }

    pub(crate) fn log_end(&self) -> i64 {
        self.partition.log().end().0
    }
}
