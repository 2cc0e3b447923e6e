//! A leader that lacks what was acknowledged: never by itself, loudly if asked for, and whoever comes back later
//! goes on with what is left.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::producer::{Acks, Producer, Record};
use serde_json::Value;
use vltava_e2e::churn::admin;
use vltava_e2e::nodes::{Nodes, is_well};
use vltava_e2e::wait;

/// How long brokers may take to see that others are gone.
const TIME_MAX: Duration = Duration::from_secs(30);

fn write(nodes: &Nodes, values: &[&str]) -> Result<()> {
    let bootstrap = nodes.bootstrap();
    let producer = Producer::builder(&bootstrap).acks(Acks::All).delivery_timeout(TIME_MAX).build()?;
    for value in values {
        producer.send_blocking(&Record::to("orders").value(value))?.wait().context("it is led")?;
    }
    Ok(())
}

/// The one partition there is.
fn partition(nodes: &Nodes) -> Result<Value> {
    let described: Value = serde_json::from_str(&nodes.says(&["topic", "describe", "orders", "--json"])?)?;
    let partitions = described["partitions"].as_array().or_else(|| described[0]["partitions"].as_array());
    partitions.and_then(|all| all.first()).cloned().with_context(|| format!("{described:#}"))
}

fn numbers(list: &Value) -> Vec<i32> {
    let number = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok());
    list.as_array().into_iter().flatten().filter_map(number).collect()
}

/// The leader first.
fn replicas(nodes: &Nodes) -> Result<[i32; 3]> {
    let partition = partition(nodes)?;
    let mut replicas = numbers(&partition["replicas"]);
    replicas.sort_by_key(|id| partition["leader"] != *id);
    replicas.try_into().ok().with_context(|| format!("{partition:#}"))
}

#[test]
fn an_unclean_election_is_asked_for_said_and_survived_by_who_comes_late() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&[1])?;
        nodes.start(1, &[("process.roles", "controller"), ("cluster.peers", peers.as_str())])?;
        let brokers = [2, 3, 4];
        for id in brokers {
            nodes.join(id, &[1], &[("process.roles", "broker")])?;
        }
        let start = |nodes: &mut Nodes, id: i32| {
            let listen = nodes.cluster_address(id)?;
            nodes.start(id, &[("process.roles", "broker"), ("cluster.listen", &listen)])
        };
        nodes.says(&[
            "topic",
            "create",
            "orders",
            "--partitions",
            "1",
            "--config",
            "min.insync.replicas=1",
        ])?;
        nodes.until("all are in sync", is_well)?;
        let [late, next, third] = replicas(nodes)?;
        write(nodes, &["first"])?;
        nodes.until("all are in sync", is_well)?;
        nodes.kill(next)?;
        nodes.kill(third)?;
        write(nodes, &["lost", "lost, too"])?;
        // In order, so that it knows what was committed when it comes back.
        nodes.stop(late)?;
        start(nodes, next)?;
        ensure!(!nodes.log(1).contains("unclean election"), "not by itself: {}", nodes.log(1));
        let admin = admin(&nodes.bootstrap())?;
        wait::until("somebody is elected", TIME_MAX, || {
            let elected = admin.elect_unclean_leaders([("orders", 0)]).wait();
            Ok(elected.iter().all(Result::is_ok).then_some(()))
        })?;
        for (id, words) in [
            (1, "unclean election: the new leader was not in sync"),
            (next, "this broker leads after an unclean election"),
        ] {
            nodes.until_log(id, words)?;
            let log = nodes.log(id);
            let line = log.lines().find(|line| line.contains(words)).unwrap_or_default();
            for part in ["ERROR", "orders-0", &format!("leader={next}"), "was asked for"] {
                ensure!(line.contains(part), "{part}: {line}");
            }
            ensure!(line.contains(&late.to_string()), "who led before: {line}");
        }
        let counted = nodes.metrics(next)?.get("vltava_elections_unclean_total").copied();
        ensure!(counted == Some(1.0), "{counted:?}");
        write(nodes, &["second"])?;
        // With the next in sync the leader has recovered.
        start(nodes, third)?;
        wait::until("two are in sync", TIME_MAX, || {
            Ok(numbers(&partition(nodes)?["in_sync"]).contains(&third).then_some(()))
        })?;
        start(nodes, late)?;
        nodes.until("all are in sync", is_well)?;
        nodes.until_log(late, "committed records were given up")?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%s\\n"])?;
        ensure!(read == "first\nsecond\n", "{read}");
        Ok(())
    })
}
