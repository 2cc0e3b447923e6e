//! `vltava topic offsets`: where partitions begin and end, and what offset a time has.

use std::io::Write;

use anyhow::Result;
use base::TimestampMs;
use client::Admin;
use client::admin::{At, FoundOffset};
use serde_json::{Value, json};

use super::{partitions_of, say_failures};
use crate::output::{Table, utc};

/// Find offsets: of the first record, behind the last, or of a time
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava topic offsets orders
  vltava topic offsets orders --time earliest --partition 0
  vltava topic offsets orders --time 1795273682717 --json")]
pub(super) struct Arguments {
    /// Which topic
    name: String,
    /// Which place: earliest, latest, max-timestamp, earliest-local, latest-tiered,
    /// earliest-pending-upload, or a time in milliseconds since 1970
    #[arg(long, value_name = "TIME", default_value = "latest", value_parser = place)]
    time: At,
    /// Which partitions; all if none is named
    #[arg(long = "partition", value_name = "INDEX")]
    partitions: Vec<i32>,
}

fn place(text: &str) -> Result<At, String> {
    Ok(match text {
        "earliest" => At::Earliest,
        "latest" => At::Latest,
        "max-timestamp" => At::MaxTimestamp,
        "earliest-local" => At::EarliestLocal,
        "latest-tiered" => At::LatestTiered,
        "earliest-pending-upload" => At::EarliestPendingUpload,
        time => match time.parse() {
            Ok(time) if time >= 0 => At::Time(TimestampMs(time)),
            _ => return Err("expected earliest, latest, max-timestamp or milliseconds since 1970".to_owned()),
        },
    })
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let topic = admin.describe_topic(&arguments.name).wait()?;
    let partitions = partitions_of(&topic, &arguments.partitions)?;
    let places = partitions.iter().map(|&index| (&*topic.name, index, arguments.time));
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for (index, result) in partitions.iter().zip(admin.list_offsets(places).wait()) {
        match result {
            Ok(offset) => found.push((*index, offset)),
            Err(error) => failures.push(error),
        }
    }
    if as_json {
        writeln!(out, "{:#}", found.iter().map(json_of).collect::<Value>())?;
    } else if !found.is_empty() {
        writeln!(out, "{}", table_of(&found))?;
    }
    say_failures(failures)
}

fn json_of((index, found): &(i32, FoundOffset)) -> Value {
    json!({
        "partition": index,
        "offset": found.offset.map(|offset| offset.0),
        "timestamp": found.timestamp.map(|time| time.0),
        "leader_epoch": found.leader_epoch.map(|epoch| epoch.0),
    })
}

fn table_of(found: &[(i32, FoundOffset)]) -> Table {
    let mut table = Table::new(&["partition", "offset", "time"]);
    for (index, found) in found {
        table.row([
            index.to_string(),
            found.offset.map_or("none".to_owned(), |offset| offset.to_string()),
            found.timestamp.map_or(String::new(), |time| utc(time.0)),
        ]);
    }
    table
}
