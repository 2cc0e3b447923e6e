//! `vltava group describe`.

use std::io::Write;

use anyhow::Result;
use client::Admin;
use serde_json::{Value, json};

use super::survey::{Depth, Part, Surveyed, survey};
use super::{host, say_failures};
use crate::output::{Table, age, size};

/// Show how far groups came, and how far behind they are
#[derive(clap::Args)]
#[command(after_help = "\
Lag in records is the end of the partition's log less what is committed. It counts offsets: markers of
transactions, and records that compaction took away, are among them.
Lag in bytes (~) is an estimate: of the size of the partition on its leader's disk, the share that the records
to be read have of all its records.
Lag in time (~) is how long ago the batch was begun that has the first record to be read, by that record's
timestamp and the clock of this machine. One such batch is read of each partition that lags, those of many
partitions with each request; of a batch of more than a megabyte the time is not known, as of what a leader does
not say. --no-time leaves it out.

Examples:
  vltava group describe billing
  vltava group describe billing audit --json | jq '.[] | {group, lag}'
  vltava group describe --no-time")]
pub(super) struct Arguments {
    /// Which groups; all if none is named
    names: Vec<String>,
    /// Do not find out the lag in time
    #[arg(long)]
    no_time: bool,
}

pub(super) fn run(admin: &Admin, arguments: Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let Arguments { mut names, no_time } = arguments;
    if names.is_empty() {
        names = admin.list_groups().wait()?.into_iter().map(|group| group.group_id).collect();
    }
    let depth = if no_time { Depth::Bytes } else { Depth::All };
    let (all, failures) = survey(admin, &names, depth);
    if as_json {
        writeln!(out, "{:#}", all.iter().map(as_value).collect::<Value>())?;
        return say_failures(failures);
    }
    for (at, surveyed) in all.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        show(surveyed, out)?;
    }
    say_failures(failures)
}

fn show(surveyed: &Surveyed, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", surveyed.head())?;
    if surveyed.parts.is_empty() {
        return Ok(writeln!(out, "nothing is committed, and nobody reads")?);
    }
    let mut table = Table::new(&[
        "topic",
        "partition",
        "committed",
        "begins",
        "ends",
        "lag",
        "bytes",
        "behind",
        "member",
        "host",
    ]);
    for part in &surveyed.parts {
        table.row(row(surveyed, part));
    }
    let lag = surveyed.lag();
    table.row([
        "total".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        lag.records.map_or("?".to_owned(), |records| records.to_string()),
        about(lag.bytes, size),
        about(lag.behind_ms, age),
        String::new(),
        String::new(),
    ]);
    writeln!(out, "{table}")?;
    let troubles: Vec<String> = surveyed.parts.iter().filter_map(Part::trouble).collect();
    if !troubles.is_empty() {
        writeln!(out)?;
        troubles.iter().try_for_each(|trouble| writeln!(out, "{trouble}"))?;
        writeln!(out, "  where a reader goes on there, its auto.offset.reset says")?;
    }
    Ok(())
}

fn row(surveyed: &Surveyed, part: &Part) -> [String; 10] {
    let member = part.member.and_then(|place| surveyed.group.members.get(place));
    let known = part.log.known();
    let unknown = || part.log.error().unwrap_or("?").to_owned();
    let lag = match (part.records(), &part.committed) {
        (Some(records), _) => records.to_string(),
        (None, Some(_)) => "?".to_owned(),
        (None, None) => "-".to_owned(),
    };
    [
        part.of.topic.to_string(),
        part.of.partition.to_string(),
        part.committed.as_ref().map_or("-".to_owned(), |committed| committed.offset.to_string()),
        known.map_or_else(unknown, |(start, _)| start.to_string()),
        known.map_or_else(unknown, |(_, end)| end.to_string()),
        lag,
        about(part.bytes(), size),
        about(part.behind_ms, age),
        member.map(|member| member.member_id.clone()).unwrap_or_default(),
        member.map(|member| host(&member.host).to_owned()).unwrap_or_default(),
    ]
}

/// Marks an estimate; what lacks nothing is known well.
fn about(estimate: Option<u64>, spell: fn(u64) -> String) -> String {
    match estimate {
        None => "-".to_owned(),
        Some(0) => "0".to_owned(),
        Some(estimate) => format!("~{}", spell(estimate)),
    }
}

fn as_value(surveyed: &Surveyed) -> Value {
    let (lag, mut value) = (surveyed.lag(), surveyed.head().as_value());
    value["members"] = json!(surveyed.group.members.len());
    value["lag"] = json!({
        "records": lag.records,
        "bytes_estimate": lag.bytes,
        "ms_estimate": lag.behind_ms,
    });
    value["partitions"] = surveyed.parts.iter().map(|part| part_json(surveyed, part)).collect();
    value
}

fn part_json(surveyed: &Surveyed, part: &Part) -> Value {
    let member = part.member.and_then(|place| surveyed.group.members.get(place));
    let known = part.log.known();
    json!({
        "topic": part.of.topic.to_string(),
        "partition": part.of.partition.0,
        "committed_offset": part.committed.as_ref().map(|committed| committed.offset.0),
        "committed_metadata": part.committed.as_ref().map(|committed| &*committed.metadata),
        "earliest_offset": known.map(|(start, _)| start),
        "latest_offset": known.map(|(_, end)| end),
        "lag_records": part.records(),
        "lag_bytes_estimate": part.bytes(),
        "lag_ms_estimate": part.behind_ms,
        "member": member.map(|member| &member.member_id),
        "client": member.map(|member| &member.client_id),
        "host": member.map(|member| host(&member.host)),
        "error": part.log.error(),
        "trouble": part.trouble(),
    })
}
