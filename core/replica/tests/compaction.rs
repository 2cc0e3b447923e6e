//! Compaction of a replica, while others may lack what it has.

mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, LeaderEpoch, Now, TimestampMs, TopicId, Uuid};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch, batches};
use storage::memory::MemoryDisk;
use storage::{FlushScope, Log, LogSettings};
use vltava_replica::{Assignment, Effect, FlushPolicy, Partition};
use world::lead;

const MAP_BYTES: usize = 1 << 16;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

struct Story {
    partition: Partition,
    partition_epoch: i32,
    out: Effects<Effect>,
}

fn at(ms: i64) -> Now {
    Now::new(Duration::ZERO, TimestampMs(ms))
}

impl Story {
    /// A log of which each batch but the newest makes a segment of its own.
    fn new() -> Self {
        let (dir, topic) = (PathBuf::from("/data/events-0"), TopicId(Uuid([7; 16])));
        let settings = LogSettings {
            compacts: true,
            deletes: false,
            dirty_ppm_min: 0,
            segment_bytes: 300,
            ..LogSettings::tiny()
        };
        let log = Log::create(Arc::new(MemoryDisk::new()), dir, topic, settings, at(1)).expect("memory");
        Self { partition: lead(log, 0, FlushPolicy::Os), partition_epoch: 0, out: Effects::new() }
    }

    /// It leads two replicas, of which these are in sync.
    fn in_sync(&mut self, isr: &[i32]) {
        self.partition_epoch += 1;
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let assignment = Assignment {
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: self.partition_epoch,
            replicas: brokers(&[1, 2]),
            isr: brokers(isr),
            unclean_epoch: LeaderEpoch::NONE,
        };
        self.partition.assign(at(1), &assignment, &mut self.out);
    }

    fn put(&mut self, key: &str, value: Option<&[u8]>) {
        let mut builder = BatchBuilder::new(1 << 20);
        builder.try_append(TimestampMs(1), Some(key.as_bytes()), value, &[]).expect("it fits");
        let (mut raw, mut scratch) = (Vec::new(), Scratch::default());
        builder.finish(&BatchOptions::default(), &mut scratch, &mut raw).expect("it is small");
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).expect("a good batch");
        self.partition.append(at(1), &batch, true, &mut self.out).expect("memory");
    }

    /// Puts something else until all before it is in a segment that is closed, and compacts these.
    fn compact(&mut self, ms: i64) {
        self.put("other", Some(&[7; 200]));
        self.put("other", Some(&[7; 200]));
        let flush = self.partition.flush_plan(FlushScope::Checkpoint, &mut self.out).expect("something new");
        self.partition.on_flushed(flush.run(), &mut self.out);
        let plan = self.partition.compaction_plan(at(ms), MAP_BYTES, &mut self.out).expect("memory");
        let mut compaction = plan.expect("due");
        while let Some(rewritten) = compaction.next(&mut |_| true).expect("memory") {
            let swap = self.partition.on_rewritten(rewritten, &mut self.out).expect("memory").expect("uncut");
            assert!(self.partition.on_swapped(at(ms), swap.run(), &mut self.out).expect("memory"));
        }
        assert!(self.partition.on_compacted(&compaction.finish()));
    }

    /// Whether the records of a key have values.
    fn of(&self, key: &str) -> Vec<bool> {
        let log = self.partition.log();
        let (mut of, mut next) = (Vec::new(), log.start());
        while next < log.end() {
            let plan = log.plan_read(next, log.end(), 1 << 20, true).expect("in range");
            for slice in &plan.slices {
                let mut bytes = vec![0; slice.len as usize];
                slice.file.read_at(&mut bytes, slice.position).expect("memory");
                for batch in batches(&bytes).map(|batch| batch.expect("good")) {
                    let mut scratch = Scratch::default();
                    let records = batch.records(&mut scratch).expect("readable");
                    let records = records.map(|record| record.expect("readable"));
                    of.extend(
                        records.filter(|it| it.key == Some(key.as_bytes())).map(|it| it.value.is_some()),
                    );
                }
            }
            next = plan.next;
        }
        of
    }
}

#[test]
fn a_tombstone_stays_while_a_replica_may_lack_it() {
    let mut story = Story::new();
    story.in_sync(&[1]);
    story.put("a", Some(b"1"));
    story.put("a", None);
    story.compact(1000);
    assert_eq!(story.of("a"), [false], "the value is gone");
    story.compact(1000 + DAY_MS);
    assert_eq!(story.of("a"), [false], "a replica that comes back may have the value");
    story.in_sync(&[1, 2]);
    story.compact(1000 + DAY_MS);
    assert_eq!(story.of("a"), [] as [bool; 0]);
}
