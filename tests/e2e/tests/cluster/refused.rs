//! Moves that cannot be taken back, for too few would have everything without those that are on their way in.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::BrokerId;
use client::admin::{ConfigChange, ConfigSource, NewTopic, Resource, Setting};
use serde_json::Value;
use vltava_e2e::churn::admin;
use vltava_e2e::nodes::Nodes;
use vltava_e2e::wait;

use crate::{numbers, replicas, votes};

const LIST: &str = "leader.replication.throttled.replicas";
const PATIENCE: Duration = Duration::from_secs(30);

fn in_sync(nodes: &Nodes, topic: &str) -> Result<Vec<i64>> {
    let mut in_sync = numbers(&nodes.partitions(topic)?[0]["in_sync"]);
    in_sync.sort_unstable();
    Ok(in_sync)
}

fn until_in_sync(nodes: &Nodes, topic: &str, ids: &[i64]) -> Result<()> {
    // While a leader is looked for, nobody may know.
    let are_in_sync = || Ok(in_sync(nodes, topic).is_ok_and(|found| found == ids).then_some(()));
    wait::until("these are in sync", PATIENCE, are_in_sync)
        .with_context(|| format!("of {topic} {ids:?} should be in sync: {:?}", in_sync(nodes, topic)))
}

fn is_limited(nodes: &Nodes, topic: &str) -> Result<bool> {
    let described = admin(&nodes.bootstrap())?.describe_configs([Resource::Topic(topic.into())]).wait();
    let is_limit = |it: &Setting| it.name == LIST && it.source != ConfigSource::Default;
    described.into_iter().try_fold(false, |found, it| Ok(found || it?.iter().any(is_limit)))
}

/// Two topics on their way from 1 and 2 to 3, which has arrived, and to 5, which is down; then 2 goes down. Without 3,
/// `held` would be on 1 alone.
fn begin(nodes: &mut Nodes) -> Result<()> {
    let admin = admin(&nodes.bootstrap())?;
    for (topic, min) in [("held", "2"), ("free", "1")] {
        let assignments = vec![vec![BrokerId(1), BrokerId(2)]];
        let configs = vec![("min.insync.replicas".to_owned(), min.to_owned())];
        for made in admin.create_topics([NewTopic { assignments, configs, ..NewTopic::named(topic) }]).wait()
        {
            made?;
        }
        let listed = ConfigChange::Set(LIST.to_owned(), "0:1,0:2".to_owned());
        for done in admin.alter_configs([(Resource::Topic(topic.to_owned()), vec![listed])]).wait() {
            done?;
        }
    }
    nodes.kill(5)?;
    let targets = ["held", "free"].map(|topic| (topic.to_owned(), 0, vec![BrokerId(3), BrokerId(5)]));
    for begun in admin.reassign(targets).wait() {
        begun?;
    }
    ["held", "free"].iter().try_for_each(|topic| until_in_sync(nodes, topic, &[1, 2, 3]))?;
    nodes.kill(2)?;
    ["held", "free"].iter().try_for_each(|topic| until_in_sync(nodes, topic, &[1, 3]))
}

#[test]
fn what_cannot_be_taken_back_stays_limited_and_keeps_no_dead_node_its_vote() -> Result<()> {
    let mut nodes = Nodes::found(&[1, 3, 4])?;
    [2, 5].into_iter().try_for_each(|id| nodes.join(id, &[1], &[]))?;
    nodes.told(|nodes| {
        begin(nodes)?;
        let output = nodes.run(&["cluster", "cancel", "--yes", "--json"])?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{error}");
        for part in ["held-0", "INVALID_REPLICA_ASSIGNMENT", "--config min.insync.replicas=1"] {
            ensure!(error.contains(part), "{part} is not in {error}");
        }
        let said: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(said["cancelled"][0]["topic"] == "free" && said["cancelled"][1].is_null(), "{said:#}");
        ensure!(replicas(nodes, "free")? == [[1, 2]]);
        ensure!(is_limited(nodes, "held")? && !is_limited(nodes, "free")?);

        nodes.kill(3)?;
        until_in_sync(nodes, "held", &[1])?;
        let error = nodes.refuses(&["cluster", "remove", "3", "--yes"])?;
        ensure!(error.contains("held-0") && error.contains("node 3 votes no more"), "{error}");
        let status = nodes.status()?;
        ensure!(votes(&status) == [1, 4], "{status:#}");
        let is_known =
            |status: &Value| status["nodes"].as_array().into_iter().flatten().any(|node| node["id"] == 3);
        ensure!(is_known(&status), "what it has may be all that is left of something: {status:#}");

        nodes.says(&["topic", "alter", "held", "--config", "min.insync.replicas=1"])?;
        nodes.says(&["cluster", "cancel", "--yes"])?;
        ensure!(!is_limited(nodes, "held")?);
        let said = nodes.says(&["cluster", "remove", "3", "--yes"])?;
        ensure!(said.contains("node 3 is gone"), "{said}");
        let status = nodes.status()?;
        ensure!(!is_known(&status), "{status:#}");
        Ok(())
    })
}
