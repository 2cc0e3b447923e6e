//! Torn ends are cut, damage is not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Offset, TimestampMs};
use records::{BatchBuilder, BatchOptions, Scratch, StoredBatch, batches};
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, run};
use crate::files;
use crate::open::{self, Found};
use crate::{METADATA_TOPIC, OpenError};

const MARKS: [&str; 4] = ["a", "b", "c", "d"];

fn dir() -> PathBuf {
    Path::new("data").join(format!("{METADATA_TOPIC}-0"))
}

fn log_file() -> PathBuf {
    dir().join("00000000000000000000.log")
}

fn bytes_of(disk: &MemoryDisk) -> Vec<u8> {
    disk.contents(&log_file()).expect("there is a log")
}

/// The disk of a node that was alone, killed before it noted what was durable.
async fn killed(marks: &[&str]) -> MemoryDisk {
    let mut cluster = Cluster::of([1]).await;
    for mark in marks {
        cluster.commit(mark).await;
    }
    let disk = cluster.kill(1).await;
    files::write_durable(&disk, &dir(), Offset::ZERO).expect("a disk in memory");
    files::write_committed(&disk, &dir(), Offset::ZERO).expect("a disk in memory");
    disk
}

fn open(disk: &MemoryDisk) -> Result<Found, OpenError> {
    open::open(Arc::new(disk.clone()), Path::new("data"), 1)
}

fn all(bytes: &[u8]) -> Vec<StoredBatch<'_>> {
    batches(bytes).map(|batch| batch.expect("nothing is damaged")).collect()
}

/// Where each batch of the log file ends.
fn batch_ends(bytes: &[u8]) -> Vec<usize> {
    let ends = all(bytes).into_iter().scan(0, |end, batch| {
        *end += batch.bytes().len();
        Some(*end)
    });
    ends.collect()
}

#[test]
fn a_torn_end_is_cut_wherever_it_is_torn() {
    run(async {
        let disk = killed(&MARKS).await;
        let bytes = bytes_of(&disk);
        let ends = batch_ends(&bytes);
        let last = ends[ends.len() - 2];
        let expected = all(&bytes)[ends.len() - 2].next_offset();
        for len in last + 1..bytes.len() {
            let torn = disk.copy();
            torn.put(&log_file(), bytes[..len].to_vec());
            let found = open(&torn).unwrap_or_else(|error| panic!("cut at {len}: {error}"));
            assert_eq!(found.memory.end(), expected, "cut at {len}");
        }
        // A page of the last batch that never reached the media, with or without what is behind it.
        for zeroed in [last..bytes.len(), last..last + 20, bytes.len() - 10..bytes.len()] {
            let torn = disk.copy();
            let mut holed = bytes.clone();
            holed[zeroed].fill(0);
            torn.put(&log_file(), holed);
            let mut cluster = Cluster::empty([1]);
            cluster.start(1, torn).await.expect("it was never durable");
            cluster.commit("after").await;
            assert_eq!(cluster.node(1).heard.marks(), ["a", "b", "c", "after"]);
            let again = cluster.kill(1).await;
            cluster.start(1, again).await.expect("it is whole again");
            cluster.commit("more").await;
            assert_eq!(cluster.node(1).heard.marks(), ["a", "b", "c", "after", "more"]);
            cluster.kill(1).await;
        }
    });
}

#[test]
fn damage_that_is_not_at_the_end_is_no_torn_end() {
    run(async {
        let disk = killed(&MARKS).await;
        let bytes = bytes_of(&disk);
        let ends = batch_ends(&bytes);
        for (at, &end) in ends[..ends.len() - 1].iter().enumerate() {
            let start = if at == 0 { 0 } else { ends[at - 1] };
            for position in [start + 8, start + 20, start + 60, end - 1] {
                let rotten = disk.copy();
                let mut flipped = bytes.clone();
                flipped[position] ^= 1;
                rotten.put(&log_file(), flipped.clone());
                let Err(refused) = open(&rotten) else { panic!("what follows byte {position} was durable") };
                let OpenError::Damaged { position: found, .. } = &refused else { panic!("{refused:?}") };
                assert_eq!(*found, start, "byte {position}");
                assert!(refused.to_string().contains("backup"), "{refused}");
                assert_eq!(bytes_of(&rotten), flipped, "nothing was changed");
            }
        }
    });
}

#[test]
fn after_an_orderly_stop_nothing_may_be_missing() {
    run(async {
        let mut cluster = Cluster::of([1]).await;
        for mark in MARKS {
            cluster.commit(mark).await;
        }
        let disk = cluster.stop(1).await;
        let bytes = bytes_of(&disk);
        let ends = batch_ends(&bytes);
        let shorter = disk.copy();
        shorter.put(&log_file(), bytes[..ends[ends.len() - 2]].to_vec());
        let refused = cluster.start(1, shorter).await;
        assert!(matches!(refused, Err(OpenError::Missing { .. })), "{refused:?}");
        let torn = disk.copy();
        torn.put(&log_file(), bytes[..bytes.len() - 1].to_vec());
        let refused = cluster.start(1, torn).await;
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    });
}

#[test]
fn a_record_of_another_release_is_not_passed_over() {
    run(async {
        let disk = killed(&["a"]).await;
        let mut bytes = bytes_of(&disk);
        let (base_offset, leader_epoch) = {
            let all = all(&bytes);
            let last = all.last().expect("there are some");
            (last.next_offset(), last.leader_epoch())
        };
        let mut batch = BatchBuilder::new(1 << 20);
        batch.try_append(TimestampMs(1), None, Some(&[1, 99, 0]), &[]).expect("it is small");
        let options = BatchOptions { base_offset, leader_epoch, ..BatchOptions::default() };
        batch.finish(&options, &mut Scratch::default(), &mut bytes).expect("it is small");
        disk.put(&log_file(), bytes);
        let mut cluster = Cluster::empty([1]);
        let refused = cluster.start(1, disk).await.expect_err("nobody knows what it does");
        assert!(refused.to_string().contains("a record of kind 99"), "{refused}");
    });
}

#[test]
fn a_first_start_that_was_cut_short_is_begun_again() {
    run(async {
        for operation in ["write", "sync", "rename", "open", "sync_dir"] {
            let disk = MemoryDisk::new();
            let mut cluster = Cluster::empty([1]);
            disk.fail(Some(operation));
            let failed = cluster.start(1, disk.clone()).await;
            disk.fail(None);
            if failed.is_ok() {
                cluster.stop(1).await;
            }
            let again = cluster.start(1, disk).await;
            again.unwrap_or_else(|error| panic!("{operation}: {error}"));
            cluster.commit("a").await;
            cluster.stop(1).await;
        }
    });
}
