//! A metadata log over restarts, torn writes and damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Now, Offset, TimestampMs, Uuid};
use controller::{
    BrokerHeartbeat, Command, Controller, ControllerSettings, CreateTopics, InDoubt, NewTopic,
    RegisterBroker, Reply,
};
use metadata::{Image, MetadataRecord};
use records::batches;
use storage::disk::Disk;
use storage::memory::MemoryDisk;

use crate::{ExecuteError, METADATA_TOPIC, OpenError, Quorum, Start};

const NOW: Now = Now::new(Duration::ZERO, TimestampMs(1_000));

fn dir() -> &'static Path {
    Path::new("data")
}

fn log_file() -> PathBuf {
    dir().join(format!("{METADATA_TOPIC}-0")).join("00000000000000000000.log")
}

fn open(disk: &MemoryDisk) -> Result<Quorum, OpenError> {
    let start = Start {
        log_dir: dir(),
        node_id: BrokerId(1),
        settings: ControllerSettings::default(),
        fresh_cluster_id: Uuid([7; 16]),
        now: NOW,
    };
    Quorum::open(Arc::new(disk.clone()), start)
}

fn register(quorum: &mut Quorum) {
    register_again(quorum, Uuid([1; 16]), false);
}

fn register_again(quorum: &mut Quorum, incarnation: Uuid, after_crash: bool) {
    let broker = RegisterBroker {
        id: BrokerId(1),
        incarnation,
        endpoints: Vec::new(),
        features: Vec::new(),
        rack: None,
        log_dirs: vec![Uuid([2; 16])],
        cluster_id: String::new(),
        cluster_address: None,
        previous_epoch: None,
        in_doubt: InDoubt::Nothing,
        is_voter: true,
        after_crash,
    };
    let executed = quorum.execute(NOW, &Command::RegisterBroker(broker)).expect("it is new");
    let Reply::RegisterBroker(epoch) = executed.reply else { panic!("{executed:?}") };
    let ready = BrokerHeartbeat {
        id: BrokerId(1),
        epoch,
        metadata_end: quorum.image().end(),
        wants_fence: false,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    };
    quorum.execute(NOW, &Command::BrokerHeartbeat(ready)).expect("it is registered");
}

fn topics(names: std::ops::Range<u32>, partitions: i32) -> Command {
    let topic = |i: u32| NewTopic {
        name: format!("topic-{i}"),
        partitions,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: vec![("retention.ms".into(), Some(i.to_string()))],
        random: u128::from(i) << 96 | 1,
    };
    Command::CreateTopics(CreateTopics { topics: names.map(topic).collect(), validate_only: false })
}

/// A cluster of some topics, each made by a commit of its own.
pub(crate) fn with_topics(disk: &MemoryDisk, count: u32) -> Quorum {
    let mut quorum = open(disk).expect("a fresh disk");
    register(&mut quorum);
    for i in 0..count {
        let executed = quorum.execute(NOW, &topics(i..i + 1, 2)).expect("it is legal");
        assert!(matches!(executed.reply, Reply::CreateTopics(outcomes) if outcomes[0].is_ok()));
    }
    quorum
}

/// Where each batch of the log file ends.
fn batch_ends(bytes: &[u8]) -> Vec<usize> {
    let mut end = 0;
    batches(bytes)
        .map(|batch| {
            end += batch.expect("nothing is damaged").bytes().len();
            end
        })
        .collect()
}

#[test]
fn a_fresh_disk_becomes_a_cluster_and_stays_one() {
    let disk = MemoryDisk::new();
    let quorum = open(&disk).expect("a fresh disk");
    let cluster = quorum.cluster_id().to_owned();
    assert_eq!(cluster, Uuid([7; 16]).to_string());
    assert_eq!(quorum.image().features().get("metadata.version"), Some(&metadata::METADATA_VERSION));
    quorum.close().expect("the disk works");
    let start = Start {
        log_dir: dir(),
        node_id: BrokerId(1),
        settings: ControllerSettings::default(),
        fresh_cluster_id: Uuid([8; 16]),
        now: NOW,
    };
    let again = Quorum::open(Arc::new(disk), start).expect("it was closed");
    assert_eq!(again.cluster_id(), cluster, "a fresh id is for the first start only");
}

#[test]
fn the_epochs_of_many_partitions_are_raised_batch_after_batch() {
    let disk = MemoryDisk::new();
    let mut quorum = open(&disk).expect("a fresh disk");
    register(&mut quorum);
    for i in 0..3 {
        quorum.execute(NOW, &topics(i..i + 1, 8_000)).expect("it is legal");
    }
    let batches_of = |disk: &MemoryDisk| batch_ends(&disk.contents(&log_file()).expect("it is there")).len();
    let before = batches_of(&disk);
    register_again(&mut quorum, Uuid([3; 16]), true);
    assert_eq!(batches_of(&disk) - before, 4, "24 001 records, and that it is ready");
    let raised = |quorum: &Quorum| {
        let image = quorum.image();
        image.topics().flat_map(|topic| topic.partitions()).filter(|p| p.leader_epoch.0 == 1).count()
    };
    assert_eq!(raised(&quorum), 24_000);
    drop(quorum);
    assert_eq!(raised(&open(&disk).expect("it was killed")), 24_000);
}

#[test]
fn what_was_carried_out_is_there_after_a_restart() {
    let disk = MemoryDisk::new();
    let quorum = with_topics(&disk, 20);
    let image = quorum.image().clone();
    assert_eq!((image.topic_count(), image.partition_count()), (20, 40));
    // A killed process closes nothing; an orderly one does.
    drop(quorum);
    let killed = open(&disk).expect("every commit was whole");
    assert_eq!(killed.image(), &image);
    killed.close().expect("the disk works");
    let mut closed = open(&disk).expect("it was closed");
    assert_eq!(closed.image(), &image);
    let executed = closed.execute(NOW, &topics(20..21, 1)).expect("it goes on");
    assert_eq!(executed.delta.topics_created.len(), 1);
    assert_eq!(open(&disk).expect("whole").image(), closed.image());
}

#[test]
fn a_refused_command_leaves_no_trace() {
    let disk = MemoryDisk::new();
    let mut quorum = with_topics(&disk, 1);
    let before = disk.contents(&log_file());
    let again = quorum.execute(NOW, &topics(0..1, 1)).expect("a refusal of a part is an answer");
    assert!(matches!(again.reply, Reply::CreateTopics(outcomes) if outcomes[0].is_err()));
    assert!(again.delta.is_empty());
    let many = quorum.execute(NOW, &topics(1..2, 20_000));
    assert!(matches!(many, Err(ExecuteError::Refused(_))));
    assert_eq!(disk.contents(&log_file()), before);
}

#[test]
fn a_commit_is_durable_before_it_is_answered() {
    let disk = MemoryDisk::new();
    let mut quorum = with_topics(&disk, 1);
    let syncs = disk.count("sync");
    quorum.execute(NOW, &topics(1..2, 1)).expect("it is legal");
    assert_eq!(disk.count("sync"), syncs + 1);
    disk.fail(Some("sync"));
    let image = quorum.image().clone();
    let failed = quorum.execute(NOW, &topics(2..3, 1));
    assert!(matches!(&failed, Err(ExecuteError::Commit(error)) if !error.is_harmless()), "{failed:?}");
    assert_eq!(quorum.image(), &image, "what is not durable is not true");
    disk.fail(None);
    let after = quorum.execute(NOW, &topics(3..4, 1));
    assert!(matches!(after, Err(ExecuteError::Commit(_))), "it is never tried again");
}

#[test]
fn a_torn_end_is_cut_wherever_it_is_torn() {
    let disk = MemoryDisk::new();
    let mut quorum = with_topics(&disk, 3);
    let image = quorum.image().clone();
    quorum.execute(NOW, &topics(3..4, 1)).expect("it is legal");
    let bytes = disk.contents(&log_file()).expect("there is a log");
    let ends = batch_ends(&bytes);
    let last = ends[ends.len() - 2];
    for len in last + 1..bytes.len() {
        let torn = disk.copy();
        torn.put(&log_file(), bytes[..len].to_vec());
        let opened = open(&torn).unwrap_or_else(|error| panic!("cut at {len}: {error}"));
        assert_eq!(opened.image(), &image, "cut at {len}");
    }
    // A page of the last batch that never reached the media, with or without what is behind it.
    for zeroed in [last..bytes.len(), last..last + 20, bytes.len() - 10..bytes.len()] {
        let torn = disk.copy();
        let mut holed = bytes.clone();
        holed[zeroed].fill(0);
        torn.put(&log_file(), holed);
        let mut opened = open(&torn).expect("it was never durable");
        assert_eq!(opened.image(), &image);
        opened.execute(NOW, &topics(3..5, 1)).expect("it goes on");
        let expected = opened.image().clone();
        assert_eq!(open(&torn).expect("it is whole again").image(), &expected);
    }
}

#[test]
fn damage_that_is_not_at_the_end_is_no_torn_end() {
    let disk = MemoryDisk::new();
    drop(with_topics(&disk, 6));
    let bytes = disk.contents(&log_file()).expect("there is a log");
    let ends = batch_ends(&bytes);
    for (at, &end) in ends[..ends.len() - 1].iter().enumerate() {
        let start = if at == 0 { 0 } else { ends[at - 1] };
        for position in [start + 8, start + 20, start + 60, end - 1] {
            let rotten = disk.copy();
            let mut flipped = bytes.clone();
            flipped[position] ^= 1;
            rotten.put(&log_file(), flipped.clone());
            let refused = open(&rotten).expect_err("what follows was durable");
            let OpenError::Damaged { position: found, .. } = &refused else { panic!("{refused:?}") };
            assert_eq!(*found, start, "byte {position}");
            assert!(refused.to_string().contains("backup"), "{refused}");
            assert_eq!(rotten.contents(&log_file()), Some(flipped), "nothing was changed");
        }
    }
}

#[test]
fn after_an_orderly_stop_nothing_may_be_missing() {
    let disk = MemoryDisk::new();
    with_topics(&disk, 3).close().expect("the disk works");
    let bytes = disk.contents(&log_file()).expect("there is a log");
    let ends = batch_ends(&bytes);
    let shorter = disk.copy();
    shorter.put(&log_file(), bytes[..ends[ends.len() - 2]].to_vec());
    assert!(matches!(open(&shorter), Err(OpenError::Missing { .. })));
    let torn = disk.copy();
    torn.put(&log_file(), bytes[..bytes.len() - 1].to_vec());
    assert!(matches!(open(&torn), Err(OpenError::Damaged { .. })));
}

#[test]
fn a_directory_without_an_owner_is_not_touched() {
    let disk = MemoryDisk::new();
    drop(with_topics(&disk, 1));
    let path = dir().join("meta.properties");
    disk.remove_file(&path).expect("a disk in memory");
    assert!(matches!(open(&disk), Err(OpenError::Unowned { .. })));
    disk.put(&path, b"version=1\nnode.id=1\n".to_vec());
    assert!(matches!(open(&disk), Err(OpenError::Properties { .. })));
}

#[test]
fn a_record_of_another_release_is_not_passed_over() {
    let disk = MemoryDisk::new();
    drop(open(&disk).expect("a fresh disk"));
    let mut batch = records::BatchBuilder::new(1 << 20);
    batch.try_append(TimestampMs(1), None, Some(&[1, 99, 0]), &[]).expect("it is small");
    let mut bytes = disk.contents(&log_file()).expect("there is a log");
    let options = records::BatchOptions { base_offset: Offset(1), ..records::BatchOptions::default() };
    batch.finish(&options, &mut records::Scratch::default(), &mut bytes).expect("it is small");
    disk.put(&log_file(), bytes);
    let refused = open(&disk).expect_err("nobody knows what it does");
    assert!(refused.to_string().contains("a record of kind 99"), "{refused}");
}

#[test]
fn a_first_start_that_was_cut_short_is_begun_again() {
    for operation in ["write", "sync", "rename", "open", "sync_dir"] {
        let disk = MemoryDisk::new();
        disk.fail(Some(operation));
        let failed = open(&disk);
        disk.fail(None);
        if failed.is_err() {
            let quorum = open(&disk).unwrap_or_else(|error| panic!("{operation}: {error}"));
            assert_eq!(quorum.image().features().len(), 1, "{operation}");
        }
    }
}

#[test]
fn ten_thousand_partitions_are_read_back_in_no_time() {
    let disk = MemoryDisk::new();
    let mut quorum = open(&disk).expect("a fresh disk");
    register(&mut quorum);
    quorum.execute(NOW, &topics(0..5_000, 2)).expect("it is legal");
    let bytes = disk.contents(&log_file()).map_or(0, |bytes| bytes.len());
    assert!(bytes < 3 << 20, "{bytes} bytes for ten thousand partitions");
    let began = std::time::Instant::now();
    let opened = open(&disk).expect("it is whole");
    // Unoptimised it takes a tenth of this.
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(opened.image().partition_count(), 10_000);
    assert_eq!(opened.image(), quorum.image());
}

#[test]
fn any_history_of_records_is_the_same_image_by_any_way() {
    let disk = MemoryDisk::new();
    let quorum = with_topics(&disk, 10);
    let bytes = disk.contents(&log_file()).expect("there is a log");
    let mut scratch = records::Scratch::default();
    let mut all: Vec<MetadataRecord> = Vec::new();
    for batch in batches(&bytes) {
        let batch = batch.expect("nothing is damaged");
        for record in batch.records(&mut scratch).expect("it is readable") {
            let value = record.expect("it is readable").value.expect("it has a value").to_vec();
            all.push(MetadataRecord::decode(&value).expect("it is one of ours"));
        }
    }
    let end = Offset(i64::try_from(all.len()).expect("few"));
    let (image, _) = Image::default().after(&all, end);
    assert_eq!(&image, quorum.image());
    let mut controller = Controller::new(ControllerSettings::default());
    let _ = controller.replay_batch(&all, end);
    assert_eq!(controller.image(), &image);
}

#[test]
fn a_quorum_can_live_on_a_thread_of_its_own() {
    fn is_send<T: Send>() {}
    is_send::<Quorum>();
}
