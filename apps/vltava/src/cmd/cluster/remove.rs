//! `vltava cluster remove`.

use std::io::Write;

use anyhow::{Result, bail};
use base::BrokerId;
use client::Admin;
use client::admin::{AdminError, QuorumDescription};
use client::plan::{self, PlanError};
use serde_json::json;

use super::super::admin::confirm;
use super::movement::{Carry, Plan, cordon};
use super::survey::Survey;

/// Take a node out: move everything off it, take its vote, and forget it
///
/// It can be said again: what is done is not done twice. A node that is still running is forgotten last, when it
/// has stopped.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava cluster remove 3 --dry-run
  vltava cluster remove 3 --throttle 50 --yes")]
pub(super) struct Arguments {
    /// Which node
    #[arg(value_name = "ID")]
    node: i32,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    carry: Carry,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let id = BrokerId(arguments.node);
    let quorum = quorum(admin)?;
    let survey = Survey::take(admin)?;
    let moves = match plan::drain(&survey.nodes(), &survey.placed(), &[id]) {
        // A node that only votes has nothing to move.
        Err(PlanError::UnknownBroker(_)) => Vec::new(),
        planned => planned?,
    };
    let broker = survey.cluster.brokers.iter().find(|broker| broker.id == id);
    let voter = quorum.as_ref().and_then(|quorum| quorum.voters.iter().find(|voter| voter.id == id));
    if broker.is_none() && voter.is_none() {
        bail!("the cluster has no node {id}");
    }
    if voter.is_some() && quorum.as_ref().is_some_and(|quorum| quorum.voters.len() == 1) {
        bail!("node {id} is the only one that votes: without it there is no cluster");
    }
    let is_up = broker.is_some_and(|broker| !broker.is_fenced);
    let leaving = [id];
    let drained = if is_up { leaving.as_slice() } else { &[] };
    let plan = Plan { moves: &moves, carry: &arguments.carry, drained };
    let mut steps = Vec::new();
    steps.extend((!moves.is_empty()).then_some("move its partitions to the others"));
    steps.extend(voter.map(|_| "take its vote"));
    steps.extend(broker.filter(|_| !is_up).map(|_| "forget it"));
    if !as_json {
        if !moves.is_empty() {
            plan.show(out)?;
        }
        writeln!(
            out,
            "node {id}: {}",
            if steps.is_empty() { "nothing is left to do".into() } else { steps.join(", ") }
        )?;
        out.flush()?;
    }
    if !arguments.dry_run {
        if !arguments.carry.yes && moves.is_empty() && !steps.is_empty() {
            confirm("Do it?", "this takes a node out of the cluster", "nothing was changed")?;
        }
        match moves.is_empty() {
            true => cordon(admin, drained, true)?,
            false => plan.carry_out(admin)?,
        }
        if let Some(voter) = voter {
            admin.remove_voter(id, voter.directory).wait()?;
        }
        if broker.is_some() && !is_up {
            admin.unregister_broker(id).wait()?;
        }
    }
    if as_json {
        let mut said = plan.as_json(!arguments.dry_run);
        said["steps"] = json!(steps);
        said["forgotten"] = json!(!arguments.dry_run && !is_up);
        return Ok(writeln!(out, "{said:#}")?);
    }
    if !arguments.dry_run {
        match is_up {
            true => writeln!(out, "node {id} has nothing left: stop it, then say this again to forget it")?,
            false => writeln!(out, "node {id} is gone")?,
        }
    }
    Ok(())
}

/// The quorum; `None` of a cluster that has none to speak of.
pub(super) fn quorum(admin: &Admin) -> Result<Option<QuorumDescription>> {
    match admin.describe_quorum().wait() {
        Ok(quorum) => Ok(Some(quorum)),
        Err(AdminError::Unsupported { .. }) => Ok(None),
        Err(error) if error.code() == Some(base::ErrorCode::UnsupportedVersion) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
