//! Log directories that fail, or go and come back, bytes that rot below the recovery point, topics that are made
//! anew: whatever becomes of a partition, its records are served whole or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base::{ErrorCode, Offset, PartitionIndex};
use client::ClientError;
use client::admin::At;
use client::raw::FetchLimits;
use conformance::Node;
use records::Compression;
use vltava_e2e::churn::{Churn, FOR_EVER, admin};
use vltava_e2e::disk::{self, Cut, Disk};
use vltava_e2e::ledger::{Acknowledged, Depth, Ledger, Place};
use vltava_e2e::load::connect;
use vltava_e2e::process::{go_on, halt_between_writes, setup, with_node};
use vltava_e2e::progress::Progress;
use vltava_e2e::sample::{Origin, batch};
use vltava_e2e::{http, wait};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};

const TOPIC: &str = "orders";
const RECORDS: u32 = 20;
const DISK_BYTES: u64 = 512 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Someone who writes to one partition and knows what must be there.
struct Writer {
    at: Place,
    next: u64,
    ledger: Ledger,
}

impl Writer {
    fn new(partition: i32) -> Self {
        let at = Place { topic: TOPIC.to_owned(), partition: PartitionIndex(partition) };
        Self { at, next: 0, ledger: Ledger::default() }
    }

    fn batch(&self) -> (Origin, Vec<u8>) {
        let first = Origin { producer: self.at.partition.0 as u32, number: self.next };
        (first, batch(first, RECORDS, Compression::None, records::Producer::NONE))
    }

    fn write(&mut self, node: &Node, batches: u32) -> Result<()> {
        let mut connection = connect(&node.bootstrap())?;
        for _ in 0..batches {
            let (first, batch) = self.batch();
            let produced = connection.produce(TOPIC, self.at.partition, -1, &batch)?;
            let of = Acknowledged { base: produced.base_offset, first, count: RECORDS };
            self.ledger.acknowledged(&self.at, [of]);
            self.next += u64::from(RECORDS);
        }
        Ok(())
    }

    /// Writes until it is stopped, or refused: why.
    fn write_on(&mut self, bootstrap: &str, progress: &Progress) -> Result<Option<ErrorCode>> {
        let mut connection = connect(bootstrap)?;
        while !progress.is_stopped() {
            let (first, batch) = self.batch();
            // What is refused may be there all the same.
            self.next += u64::from(RECORDS);
            match connection.produce(TOPIC, self.at.partition, -1, &batch) {
                Ok(produced) => {
                    let of = Acknowledged { base: produced.base_offset, first, count: RECORDS };
                    self.ledger.acknowledged(&self.at, [of]);
                    progress.acknowledged();
                }
                Err(ClientError::Refused { code, .. }) => return Ok(Some(code)),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(None)
    }

    /// Everything is there.
    fn check(&mut self, node: &Node) -> Result<()> {
        self.ledger.check(&mut connect(&node.bootstrap())?, Depth::All)
    }

    /// The partition can neither be read nor written, and the node says so.
    fn check_offline(&self, node: &Node) -> Result<()> {
        let mut connection = connect(&node.bootstrap())?;
        let limits = FetchLimits { wait_ms_max: 0, ..FetchLimits::default() };
        let fetched = connection.fetch(TOPIC, self.at.partition, Offset::ZERO, limits);
        refused(fetched).with_context(|| format!("a fetch from {}", self.at))?;
        let produced = connection.produce(TOPIC, self.at.partition, -1, &self.batch().1);
        refused(produced).with_context(|| format!("a batch for {}", self.at))
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Result<()> {
    match answer {
        // Of a directory that is not there nobody leads what is in it.
        Err(ClientError::Refused {
            code: ErrorCode::KafkaStorageError | ErrorCode::NotLeaderOrFollower,
            ..
        }) => Ok(()),
        Err(other) => Err(other.into()),
        Ok(answer) => bail!("it is answered: {answer:?}"),
    }
}

fn create(node: &Node, partitions: i32) -> Result<Vec<Writer>> {
    Churn::default().create(&admin(&node.bootstrap())?, TOPIC, partitions, &[FOR_EVER])?;
    Ok((0..partitions).map(Writer::new).collect())
}

/// The partitions of the topic that lie in a directory.
fn partitions_in(data_dir: &Path) -> Result<BTreeSet<i32>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(data_dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let index: Option<i32> =
            name.strip_prefix(TOPIC).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        found.extend(index);
    }
    Ok(found)
}

/// A disk that was not mounted, twice: the node must neither begin its partitions anew nor forget them.
#[test]
fn a_directory_that_goes_and_comes_back_has_lost_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [first, second, unmounted] = ["first", "second", "unmounted"].map(|name| folder.path().join(name));
    with_node(Node::start(setup()?.in_dir(&first).and_in_dir(&second))?, |node| {
        let mut writers = create(node, 6)?;
        let (kept, gone) = (partitions_in(&first)?, partitions_in(&second)?);
        let even = kept.len() + gone.len() == writers.len() && kept.len().abs_diff(gone.len()) <= 1;
        ensure!(even, "{kept:?} lie in the first directory, {gone:?} in the second");
        for writer in &mut writers {
            writer.write(node, 5)?;
        }
        node.kill()?;
        fs::rename(&second, &unmounted)?;
        fs::create_dir(&second)?;
        for round in 1..=2 {
            node.start_again()?;
            for writer in &mut writers {
                let told = if gone.contains(&writer.at.partition.0) {
                    writer.check_offline(node)
                } else {
                    writer.write(node, 2).and_then(|()| writer.check(node))
                };
                told.with_context(|| format!("start {round} without the directory"))?;
            }
            if round == 1 { node.kill()? } else { ensure!(node.stop()?.success(), "it did not stop well") }
        }
        let anew = partitions_in(&second)?;
        ensure!(anew.is_empty(), "{anew:?} were made anew where the disk was missing");
        fs::remove_dir_all(&second)?;
        fs::rename(&unmounted, &second)?;
        node.start_again()?;
        for writer in &mut writers {
            writer.check(node).context("with the directory back")?;
            writer.write(node, 2)?;
            writer.check(node)?;
        }
        Ok(())
    })
}

#[test]
fn a_directory_whose_disk_fails_under_load_leaves_the_others_served() -> Result<()> {
    if let Some(why) = disk::unavailable() {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    let (sound, mut failing) = (Disk::new(DISK_BYTES)?, Disk::new(DISK_BYTES)?);
    let [first, second] = [&sound, &failing].map(|disk| disk.path().join("data"));
    let told = with_node(Node::start(setup()?.in_dir(&first).and_in_dir(&second))?, |node| {
        ensure!(
            first.join("__cluster_metadata-0").exists(),
            "the metadata is in the directory that is named first"
        );
        let mut writers = create(node, 6)?;
        let gone = partitions_in(&second)?;
        ensure!(!gone.is_empty() && gone.len() < writers.len(), "{gone:?} lie in the second directory");
        for cut in [Cut::Now, Cut::AfterJournal] {
            fail_under_load(node, &failing, cut, &mut writers, &gone)
                .and_then(|()| check_without(node, [&first, &second], &mut writers, &gone))
                .with_context(|| format!("the disk fails ({cut:?})"))?;
            ensure!(node.stop()?.success(), "it did not stop well without its disk");
            failing.repair()?;
            node.start_again()?;
            for writer in &mut writers {
                writer.check(node).with_context(|| format!("the disk that failed ({cut:?}) is mended"))?;
                writer.write(node, 2)?;
                writer.check(node)?;
            }
        }
        Ok(())
    });
    drop((sound, failing));
    told
}

/// The disk fails while all partitions are written. Whoever writes to those on it is refused, the others go on.
fn fail_under_load(
    node: &Node,
    failing: &Disk,
    cut: Cut,
    writers: &mut [Writer],
    gone: &BTreeSet<i32>,
) -> Result<()> {
    const BATCHES: u64 = 200;
    let (bootstrap, progress) = (&node.bootstrap(), &Progress::default());
    thread::scope(|scope| {
        let write = |writer: &mut Writer| {
            let refused = writer.write_on(bootstrap, progress)?;
            let wanted = gone.contains(&writer.at.partition.0).then_some(ErrorCode::KafkaStorageError);
            ensure!(refused == wanted, "{}: {refused:?}", writer.at);
            Ok(())
        };
        let (on_it, elsewhere): (Vec<_>, Vec<_>) =
            writers.iter_mut().partition(|writer| gone.contains(&writer.at.partition.0));
        let [on_it, elsewhere] = [on_it, elsewhere].map(|writers| {
            writers.into_iter().map(|writer| scope.spawn(move || write(writer))).collect::<Vec<_>>()
        });
        let failed = progress.wait_for_batches(BATCHES).and_then(|()| {
            let pid = node.pid().context("it runs")?;
            // Of a flush that is under way then, ext4 may say that it went well.
            halt_between_writes(pid)?;
            failing.cut(cut)?;
            go_on(pid)?;
            wait::until("nobody writes to it any more", PATIENCE, || {
                Ok(on_it.iter().all(ScopedJoinHandle::is_finished).then_some(()))
            })?;
            progress.wait_for_batches(BATCHES)
        });
        progress.stop();
        joined(on_it).and(joined(elsewhere)).and(failed)
    })
}

fn joined(threads: Vec<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    ended.into_iter().try_for_each(|ended| ended.unwrap_or_else(|panic| panic::resume_unwind(panic)))
}

/// The node says which directory failed, and serves what is in the other.
fn check_without(
    node: &Node,
    [first, second]: [&Path; 2],
    writers: &mut [Writer],
    gone: &BTreeSet<i32>,
) -> Result<()> {
    let admin = admin(&node.bootstrap())?;
    let shown = || http::metrics(&http::get(node.http_address(), "/metrics")?.body);
    wait::until("those that failed have no leader", PATIENCE, || {
        let topic = admin.describe_topic(TOPIC).wait()?;
        let unled = topic.partitions.iter().filter(|partition| partition.leader.is_none());
        let is_told = unled.map(|partition| partition.index.0).eq(gone.iter().copied());
        let decided = shown()?.get("vltava_cluster_partitions_without_leader").copied();
        Ok((is_told && decided == Some(gone.len() as f64)).then_some(()))
    })?;
    for writer in writers {
        if gone.contains(&writer.at.partition.0) {
            writer.check_offline(node)?;
        } else {
            writer.write(node, 2)?;
            writer.check(node)?;
        }
    }
    let shown = shown()?;
    for (dir, error) in [(first, None), (second, Some(ErrorCode::KafkaStorageError))] {
        let path = dir.display().to_string();
        let retired = shown.get(&format!("vltava_log_dir_retired{{dir=\"{path}\"}}")).copied();
        ensure!(retired == Some(f64::from(u8::from(error.is_some()))), "{path}: {retired:?}");
        let described = admin.describe_all_log_dirs().wait()?.remove(0).1?;
        let described = described.iter().find(|described| described.path == path);
        ensure!(described.is_some_and(|described| described.error == error), "{path}: {described:?}");
    }
    let ready = http::get(node.http_address(), "/health/ready")?;
    let says = ready.body.contains(&format!("{} was given up", second.display()));
    ensure!(ready.status == 200 && says, "{ready:?}");
    // A new topic goes where it can.
    let before = admin.list_topics().wait()?.len();
    let made = format!("made-{before}");
    Churn::default().create(&admin, &made, 2, &[])?;
    ensure!((0..2).all(|index| first.join(format!("{made}-{index}")).exists()), "{made} is elsewhere");
    Ok(())
}

/// Which of two directories comes first in the settings says nothing about what lies in them.
#[test]
fn directories_in_another_order_are_the_same() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let mut writers = Vec::new();
    for (round, dirs) in [(1, [&first, &second]), (2, [&second, &first]), (3, [&first, &second])] {
        with_node(Node::start(setup()?.in_dir(dirs[0]).and_in_dir(dirs[1]))?, |node| {
            if writers.is_empty() {
                writers = create(node, 4)?;
            }
            for writer in &mut writers {
                writer.write(node, 2)?;
                writer.check(node)?;
            }
            node.kill()
        })
        .with_context(|| format!("start {round}"))?;
    }
    Ok(())
}

/// What was durable and is damaged is neither cut nor served, however often and however orderly the node
/// is started and ended; and it is served again when the byte is made good.
#[test]
fn damage_below_the_recovery_point_stays_quarantined() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let data_dir = node.data_dir().context("a directory")?.to_owned();
        let log = data_dir.join(format!("{TOPIC}-0/00000000000000000000.log"));
        let mut writers = create(node, 2)?;
        for writer in &mut writers {
            writer.write(node, 30)?;
        }
        // An orderly stop puts the recovery point at the end; a kill makes the next start look at what
        // was written since, and at the batch before that.
        ensure!(node.stop()?.success(), "it did not stop well");
        let durable = fs::metadata(&log)?.len() as usize;
        node.start_again()?;
        for writer in &mut writers {
            writer.write(node, 1)?;
        }
        node.kill()?;
        let sound = fs::read(&log)?;
        let mut damaged = sound.clone();
        damaged[durable - 10] ^= 0x10;
        fs::write(&log, &damaged)?;
        for (round, end) in [(1, "kill -9"), (2, "SIGTERM"), (3, "kill -9"), (4, "kill -9")] {
            node.start_again()?;
            let [first, second] = &mut writers[..] else { bail!("two partitions") };
            first.check_offline(node).with_context(|| format!("start {round}"))?;
            second.write(node, 1)?;
            second.check(node).with_context(|| format!("the other partition, start {round}"))?;
            match end {
                "SIGTERM" => ensure!(node.stop()?.success(), "it did not stop well"),
                _ => node.kill()?,
            }
            let changed = fs::read(&log)? != damaged;
            ensure!(!changed, "the damaged file was changed in start {round}, ended by {end}");
        }
        fs::write(&log, &sound)?;
        node.start_again()?;
        for writer in &mut writers {
            writer.check(node).context("made good")?;
            writer.write(node, 1)?;
            writer.check(node)?;
        }
        Ok(())
    })
}

fn delete_records(node: &Node, upto: i64) -> Result<()> {
    let partition = DeleteRecordsPartition { partition_index: 0, offset: upto };
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic { name: TOPIC, partitions: vec![partition] }],
        timeout_ms: 10_000,
    };
    let mut connection = connect(&node.bootstrap())?;
    let answer = connection.ask(&request)?;
    let answer = answer.read()?;
    let deleted = answer.topics.first().and_then(|topic| topic.partitions.first()).context("no answer")?;
    ensure!(deleted.error_code == 0 && deleted.low_watermark == upto, "{deleted:?}");
    Ok(())
}

fn log_start(node: &Node) -> Result<Offset> {
    let found = admin(&node.bootstrap())?.list_offsets([(TOPIC, 0, At::Earliest)]).wait();
    let found = found.into_iter().next().context("no answer")??;
    found.offset.with_context(|| format!("{TOPIC}-0 does not say where it starts"))
}

#[test]
fn deleted_records_stay_deleted_after_kill_9() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let mut writers = create(node, 1)?;
        writers[0].write(node, 5)?;
        for upto in [30, 47, 100] {
            delete_records(node, upto)?;
            node.kill()?;
            node.start_again()?;
            let start = log_start(node)?;
            ensure!(start == Offset(upto), "it starts at {start}, although all before {upto} was deleted");
        }
        Ok(())
    })
}

/// Nothing that was noted of a topic may be taken for one of the same name that came later.
#[test]
fn a_topic_made_anew_has_nothing_of_the_old_one() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        for round in 1..=3 {
            let mut writer = create(node, 1)?.remove(0);
            writer.write(node, 5)?;
            delete_records(node, 60)?;
            if round == 2 {
                ensure!(node.stop()?.success(), "it did not stop well");
                node.start_again()?;
            }
            admin(&node.bootstrap())?.delete_topic(TOPIC).wait()?;
            let mut anew = create(node, 1)?.remove(0);
            anew.write(node, 1)?;
            node.kill()?;
            node.start_again()?;
            anew.check(node).with_context(|| format!("round {round}"))?;
            anew.write(node, 1)?;
            anew.check(node)?;
            admin(&node.bootstrap())?.delete_topic(TOPIC).wait()?;
        }
        Ok(())
    })
}
