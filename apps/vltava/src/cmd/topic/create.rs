//! `vltava topic create`.

use std::io::Write;

use anyhow::Result;
use base::ErrorCode;
use client::Admin;
use client::admin::NewTopic;
use serde_json::json;

/// Create a topic
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava topic create orders
  vltava topic create orders --partitions 6 --config retention.ms=86400000
  vltava topic create orders --if-not-exists")]
pub(super) struct Arguments {
    /// Its name: letters, digits, '.', '_' and '-'
    name: String,
    /// How many partitions; else what the cluster's num.partitions says
    #[arg(long)]
    partitions: Option<i32>,
    /// How many replicas of each; else what the cluster's default.replication.factor says
    #[arg(long)]
    replication_factor: Option<i16>,
    /// A setting of its own; `vltava config` lists them
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = super::super::pair)]
    configs: Vec<(String, String)>,
    /// Do nothing if there is a topic of that name, whatever it is like
    #[arg(long)]
    if_not_exists: bool,
    /// Only find out whether it could be created
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(admin: &Admin, arguments: Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let Arguments { name, partitions, replication_factor, configs, if_not_exists, dry_run } = arguments;
    let topic =
        NewTopic { name: name.clone(), partitions, replication_factor, configs, ..NewTopic::default() };
    let admin = if dry_run { admin.dry_run() } else { admin.clone() };
    let made = match admin.create_topic(topic).wait() {
        Err(error) if if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) => {
            if as_json {
                return super::describe::run(&admin, &[name], true, out);
            }
            return Ok(writeln!(out, "topic {name} exists")?);
        }
        made => made?,
    };
    if as_json {
        let value = json!({
            "name": made.name,
            "id": made.id.map(|id| id.to_string()),
            "partitions": made.partitions,
            "replication_factor": made.replication_factor,
        });
        return Ok(writeln!(out, "{value:#}")?);
    }
    write!(out, "{} topic {}", if dry_run { "could create" } else { "created" }, made.name)?;
    match made.partitions {
        Some(1) => write!(out, " with 1 partition")?,
        Some(count) => write!(out, " with {count} partitions")?,
        None => {}
    }
    Ok(writeln!(out)?)
}
