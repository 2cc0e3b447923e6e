//! `vltava cluster`: looks at the nodes of a running cluster, adds and removes them, and moves partitions.

mod add;
mod drain;
mod limits;
pub(super) mod movement;
mod progress;
mod rebalance;
mod remove;
mod status;
pub(super) mod survey;

use std::io::Write;

use anyhow::Result;
use clap::Subcommand;

use super::admin::Cluster;
use crate::failure::Asked;

/// Look at the nodes of a cluster, add and remove them, move partitions
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
  vltava cluster status                   nodes, who votes, who leads, what is on its way
  vltava cluster add 4                    let node 4 vote, which follows so far, or take it back
  vltava cluster rebalance                as many replicas and leaderships on each broker
  vltava cluster drain 3 --throttle 50    move everything off broker 3, and keep it away
  vltava cluster remove 3                 drain node 3, take its vote, forget it
  vltava cluster watch                    follow what is on its way until it is done
  vltava cluster cancel                   take back what is on its way";

#[derive(Subcommand)]
enum Command {
    /// Show the nodes, the quorum, the partitions and what is on its way
    #[command(after_help = "\
Examples:
  vltava cluster status
  vltava cluster status --json | jq '.quorum.leader'")]
    Status,
    Add(add::Arguments),
    Drain(drain::Arguments),
    Remove(remove::Arguments),
    Rebalance(rebalance::Arguments),
    /// Follow what is on its way until it is done
    #[command(after_help = "\
Examples:
  vltava cluster watch")]
    Watch,
    /// Take back what is on its way: partitions stay where they were
    #[command(after_help = "\
Examples:
  vltava cluster cancel
  vltava cluster cancel --yes")]
    Cancel {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl Arguments {
    pub(crate) const fn asked(&self) -> Asked {
        Asked::Cluster
    }
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let Arguments { command, cluster, json } = arguments;
    let admin = cluster.connect()?;
    match command {
        Command::Status => status::run(&admin, json, out),
        Command::Add(arguments) => add::run(&admin, &arguments, json, out),
        Command::Drain(arguments) => drain::run(&admin, &arguments, json, out),
        Command::Remove(arguments) => remove::run(&admin, &arguments, json, out),
        Command::Rebalance(arguments) => rebalance::run(&admin, &arguments, json, out),
        Command::Watch => movement::watch(&admin, json, out),
        Command::Cancel { yes } => movement::cancel(&admin, yes, json, out),
    }
}
