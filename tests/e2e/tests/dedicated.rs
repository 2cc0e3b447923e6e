//! Controllers that serve no clients, and brokers without a vote.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vltava_e2e::nodes::{Nodes, is_well};
use vltava_e2e::stream::{Stream, check};

/// One of the nodes of a status.
fn node(status: &Value, id: i32) -> Option<&Value> {
    status["nodes"].as_array()?.iter().find(|node| node["id"] == id)
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

#[test]
fn brokers_without_a_vote_and_a_controller_without_clients() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&[1])?;
        let controller = [("process.roles", "controller"), ("cluster.peers", peers.as_str())];
        nodes.start(1, &controller)?;
        for id in [2, 3, 4] {
            nodes.join(id, &[1], &[("process.roles", "broker")])?;
        }
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        let status = nodes.until("all are in sync", is_well)?;
        let first = node(&status, 1).ok_or_else(|| anyhow::anyhow!("{status:#}"))?;
        ensure!(first["broker"] == false && first["quorum"] == "leads", "{first:#}");
        ensure!(numbers(&status["quorum"]["observers"]) == [2, 3, 4], "{status:#}");
        let refused = nodes.refuses(&["cluster", "add", "2", "--yes"])?;
        ensure!(refused.contains("process.roles has no controller"), "{refused}");
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            nodes.kill(3)?;
            nodes.until("3 is down", |status| node(status, 3).is_some_and(|node| node["up"] == false))?;
            stream.goes_on()?;
            let listen = nodes.cluster_address(3)?;
            nodes.start(3, &[("process.roles", "broker"), ("cluster.listen", &listen)])?;
            nodes.until("all are in sync", is_well)?;
            // While there is no controller, records are written all the same.
            nodes.kill(1)?;
            stream.goes_on()?;
            nodes.start(1, &controller)?;
            nodes.says(&["topic", "create", "more"])?;
            stream.goes_on()
        })?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read).map(drop)
    })
}

#[test]
fn three_controllers_go_on_without_the_one_that_decided() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let controllers = [1, 2, 3];
        let peers = nodes.peers(&controllers)?;
        let votes = [("process.roles", "controller"), ("cluster.peers", peers.as_str())];
        controllers.into_iter().try_for_each(|id| nodes.spawn(id, &votes))?;
        controllers.into_iter().try_for_each(|id| nodes.wait_until_serving(id))?;
        for id in [4, 5, 6] {
            nodes.join(id, &controllers, &[("process.roles", "broker")])?;
        }
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        let status = nodes.until("all are in sync", is_well)?;
        ensure!(numbers(&status["quorum"]["voters"]) == [1, 2, 3], "{status:#}");
        let leads = |id: &i32| node(&status, *id).is_some_and(|node| node["quorum"] == "leads");
        let active = controllers.into_iter().find(leads).context("one of them decides")?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            nodes.kill(active)?;
            // The others make topics, and put others in the place of a broker that dies.
            nodes.says(&["topic", "create", "more", "--partitions", "3"])?;
            nodes.kill(4)?;
            nodes.until("4 is down", |status| node(status, 4).is_some_and(|node| node["up"] == false))?;
            stream.goes_on()?;
            nodes.start(active, &votes)?;
            let listen = nodes.cluster_address(4)?;
            nodes.start(4, &[("process.roles", "broker"), ("cluster.listen", &listen)])?;
            nodes.until("all are in sync", is_well)?;
            stream.goes_on()
        })?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read).map(drop)
    })
}
