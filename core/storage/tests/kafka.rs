//! A log directory that Apache Kafka 4.3.1 wrote: opened as it is, after a clean stop and after a
//! crash; and tables built again are Kafka's, byte by byte.
//!
//! `golden` has small segments: 30 plain records, 6 transactions of 3 (every other one aborted), 20
//! records with each compression, and a transaction that was left open. `single` has one segment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{
    BrokerId, LeaderEpoch, Now, Offset, PartitionIndex, ProducerId, TimestampMs, TopicName, TopicPartition,
    Uuid,
};
use records::{Scratch, batches};
use vltava_storage::dirs::{LogDir, Owner};
use vltava_storage::disk::Disk;
use vltava_storage::layout::{FileKind, file_name};
use vltava_storage::memory::MemoryDisk;
use vltava_storage::{FlushScope, Known, Log, LogSettings, Recovered, parse_snapshot};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../tests/golden/logs/kafka-4.3.1/", $name))),)*]
    };
}

const FILES: &[(&str, &[u8])] = files![
    ".kafka_cleanshutdown",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "golden-0/00000000000000000000.index",
    "golden-0/00000000000000000000.log",
    "golden-0/00000000000000000000.timeindex",
    "golden-0/00000000000000000022.index",
    "golden-0/00000000000000000022.log",
    "golden-0/00000000000000000022.snapshot",
    "golden-0/00000000000000000022.timeindex",
    "golden-0/00000000000000000033.index",
    "golden-0/00000000000000000033.log",
    "golden-0/00000000000000000033.snapshot",
    "golden-0/00000000000000000033.timeindex",
    "golden-0/00000000000000000033.txnindex",
    "golden-0/00000000000000000135.snapshot",
    "golden-0/leader-epoch-checkpoint",
    "golden-0/partition.metadata",
    "single-0/00000000000000000000.index",
    "single-0/00000000000000000000.log",
    "single-0/00000000000000000000.timeindex",
    "single-0/00000000000000000050.snapshot",
    "single-0/leader-epoch-checkpoint",
    "single-0/partition.metadata",
];

const NOW: Now = Now::new(Duration::ZERO, TimestampMs(0));

fn disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    for dir in ["/kafka/golden-0", "/kafka/single-0"] {
        disk.create_dir(Path::new(dir)).expect("memory");
    }
    for (name, bytes) in FILES {
        disk.put(&Path::new("/kafka").join(name), bytes.to_vec());
    }
    disk
}

/// The settings the topics had.
fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 4096,
        index_interval_bytes: 256,
        retention_age: None,
        ..LogSettings::default()
    }
}

fn open(disk: &MemoryDisk, dir: &str, recovery_point: i64, clean: bool) -> (Log, Recovered) {
    let (recovery_point, log_start) = (Offset(recovery_point), Offset(0));
    let known = Known { recovery_point, log_start, clean, adopted: false };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(disk, Path::new("/kafka").join(dir), settings(), known, NOW).expect("Kafka's own files")
}

fn read(log: &Log) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = log.start();
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 1 << 20, true).expect("in range");
        for slice in &plan.slices {
            let mut part = vec![0; slice.len as usize];
            slice.file.read_at(&mut part, slice.position).expect("memory");
            bytes.extend(part);
        }
        next = plan.next;
    }
    bytes
}

fn golden(kind: FileKind, base: i64) -> PathBuf {
    Path::new("/kafka/golden-0").join(file_name(kind, Offset(base)))
}

fn check_golden(log: &mut Log) {
    log.on_high_watermark(log.end());
    assert_eq!((log.start(), log.end(), log.segments_count()), (Offset(0), Offset(135), 3));
    assert_eq!(log.topic_id().to_string().len(), 22);
    assert!(log.epochs().eq([(LeaderEpoch(0), Offset(0))]));
    let bytes = read(log);
    let mut scratch = Scratch::default();
    let mut values = 0;
    for batch in batches(&bytes) {
        let batch = batch.expect("good");
        if !batch.header().attributes.is_control() {
            values += batch.records(&mut scratch).expect("readable").filter(|r| r.is_ok()).count();
        }
    }
    assert_eq!(values, 30 + 6 * 3 + 4 * 20 + 1);
    let aborted = log.aborted_transactions(Offset(0), Offset(135)).expect("memory");
    let ranges: Vec<_> = aborted.iter().map(|t| (t.first_offset.0, t.last_offset.0)).collect();
    assert_eq!(ranges, [(30, 33), (38, 41), (46, 49)]);
    let open: Vec<_> = log.producers().filter_map(|p| Some((p.id, p.transaction_start?))).collect();
    assert_eq!(open, [(ProducerId(3), Offset(134))]);
    assert_eq!(log.last_stable_offset(Offset(135)), Offset(134));
    // From 33 on there is a marker with the time of day.
    for (timestamp, offset) in [(0, 0), (1005, 5), (1029, 29), (2000, 30), (2003, 33), (9000, 33)] {
        let found = log.offset_for_timestamp(TimestampMs(timestamp)).expect("memory").expect("later");
        assert_eq!(found.offset, Offset(offset), "{timestamp}");
    }
}

#[test]
fn the_directory_is_adopted() {
    let disk: Arc<dyn Disk> = Arc::new(disk());
    let owner = Owner { cluster_id: None, node_id: BrokerId(1), metadata_directory: None };
    let (dir, contents) = LogDir::open(disk, PathBuf::from("/kafka"), &owner, Uuid::ZERO).expect("Kafka's");
    let at = |topic: &str| TopicPartition {
        topic: TopicName::new(topic).expect("legal"),
        partition: PartitionIndex(0),
    };
    assert_eq!(contents.partitions, [at("golden"), at("single")]);
    assert!(dir.clean_shutdown().is_some());
    assert_eq!(dir.checkpoints().recovery_points[&at("golden")], Offset(135));
    assert!(!dir.id().is_zero());
}

#[test]
fn a_clean_stop_is_believed() {
    let disk = disk();
    let (mut log, recovered) = open(&disk, "golden-0", 135, true);
    assert!(recovered.clean && recovered.tables_rebuilt == 0);
    check_golden(&mut log);
    let (log, recovered) = open(&disk, "single-0", 50, true);
    assert!(recovered.clean);
    assert_eq!(log.end(), Offset(50));
}

#[test]
fn a_crash_is_mended() {
    for recovery_point in [0, 22, 33, 100] {
        let disk = disk();
        // A broker that was killed leaves tables made long in advance, and no snapshot of the end.
        for (kind, bytes) in [(FileKind::OffsetIndex, 10_485_760), (FileKind::TimeIndex, 10_485_756)] {
            let mut table = disk.contents(&golden(kind, 33)).expect("there");
            table.resize(bytes, 0);
            disk.put(&golden(kind, 33), table);
        }
        disk.remove_file(&golden(FileKind::Snapshot, 135)).expect("memory");
        let (mut log, recovered) = open(&disk, "golden-0", recovery_point, false);
        assert_eq!(recovered.cut, None);
        check_golden(&mut log);
        log.flush(FlushScope::Checkpoint).expect("memory");
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
            let name = format!("golden-0/{}", file_name(kind, Offset(33)));
            let kafka = FILES.iter().find(|(file, _)| *file == name).expect("a fixture").1;
            assert_eq!(disk.contents(&golden(kind, 33)).expect("there"), kafka, "{kind:?}");
        }
    }
}

#[test]
fn tables_and_snapshots_are_written_as_kafka_writes_them() {
    let disk = disk();
    let tables = [FileKind::OffsetIndex, FileKind::TimeIndex];
    for kind in tables {
        for base in [0, 22, 33] {
            disk.remove_file(&golden(kind, base)).expect("memory");
        }
    }
    for kind in [FileKind::Snapshot, FileKind::TxnIndex] {
        for base in [22, 33, 135] {
            disk.remove_file(&golden(kind, base)).expect("memory");
        }
    }
    let (mut log, recovered) = open(&disk, "golden-0", 33, false);
    assert_eq!(recovered.tables_rebuilt, 2);
    log.close().expect("memory");
    check_golden(&mut log);
    for (name, kafka) in FILES.iter().filter(|(name, _)| name.starts_with("golden-0/")) {
        let ours = disk.contents(&Path::new("/kafka").join(name));
        if name.ends_with("135.snapshot") {
            // Ours has up to five batches of a producer, of which Kafka takes the last.
            let last_of = |bytes: &[u8]| -> BTreeMap<_, _> {
                let entries = parse_snapshot(bytes).expect("a snapshot").into_iter();
                entries.map(|entry| (entry.producer_id, entry)).collect()
            };
            assert_eq!(last_of(&ours.expect("written")), last_of(kafka));
        } else if !name.ends_with(".snapshot") {
            assert_eq!(ours.as_deref(), Some(*kafka), "{name}");
        }
    }
}
