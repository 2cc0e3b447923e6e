//! `vltava server`: runs a node until it is told to stop.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use server::ServerArgs;

/// Run a node
///
/// Serves the Kafka protocol on 127.0.0.1:9092 and health and metrics over HTTP on 127.0.0.1:9644, with
/// the data in ./vltava-data. Nothing must be set up before. SIGTERM or Ctrl-C stops it cleanly.
///
/// It logs to standard error; VLTAVA_LOG says what: a level such as debug, or target=level pairs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Read settings from a file: `name = value`, one a line; Kafka's server.properties fits
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one setting; wins over the file. `vltava config` lists them
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::pair)]
    set: Vec<(String, String)>,
    /// Keep data in this directory; may be given several times, best one for each disk
    #[arg(long = "data-dir", value_name = "DIR")]
    data_dirs: Vec<PathBuf>,
    /// Serve Kafka clients here
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Serve health and metrics here
    #[arg(long, value_name = "HOST:PORT")]
    http_listen: Option<String>,
    /// Stop cleanly when the process that started this one ends: this is its id
    #[arg(long, value_name = "PID")]
    end_with_parent: Option<i32>,
}

const EXAMPLES: &str = "\
Examples:
  vltava server
  vltava server --listen 127.0.0.1:19092 --data-dir /mnt/a/vltava --data-dir /mnt/b/vltava
  vltava server --config server.properties --set num.partitions=6 --set flush.policy=os";

pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let Arguments { config, set, data_dirs, listen, http_listen, end_with_parent } = arguments;
    if let Some(parent) = end_with_parent {
        end_with(parent)?;
    }
    server::run(ServerArgs { config, set, data_dirs, listen, http_listen })?;
    Ok(())
}

/// SIGTERM comes when the parent ends; one that ended before is not waited for.
fn end_with(parent: i32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow the parent process")?;
    let is_child = getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent);
    ensure!(is_child, "process {parent} is not the parent of this one, or it has ended");
    Ok(())
}
