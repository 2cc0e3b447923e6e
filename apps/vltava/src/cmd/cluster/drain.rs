//! `vltava cluster drain`.

use std::io::Write;

use anyhow::Result;
use base::BrokerId;
use client::Admin;
use client::plan;

use super::super::admin::{confirm, tell};
use super::movement::{Carry, Plan, cordon};
use super::survey::{Survey, ids};

/// Move everything off brokers, onto the others
///
/// From then on no new replica is placed there, until `vltava cluster add`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava cluster drain 3 --dry-run
  vltava cluster drain 3 4 --throttle 50 --yes")]
pub(super) struct Arguments {
    /// Which brokers
    #[arg(required = true, value_name = "ID")]
    brokers: Vec<i32>,
    /// Only show what would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    carry: Carry,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let brokers: Vec<BrokerId> = arguments.brokers.iter().copied().map(BrokerId).collect();
    let survey = Survey::take(admin)?;
    let moves = plan::drain(&survey.nodes(), &survey.placed(), &brokers)?;
    let plan = Plan { moves: &moves, carry: &arguments.carry, drained: &brokers };
    if moves.is_empty() {
        let asks = plan.asks(arguments.dry_run);
        tell((as_json, asks), out, |out| {
            Ok(writeln!(out, "nothing is on {}: no new replica is to be placed there", ids(&brokers))?)
        })?;
        if asks {
            confirm("Keep them away?", "this keeps new replicas away from brokers", "nothing was changed")?;
        }
        if !arguments.dry_run {
            cordon(admin, &brokers, true)?;
        }
    }
    let is_done = carry_out(admin, &plan, (arguments.dry_run, as_json), out)?;
    if is_done {
        writeln!(out, "nothing is left on {}", ids(&brokers))?;
    }
    if !arguments.dry_run && !as_json {
        writeln!(out, "no new replica is placed there until `vltava cluster add`")?;
    }
    Ok(())
}

/// Shows a plan, and carries it out unless it is a trial; whether people are to be told that it is done.
pub(super) fn carry_out(
    admin: &Admin,
    plan: &Plan<'_>,
    (is_trial, as_json): (bool, bool),
    out: &mut dyn Write,
) -> Result<bool> {
    let is_nothing = plan.moves.is_empty();
    if !as_json && is_nothing {
        writeln!(out, "nothing has to be moved")?;
        return Ok(false);
    }
    let carries = !is_trial && !is_nothing;
    if !is_nothing {
        tell((as_json, plan.asks(is_trial)), out, |out| plan.show(out))?;
    }
    if carries {
        plan.carry_out(admin)?;
    }
    if as_json {
        writeln!(out, "{:#}", plan.as_json(!is_trial))?;
    }
    Ok(carries && !as_json)
}
