//! `vltava cluster remove`.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, Result, bail};
use base::BrokerId;
use client::Admin;
use client::admin::{AdminError, QuorumDescription};
use client::plan::{self, Evacuation, Move};
use serde_json::json;

use super::super::admin::{confirm, say_failures, tell};
use super::movement::{Carry, Plan, cordon, counted};
use super::survey::Survey;
use crate::failure::Asked;

/// Take a node out: move everything off it, take its vote, and forget it
///
/// It can be said again: what is done is not done twice. A node that is still running is forgotten last, when it
/// has stopped. Of one that is down the partitions that have no other place stay with a replica less, and are named;
/// where the move of some partition is refused, it loses its vote, and is forgotten once all of them are moved.
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
    let broker = survey.cluster.brokers.iter().find(|broker| broker.id == id);
    let voter = quorum.as_ref().and_then(|quorum| quorum.voters.iter().find(|voter| voter.id == id));
    let is_up = broker.is_some_and(|broker| !broker.is_fenced);
    let Leaving { moves, stays, unled } = Leaving::plan(&survey, id, is_up)?;
    if broker.is_none() && voter.is_none() && moves.is_empty() && stays.is_empty() && unled.is_empty() {
        bail!("the cluster has no node {id}");
    }
    if voter.is_some() && quorum.as_ref().is_some_and(|quorum| quorum.voters.len() == 1) {
        bail!("node {id} is the only one that votes: without it there is no cluster");
    }
    let leaving = [id];
    let drained = if is_up { leaving.as_slice() } else { &[] };
    let plan = Plan { moves: &moves, carry: &arguments.carry, drained };
    let mut steps = Vec::new();
    steps.extend((!moves.is_empty()).then_some("move its partitions to the others"));
    let is_cordoned = is_up && moves.is_empty() && !survey.is_cordoned(id);
    steps.extend(is_cordoned.then_some("place nothing new there"));
    steps.extend(voter.map(|_| "take its vote"));
    steps.extend(broker.filter(|_| !is_up).map(|_| "forget it"));
    let asks = plan.asks(arguments.dry_run) && !steps.is_empty();
    tell((as_json, asks), out, |out| {
        if !moves.is_empty() {
            plan.show(out)?;
        }
        show_left(id, (&stays, &unled), out)?;
        let todo = if steps.is_empty() { "nothing is left to do".into() } else { steps.join(", ") };
        Ok(writeln!(out, "node {id}: {todo}")?)
    })?;
    if !arguments.dry_run {
        if asks && moves.is_empty() {
            confirm("Do it?", "this takes a node out of the cluster", "nothing was changed")?;
        }
        let failures = match moves.is_empty() {
            true => cordon(admin, drained, true).map(|()| Vec::new())?,
            false => plan.carry_out_most(admin)?,
        };
        let keeps_vote = is_up && !failures.is_empty();
        if let Some(voter) = voter.filter(|_| !keeps_vote) {
            admin.remove_voter(id, voter.directory).wait()?;
        }
        say_failures(failures, Asked::Cluster).with_context(|| still_counts(id, is_up))?;
        if broker.is_some() && !is_up {
            admin.unregister_broker(id).wait()?;
        }
    }
    if as_json {
        let mut said = plan.as_json(!arguments.dry_run);
        said["steps"] = json!(steps);
        said["stays"] = json!(stays);
        said["without_leader"] = json!(unled);
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

/// What becomes of the replicas of a node that is to go.
struct Leaving {
    moves: Vec<Move>,
    /// Partitions that keep their replica there, for there is no other place.
    stays: Vec<String>,
    /// Partitions that nobody leads whose records could be copied.
    unled: Vec<String>,
}

impl Leaving {
    /// A node that is up loses nothing before all of it is elsewhere.
    fn plan(survey: &Survey, id: BrokerId, is_up: bool) -> Result<Self> {
        let (nodes, placed) = (survey.nodes(), survey.placed());
        if is_up {
            let moves = plan::drain(&nodes, &placed, &[id])?;
            return Ok(Self { moves, stays: Vec::new(), unled: Vec::new() });
        }
        let partitions =
            survey.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (&topic.name, it)));
        let unled = partitions
            .filter(|(_, it)| it.replicas.contains(&id) && it.leader.is_none_or(|leader| leader == id));
        let unled: BTreeSet<String> = unled.map(|(name, it)| format!("{name}-{}", it.index)).collect();
        let Evacuation { mut moves, stays } = plan::evacuate(&nodes, &placed, &[id]);
        moves.retain(|it| !unled.contains(&format!("{}-{}", it.topic, it.partition)));
        let stays = stays.iter().map(|it| format!("{}-{}", it.topic, it.partition));
        let stays = stays.filter(|name| !unled.contains(name)).collect();
        Ok(Self { moves, stays, unled: unled.into_iter().collect() })
    }
}

/// Why a node stays, of which some partition could not be moved. Others may count on what it has there, and would not
/// any more if it came back forgotten.
fn still_counts(id: BrokerId, is_up: bool) -> String {
    match is_up {
        true => format!("node {id} keeps its vote until all of it can be moved; say this again then"),
        false => format!("node {id} votes no more, but is forgotten only once all of it is moved"),
    }
}

/// Names that people read.
const NAMES_MAX: usize = 40;

fn names(all: &[String]) -> String {
    let shown = all[..all.len().min(NAMES_MAX)].join(", ");
    match all.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        Some(more) => format!("{shown} and {more} more, which --json shows"),
        None => shown,
    }
}

/// Tells what is not as it was once the node is gone, and what to do about it.
fn show_left(id: BrokerId, (stays, unled): (&[String], &[String]), out: &mut dyn Write) -> Result<()> {
    if !stays.is_empty() {
        writeln!(
            out,
            "{} have a replica less from now on, for no other node can take it: {}\n\
             to give it back, start an empty node: with the number {id} it is filled by itself (vltava server --set \
             node.id={id} --set cluster.join=HOST:PORT); with another one say `vltava cluster remove {id}` again once it \
             has joined",
            counted(stays.len(), "partition"),
            names(stays)
        )?;
    }
    if !unled.is_empty() {
        writeln!(
            out,
            "{} have no leader without node {id}, so they cannot be moved: {}\n\
             they are led again if it comes back with its disks, also once it is forgotten",
            counted(unled.len(), "partition"),
            names(unled)
        )?;
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
