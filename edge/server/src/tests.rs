//! Stories of a node over its lives: started, stopped, killed, its directories moved and damaged.

mod compaction;
mod notes;
mod replicas;
mod shards;
mod unreadable;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{
    ErrorCode, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicId, Uuid,
};
use broker::call::{Context, Outcome, ParkedRequest, Peer, Session};
use broker::host::{Host, HostedPartition};
use broker::parked::{Waiter, WaiterId, Wake};
use controller::{
    AllocateProducerIds, Command, CreateTopics, DeleteTopics, NewTopic, Reply, TopicCreated, TopicKey,
};
use http::Readiness;
use metadata::settings::BrokerSettings;
use net::{Listener, ListenerLimits};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Producer, Scratch};
use storage::disk::{DiskError, Failed};
use tempfile::TempDir;
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};

use crate::error::ServerError;
use crate::housekeeping::write_checkpoints;
use crate::node::Node;
use crate::start::start;
use crate::stop::{self, Started};

/// Where a node has its data: directories that can be moved, copied and damaged between its lives.
struct Site {
    root: TempDir,
}

/// A node that runs.
struct Life {
    started: Started,
    runtime: tokio::runtime::Runtime,
}

impl Site {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn try_start(&self, dirs: &[&str], set: &[(&str, &str)]) -> Result<Life, ServerError> {
        let dirs: Vec<String> = dirs.iter().map(|dir| self.at(dir).display().to_string()).collect();
        let dirs = dirs.join(",");
        let mut given = vec![
            ("log.dirs", dirs.as_str()),
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("http.listen", ""),
            ("num.io.threads", "1"),
        ];
        given.extend(set);
        let settings = BrokerSettings::parse(given).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            Listener::bind("127.0.0.1:0".parse().unwrap(), ListenerLimits::default()).unwrap()
        };
        let started = start(settings, &listener, &runtime)?;
        Ok(Life { started, runtime })
    }

    fn start(&self, dirs: &[&str]) -> Life {
        self.start_with(dirs, &[])
    }

    fn start_with(&self, dirs: &[&str], set: &[(&str, &str)]) -> Life {
        self.try_start(dirs, set).unwrap_or_else(|why| panic!("{why}"))
    }

    fn refusal(&self, dirs: &[&str]) -> String {
        match self.try_start(dirs, &[]) {
            Ok(_) => panic!("it starts"),
            Err(why) => why.to_string(),
        }
    }

    /// Ends a life as `kill -9` does: what was written is in the page cache, and nothing else happens.
    fn kill(&self, life: Life) {
        let (data, then) = (self.root.path().to_owned(), self.root.path().with_extension("then"));
        copy(&data, &then);
        life.stop();
        fs::remove_dir_all(&data).unwrap();
        fs::rename(then, data).unwrap();
    }
}

/// A copy of a directory in use: what is removed meanwhile is not in it.
fn copy(from: &Path, to: &Path) {
    let unless_gone = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) => return unless_gone(error),
    };
    fs::create_dir(to).unwrap();
    for entry in entries {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy(&entry.path(), &target);
        } else if let Err(error) = fs::copy(entry.path(), target) {
            unless_gone(error);
        }
    }
}

impl Life {
    fn decide(&self, command: Command) -> Reply {
        let node = &self.started.node;
        let held = node.request_memory.charge();
        let answer = self.runtime.block_on(async { node.control.decide(command, held).await.await });
        answer.unwrap().unwrap()
    }

    fn new_topic(&self, name: &str, partitions: i32) -> Command {
        let topic = NewTopic {
            name: name.to_owned(),
            partitions,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
            random: crate::random::random(),
        };
        Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
    }

    fn create(&self, name: &str, partitions: i32) -> TopicCreated {
        match self.decide(self.new_topic(name, partitions)) {
            Reply::CreateTopics(mut outcomes) => outcomes.pop().unwrap().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn delete(&self, topic: TopicId) {
        self.decide(Command::DeleteTopics(DeleteTopics { topics: vec![TopicKey::Id(topic)] }));
    }

    fn topic(&self, name: &str) -> TopicId {
        self.started.node.image.load().topic(name).expect("it was made").id
    }

    /// Appends records, waits until they are durable, as acks=all does, and says where the log ends.
    fn append(&self, topic: TopicId, partition: i32, count: usize) -> Option<i64> {
        self.append_of(topic, partition, count, Producer::NONE)
    }

    /// Appends as many records to each of the first partitions.
    fn fill(&self, topic: TopicId, partitions: i32, count: usize) {
        for partition in 0..partitions {
            self.append(topic, partition, count).unwrap();
        }
    }

    fn append_of(&self, topic: TopicId, partition: i32, count: usize, producer: Producer) -> Option<i64> {
        let cell = self.started.node.partitions.get(topic, PartitionIndex(partition))?;
        let raw = self.batch(count, &BatchOptions { producer, ..BatchOptions::default() });
        let mut scratch = Scratch::default();
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).unwrap();
        let now = self.started.node.clock.now();
        cell.act(|partition, out| partition.append(now, &batch, false, out)).ok()?;
        disk::FlushJob::flush(cell.as_ref());
        Some(cell.with(|partition| partition.log().durable_end()).0)
    }

    /// Some records.
    fn batch(&self, count: usize, options: &BatchOptions) -> Vec<u8> {
        let mut builder = BatchBuilder::new(1 << 20);
        for _ in 0..count {
            builder.try_append(self.started.node.clock.now().wall, None, Some(b"value"), &[]).unwrap();
        }
        let mut raw = Vec::new();
        builder.finish(options, &mut Scratch::default(), &mut raw).unwrap();
        raw
    }

    /// Where a log that is served begins and ends.
    fn bounds(&self, topic: TopicId, partition: i32) -> Option<(i64, i64)> {
        let index = PartitionIndex(partition);
        let cell = self.started.node.partitions.get(topic, index).filter(|cell| !cell.is_offline())?;
        Some(cell.with(|partition| (partition.log().start().0, partition.log().end().0)))
    }

    fn dir_of(&self, topic: TopicId, partition: i32) -> PathBuf {
        let cell = self.started.node.partitions.get(topic, PartitionIndex(partition)).unwrap();
        cell.dir.path.join(cell.name.to_string())
    }

    fn offline(&self) -> usize {
        self.started.node.partitions.offline_count()
    }

    /// What a node that is ready has to say.
    fn warnings(&self) -> Vec<String> {
        let node = &self.started.node;
        let watched = Arc::new(std::sync::OnceLock::from(Arc::downgrade(node)));
        match (crate::watch::http_state(watched, Arc::clone(&node.metrics)).ready)() {
            Readiness::Ready => Vec::new(),
            Readiness::ReadyBut(warnings) => warnings,
            other => panic!("{other:?}"),
        }
    }

    /// Moves the recovery points to the ends of the logs, and writes them down.
    fn checkpoint(&self) {
        for cell in self.started.node.partitions.all() {
            cell.ask_checkpoint();
            disk::FlushJob::flush(cell.as_ref());
        }
        self.started
            .node
            .dirs
            .iter()
            .for_each(|dir| assert!(write_checkpoints(&self.started.node.partitions, dir)));
    }

    fn stop(self) {
        self.runtime.block_on(stop::in_order(self.started)).unwrap();
    }
}

/// The records of a partition's directory.
fn log_file(dir: &Path) -> PathBuf {
    dir.join("00000000000000000000.log")
}

/// Breaks the first batch.
fn damage(dir: &Path) -> Vec<u8> {
    let mut bytes = fs::read(log_file(dir)).unwrap();
    bytes[40] ^= 1;
    fs::write(log_file(dir), &bytes).unwrap();
    bytes
}

#[test]
fn partitions_are_spread_and_found_again_whatever_the_order() {
    let site = Site::new();
    let life = site.start(&["a", "b"]);
    let topic = life.create("t", 4).id;
    life.fill(topic, 4, 3);
    let in_b = (0..4).filter(|partition| life.dir_of(topic, *partition).starts_with(site.at("b"))).count();
    assert_eq!(in_b, 2);
    life.stop();
    let life = site.start(&["b", "a"]);
    (0..4).for_each(|partition| assert_eq!(life.bounds(topic, partition), Some((0, 3))));
    assert_eq!(life.create("u", 1).partitions, 1, "the metadata log goes on where it was");
    site.kill(life);
    let life = site.start(&["a", "b"]);
    (0..4).for_each(|partition| assert_eq!(life.bounds(topic, partition), Some((0, 3))));
    assert_eq!(life.bounds(life.topic("u"), 0), Some((0, 0)));
    life.stop();
}

#[test]
fn a_directory_that_is_gone_for_two_starts_is_missed_both_times() {
    let site = Site::new();
    let life = site.start(&["a", "b"]);
    let topic = life.create("t", 2).id;
    life.fill(topic, 2, 5);
    let in_b = (0..2).find(|partition| life.dir_of(topic, *partition).starts_with(site.at("b"))).unwrap();
    life.stop();
    fs::rename(site.at("b"), site.at("elsewhere")).unwrap();
    for dirs in [&["a"][..], &["a", "b"], &["a", "b"]] {
        let life = site.start(dirs);
        assert_eq!((life.offline(), life.bounds(topic, in_b)), (1, None));
        assert_eq!(life.bounds(topic, 1 - in_b), Some((0, 5)));
        life.stop();
    }
    fs::remove_dir_all(site.at("b")).unwrap();
    fs::rename(site.at("elsewhere"), site.at("b")).unwrap();
    let life = site.start(&["a", "b"]);
    assert_eq!((life.offline(), life.bounds(topic, in_b)), (0, Some((0, 5))));
    life.stop();
}

/// As a disk that answers with errors: the node starts without it, as it goes on without one that fails later.
#[test]
fn a_directory_whose_disk_fails_is_gone_without_unless_it_has_the_metadata() {
    let site = Site::new();
    let life = site.start(&["a", "b"]);
    let topic = life.create("t", 2).id;
    life.fill(topic, 2, 5);
    let in_b = (0..2).find(|partition| life.dir_of(topic, *partition).starts_with(site.at("b"))).unwrap();
    life.stop();
    // What is at its beginning belongs to nobody, so reading there is an input/output error.
    let fail = |file: &str| {
        fs::rename(site.at(file), site.at("kept")).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", site.at(file)).unwrap();
    };
    let mend = |file: &str| fs::rename(site.at("kept"), site.at(file)).unwrap();
    for file in ["b/meta.properties", "b/replication-offset-checkpoint"] {
        fail(file);
        let life = site.start(&["b", "a"]);
        assert_eq!((life.offline(), life.bounds(topic, in_b)), (1, None), "{file}");
        assert_eq!(life.bounds(topic, 1 - in_b), Some((0, 5)));
        let b = site.at("b").display().to_string();
        let gone_without = format!("log directory {b} fails: its node started without it");
        assert!(life.warnings().contains(&gone_without), "{:?}", life.warnings());
        let dirs = life.started.node.log_dirs();
        assert_eq!(dirs.iter().filter(|dir| dir.failed).map(|dir| &dir.path).collect::<Vec<_>>(), [&b]);
        life.stop();
        mend(file);
    }
    fail("a/meta.properties");
    let refusal = site.refusal(&["a", "b"]);
    assert!(refusal.contains("Input/output error") && refusal.contains("repair it"), "{refusal}");
    mend("a/meta.properties");
    let life = site.start(&["a", "b"]);
    assert_eq!((life.offline(), life.bounds(topic, in_b)), (0, Some((0, 5))));
    assert_eq!(life.warnings(), [""; 0]);
    life.stop();
}

#[test]
fn without_the_directory_of_the_metadata_a_node_does_not_start() {
    let site = Site::new();
    site.start(&["a", "b"]).stop();
    fs::rename(site.at("a"), site.at("elsewhere")).unwrap();
    for _ in 0..2 {
        assert!(site.refusal(&["a", "b"]).contains("mount it"), "{}", site.refusal(&["a", "b"]));
        assert!(site.refusal(&["b"]).contains("log.dirs"));
    }
    fs::remove_dir_all(site.at("a")).unwrap();
    copy(&site.at("elsewhere"), &site.at("c"));
    fs::rename(site.at("elsewhere"), site.at("a")).unwrap();
    assert!(site.refusal(&["a", "b", "c"]).contains("one of them is old"));
    site.start(&["b", "a"]).stop();
}

#[test]
fn a_log_that_vanished_is_not_made_anew() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 2).id;
    life.fill(topic, 2, 5);
    life.stop();
    fs::rename(site.at("a/t-1"), site.at("kept")).unwrap();
    for _ in 0..2 {
        let life = site.start(&["a"]);
        assert_eq!((life.offline(), life.bounds(topic, 1)), (1, None));
        assert!(!site.at("a/t-1").exists());
        assert_eq!(life.bounds(topic, 0), Some((0, 5)));
        life.stop();
    }
    fs::rename(site.at("kept"), site.at("a/t-1")).unwrap();
    let life = site.start(&["a"]);
    assert_eq!(life.bounds(topic, 1), Some((0, 5)));
    life.stop();
}

#[test]
fn quarantine_lasts_whatever_the_stops_in_between() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 2).id;
    for _ in 0..2 {
        life.fill(topic, 2, 5);
    }
    life.checkpoint();
    site.kill(life);
    let damaged = damage(&site.at("a/t-0"));
    let is_quarantined = |life: &Life| {
        life.checkpoint();
        assert_eq!((life.offline(), life.bounds(topic, 0)), (1, None));
        assert_eq!(life.bounds(topic, 1), Some((0, 10)));
        assert_eq!(fs::read(log_file(&site.at("a/t-0"))).unwrap(), damaged, "nothing was cut");
    };
    for _ in 0..2 {
        let life = site.start(&["a"]);
        is_quarantined(&life);
        site.kill(life);
        let life = site.start(&["a"]);
        is_quarantined(&life);
        life.stop();
    }
    let life = site.start(&["a"]);
    is_quarantined(&life);
    life.delete(topic);
    assert_eq!(life.offline(), 0);
    assert!(!site.at("a/t-0").exists());
    life.stop();
}

#[test]
fn of_two_copies_the_assigned_one_is_served_whatever_the_order() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 5);
    life.stop();
    site.start(&["a", "b"]).stop();
    copy(&site.at("a/t-0"), &site.at("b/t-0"));
    let life = site.start(&["b", "a"]);
    life.append(topic, 0, 2);
    assert!(life.dir_of(topic, 0).starts_with(site.at("a")));
    life.stop();
    assert!(!site.at("b/t-0").exists(), "it was set aside, and cannot be taken for the log later");
    fs::rename(site.at("a/t-0"), site.at("b/t-0")).unwrap();
    for _ in 0..2 {
        let life = site.start(&["a", "b"]);
        assert_eq!(life.bounds(topic, 0), Some((0, 7)), "a person has moved it");
        assert!(life.dir_of(topic, 0).starts_with(site.at("b")));
        life.stop();
    }
}

#[test]
fn a_directory_of_another_topic_shadows_nothing() {
    let site = Site::new();
    let life = site.start(&["a", "b"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 5);
    let home = if life.dir_of(topic, 0).starts_with(site.at("a")) { "a" } else { "b" };
    let other = if home == "a" { "b" } else { "a" };
    life.stop();
    let stray = site.at(&format!("{other}/t-0"));
    copy(&site.at(&format!("{home}/t-0")), &stray);
    let foreign = storage::checkpoint::format_partition_metadata(TopicId(Uuid::from_random(99)));
    fs::write(stray.join("partition.metadata"), foreign).unwrap();
    let records = fs::read(log_file(&stray)).unwrap();
    for dirs in [["a", "b"], ["b", "a"]] {
        let life = site.start(&dirs);
        assert_eq!((life.offline(), life.bounds(topic, 0)), (0, Some((0, 5))));
        life.stop();
        assert!(!stray.exists(), "it was set aside");
        assert_eq!(fs::read(log_file(&set_aside(&site.at(other)))).unwrap(), records);
    }
}

/// The one directory that was set aside as nobody's.
fn set_aside(dir: &Path) -> PathBuf {
    let is_stray = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with("-stray");
    fs::read_dir(dir).unwrap().map(Result::unwrap).find(is_stray).unwrap().path()
}

#[test]
fn a_stray_log_gives_way_with_its_records_even_if_its_name_is_long() {
    let site = Site::new();
    let name = "x".repeat(249);
    site.start(&["a"]).stop();
    let stray = site.at(&format!("a/{name}-0"));
    fs::create_dir(&stray).unwrap();
    fs::write(log_file(&stray), b"records of somebody").unwrap();
    let life = site.start(&["a"]);
    let topic = life.create(&name, 1).id;
    assert_eq!(life.append(topic, 0, 1), Some(1));
    life.stop();
    assert_eq!(fs::read(log_file(&set_aside(&site.at("a")))).unwrap(), b"records of somebody");
}

#[test]
fn an_entry_of_a_deleted_topic_is_not_its_successors() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let old = life.create("t", 1).id;
    life.append(old, 0, 50);
    life.checkpoint();
    let cell = life.started.node.partitions.get(old, PartitionIndex(0)).unwrap();
    cell.act(|partition, out| partition.delete_records(Some(Offset(40)), out)).unwrap();
    drop(cell);
    life.checkpoint();
    life.delete(old);
    let new = life.create("t", 1).id;
    assert_eq!(life.append(new, 0, 10), Some(10));
    site.kill(life);
    let life = site.start(&["a"]);
    assert_eq!((life.offline(), life.bounds(new, 0)), (0, Some((0, 10))));
    life.stop();
}

/// Rings for a test.
struct Bell(std::sync::mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(&self) {
        let _ = self.0.send(());
    }
}

#[test]
fn what_is_deleted_is_removed_while_the_node_runs() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 3).id;
    life.fill(topic, 3, 1);
    life.delete(topic);
    let is_of_topic = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("t-");
    while fs::read_dir(site.at("a")).unwrap().map(Result::unwrap).any(|entry| is_of_topic(&entry)) {
        std::thread::yield_now();
    }
    life.stop();
}

#[test]
fn deleted_records_stay_deleted_once_it_is_said() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 10);
    life.checkpoint();
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    let (ring, rung) = std::sync::mpsc::channel();
    cell.step(&mut |hosted, out| {
        hosted.with(out, |partition, out| partition.delete_records(Some(Offset(7)), out)).unwrap();
        hosted.parked.await_start(Offset(7), Waiter { id: WaiterId(1), bell: Arc::new(Bell(ring.clone())) });
    });
    cell.save_start();
    rung.recv().unwrap();
    assert_eq!(cell.start_saved(), Offset(7));
    drop(cell);
    site.kill(life);
    let life = site.start(&["a"]);
    assert_eq!(life.bounds(topic, 0), Some((7, 10)));
    life.stop();
}

/// A delete of `t` up to `offset`, and the bell of the connection that asked for it.
fn delete_records(
    node: &Node,
    id: u64,
    offset: i64,
) -> (Session, ParkedRequest, std::sync::mpsc::Receiver<()>) {
    let (ring, rung) = std::sync::mpsc::channel();
    let mut session = Session::new(Waiter { id: WaiterId(id), bell: Arc::new(Bell(ring)) }, Peer::Client);
    let part = DeleteRecordsPartition { partition_index: 0, offset };
    let topics = vec![DeleteRecordsTopic { name: "t", partitions: vec![part] }];
    let request = DeleteRecordsRequest { topics, timeout_ms: i32::MAX };
    let frame = wire::encode_request(1, Some("test"), 2, &request).unwrap().bytes;
    let asked = |context: Context<'_>| session.on_request(context, &frame[4..], &mut Scratch::default());
    let Outcome::Parked(parked) = node.in_context(asked).outcome else { panic!("it is not saved") };
    (session, parked, rung)
}

/// House-keeping has read where the log starts, and it moves on while that is written.
#[test]
fn a_delete_that_overlaps_another_hears_when_its_own_start_is_saved() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let node = &life.started.node;
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 10);
    let cell = node.partitions.get(topic, PartitionIndex(0)).unwrap();
    // Held, so that nobody else saves it.
    let saved = cell.dir.mark(|_| {
        let (mut first, first_parked, first_rung) = delete_records(node, 1, 3);
        let (mut second, second_parked, second_rung) = delete_records(node, 2, 7);
        cell.on_start_saved(Offset(3));
        first_rung.try_recv().expect("the first is woken");
        let outcome = node.in_context(|context| first_parked.look(context, &mut first));
        assert!(matches!(outcome, Outcome::Answer(_)));
        let outcome = node.in_context(|context| second_parked.look(context, &mut second));
        let Outcome::Parked(second_parked) = outcome else { panic!("7 is not saved") };
        while second_rung.try_recv().is_ok() {}
        cell.on_start_saved(Offset(7));
        second_rung.try_recv().expect("the second is woken");
        // Who wrote the earlier start may come to tell of it later.
        cell.on_start_saved(Offset(3));
        let outcome = node.in_context(|context| second_parked.look(context, &mut second));
        assert!(matches!(outcome, Outcome::Answer(_)));
        Ok(())
    });
    assert!(saved.is_some());
    drop(cell);
    life.stop();
}

#[test]
fn a_full_directory_takes_no_records_and_no_logs_but_deletions() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.stop();
    let life = site.start_with(&["a"], &[("log.dir.reserve.bytes", &i64::MAX.to_string())]);
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    assert!(!cell.has_room());
    drop(cell);
    for (name, code) in [("t", ErrorCode::TopicAlreadyExists), ("u", ErrorCode::KafkaStorageError)] {
        let reply = life.decide(life.new_topic(name, 1));
        let Reply::CreateTopics(outcomes) = reply else { panic!("{reply:?}") };
        assert_eq!(outcomes[0].as_ref().unwrap_err().code(), code);
    }
    assert_eq!(life.warnings().len(), 1);
    life.delete(topic);
    assert!(!site.at("a/t-0").exists());
    life.stop();
}

/// Taken out of service it would lose its other partitions, too, and the deletions that make room.
#[test]
fn a_node_that_has_lost_a_partition_is_ready_and_says_so() {
    let site = Site::new();
    let life = site.start(&["a", "b"]);
    let topic = life.create("t", 2).id;
    life.stop();
    fs::remove_file(site.at("a/t-0/partition.metadata")).unwrap();
    let life = site.start(&["a", "b"]);
    assert_eq!(life.warnings(), ["1 partitions are offline; the log of the node says which, and why"]);
    life.delete(topic);
    life.stop();
}

#[test]
fn a_creation_that_a_crash_cut_short_is_begun_again() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 5);
    life.stop();
    let unfinished = site.at("a/u-0");
    fs::create_dir(&unfinished).unwrap();
    fs::write(log_file(&unfinished), b"").unwrap();
    fs::write(unfinished.join("partition.metadata.tmp"), b"vers").unwrap();
    let life = site.start(&["a"]);
    assert!(!unfinished.exists());
    assert_eq!((life.offline(), life.bounds(topic, 0)), (0, Some((0, 5))));
    life.stop();
}

#[test]
fn one_bad_partition_metadata_takes_one_partition_offline() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 2).id;
    life.fill(topic, 2, 5);
    life.stop();
    let file = site.at("a/t-0/partition.metadata");
    let good = fs::read(&file).unwrap();
    fs::write(&file, b"version: 9\n").unwrap();
    let life = site.start(&["a"]);
    assert_eq!((life.bounds(topic, 0), life.bounds(topic, 1)), (None, Some((0, 5))));
    life.stop();
    fs::write(&file, good).unwrap();
    let life = site.start(&["a"]);
    assert_eq!((life.offline(), life.bounds(topic, 0)), (0, Some((0, 5))));
    life.stop();
}

/// It has the records: a copy elsewhere is older, or it would be the one that is assigned.
#[test]
fn no_copy_is_served_in_the_place_of_a_log_of_which_it_cannot_be_told_whose_it_is() {
    for spoiled in [Some("version: 9\n"), None] {
        let site = Site::new();
        let life = site.start(&["a"]);
        let topic = life.create("t", 1).id;
        life.append(topic, 0, 5);
        life.stop();
        site.start(&["a", "b"]).stop();
        copy(&site.at("a/t-0"), &site.at("older"));
        let life = site.start(&["a", "b"]);
        life.append(topic, 0, 2);
        life.stop();
        fs::rename(site.at("older"), site.at("b/t-0")).unwrap();
        let file = site.at("a/t-0/partition.metadata");
        let good = fs::read(&file).unwrap();
        match spoiled {
            Some(text) => fs::write(&file, text).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        for dirs in [["a", "b"], ["b", "a"]] {
            let life = site.start(&dirs);
            assert_eq!((life.offline(), life.bounds(topic, 0)), (1, None));
            life.stop();
        }
        fs::write(&file, good).unwrap();
        let life = site.start(&["b", "a"]);
        assert_eq!((life.offline(), life.bounds(topic, 0)), (0, Some((0, 7))));
        life.stop();
    }
}

#[test]
fn topics_of_another_cluster_are_taken_in_and_their_producers_ids_are_not_given_out() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    let producer = Producer { id: ProducerId(4711), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
    life.append_of(topic, 0, 5, producer);
    let made_up = Producer { id: ProducerId(i64::MAX - 1), ..producer };
    life.append_of(topic, 0, 5, made_up);
    life.stop();
    // As Kafka leaves it to a broker: partitions, and whose the directory is; its metadata is elsewhere.
    fs::remove_dir_all(site.at("a/__cluster_metadata-0")).unwrap();
    let properties = fs::read_to_string(site.at("a/meta.properties")).unwrap();
    let kafkas: String =
        properties.lines().filter(|l| !l.starts_with("vltava.")).map(|l| format!("{l}\n")).collect();
    fs::write(site.at("a/meta.properties"), kafkas).unwrap();
    let life = site.start(&["a"]);
    assert_eq!(life.bounds(topic, 0), Some((0, 10)));
    let adopted = fs::read_to_string(site.at("a/vltava-adopted-checkpoint")).unwrap();
    assert_eq!(adopted, "0\n0\n", "all that was noted is opened");
    let node = &life.started.node;
    let broker = node.image.load().broker(node.settings.node_id).unwrap().clone();
    let block = life
        .decide(Command::AllocateProducerIds(AllocateProducerIds { broker: broker.id, epoch: broker.epoch }));
    assert!(
        matches!(block, Reply::AllocateProducerIds(block) if block.first == ProducerId(4712)),
        "{block:?}"
    );
    assert_eq!(node.producer_id(), None);
    life.stop();
}

#[test]
fn a_directory_of_kafkas_can_be_taken_over_once_its_metadata_is_out_of_the_way() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 5);
    life.stop();
    // As if a broker of Kafka had written it: its metadata has records that are not known here.
    let properties = fs::read_to_string(site.at("a/meta.properties")).unwrap();
    let kafkas: String =
        properties.lines().filter(|l| !l.starts_with("vltava.")).map(|l| format!("{l}\n")).collect();
    fs::write(site.at("a/meta.properties"), &kafkas).unwrap();
    let metadata = site.at("a/__cluster_metadata-0");
    damage(&metadata);
    site.refusal(&["a"]);
    assert_eq!(fs::read_to_string(site.at("a/meta.properties")).unwrap(), kafkas);
    fs::rename(metadata, site.at("away")).unwrap();
    let life = site.start(&["a"]);
    assert_eq!(life.bounds(topic, 0), Some((0, 5)));
    life.stop();
}

#[test]
fn an_error_of_one_file_takes_one_partition_offline_and_the_next_start_looks_again() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 2).id;
    life.fill(topic, 2, 5);
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    let error = DiskError {
        operation: "open",
        path: PathBuf::from("t-0/00000000000000000000.index"),
        reason: "not there".to_owned(),
        failed: Failed::File,
    };
    cell.on_error(&error);
    assert_eq!((life.offline(), life.bounds(topic, 0)), (1, None));
    assert_eq!(life.append(topic, 1, 1), Some(6));
    assert!(!life.started.node.dirs[0].is_retired());
    drop(cell);
    life.stop();
    assert!(!site.at("a/.kafka_cleanshutdown").exists());
    let life = site.start(&["a"]);
    assert_eq!((life.offline(), life.bounds(topic, 0)), (0, Some((0, 5))));
    life.stop();
    assert!(site.at("a/.kafka_cleanshutdown").exists());
}

#[test]
fn after_a_kill_the_leader_epoch_is_a_new_one() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 1);
    site.kill(life);
    let life = site.start(&["a"]);
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    assert_eq!(cell.with(|partition| partition.epoch()), LeaderEpoch(1));
    drop(cell);
    life.stop();
}

#[test]
fn log_directories_are_nobody_elses_business() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    site.start(&["deep/er/a"]).stop();
    for path in ["deep", "deep/er", "deep/er/a"] {
        let mode = fs::metadata(site.at(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
}
