//! kill -9 at random moments under load, again and again on the same directory.
//!
//! `VLTAVA_CRASH_ROUNDS` says how often (default 50), `VLTAVA_SEED` when.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::{BrokerId, PartitionIndex};
use client::Connection;
use client::admin::{ConfigChange, ConfigSource, Resource};
use conformance::Node;
use records::Compression;
use vltava_e2e::churn::{Churn, FOR_EVER, admin};
use vltava_e2e::ledger::{Depth, Ledger, Place};
use vltava_e2e::load::{Load, Producer, connect};
use vltava_e2e::process::{Server, setup, with_node};
use vltava_e2e::sample::{Origin, batch};
use vltava_e2e::{Chance, wait};
use wire::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};

/// Topic, its promise about flushes, and how its batches are compressed. What one process loses, the
/// page cache keeps: a kill must not cost anything under any of them.
const TOPICS: &[(&str, &str, Compression)] = &[
    ("ack", "ack", Compression::None),
    ("interval", "interval", Compression::Lz4),
    ("os", "os", Compression::Zstd),
];
const PARTITIONS: i32 = 2;
/// The longest that a node is under load after the first answers.
const LOAD_MAX: Duration = Duration::from_millis(500);
/// The longest that a start is let run before it is killed too.
const START_CUT_MAX: Duration = Duration::from_millis(40);

#[test]
fn what_was_acknowledged_survives_kill_9() -> Result<()> {
    let rounds: u64 = match env::var("VLTAVA_CRASH_ROUNDS") {
        Ok(text) => text.parse().context("VLTAVA_CRASH_ROUNDS is not a number")?,
        Err(_) => 50,
    };
    let mut chance = Chance::from_env("crash")?;
    with_node(Node::start(setup()?)?, |node| story(node, rounds, &mut chance))
}

/// A deletion is decided before the disk follows; a crash in between must not bring the topic back, least
/// of all on a node without other topics, which takes in what it finds.
#[test]
fn a_deleted_topic_does_not_come_back() -> Result<()> {
    const TOPIC: &str = "deleted";
    with_node(Node::start(setup()?)?, |node| {
        let admin = admin(&node.bootstrap())?;
        Churn::default().create(&admin, TOPIC, 1, &[FOR_EVER])?;
        let first = Origin { producer: 0, number: 0 };
        let batch = batch(first, 10, Compression::None, records::Producer::NONE);
        connect(&node.bootstrap())?.produce(TOPIC, PartitionIndex(0), -1, &batch)?;
        let data_dir = node.data_dir().context("a node of ours has a directory")?.to_owned();
        let (there, kept) = (data_dir.join(format!("{TOPIC}-0")), data_dir.join("kept"));
        fs::create_dir(&kept)?;
        for entry in fs::read_dir(&there)? {
            let entry = entry?;
            fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
        admin.delete_topic(TOPIC).wait()?;
        node.kill()?;
        // As a crash leaves it that came right after the decision.
        ensure!(!there.exists(), "{} is still there", there.display());
        fs::rename(&kept, &there)?;
        node.start_again()?;
        let topics = vltava_e2e::churn::admin(&node.bootstrap())?.list_topics().wait()?;
        ensure!(topics.is_empty(), "{topics:?}");
        check_directories(node)
    })
}

fn story(node: &mut Node, rounds: u64, chance: &mut Chance) -> Result<()> {
    let began = Instant::now();
    let (mut load, places) = prepare(node)?;
    let mut ledger = load.ledger();
    for round in 1..=rounds {
        let epochs = leader_epochs(node)?;
        alter(node, round).with_context(|| format!("round {round}"))?;
        crash(node, &mut load, &mut ledger, &places, chance).with_context(|| format!("round {round}"))?;
        come_back(node, &mut load, &mut ledger, &epochs, chance)
            .and_then(|()| check_altered(node, round))
            .with_context(|| format!("after the crash of round {round}"))?;
    }
    let mut connection = connect(&node.bootstrap())?;
    ledger.check(&mut connection, Depth::All).context("at the end")?;
    check_epochs(&ledger, &mut connection).context("at the end")?;
    check_directories(node)?;
    eprintln!(
        "crash: {rounds} rounds, {} records acknowledged, {} found, {} topics, {:.1} s",
        ledger.acknowledged_count(),
        ledger.found_count(),
        load.churn().topics(),
        began.elapsed().as_secs_f64(),
    );
    Ok(())
}

/// An idempotent producer for each partition, a plain one, and one that asks for the leader alone.
fn prepare(node: &Node) -> Result<(Load, Vec<Place>)> {
    let mut churn = Churn::default();
    let admin = admin(&node.bootstrap())?;
    let mut connection = connect(&node.bootstrap())?;
    let (mut producers, mut places) = (Vec::new(), Vec::new());
    for (topic, policy, compression) in TOPICS {
        // Small segments, so that kills hit rolls too.
        churn.create(
            &admin,
            topic,
            PARTITIONS,
            &[FOR_EVER, ("segment.bytes", "1048576"), ("flush.policy", policy)],
        )?;
        for partition in 0..PARTITIONS {
            let at = Place { topic: (*topic).to_owned(), partition: PartitionIndex(partition) };
            let id = producers.len() as u32;
            producers.push(Producer::idempotent(id, at.clone(), *compression, &mut connection)?);
            producers.push(Producer::plain(id + 1, at.clone(), Compression::None));
            producers.push(Producer::leader_only(id + 2, at.clone(), Compression::None));
            places.push(at);
        }
    }
    Ok((Load::new(producers, churn), places))
}

/// What is set anew in each round: whose setting, which one, and to how much more than the round's number.
fn altered() -> [(Resource, ConfigSource, &'static str, u64); 3] {
    let topic = Resource::Topic(TOPICS[0].0.to_owned());
    [
        (topic, ConfigSource::Topic, "max.message.bytes", 2_000_000),
        (Resource::Broker(BrokerId(1)), ConfigSource::Broker, "message.max.bytes", 3_000_000),
        (Resource::AllBrokers, ConfigSource::AllBrokers, "log.retention.bytes", 1 << 40),
    ]
}

fn alter(node: &Node, round: u64) -> Result<()> {
    let changes = altered().map(|(of, _, name, above)| {
        (of, vec![ConfigChange::Set(name.to_owned(), (above + round).to_string())])
    });
    let done = admin(&node.bootstrap())?.alter_configs(changes).wait();
    Ok(done.into_iter().collect::<Result<(), _>>()?)
}

/// What was altered is so, also where others inherit it.
fn check_altered(node: &Node, round: u64) -> Result<()> {
    let admin = admin(&node.bootstrap())?;
    let heir = Resource::Topic(TOPICS[1].0.to_owned());
    let inherits = [
        (heir.clone(), ConfigSource::Broker, "max.message.bytes", 3_000_000),
        (heir, ConfigSource::AllBrokers, "retention.bytes", 1 << 40),
    ];
    for (of, source, name, above) in altered().into_iter().chain(inherits) {
        let settings = admin.describe_config(of.clone()).wait()?;
        let found = settings.iter().find(|setting| setting.name == name);
        let found = found.with_context(|| format!("{of:?} has no {name}"))?;
        let expected = (above + round).to_string();
        let is_kept = found.value.as_deref() == Some(&expected) && found.source == source;
        ensure!(is_kept, "{of:?} was altered to {name}={expected} and has {found:?}");
    }
    Ok(())
}

fn crash(
    node: &mut Node,
    load: &mut Load,
    ledger: &mut Ledger,
    places: &[Place],
    chance: &mut Chance,
) -> Result<()> {
    let read_at = chance.one_of(places).clone();
    let (batches, delay) = (chance.pick(1..50), chance.time(LOAD_MAX));
    load.during(&node.bootstrap(), ledger, &read_at, |progress| {
        progress.wait_for_batches(batches)?;
        // Not to wait for anything: the moment of the fault.
        thread::sleep(delay);
        node.kill()
    })?;
    if chance.one_in(3) {
        cut_start(node, chance)?;
    }
    Ok(())
}

/// Starts the node on its directory and kills it while it recovers.
fn cut_start(node: &Node, chance: &mut Chance) -> Result<()> {
    let mut server = Server::on(node.data_dir().context("a node of ours has a directory")?)?;
    server.listen = node.address();
    server.http_listen = node.http_address();
    let mut child = server.spawn()?;
    thread::sleep(chance.time(START_CUT_MAX));
    child.kill()?;
    child.wait()?;
    Ok(())
}

type Epochs = BTreeMap<(String, PartitionIndex), base::LeaderEpoch>;

fn come_back(
    node: &mut Node,
    load: &mut Load,
    ledger: &mut Ledger,
    epochs_before: &Epochs,
    chance: &mut Chance,
) -> Result<()> {
    node.start_again()?;
    let mut connection = connect(&node.bootstrap())?;
    load.churn().check(&admin(&node.bootstrap())?)?;
    let epochs = leader_epochs(node)?;
    for (partition, before) in epochs_before {
        // A topic that was deleted meanwhile has none.
        if let Some(after) = epochs.get(partition) {
            ensure!(after > before, "{partition:?} has leader epoch {after} after a crash, before {before}");
        }
    }
    ledger.check(&mut connection, Depth::Tail)?;
    // Most lives begin with producers that send again while others send anew; some with those alone.
    if chance.one_in(4) {
        load.settle(&node.bootstrap(), ledger)?;
        ledger.check(&mut connection, Depth::Tail).context("after what was not answered was sent again")?;
    }
    Ok(())
}

fn leader_epochs(node: &Node) -> Result<Epochs> {
    let topics = admin(&node.bootstrap())?.list_topics().wait()?;
    let of = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|of| ((topic.name.clone(), of.index), of.leader_epoch))
    });
    Ok(of.collect())
}

/// Nothing is left of deleted topics, and nothing of creations that were cut short.
fn check_directories(node: &Node) -> Result<()> {
    let data_dir = node.data_dir().context("a node of ours has a directory")?;
    let topics = admin(&node.bootstrap())?.list_topics().wait()?;
    let of = |topic: &client::admin::Topic, index| format!("{}-{index}", topic.name);
    let expected: BTreeSet<String> = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |partition| of(topic, partition.index)))
        .chain(["__cluster_metadata-0".to_owned()])
        .collect();
    let mut unexpected = Vec::new();
    let looked = wait::until("directories and partitions are the same", Duration::from_secs(10), || {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(data_dir)? {
            let entry = entry?;
            if entry.path().is_dir() {
                found.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        unexpected = found.symmetric_difference(&expected).cloned().collect();
        Ok(unexpected.is_empty().then_some(()))
    });
    looked.with_context(|| format!("{unexpected:?}"))
}

/// The node knows of each epoch that is in the batches, and where it ends.
fn check_epochs(ledger: &Ledger, connection: &mut Connection) -> Result<()> {
    for (at, epochs, end) in ledger.epochs() {
        let ends = epochs.iter().skip(1).map(|(_, start)| *start).chain([end]);
        for ((epoch, _), end) in epochs.iter().zip(ends) {
            let partition = OffsetForLeaderPartition {
                partition: at.partition.0,
                current_leader_epoch: -1,
                leader_epoch: *epoch,
            };
            let topics = vec![OffsetForLeaderTopic { topic: &at.topic, partitions: vec![partition] }];
            let answer = connection.ask(&OffsetForLeaderEpochRequest { replica_id: -1, topics })?;
            let answer = answer.read()?;
            let found = answer.topics.first().and_then(|topic| topic.partitions.first());
            let found = found.context("no answer")?;
            let (code, of, ends) = (found.error_code, found.leader_epoch, found.end_offset);
            ensure!(
                code == 0 && of == *epoch && ends == end.0,
                "{at}: epoch {epoch} ends at {end}: {found:?}"
            );
        }
    }
    Ok(())
}
