//! Logs of which the last of each key is kept, and one of which that cannot be.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use base::{PartitionIndex, TimestampMs, TopicId};
use controller::{Command, CreateTopics, Reply};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch};

use super::{Life, Site, log_file};
use crate::compaction::{Ended, SetAside};
use crate::housekeeping::{CompactionLimits, Housekeeping};
use crate::log_dir::DiskReserve;

/// Behind the header of the first batch.
const FIRST_RECORD: u64 = 61;

impl Life {
    /// A topic whose records are compacted as soon as they are on media.
    fn create_compacted(&self, name: &str) -> TopicId {
        let Command::CreateTopics(CreateTopics { mut topics, .. }) = self.new_topic(name, 1) else {
            panic!("it makes topics")
        };
        let set = [("cleanup.policy", "compact"), ("max.compaction.lag.ms", "1")];
        topics[0].configs = set.map(|(name, value)| (name.to_owned(), Some(value.to_owned()))).into();
        match self.decide(Command::CreateTopics(CreateTopics { topics, validate_only: false })) {
            Reply::CreateTopics(mut outcomes) => outcomes.pop().unwrap().unwrap().id,
            other => panic!("{other:?}"),
        }
    }

    fn put(&self, topic: TopicId, key: &str, value: &str) {
        let mut builder = BatchBuilder::new(1 << 20);
        builder.try_append(TimestampMs(1), Some(key.as_bytes()), Some(value.as_bytes()), &[]).unwrap();
        let (mut raw, mut scratch) = (Vec::new(), Scratch::default());
        builder.finish(&BatchOptions::default(), &mut scratch, &mut raw).unwrap();
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).unwrap();
        let cell = self.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
        let now = self.started.node.clock.now();
        cell.act(|partition, out| partition.append(now, &batch, false, out)).unwrap();
        disk::FlushJob::flush(cell.as_ref());
    }

    /// Where a log ends, and up to where it was compacted.
    fn end_and_clean(&self, topic: TopicId) -> (i64, i64) {
        let cell = self.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
        cell.with(|partition| (partition.log().end().0, partition.log().clean_upto().0))
    }

    /// The work of the one log directory.
    fn housekeeping(&self) -> Housekeeping {
        let node = &self.started.node;
        Housekeeping {
            table: Arc::clone(&node.partitions),
            dir: Arc::clone(&node.dirs[0]),
            image: Arc::clone(&node.image),
            retention_every: Duration::MAX,
            checkpoint_every: Duration::MAX,
            open_logs_max: usize::MAX,
            reserve: DiskReserve(None),
            compaction: CompactionLimits {
                map_bytes_max: 1 << 16,
                backoff: Duration::MAX,
                bytes_per_second_max: None,
            },
            clock: node.clock,
        }
    }
}

#[test]
fn what_is_written_anew_leaves_half_of_the_reserve() {
    let site = Site::new();
    let life = site.start_with(&["d"], &[("log.cleaner.backoff.ms", "3600000")]);
    let topic = life.create_compacted("a");
    let value = "x".repeat(700_000);
    for key in ["1", "2", "3", "4", "4"] {
        life.put(topic, key, &value);
    }
    life.checkpoint();

    let cramped = Housekeeping { reserve: DiskReserve(Some(u64::MAX)), ..life.housekeeping() };
    let (mut aside, (_goes_on, stop)) = (SetAside::default(), mpsc::channel());
    assert!(!cramped.compact_dirtiest(&mut aside, &stop), "it is not even tried");
    assert_eq!(life.end_and_clean(topic), (5, 0));

    // While dirty records are read there is room still, and none any more while they are written.
    let (housekeeping, looks) = (life.housekeeping(), Cell::new(0));
    let has_room = || looks.replace(looks.get() + 1) < 4;
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    let ended = housekeeping.compact(&cell, &stop, &has_room).unwrap();
    assert!(matches!(ended, Ended::NoRoom), "{ended:?}");
    let mut names = std::fs::read_dir(life.dir_of(topic, 0)).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().contains("cleaned")), "what it took is given back");
    assert_eq!((life.end_and_clean(topic), life.offline()), ((5, 0), 0));

    while housekeeping.compact_dirtiest(&mut aside, &stop) {}
    assert_eq!(life.end_and_clean(topic), (5, 5), "with room it is compacted");
    life.stop();
}

#[test]
fn a_log_that_cannot_be_compacted_is_set_aside_and_the_others_are_compacted() {
    let site = Site::new();
    // The node's own thread sleeps: the story says when there is time for it.
    let life = site.start_with(&["d"], &[("log.cleaner.backoff.ms", "3600000")]);
    let topics = ["a", "b", "c"].map(|name| life.create_compacted(name));
    for topic in topics {
        ["1", "2", "3"].iter().for_each(|value| life.put(topic, "key", value));
    }
    life.checkpoint();
    let of_b = OpenOptions::new().write(true).open(log_file(&life.dir_of(topics[1], 0))).unwrap();
    of_b.write_all_at(&[0xff], FIRST_RECORD).unwrap();

    let housekeeping = life.housekeeping();
    let (mut aside, (_goes_on, stop)) = (SetAside::default(), mpsc::channel());
    for round in [1, 2] {
        while housekeeping.compact_dirtiest(&mut aside, &stop) {}
        assert_eq!(topics.map(|topic| life.end_and_clean(topic)), [(3, 3), (3, 0), (3, 3)]);
        assert_eq!(housekeeping.dir.metrics.compaction.failures.get(), 1, "round {round}");
        assert_eq!(housekeeping.dir.compaction.aside.load(Ordering::Relaxed), 1);
        assert_eq!(life.offline(), 0, "it is served as before");
    }
    for (topic, wanted) in topics.into_iter().zip([(4, 4), (4, 0), (4, 4)]) {
        life.put(topic, "key", "4");
        life.checkpoint();
        while housekeeping.compact_dirtiest(&mut aside, &stop) {}
        assert_eq!(life.end_and_clean(topic), wanted);
    }
    life.stop();
}
