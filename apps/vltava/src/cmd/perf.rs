//! `vltava perf`: how fast a cluster is, with the arguments and the output of Kafka's own tools.

mod consumer;
mod latency;
mod producer; // start here

mod settings;

// Whether it arrived.
mod places;
mod readback;

// What is told of it.
mod date_format;
mod metrics;
mod millis;
mod stamp;
mod stats;
mod tally;

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use crate::failure::Asked;

/// Measure a cluster: throughput and latency
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  vltava perf producer --topic t --num-records 10000000 --record-size 100 --throughput -1
  vltava perf producer --topic t --num-records 100000 --payload-file lines.txt --throughput 5000 --json
  vltava perf consumer --topic t --num-records 10000000
  vltava perf e2e-latency --topic t --num-records 10000 --record-size 100";

#[derive(Subcommand)]
enum Command {
    Producer(producer::Arguments),
    Consumer(consumer::Arguments),
    E2eLatency(latency::Arguments),
}

impl Arguments {
    pub(crate) const fn asked(&self) -> Asked {
        match self.command {
            Command::Producer(_) | Command::Consumer(_) => Asked::Perf,
            Command::E2eLatency(_) => Asked::PerfLatency,
        }
    }
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    match arguments.command {
        Command::Producer(arguments) => producer::run(&arguments, out),
        Command::Consumer(arguments) => consumer::run(&arguments, out),
        Command::E2eLatency(arguments) => latency::run(&arguments, out),
    }
}

/// How long a cluster may take to tell of itself.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Asks about topics, of a cluster that is there.
fn admin(servers: &str) -> Result<client::Admin> {
    crate::reach::reach(servers, TIME_MAX)?;
    Ok(client::Admin::builder(servers).timeout(TIME_MAX).build()?)
}

/// A number that no other run has.
fn run_id() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    bench::chance::Chance::new(now.as_nanos() as u64, std::process::id().into()).draw()
}
