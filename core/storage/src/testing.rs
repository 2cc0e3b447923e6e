//! What the tests of this crate share: batches, a log on a disk in memory, and reading it back.

pub(crate) mod power;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{LeaderEpoch, Now, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicId, Uuid};
use records::{
    BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, EndMarker, Producer, Scratch, StoredBatch, batches,
};

use crate::disk::Disk;
use crate::log::{AppendError, Appended, Log};
use crate::memory::MemoryDisk;
use crate::read::ReadPlan;
use crate::recovery::{Known, OpenError, Recovered};
use crate::settings::LogSettings;

pub(crate) const TOPIC: TopicId = TopicId(Uuid([7; 16]));
pub(crate) const DIR: &str = "/data/events-0";

pub(crate) fn now(ms: i64) -> Now {
    Now::new(Duration::from_millis(u64::try_from(ms).unwrap_or(0)), TimestampMs(ms))
}

/// A batch as a producer sends it: one record for each timestamp, values of `size` bytes.
pub(crate) fn batch(timestamps: &[i64], size: usize) -> Vec<u8> {
    batch_of(&BatchOptions::default(), timestamps, size)
}

pub(crate) fn batch_of(options: &BatchOptions, timestamps: &[i64], size: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 20);
    for &timestamp in timestamps {
        let value = vec![b'v'; size];
        builder.try_append(TimestampMs(timestamp), Some(b"k"), Some(&value), &[]).expect("fits");
    }
    let mut out = Vec::new();
    builder.finish(options, &mut Scratch::default(), &mut out).expect("fits");
    out
}

pub(crate) fn producer(id: i64, epoch: i16, sequence: i32) -> Producer {
    Producer { id: ProducerId(id), epoch: ProducerEpoch(epoch), base_sequence: Sequence(sequence) }
}

/// A batch of `count` records of an idempotent producer.
pub(crate) fn idempotent(of: Producer, count: usize) -> Vec<u8> {
    let options = BatchOptions { producer: of, ..BatchOptions::default() };
    batch_of(&options, &vec![1; count], 10)
}

/// A batch of `count` records of a transaction.
pub(crate) fn transactional(of: Producer, count: usize) -> Vec<u8> {
    let options = BatchOptions { producer: of, transactional: true, ..BatchOptions::default() };
    batch_of(&options, &vec![1; count], 10)
}

pub(crate) fn marker(id: i64, epoch: i16, commit: bool, coordinator_epoch: i32) -> Vec<u8> {
    let mut out = Vec::new();
    let marker = EndMarker { commit, coordinator_epoch };
    marker.write_batch((ProducerId(id), ProducerEpoch(epoch)), TimestampMs(1), &mut out);
    out
}

pub(crate) fn append_at(log: &mut Log, at: Now, raw: &[u8], epoch: i32) -> Result<Appended, AppendError> {
    let limits = BatchLimits { allow_control: true, ..BatchLimits::default() };
    let mut scratch = Scratch::default();
    let batch = CheckedBatch::check(raw, &limits, &mut scratch).expect("a good batch");
    log.append(at, &batch, LeaderEpoch(epoch))
}

pub(crate) fn append(log: &mut Log, raw: &[u8]) -> Appended {
    append_at(log, now(1), raw, 0).expect("appended")
}

pub(crate) fn create(disk: &MemoryDisk, settings: LogSettings) -> Log {
    Log::create(Arc::new(disk.clone()), PathBuf::from(DIR), TOPIC, settings, now(0)).expect("created")
}

pub(crate) fn unclean(recovery_point: Offset) -> Known {
    Known { recovery_point, log_start: Offset::ZERO, clean: false, adopted: false }
}

pub(crate) fn open(
    disk: &MemoryDisk,
    settings: LogSettings,
    known: Known,
) -> Result<(Log, Recovered), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(disk, PathBuf::from(DIR), settings, known, now(0))
}

/// The bytes of a plan.
pub(crate) fn read(plan: &ReadPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    for slice in &plan.slices {
        let mut part = vec![0; slice.len as usize];
        let count = slice.file.read_at(&mut part, slice.position).expect("memory");
        assert_eq!(count, part.len(), "a plan lies within its files");
        bytes.extend(part);
    }
    assert_eq!(bytes.len(), plan.bytes as usize);
    bytes
}

/// A stored batch, reduced to what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) base: i64,
    pub(crate) last: i64,
    pub(crate) epoch: i32,
    pub(crate) crc: u32,
    pub(crate) bytes: usize,
}

impl Stored {
    pub(crate) fn of(batch: &StoredBatch<'_>) -> Self {
        Self {
            base: batch.base_offset().0,
            last: batch.header().last_offset().0,
            epoch: batch.leader_epoch().0,
            crc: batch.header().crc,
            bytes: batch.bytes().len(),
        }
    }
}

pub(crate) fn stored(bytes: &[u8]) -> Vec<Stored> {
    let mut all = batches(bytes);
    let found = all.by_ref().map(|batch| Stored::of(&batch.expect("good"))).collect();
    assert!(all.rest().is_empty(), "whole batches");
    found
}

/// Everything that can be read from `from` on.
pub(crate) fn read_all(log: &Log, from: Offset) -> Vec<Stored> {
    let mut found = Vec::new();
    let mut next = from;
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 3000, true).expect("in range");
        found.extend(stored(&read(&plan)));
        assert!(plan.next > next, "a read goes on");
        next = plan.next;
    }
    found
}
