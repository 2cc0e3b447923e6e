//! `vltava group delete`.

use std::io::Write;

use anyhow::Result;
use base::ErrorCode;
use client::Admin;
use serde_json::json;

use super::say_failures;
use crate::cmd::admin::confirm;

/// Delete groups that have no members, with all that they committed
#[derive(clap::Args)]
#[command(after_help = "\
A group that reads again afterwards begins where its auto.offset.reset says.

Examples:
  vltava group delete billing
  vltava group delete billing audit --yes --if-exists")]
pub(super) struct Arguments {
    /// Which groups
    #[arg(required = true)]
    names: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Take no offence at groups that are not there
    #[arg(long)]
    if_exists: bool,
}

impl Arguments {
    pub(super) fn confirm(&self) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        let question = format!("Delete {} with all committed offsets?", self.names.join(", "));
        confirm(&question, "this deletes committed offsets for good", "nothing was deleted")
    }
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let (mut deleted, mut failures) = (Vec::new(), Vec::new());
    let results = admin.delete_groups(&arguments.names).wait();
    for (name, result) in arguments.names.iter().zip(results) {
        match result {
            Ok(()) => deleted.push(name),
            Err(error) if arguments.if_exists && error.code() == Some(ErrorCode::GroupIdNotFound) => {}
            Err(error) => failures.push(error),
        }
    }
    if as_json {
        writeln!(out, "{:#}", json!({ "deleted": deleted }))?;
    } else {
        deleted.iter().try_for_each(|name| writeln!(out, "deleted group {name}"))?;
    }
    say_failures(failures)
}
