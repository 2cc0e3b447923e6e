//! The majority is gone for good, and the records are not: what `docs/operate/bad-day.md` says.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vltava_e2e::nodes::Nodes;
use vltava_e2e::stream::{Promised, Stream, check};

use crate::{is_well, replicas};

/// As people copy a directory.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

fn id(nodes: &Nodes, topic: &str) -> Result<Value> {
    let described: Value = serde_json::from_str(&nodes.says(&["topic", "describe", topic, "--json"])?)?;
    Ok(described[0]["id"].clone())
}

/// The leader of the quorum is left alone: what it leads is read, nothing is decided, and whoever looks is told so.
fn is_read_and_not_changed(nodes: &Nodes, promised: &Promised, led: i32) -> Result<()> {
    let refused = nodes.refuses(&["topic", "create", "late", "--timeout", "4"])?;
    ensure!(refused.contains("topic late: not done"), "{refused}");
    let shown = nodes.run(&["cluster", "status", "--timeout", "2"])?.stdout;
    let shown = String::from_utf8_lossy(&shown);
    ensure!(shown.contains("1 of 3 is no majority: nothing is decided"), "{shown}");
    let partition = led.to_string();
    let read = nodes.says(&["consume", "orders", "-p", &partition, "-e", "-f", "%p %o %s\\n"])?;
    let mut of_it = promised.clone();
    of_it.retain(|(partition, _), _| *partition == led);
    ensure!(!of_it.is_empty(), "nothing was written to {led}");
    check(&of_it, &read).map(drop)
}

#[test]
fn without_a_majority_nothing_is_decided_and_the_records_go_to_another_cluster() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        nodes.until("all are in sync", is_well)?;
        let id_before = id(nodes, "orders")?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", Stream::goes_on)?;
        let left = nodes.status()?["quorum"]["leader"].as_i64().context("somebody leads")? as i32;
        let led = nodes.partitions("orders")?;
        let led = led.iter().position(|it| it["leader"] == left).context("each leads one of three")? as i32;
        [1, 2, 3].into_iter().filter(|id| *id != left).try_for_each(|id| nodes.kill(id))?;
        is_read_and_not_changed(nodes, &promised, led)?;
        nodes.kill(left)?;
        for partition in 0..3 {
            let name = format!("orders-{partition}");
            copy(&nodes.data_dir(left).join(&name), &nodes.data_dir(9).join(&name))?;
        }
        nodes.start(9, &[])?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read)?;
        ensure!(id(nodes, "orders")? == id_before, "it is another topic");
        let replicas = replicas(nodes, "orders")?;
        ensure!(replicas == [[9], [9], [9]], "{replicas:?}");
        Stream::during(&nodes.bootstrap(), "orders", Stream::goes_on).map(drop)
    })
}
