//! `vltava topic trim`: deletes the oldest records of partitions.

use std::io::Write;

use anyhow::Result;
use base::Offset;
use client::Admin;
use serde_json::{Value, json};

use super::{confirm, partitions_of, say_failures};
use crate::output::Table;

/// Delete the oldest records of partitions, up to an offset
#[derive(clap::Args)]
#[command(
    visible_alias = "delete-records",
    after_help = "\
Examples:
  vltava topic trim orders --partition 0 --before 1000
  vltava topic trim orders --before end --yes            all records that there are now"
)]
pub(super) struct Arguments {
    /// Which topic
    name: String,
    /// The first offset to keep, or `end`: nothing of what consumers may read is kept
    #[arg(long, value_name = "OFFSET", value_parser = before)]
    before: Before,
    /// Which partitions; all if none is named
    #[arg(long = "partition", value_name = "INDEX")]
    partitions: Vec<i32>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Copy)]
struct Before(Option<Offset>);

fn before(text: &str) -> Result<Before, String> {
    match text.parse() {
        Ok(offset) if offset >= 0 => Ok(Before(Some(Offset(offset)))),
        _ if text == "end" => Ok(Before(None)),
        _ => Err("expected an offset, or `end`".to_owned()),
    }
}

impl Arguments {
    pub(super) fn confirm(&self) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        let records = match self.before.0 {
            Some(offset) => format!("all records before offset {offset}"),
            None => "all records".to_owned(),
        };
        let partitions: Vec<String> = self.partitions.iter().map(ToString::to_string).collect();
        let of = match partitions.join(", ") {
            none if none.is_empty() => "every partition".to_owned(),
            some => format!("partition {some}"),
        };
        confirm(&format!("Delete {records} of {of} of {}?", self.name))
    }
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let topic = admin.describe_topic(&arguments.name).wait()?;
    let partitions = partitions_of(&topic, &arguments.partitions)?;
    let wanted = partitions.iter().map(|&index| (&*topic.name, index, arguments.before.0));
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for (index, result) in partitions.iter().zip(admin.delete_records(wanted).wait()) {
        match result {
            Ok(begins) => done.push((*index, begins)),
            Err(error) => failures.push(error),
        }
    }
    if as_json {
        let of = |(index, begins): &(i32, Offset)| json!({ "partition": index, "earliest_offset": begins.0 });
        writeln!(out, "{:#}", done.iter().map(of).collect::<Value>())?;
    } else if !done.is_empty() {
        let mut table = Table::new(&["partition", "begins"]);
        for (index, begins) in &done {
            table.row([index.to_string(), begins.to_string()]);
        }
        writeln!(out, "{table}")?;
    }
    say_failures(failures)
}
