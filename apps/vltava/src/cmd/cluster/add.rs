//! `vltava cluster add`.

use std::io::Write;

use anyhow::{Context, Result, bail};
use base::BrokerId;
use client::Admin;
use client::admin::{NewVoter, QuorumDescription, QuorumMember};
use serde_json::json;

use super::super::admin::{confirm, tell};
use super::movement::cordon;
use super::progress::{lag, vote, when_caught_up};
use super::survey::{Survey, ids};

/// Let a node vote that follows the cluster so far, or take a drained one back
///
/// A new node has joined with `cluster.join` and follows the metadata. One that came back with an empty disk follows,
/// too: its vote moves to the disk that it has. A drained one gets new replicas again. Partitions are not moved to it,
/// so it takes no longer than what of the metadata the node lacks: `vltava cluster rebalance` moves them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava server --set node.id=4 --set cluster.join=10.0.0.1:19092
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
    let survey = Survey::take(admin)?;
    let is_drained = survey.is_cordoned(id);
    let is_broker = survey.cluster.brokers.iter().any(|broker| broker.id == id);
    let quorum = admin.describe_quorum().wait()?;
    let mut voters: Vec<BrokerId> = quorum.voters.iter().map(|voter| voter.id).collect();
    let replaced = replaced_disk(&quorum, id);
    if voters.contains(&id) && replaced.is_none() {
        return match is_drained {
            true => take_back(admin, (id, &voters), arguments, as_json, out),
            false if as_json => Ok(writeln!(out, "{:#}", json!({ "voters": raw(&voters) }))?),
            false => Ok(writeln!(out, "node {id} votes already")?),
        };
    }
    let Some(node) = quorum.observers.iter().find(|observer| observer.id == id) else {
        bail!("no node {id} follows this cluster: start it with --set cluster.join=HOST:PORT first");
    };
    let endpoint = node.endpoint.clone().context("nobody says where the other nodes reach it")?;
    let before = ids(&voters);
    voters.extend(replaced.is_none().then_some(id));
    voters.sort_unstable();
    let asks = !arguments.dry_run && !arguments.yes;
    let lag = lag(&quorum, (id, node.directory)).unwrap_or(0);
    tell((as_json, asks), out, |out| {
        writeln!(out, "node {id} at {}:{} is {lag} records behind", endpoint.1, endpoint.2)?;
        show_voters((&before, &voters), out)?;
        if let Some(voter) = replaced {
            let (lost, has) = (voter.directory, node.directory);
            writeln!(out, "it voted with directory {lost}, which it has lost, and is to vote with {has}")?;
        }
        if is_drained {
            writeln!(out, "it is drained, and gets new replicas again")?;
        }
        let when = when_caught_up(admin, (id, node.directory), lag);
        Ok(writeln!(out, "it can vote {when}; partitions are not moved for it")?)
    })?;
    if !arguments.dry_run {
        if asks {
            confirm("Let it vote?", "this changes who votes", "nothing was changed")?;
        }
        if is_drained {
            cordon(admin, &[id], false)?;
        }
        if let Some(voter) = replaced {
            admin.remove_voter(id, voter.directory).wait()?;
        }
        vote(admin, NewVoter { id, directory: node.directory, endpoint })?;
    }
    if as_json {
        return Ok(writeln!(out, "{:#}", json!({ "voters": raw(&voters), "done": !arguments.dry_run }))?);
    }
    if !arguments.dry_run {
        let more = match is_broker {
            true => "; `vltava cluster rebalance` gives it its share of the partitions",
            false => "",
        };
        writeln!(out, "node {id} votes{more}")?;
    }
    Ok(())
}

/// A drained node that votes gets new replicas again.
fn take_back(
    admin: &Admin,
    (id, voters): (BrokerId, &[BrokerId]),
    arguments: &Arguments,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let asks = !arguments.dry_run && !arguments.yes;
    tell((as_json, asks), out, |out| {
        Ok(writeln!(out, "node {id} votes, and is drained: new replicas are to be placed there again")?)
    })?;
    if !arguments.dry_run {
        if asks {
            confirm("Take it back?", "this lets new replicas be placed on it", "nothing was changed")?;
        }
        cordon(admin, &[id], false)?;
    }
    if as_json {
        return Ok(writeln!(out, "{:#}", json!({ "voters": raw(voters), "done": !arguments.dry_run }))?);
    }
    if !arguments.dry_run {
        writeln!(out, "node {id} gets new replicas again")?;
    }
    Ok(())
}

/// Who votes before and after, and what that is worth.
fn show_voters((before, voters): (&str, &[BrokerId]), out: &mut dyn Write) -> Result<()> {
    let majority = voters.len() / 2 + 1;
    writeln!(out, "voters: {before} -> {}, of which {majority} must be there", ids(voters))?;
    if voters.len().is_multiple_of(2) {
        writeln!(out, "an even number survives the loss of no more nodes than one less")?;
    }
    Ok(())
}

/// A node that votes with a disk that it does not have any more, and follows with another: who it was.
pub(super) fn replaced_disk(quorum: &QuorumDescription, id: BrokerId) -> Option<&QuorumMember> {
    let voter = quorum.voters.iter().find(|voter| voter.id == id && !voter.directory.is_zero())?;
    let follows = |it: &&QuorumMember| it.id == id && it.directory != voter.directory;
    quorum.observers.iter().find(follows).map(|_| voter)
}

pub(super) fn raw(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}
