//! `vltava topic delete`.

use std::io::Write;

use anyhow::Result;
use base::ErrorCode;
use client::Admin;
use serde_json::json;

use super::{confirm, say_failures};

/// Delete topics with all that is in them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava topic delete orders
  vltava topic delete orders payments --yes --if-exists")]
pub(super) struct Arguments {
    /// Which topics
    #[arg(required = true)]
    names: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Take no offence at topics that are not there
    #[arg(long)]
    if_exists: bool,
}

impl Arguments {
    pub(super) fn confirm(&self) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        confirm(&format!("Delete {} with all records?", self.names.join(", ")))
    }
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let (mut deleted, mut failures) = (Vec::new(), Vec::new());
    let results = admin.delete_topics(&arguments.names).wait();
    for (name, result) in arguments.names.iter().zip(results) {
        match result {
            Ok(()) => deleted.push(name),
            Err(error) if arguments.if_exists && error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
            }
            Err(error) => failures.push(error),
        }
    }
    if as_json {
        writeln!(out, "{:#}", json!({ "deleted": deleted }))?;
    } else {
        deleted.iter().try_for_each(|name| writeln!(out, "deleted topic {name}"))?;
    }
    say_failures(failures)
}
