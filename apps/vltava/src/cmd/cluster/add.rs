//! `vltava cluster add`.

use std::io::Write;

use anyhow::{Context, Result, bail};
use base::BrokerId;
use client::Admin;
use client::admin::NewVoter;
use serde_json::json;

use super::super::admin::confirm;
use super::movement::ids;

/// Let a node vote that follows the cluster so far
///
/// The node has joined with `cluster.join` and follows the metadata. Partitions are not moved to it:
/// `vltava cluster rebalance` does that.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava cluster add 4
  vltava cluster add 4 --yes")]
pub(super) struct Arguments {
    /// Which node
    #[arg(value_name = "ID")]
    node: i32,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let id = BrokerId(arguments.node);
    let quorum = admin.describe_quorum().wait()?;
    let mut voters: Vec<BrokerId> = quorum.voters.iter().map(|voter| voter.id).collect();
    if voters.contains(&id) {
        let said = format!("node {id} votes already");
        return Ok(writeln!(
            out,
            "{}",
            if as_json { format!("{:#}", json!({ "voters": raw(&voters) })) } else { said }
        )?);
    }
    let Some(node) = quorum.observers.iter().find(|observer| observer.id == id) else {
        bail!("no node {id} follows this cluster: start it with --set cluster.join=HOST:PORT first");
    };
    let endpoint = node.endpoint.clone().context("nobody says where the other nodes reach it")?;
    let before = ids(&voters);
    voters.push(id);
    voters.sort_unstable();
    if !as_json {
        let (majority, lag) = (voters.len() / 2 + 1, quorum.high_watermark.0 - node.log_end.0);
        writeln!(out, "node {id} at {}:{} is {} records behind", endpoint.1, endpoint.2, lag.max(0))?;
        writeln!(out, "voters: {before} -> {}, of which {majority} must be there", ids(&voters))?;
        if voters.len().is_multiple_of(2) {
            writeln!(out, "an even number survives the loss of no more nodes than one less")?;
        }
        out.flush()?;
    }
    if !arguments.dry_run {
        if !arguments.yes {
            confirm("Let it vote?", "this changes who votes", "nothing was changed")?;
        }
        admin.add_voter(NewVoter { id, directory: node.directory, endpoint }).wait()?;
    }
    if as_json {
        return Ok(writeln!(out, "{:#}", json!({ "voters": raw(&voters), "done": !arguments.dry_run }))?);
    }
    if !arguments.dry_run {
        writeln!(out, "node {id} votes; `vltava cluster rebalance` gives it its share of the partitions")?;
    }
    Ok(())
}

pub(super) fn raw(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}
