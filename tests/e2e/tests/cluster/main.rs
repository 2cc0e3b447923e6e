//! Clusters of three that are asked for something: to move partitions, to serve consumers where they are, to do what
//! any of the nodes is told, to be looked after with Kafka's tools, to delete records; and clusters that are no more.

mod bad_day;
mod forwarding;
mod moves;
mod racks;
mod refused;
mod tools;
mod trimmed;

use anyhow::Result;
use serde_json::Value;
use vltava_e2e::nodes::{Nodes, is_well};

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn votes(status: &Value) -> Vec<i64> {
    numbers(&status["quorum"]["voters"])
}

/// Who has the replicas of a topic.
fn replicas(nodes: &Nodes, topic: &str) -> Result<Vec<Vec<i64>>> {
    Ok(nodes.partitions(topic)?.iter().map(|partition| numbers(&partition["replicas"])).collect())
}
