//! `vltava topic alter`.

use std::io::Write;

use anyhow::{Context, Result};
use client::Admin;
use client::admin::{ConfigChange, Resource};
use client::plan;

use crate::cmd::admin::tell;
use crate::cmd::cluster::movement::{Carry, Plan};
use crate::cmd::cluster::survey::Survey;

/// Add partitions and replicas, change settings
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava topic alter orders --partitions 12
  vltava topic alter orders --config retention.ms=3600000 --config flush.policy=os
  vltava topic alter orders --delete-config retention.ms
  vltava topic alter orders --replication-factor 3 --throttle 50")]
pub(super) struct Arguments {
    /// Which topic
    name: String,
    /// How many partitions there shall be; there can only be more
    #[arg(long, required_unless_present_any = ["replication_factor", "configs", "delete_configs"])]
    partitions: Option<i32>,
    /// How many replicas each partition shall have
    #[arg(long, value_name = "N")]
    replication_factor: Option<u16>,
    /// Give a setting a value
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = super::super::pair)]
    configs: Vec<(String, String)>,
    /// Take the value of a setting back, so that the default holds
    #[arg(long = "delete-config", value_name = "NAME")]
    delete_configs: Vec<String>,
    /// Only find out whether it could be altered like that
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    carry: Carry,
}

pub(super) fn run(admin: &Admin, arguments: Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let Arguments { name, partitions, replication_factor, configs, delete_configs, dry_run, carry } =
        arguments;
    let set = configs.into_iter().map(|(name, value)| ConfigChange::Set(name, value));
    let changes: Vec<ConfigChange> =
        set.chain(delete_configs.into_iter().map(ConfigChange::Delete)).collect();
    let resource = Resource::Topic(name.clone());
    if let (Some(count), false) = (partitions, changes.is_empty()) {
        // Neither is done if one of them would be refused: a shorter retention deletes records for good.
        let tried = admin.dry_run();
        tried.alter_config(resource.clone(), changes.clone()).wait()?;
        tried.grow_topic(&name, count).wait()?;
    }
    let changes_more = !changes.is_empty() || partitions.is_some();
    let mut carry = carry;
    let asks_first = replication_factor.filter(|_| changes_more && !dry_run && !carry.yes);
    if let Some(factor) = asks_first {
        // Whoever says no to what is moved has had nothing else done either.
        ask(admin, (&name, factor), as_json, &carry, out)?;
        carry.yes = true;
    }
    let chosen = if dry_run { admin.dry_run() } else { admin.clone() };
    let changes_settings = !changes.is_empty();
    if changes_settings {
        chosen.alter_config(resource, changes).wait()?;
    }
    if let Some(count) = partitions {
        let grown = chosen.grow_topic(&name, count).wait();
        match grown {
            // Something happened between the trial and the deed.
            Err(error) if changes_settings && !dry_run => {
                return Err(error).context("the settings were changed, but not the partitions");
            }
            grown => grown?,
        };
    }
    if let Some(factor) = replication_factor {
        let resized = resize(admin, (&name, factor), (dry_run, as_json || asks_first.is_some()), &carry, out);
        match resized {
            Err(error) if changes_more && !dry_run => {
                return Err(error.context("the rest was altered, but not the replicas"));
            }
            resized => resized?,
        }
    }
    if as_json {
        return super::describe::run(admin, &[name], true, out);
    }
    Ok(writeln!(out, "{} topic {name}", if dry_run { "could alter" } else { "altered" })?)
}

/// Shows where replicas come and go, and asks whether they may. Partitions that are yet to be made are empty.
fn ask(
    admin: &Admin,
    (name, factor): (&str, u16),
    as_json: bool,
    carry: &Carry,
    out: &mut dyn Write,
) -> Result<()> {
    let survey = Survey::take(admin)?;
    let moves = plan::resize(&survey.nodes(), &survey.placed(), name, factor.into())?;
    if moves.is_empty() {
        return Ok(());
    }
    let plan = Plan { moves: &moves, carry, drained: &[] };
    tell((as_json, true), out, |out| plan.show(out))?;
    plan.confirm()
}

/// Shows where replicas come and go, unless people are told nothing, and has it done.
fn resize(
    admin: &Admin,
    (name, factor): (&str, u16),
    (is_trial, is_quiet): (bool, bool),
    carry: &Carry,
    out: &mut dyn Write,
) -> Result<()> {
    // It may have new partitions that not all brokers have heard of.
    admin.describe_topic(name).wait()?;
    let survey = Survey::take(admin)?;
    let moves = plan::resize(&survey.nodes(), &survey.placed(), name, factor.into())?;
    if moves.is_empty() {
        return Ok(());
    }
    let plan = Plan { moves: &moves, carry, drained: &[] };
    tell((is_quiet, plan.asks(is_trial)), out, |out| plan.show(out))?;
    if is_trial { Ok(()) } else { plan.carry_out(admin) }
}
