//! `vltava topic`: creates, shows, changes and deletes topics of a running cluster.

mod alter;
mod create;
mod delete;
mod describe;
mod log_dirs;
mod offsets;
mod trim;

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use client::Admin;
use client::admin::{AdminError, Topic};
use serde_json::{Value, json};

use crate::failure::{self, Asked};
use crate::output::Table;
use crate::reach;

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

/// Where the cluster is.
#[derive(clap::Args)]
struct Cluster {
    /// Brokers to connect to, between commas; one that answers is enough
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    bootstrap_server: String,
    /// How long to try before giving up
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30)]
    timeout: u32,
}

const EXAMPLES: &str = "\
Examples:
  vltava topic create orders --partitions 6 --config retention.ms=86400000
  vltava topic list
  vltava topic describe orders
  vltava topic alter orders --partitions 12 --config flush.policy=os --delete-config retention.ms
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

impl Cluster {
    fn connect(&self) -> Result<Admin> {
        let timeout = Duration::from_secs(self.timeout.max(1).into());
        reach::reach(&self.bootstrap_server, timeout)?;
        // A broker that does not answer leaves some of the time for another.
        let admin = Admin::builder(&self.bootstrap_server).timeout(timeout).request_timeout(timeout / 2);
        Ok(admin.build()?)
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

/// Says what failed, each on a line of its own; the last is for the end of the program to say.
fn say_failures(mut failures: Vec<AdminError>) -> Result<()> {
    let Some(last) = failures.pop() else { return Ok(()) };
    for error in failures {
        eprintln!("{}", failure::describe(&error.into(), Asked::Topic));
    }
    Err(last.into())
}

/// Asks whoever sits at the terminal; programs must say `--yes`.
fn confirm(question: &str) -> Result<()> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        bail!("this deletes records for good: say --yes to do it without being asked");
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was deleted");
    }
    Ok(())
}

/// A table of names and values.
fn pairs<'a>(columns: [&str; 2], rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> Table {
    let mut table = Table::new(&columns);
    for (name, value) in rows {
        table.row([name, value]);
    }
    table
}
