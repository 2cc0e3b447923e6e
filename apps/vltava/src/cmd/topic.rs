//! `vltava topic`: creates, shows, changes and deletes topics of a running cluster.

mod alter;
mod create;
mod delete;
mod describe;
mod log_dirs;
mod offsets;
mod trim;

use std::io::Write;

use anyhow::{Result, bail};
use clap::Subcommand;
use client::Admin;
use client::admin::{AdminError, Topic};
use serde_json::{Value, json};

use super::admin::Cluster;
use crate::failure::Asked;
use crate::output::Table;

/// Create, list, describe, alter, trim and delete topics
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    cluster: Cluster,
    /// Answer with JSON, for programs
    #[arg(long, global = true)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava topic create orders --partitions 6 --config retention.ms=86400000
  vltava topic list
  vltava topic describe orders
  vltava topic alter orders --partitions 12 --config flush.policy=os --delete-config retention.ms
  vltava topic alter orders --replication-factor 3
  vltava topic offsets orders --time 1795273682717
  vltava topic trim orders --partition 0 --before 1000
  vltava topic log-dirs orders
  vltava topic delete orders --yes
  vltava topic describe --json | jq '.[].partitions[].leader'";

#[derive(Subcommand)]
enum Command {
    Create(create::Arguments),
    /// List the names of topics
    #[command(after_help = "\
Examples:
  vltava topic list
  vltava topic list --internal --json")]
    List {
        /// Also those that the cluster keeps for itself
        #[arg(long)]
        internal: bool,
    },
    /// Show partitions, replicas, offsets and settings
    #[command(after_help = "\
Examples:
  vltava topic describe orders
  vltava topic describe orders payments --json
  vltava topic describe")]
    Describe {
        /// Which topics; all if none is named
        names: Vec<String>,
    },
    Alter(alter::Arguments),
    Offsets(offsets::Arguments),
    Trim(trim::Arguments),
    LogDirs(log_dirs::Arguments),
    Delete(delete::Arguments),
}

impl Arguments {
    pub(crate) const fn asked(&self) -> Asked {
        match self.command {
            Command::Alter(_) => Asked::TopicAlter,
            _ => Asked::Topic,
        }
    }
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let Arguments { command, cluster, json } = arguments;
    match command {
        Command::Create(arguments) => create::run(&cluster.connect()?, arguments, json, out),
        Command::List { internal } => list(&cluster.connect()?, internal, json, out),
        Command::Describe { names } => describe::run(&cluster.connect()?, &names, json, out),
        Command::Alter(arguments) => alter::run(&cluster.connect()?, arguments, json, out),
        Command::Offsets(arguments) => offsets::run(&cluster.connect()?, &arguments, json, out),
        Command::Trim(arguments) => {
            arguments.confirm()?;
            trim::run(&cluster.connect()?, &arguments, json, out)
        }
        Command::LogDirs(arguments) => log_dirs::run(&cluster.connect()?, &arguments, json, out),
        Command::Delete(arguments) => {
            arguments.confirm()?;
            delete::run(&cluster.connect()?, &arguments, json, out)
        }
    }
}

fn list(admin: &Admin, internal: bool, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let topics = admin.list_topics().wait()?;
    let mut names = topics.iter().filter(|topic| internal || !topic.is_internal).map(|topic| &topic.name);
    if as_json {
        return Ok(writeln!(out, "{:#}", names.map(|name| json!(name)).collect::<Value>())?);
    }
    Ok(names.try_for_each(|name| writeln!(out, "{name}"))?)
}

/// The partitions of a topic: those chosen, or all. Each must be there.
fn partitions_of(topic: &Topic, chosen: &[i32]) -> Result<Vec<i32>> {
    let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index.0).collect();
    if let Some(index) = chosen.iter().find(|index| !all.contains(index)) {
        bail!("topic {} has {} partitions, and no partition {index}", topic.name, all.len());
    }
    Ok(if chosen.is_empty() { all } else { chosen.to_vec() })
}

/// Says what failed.
fn say_failures(failures: Vec<AdminError>) -> Result<()> {
    super::admin::say_failures(failures, Asked::Topic)
}

/// Asks before records are deleted.
fn confirm(question: &str) -> Result<()> {
    super::admin::confirm(question, "this deletes records for good", "nothing was deleted")
}

/// A table of names and values.
fn pairs<'a>(columns: [&str; 2], rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> Table {
    let mut table = Table::new(&columns);
    for (name, value) in rows {
        table.row([name, value]);
    }
    table
}
