//! A partition whose leader goes is served by the next one at once, whatever its followers wait for there; and one that
//! was not gone after all is left in peace.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::producer::{Acks, Producer, Record};
use rustix::process::Signal;
use vltava_e2e::nodes::{Nodes, is_well};

/// Long enough to tell it from everything else.
const FETCH_WAIT_MAX: &str = "120000";

/// How long a record may take. A follower that asked for the partition only with its next question would
/// take as long as `replica.fetch.wait.max.ms`.
const DELIVERY_MAX: Duration = Duration::from_secs(40);

const PARTITIONS: i32 = 6;

/// A crash is to be seen, and a stop to be told: who waits until a session has run out is too late.
const SESSION: &str = "600000";

fn write(nodes: &Nodes, topic: &str) -> Result<()> {
    let bootstrap = nodes.bootstrap();
    let producer = Producer::builder(&bootstrap).acks(Acks::All).delivery_timeout(DELIVERY_MAX).build()?;
    for partition in 0..PARTITIONS {
        let sent = producer.send_blocking(&Record::to(topic).partition(partition).value("x"))?;
        sent.wait().with_context(|| format!("{topic}-{partition}"))?;
    }
    Ok(())
}

#[test]
fn followers_do_not_wait_for_their_last_question_to_ask_the_next_leader() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&[1, 2, 3])?;
        let set = [("cluster.peers", peers.as_str()), ("replica.fetch.wait.max.ms", FETCH_WAIT_MAX)];
        for id in [1, 2, 3] {
            nodes.spawn(id, &set)?;
        }
        for id in [1, 2, 3] {
            nodes.wait_until_serving(id)?;
        }
        // Every node leads a part of the first: all ask all others for it, and there is no answer.
        for topic in ["quiet", "busy"] {
            nodes.says(&["topic", "create", topic, "--partitions", &PARTITIONS.to_string()])?;
            write(nodes, topic)?;
        }
        // What it led is led by the others now.
        nodes.stop(1)?;
        write(nodes, "busy")
    })
}

/// Who leads the metadata, and another node.
fn controller_and_broker(nodes: &Nodes) -> Result<(i32, i32)> {
    let status = nodes.until("somebody leads the metadata", |status| status["quorum"]["leader"].is_i64())?;
    let controller = i32::try_from(status["quorum"]["leader"].as_i64().context("it is a number")?)?;
    Ok((controller, if controller == 1 { 2 } else { 1 }))
}

/// Something happens to a node that leads a part of a new topic, and records go on.
fn goes_on(
    nodes: &mut Nodes,
    (id, topic): (i32, &str),
    set: &[(&str, &str)],
    happens: impl FnOnce(&mut Nodes) -> Result<()>,
) -> Result<()> {
    nodes.says(&["topic", "create", topic, "--partitions", &PARTITIONS.to_string()])?;
    write(nodes, topic)?;
    let leads_some = nodes.partitions(topic)?.iter().any(|partition| partition["leader"] == id);
    ensure!(leads_some, "node {id} leads none of {topic}");
    happens(nodes)?;
    write(nodes, topic)?;
    nodes.start(id, set)?;
    nodes.until("all is well again", is_well)?;
    Ok(())
}

#[test]
fn who_dies_is_replaced_before_its_session_ends_and_who_stops_hands_over_first() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let ids = [1, 2, 3];
        let peers = nodes.peers(&ids)?;
        let set = [("cluster.peers", peers.as_str()), ("broker.session.timeout.ms", SESSION)];
        ids.iter().try_for_each(|id| nodes.spawn(*id, &set))?;
        ids.iter().try_for_each(|id| nodes.wait_until_serving(*id))?;
        let (_, broker) = controller_and_broker(nodes)?;
        goes_on(nodes, (broker, "broker"), &set, |nodes| nodes.kill(broker))?;
        let (controller, _) = controller_and_broker(nodes)?;
        goes_on(nodes, (controller, "controller"), &set, |nodes| nodes.kill(controller))?;
        let (controller, _) = controller_and_broker(nodes)?;
        goes_on(nodes, (controller, "stop"), &set, |nodes| {
            nodes.stop(controller)?;
            says_in_order(
                &nodes.log(controller),
                &[
                    "stopping: SIGTERM",
                    "others lead what they can of what this node led",
                    "handed the lead of the metadata over",
                    "stopped in good order",
                ],
            )
        })
    })
}

fn says_in_order(log: &str, words: &[&str]) -> Result<()> {
    let mut rest = log;
    for said in words {
        let at = rest.find(said);
        rest = &rest[at.with_context(|| format!("{said:?} is missing, or in another order:\n{log}"))?..];
    }
    Ok(())
}

/// How long is looked whether nodes connect to each other again and again.
const LOOK: Duration = Duration::from_secs(2);

/// As many connections as nothing needs that is well.
const CONNECTIONS_MAX: usize = 100;

/// Connections to these ports that have ended in the last minute, and those that stand.
fn connections(ports: &[u16]) -> Result<usize> {
    let table = fs::read_to_string("/proc/net/tcp")?;
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let is_theirs = |line: &&str| {
        let mut addresses = line.split_whitespace().skip(1).take(2);
        addresses.any(|address| port(address).is_some_and(|port| ports.contains(&port)))
    };
    Ok(table.lines().filter(is_theirs).count())
}

#[test]
fn who_is_looked_for_and_lives_looks_for_nobody() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        let leader = nodes.status()?["quorum"]["leader"].as_i64().unwrap_or_default();
        nodes.signal(leader as i32, Signal::STOP)?;
        let others = nodes.until("another leads", |status| status["quorum"]["leader"] != leader);
        nodes.signal(leader as i32, Signal::CONT)?;
        others?;
        nodes.until("it is there again", |status| {
            status["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(|node| node["up"] == true))
        })?;
        let ports: Result<Vec<u16>> = [1, 2, 3]
            .map(|id| {
                let address = nodes.cluster_address(id)?;
                Ok(address.rsplit(':').next().context("it has a port")?.parse()?)
            })
            .into_iter()
            .collect();
        let ports = ports?;
        let before = connections(&ports)?;
        thread::sleep(LOOK);
        let since = connections(&ports)?.saturating_sub(before);
        ensure!(since < CONNECTIONS_MAX, "{since} connections between nodes in {LOOK:?}");
        Ok(())
    })
}
