//! Clusters of three that are asked for something: to move partitions, to serve consumers where they are, to do what
//! any of the nodes is told, to be looked after with Kafka's tools; and clusters that are no more.

mod bad_day;
mod forwarding;
mod moves;
mod racks;
mod refused;
mod tools;

use anyhow::{Context, Result};
use serde_json::Value;
use vltava_e2e::nodes::{Nodes, is_well};

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn votes(status: &Value) -> Vec<i64> {
    numbers(&status["quorum"]["voters"])
}

/// A topic's partitions as `vltava topic describe` has them.
fn partitions(nodes: &Nodes, topic: &str) -> Result<Vec<Value>> {
    let described: Value = serde_json::from_str(&nodes.says(&["topic", "describe", topic, "--json"])?)?;
    let partitions = described[0]["partitions"].as_array().cloned();
    partitions.with_context(|| format!("{described:#}"))
}

/// Who has the replicas of a topic.
fn replicas(nodes: &Nodes, topic: &str) -> Result<Vec<Vec<i64>>> {
    Ok(partitions(nodes, topic)?.iter().map(|partition| numbers(&partition["replicas"])).collect())
}
