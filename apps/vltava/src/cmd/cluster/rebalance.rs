//! `vltava cluster rebalance`.

use std::io::Write;

use anyhow::Result;
use client::Admin;
use client::plan;

use super::drain::carry_out;
use super::movement::{Carry, Plan};
use super::survey::Survey;

/// Move partitions until each broker has as many replicas and leaderships
///
/// Brokers that are drained get none.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava cluster rebalance --dry-run
  vltava cluster rebalance --throttle 100 --yes")]
pub(super) struct Arguments {
    /// Only show what would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    carry: Carry,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let survey = Survey::take(admin)?;
    let moves = plan::rebalance(&survey.nodes(), &survey.placed());
    let plan = Plan { moves: &moves, carry: &arguments.carry, drained: &[] };
    if carry_out(admin, &plan, (arguments.dry_run, as_json), out)? {
        writeln!(out, "the brokers have as much as each other")?;
    }
    Ok(())
}
