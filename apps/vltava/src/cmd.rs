//! The commands, one file each.

mod admin;
mod bench;
mod cluster;
mod completions;
mod config;
mod consume;
mod dev;
mod group;
mod log;
mod perf;
mod produce;
mod properties;
mod server;
mod target;
mod topic;

use std::io::Write;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::failure::Asked;

/// Of which build this is.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("VLTAVA_BUILD"), ")");

/// What the command line can say.
#[derive(Parser)]
#[command(
    name = "vltava",
    version = VERSION,
    about = "A distributed log that speaks the Kafka protocol",
    after_help = EXAMPLES,
    disable_help_subcommand = false,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  vltava server                               start a node on 127.0.0.1:9092
  vltava dev                                  start a cluster of three, to try things on
  vltava topic create orders --partitions 6   make a topic on it
  echo hello | vltava produce orders          write a record
  vltava consume orders -e                    read what there is
  vltava cluster status                       nodes, and how they are
  vltava group describe billing               who reads what, and how far behind
  vltava config show retention.ms             what a setting does and takes
  vltava bench run linkedin-1p-rf1 --quick    how fast it is here";

/// One command.
#[derive(Subcommand)]
pub(crate) enum Command {
    Server(server::Arguments),
    Dev(dev::Arguments),
    Topic(topic::Arguments),
    Cluster(cluster::Arguments),
    Group(group::Arguments),
    Produce(produce::Arguments),
    Consume(consume::Arguments),
    Perf(perf::Arguments),
    Bench(bench::Arguments),
    Log(log::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
}

impl Command {
    /// What is asked for, for advice on what fails.
    pub(crate) const fn asked(&self) -> Asked {
        match self {
            Self::Topic(arguments) => arguments.asked(),
            Self::Cluster(arguments) => arguments.asked(),
            Self::Group(_) => Asked::Group,
            Self::Produce(_) | Self::Consume(_) => Asked::Records,
            Self::Perf(arguments) => arguments.asked(),
            Self::Server(_)
            | Self::Dev(_)
            | Self::Bench(_)
            | Self::Log(_)
            | Self::Config(_)
            | Self::Completions(_) => Asked::Other,
        }
    }
}

/// Does what a command says; what it answers goes to `out`.
pub(crate) fn run(command: Command, out: &mut dyn Write) -> Result<()> {
    match command {
        Command::Server(arguments) => server::run(arguments),
        Command::Dev(arguments) => dev::run(arguments, out),
        Command::Topic(arguments) => topic::run(arguments, out),
        Command::Cluster(arguments) => cluster::run(arguments, out),
        Command::Group(arguments) => group::run(arguments, out),
        Command::Produce(arguments) => produce::run(arguments),
        Command::Consume(arguments) => consume::run(arguments, out),
        Command::Perf(arguments) => perf::run(arguments, out),
        Command::Bench(arguments) => bench::run(arguments, out),
        Command::Log(arguments) => log::run(arguments, out),
        Command::Config(arguments) => config::run(&arguments, out),
        Command::Completions(arguments) => completions::run(&arguments, out),
    }
}

/// Reads `name=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
