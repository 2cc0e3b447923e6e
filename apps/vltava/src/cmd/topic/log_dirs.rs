//! `vltava topic log-dirs`: what topics take on the brokers' disks.

use std::io::Write;

use anyhow::Result;
use base::BrokerId;
use client::Admin;
use client::admin::{LogDir, ReplicaSize};
use serde_json::{Value, json};

use super::say_failures;
use crate::output::Table;

/// Show what topics take on the brokers' disks
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava topic log-dirs
  vltava topic log-dirs orders --broker 1
  vltava topic log-dirs --json | jq '[.[].replicas[].bytes] | add'")]
pub(super) struct Arguments {
    /// Which topics; all if none is named
    names: Vec<String>,
    /// Which brokers; all that are up if none is named
    #[arg(long = "broker", value_name = "ID")]
    brokers: Vec<i32>,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let chosen: Vec<BrokerId> = arguments.brokers.iter().copied().map(BrokerId).collect();
    let of_brokers = if chosen.is_empty() {
        admin.describe_all_log_dirs().wait()?
    } else {
        let dirs = admin.describe_log_dirs(chosen.clone()).wait();
        chosen.into_iter().zip(dirs).collect()
    };
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for (broker, result) in of_brokers {
        match result {
            Ok(dirs) => found.extend(dirs.into_iter().map(|dir| (broker, dir))),
            Err(error) => failures.push(error),
        }
    }
    let is_wanted =
        |replica: &ReplicaSize| arguments.names.is_empty() || arguments.names.contains(&replica.topic);
    for (_, dir) in &mut found {
        dir.replicas.retain(is_wanted);
    }
    if as_json {
        writeln!(out, "{:#}", found.iter().map(json_of).collect::<Value>())?;
    } else {
        for (at, (broker, dir)) in found.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            write_dir(*broker, dir, out)?;
        }
    }
    say_failures(failures)
}

fn write_dir(broker: BrokerId, dir: &LogDir, out: &mut dyn Write) -> Result<()> {
    write!(out, "Broker {broker}  {}", dir.path)?;
    if let (Some(usable), Some(total)) = (dir.usable_bytes, dir.total_bytes) {
        write!(out, "  {usable} of {total} bytes free")?;
    }
    if let Some(error) = dir.error {
        write!(out, "  {}", error.name())?;
    }
    if dir.is_cordoned {
        write!(out, "  cordoned")?;
    }
    writeln!(out)?;
    if dir.replicas.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["topic", "partition", "bytes", "lag", ""]);
    for replica in &dir.replicas {
        table.row([
            replica.topic.clone(),
            replica.partition.to_string(),
            replica.bytes.to_string(),
            replica.offset_lag.to_string(),
            if replica.is_future { "on its way here".to_owned() } else { String::new() },
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

fn json_of((broker, dir): &(BrokerId, LogDir)) -> Value {
    let replicas = dir.replicas.iter().map(|replica| {
        json!({
            "topic": replica.topic,
            "partition": replica.partition.0,
            "bytes": replica.bytes,
            "offset_lag": replica.offset_lag,
            "future": replica.is_future,
        })
    });
    json!({
        "broker": broker.0,
        "path": dir.path,
        "error": dir.error.map(|error| error.name()),
        "total_bytes": dir.total_bytes,
        "usable_bytes": dir.usable_bytes,
        "cordoned": dir.is_cordoned,
        "replicas": replicas.collect::<Value>(),
    })
}
