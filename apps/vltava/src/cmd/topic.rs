//! `vltava topic`: creates, shows, changes and deletes topics of a running cluster.

mod describe;

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use client::admin::{ConfigChange, NewTopic, Resource};
use client::{Admin, ConnectOptions};
use serde_json::{Value, json};

use crate::output::Table;

/// Create, list, describe, alter and delete topics
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
    /// How long to wait for an answer
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30)]
    timeout: u32,
}

const EXAMPLES: &str = "\
Examples:
  vltava topic create orders --partitions 6 --config retention.ms=86400000
  vltava topic list
  vltava topic describe orders
  vltava topic alter orders --partitions 12 --config flush.policy=os --delete-config retention.ms
  vltava topic delete orders --yes
  vltava topic describe --json | jq '.[].partitions[].leader'";

#[derive(Subcommand)]
enum Command {
    /// Create a topic
    #[command(after_help = "\
Examples:
  vltava topic create orders
  vltava topic create orders --partitions 6 --config retention.ms=86400000")]
    Create {
        /// Its name: letters, digits, '.', '_' and '-'
        name: String,
        /// How many partitions; else what the cluster's num.partitions says
        #[arg(long)]
        partitions: Option<i32>,
        /// How many replicas of each; else what the cluster's default.replication.factor says
        #[arg(long)]
        replication_factor: Option<i16>,
        /// A setting of its own; `vltava config` lists them
        #[arg(long = "config", value_name = "NAME=VALUE", value_parser = super::pair)]
        configs: Vec<(String, String)>,
    },
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
    /// Add partitions, change settings
    #[command(after_help = "\
Examples:
  vltava topic alter orders --partitions 12
  vltava topic alter orders --config retention.ms=3600000 --config flush.policy=os
  vltava topic alter orders --delete-config retention.ms")]
    Alter(Alteration),
    /// Delete topics with all that is in them
    #[command(after_help = "\
Examples:
  vltava topic delete orders
  vltava topic delete orders payments --yes")]
    Delete {
        /// Which topics
        #[arg(required = true)]
        names: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
struct Alteration {
    /// Which topic
    name: String,
    /// How many partitions there shall be; there can only be more
    #[arg(long, required_unless_present_any = ["configs", "delete_configs"])]
    partitions: Option<i32>,
    /// Give a setting a value
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = super::pair)]
    configs: Vec<(String, String)>,
    /// Take the value of a setting back, so that the default holds
    #[arg(long = "delete-config", value_name = "NAME")]
    delete_configs: Vec<String>,
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let Arguments { command, cluster, json } = arguments;
    match command {
        Command::Create { name, partitions, replication_factor, configs } => {
            let topic = NewTopic { name, partitions, replication_factor, configs };
            create(&mut cluster.connect()?, &topic, json, out)
        }
        Command::List { internal } => list(&mut cluster.connect()?, internal, json, out),
        Command::Describe { names } => describe::run(&mut cluster.connect()?, &names, json, out),
        Command::Alter(alteration) => alter(&mut cluster.connect()?, alteration, json, out),
        Command::Delete { names, yes } => {
            if !yes && !is_confirmed(&names)? {
                bail!("nothing was deleted");
            }
            delete(&mut cluster.connect()?, &names, json, out)
        }
    }
}

impl Cluster {
    fn connect(&self) -> Result<Admin> {
        let timeout = Duration::from_secs(self.timeout.max(1).into());
        let options = ConnectOptions { timeout, ..ConnectOptions::default() };
        Ok(Admin::connect(&self.bootstrap_server, options)?)
    }
}

fn create(admin: &mut Admin, topic: &NewTopic, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let made = admin.create_topic(topic)?;
    if as_json {
        let value = json!({
            "name": made.name,
            "id": made.id.map(|id| id.to_string()),
            "partitions": made.partitions,
            "replication_factor": made.replication_factor,
        });
        return Ok(writeln!(out, "{value:#}")?);
    }
    write!(out, "created topic {}", made.name)?;
    match made.partitions {
        Some(1) => write!(out, " with 1 partition")?,
        Some(count) => write!(out, " with {count} partitions")?,
        None => {}
    }
    Ok(writeln!(out)?)
}

fn list(admin: &mut Admin, internal: bool, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let topics = admin.list_topics()?;
    let mut names = topics.iter().filter(|(_, is_internal)| internal || !is_internal).map(|(name, _)| name);
    if as_json {
        return Ok(writeln!(out, "{:#}", names.map(|name| json!(name)).collect::<Value>())?);
    }
    Ok(names.try_for_each(|name| writeln!(out, "{name}"))?)
}

fn alter(admin: &mut Admin, alteration: Alteration, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let Alteration { name, partitions, configs, delete_configs } = alteration;
    let set = configs.into_iter().map(|(name, value)| ConfigChange::Set(name, value));
    let changes: Vec<ConfigChange> =
        set.chain(delete_configs.into_iter().map(ConfigChange::Delete)).collect();
    // Settings are refused more often than partitions, so what may fail comes first.
    if !changes.is_empty() {
        admin.alter_configs(&Resource::Topic(name.clone()), &changes)?;
    }
    if let Some(count) = partitions {
        admin.create_partitions(&name, count)?;
    }
    if as_json {
        return describe::run(admin, &[name], true, out);
    }
    Ok(writeln!(out, "altered topic {name}")?)
}

fn delete(admin: &mut Admin, names: &[String], as_json: bool, out: &mut dyn Write) -> Result<()> {
    for name in names {
        admin.delete_topic(name)?;
        if !as_json {
            writeln!(out, "deleted topic {name}")?;
        }
    }
    if as_json {
        writeln!(out, "{:#}", json!({ "deleted": names }))?;
    }
    Ok(())
}

/// Asks whoever sits at the terminal; programs must say `--yes`.
fn is_confirmed(names: &[String]) -> Result<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        bail!("deleting a topic deletes its records: say --yes to do it without being asked");
    }
    eprint!("Delete {} with all records? [y/N] ", names.join(", "));
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A table of names and values.
fn pairs<'a>(columns: [&str; 2], rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> Table {
    let mut table = Table::new(&columns);
    for (name, value) in rows {
        table.row([name, value]);
    }
    table
}
