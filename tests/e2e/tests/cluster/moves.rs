//! Partitions move while records are written: no faster than they may, seen from elsewhere, taken back, and for good.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::BrokerId;
use client::admin::{ConfigSource, NewTopic, Resource, Setting};
use client::producer::{Acks, Producer, Record};
use serde_json::Value;
use vltava_e2e::churn::admin;
use vltava_e2e::nodes::Nodes;
use vltava_e2e::stream::{Stream, check};
use vltava_e2e::wait;

use crate::{is_well, numbers, replicas};

const IDS: [i32; 3] = [1, 2, 3];
/// Of each partition of what is large.
const VALUES: i64 = 60;
const VALUE_BYTES: usize = 100_000;
/// Megabytes a second: a large partition takes three.
const THROTTLE: &str = "2";
const AT_LEAST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

/// Two topics, one partition on each broker: one of them large, one that is written to all the time.
fn prepare(nodes: &Nodes) -> Result<()> {
    let (bootstrap, mut scattered) = (nodes.bootstrap(), Vec::new());
    scattered.extend(IDS.map(|id| vec![BrokerId(id)]));
    let topics = ["large", "orders"]
        .map(|topic| NewTopic { assignments: scattered.clone(), ..NewTopic::named(topic) });
    for made in admin(&bootstrap)?.create_topics(topics).wait() {
        made?;
    }
    let producer = Producer::builder(&bootstrap).acks(Acks::All).build()?;
    let value = vec![b'x'; VALUE_BYTES];
    let mut sent = Vec::new();
    for number in 0..VALUES * 3 {
        let record = Record::to("large").partition((number % 3) as i32).value(&value);
        sent.push(producer.send_blocking(&record)?);
    }
    sent.into_iter().try_for_each(|delivery| Ok(delivery.wait().map(drop)?))
}

/// What is on its way, once something is: partitions, and who has each of them until then.
fn until_moving(nodes: &Nodes) -> Result<()> {
    let is_moving = |status: &Value| {
        let moving = status["moving"].as_array().into_iter().flatten();
        moving.clone().any(|it| it["topic"] == "large")
    };
    nodes.until("a large partition is on its way", is_moving).map(drop)
}

type Placed = BTreeMap<(String, i64), Vec<i64>>;

fn placed(nodes: &Nodes) -> Result<Placed> {
    let mut placed = Placed::new();
    for topic in ["large", "orders"] {
        for (partition, replicas) in (0..).zip(replicas(nodes, topic)?) {
            placed.insert((topic.to_owned(), partition), replicas);
        }
    }
    Ok(placed)
}

/// Settings that limit copies, and that somebody set.
fn limits(nodes: &Nodes) -> Result<Vec<String>> {
    let resources = IDS.map(|id| Resource::Broker(BrokerId(id))).into_iter();
    let resources = resources.chain([Resource::Topic("large".into()), Resource::Topic("orders".into())]);
    let mut limits = Vec::new();
    for described in admin(&nodes.bootstrap())?.describe_configs(resources).wait() {
        let is_limit =
            |it: &Setting| it.name.contains("replication.throttled") && it.source != ConfigSource::Default;
        limits.extend(described?.into_iter().filter(is_limit).map(|it| it.name));
    }
    Ok(limits)
}

/// Somebody drains broker 3, somebody else watches.
fn is_drained(nodes: &Nodes) -> Result<()> {
    let began = Instant::now();
    let (drained, watched) = thread::scope(|scope| {
        let drain = scope.spawn(|| nodes.says(&["cluster", "drain", "3", "--throttle", THROTTLE, "--yes"]));
        let watched = until_moving(nodes).and_then(|()| nodes.shows(&["cluster", "watch"]));
        (drain.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), watched)
    });
    let (drained, watched) = (drained?, watched?);
    ensure!(began.elapsed() >= AT_LEAST, "it took {:?}", began.elapsed());
    ensure!(drained.contains(" s at 2.0 MB/s into each broker"), "{drained}");
    ensure!(drained.contains("nothing is left on 3"), "{drained}");
    for part in ["partitions done, ", " copied, ", "B/s, ", " s left", "moved "] {
        ensure!(watched.contains(part), "{part:?} is not in {watched:?}");
    }
    let placed = placed(nodes)?;
    ensure!(placed.values().flatten().all(|id| *id != 3), "{placed:?}");
    ensure!(limits(nodes)?.is_empty(), "{:?}", limits(nodes)?);
    Ok(())
}

/// Somebody gives all brokers what is large, somebody else does not want it.
fn is_taken_back(nodes: &Nodes) -> Result<()> {
    let before = placed(nodes)?;
    let (refused, taken) = thread::scope(|scope| {
        let grow = ["topic", "alter", "large", "--replication-factor", "3", "--throttle", THROTTLE, "--yes"];
        let growing = scope.spawn(move || nodes.refuses(&grow));
        let cancel = ["cluster", "cancel", "--yes", "--json"];
        let taken = until_moving(nodes).and_then(|()| nodes.says(&cancel));
        (growing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), taken)
    });
    let (taken, refused): (Value, String) = (serde_json::from_str(&taken?)?, refused?);
    ensure!(refused.contains("large-0, large-1, large-2 are not where"), "{refused}");
    ensure!(refused.contains("somebody took the move back"), "{refused}");
    ensure!(taken["cancelled"].as_array().map(Vec::len) == Some(3), "{taken:#}");
    let after = placed(nodes)?;
    ensure!(after == before, "it was {before:?} and is {after:?}");
    ensure!(limits(nodes)?.is_empty(), "{:?}", limits(nodes)?);
    ensure!(nodes.says(&["cluster", "watch"])? == "nothing is on its way\n");
    // What had been copied is not left behind.
    IDS.into_iter().try_for_each(|id| {
        let has = |(topic, partition): &(String, i64)| {
            (topic == "large" && after[&(topic.clone(), *partition)].contains(&i64::from(id)))
                .then(|| format!("{topic}-{partition}"))
        };
        let wanted: Vec<String> = after.keys().filter_map(has).collect();
        wait::until("the copies are gone", PATIENCE, || Ok((large_logs(nodes, id)? == wanted).then_some(())))
            .with_context(|| format!("node {id} should have {wanted:?}, and has {:?}", large_logs(nodes, id)))
    })
}

/// Directories of what is large on a node, without those that are being deleted.
fn large_logs(nodes: &Nodes, id: i32) -> Result<Vec<String>> {
    let names = std::fs::read_dir(nodes.data_dir(id))?.filter_map(Result::ok);
    let names = names.map(|it| it.file_name().to_string_lossy().into_owned());
    let mut logs: Vec<String> =
        names.filter(|name| name.starts_with("large-") && !name.ends_with("-delete")).collect();
    logs.sort();
    Ok(logs)
}

#[test]
fn moves_are_limited_watched_taken_back_and_grow_a_topic_without_losing_a_record() -> Result<()> {
    Nodes::found(&IDS)?.told(|nodes| {
        prepare(nodes)?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            is_drained(nodes)?;
            stream.goes_on()?;
            nodes.says(&["cluster", "add", "3", "--yes"])?;
            is_taken_back(nodes)?;
            let said = nodes.says(&["cluster", "rebalance", "--throttle", "20", "--yes"])?;
            ensure!(limits(nodes)?.is_empty(), "{:?}", limits(nodes)?);
            ensure!(said.contains("the brokers have as much as each other"), "{said}");
            for topic in ["large", "orders"] {
                let said = nodes.says(&["topic", "alter", topic, "--replication-factor", "3", "--yes"])?;
                ensure!(said.contains(&format!("altered topic {topic}")), "{said}");
            }
            nodes.until("all are in sync", is_well)?;
            for partition in ["large", "orders"].map(|topic| nodes.partitions(topic)) {
                let of_all = partition?.iter().all(|it| numbers(&it["in_sync"]).len() == 3);
                ensure!(of_all, "{:?}", placed(nodes)?);
            }
            // Others can now take over what broker 3 leads.
            nodes.kill(3)?;
            stream.goes_on()
        })?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read)?;
        let read = nodes.says(&["consume", "large", "-e", "-f", "%p %o %S\\n"])?;
        let mut read: Vec<&str> = read.lines().collect();
        read.sort_unstable();
        let all = (0..3).flat_map(|at| (0..VALUES).map(move |offset| format!("{at} {offset} {VALUE_BYTES}")));
        let mut all: Vec<String> = all.collect();
        all.sort_unstable();
        ensure!(read == all, "of {} large records {} were read", all.len(), read.len());
        Ok(())
    })
}
