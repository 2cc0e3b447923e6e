//! `vltava group`: looks at the groups of a running cluster, how far they came and how far behind they are; sets them
//! back or forward, and deletes them.

mod delete;
mod describe;
mod list;
mod members;
mod reset_offsets;

mod head; // what is said of a group whatever was asked
mod logs; // where partitions begin and end
mod survey; // how far groups came in them

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;
use base::TopicPartition;
use clap::Subcommand;
use client::Admin;
use client::admin::{AdminError, GroupDescription};

use super::admin::Cluster;
use crate::failure::Asked;

/// Look at groups and their lag, reset and delete them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    cluster: Cluster,
    /// Answer with JSON, for programs
    #[arg(long, global = true)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava group list --lag                                    all groups, and how far behind they are
  vltava group describe billing                              each partition: lag in records, bytes and time
  vltava group members billing                               who is in it, and what each one reads
  vltava group reset-offsets billing --topic orders --to-earliest --dry-run
  vltava group reset-offsets billing --all-topics --by-duration 2h
  vltava group delete billing --yes
  vltava group describe billing --json | jq '.[].lag.records'";

#[derive(Subcommand)]
enum Command {
    List(list::Arguments),
    Describe(describe::Arguments),
    Members(members::Arguments),
    ResetOffsets(reset_offsets::Arguments),
    Delete(delete::Arguments),
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let Arguments { command, cluster, json } = arguments;
    match command {
        Command::List(arguments) => list::run(&cluster.connect()?, arguments, json, out),
        Command::Describe(arguments) => describe::run(&cluster.connect()?, arguments, json, out),
        Command::Members(arguments) => members::run(&cluster.connect()?, &arguments, json, out),
        Command::ResetOffsets(arguments) => reset_offsets::run(&cluster.connect()?, &arguments, json, out),
        Command::Delete(arguments) => {
            arguments.confirm()?;
            delete::run(&cluster.connect()?, &arguments, json, out)
        }
    }
}

/// One group, whichever protocol it has.
fn describe_one(admin: &Admin, group: &str) -> Result<GroupDescription, AdminError> {
    admin.describe_groups([group]).wait().pop().unwrap_or(Err(AdminError::Closed))
}

/// Where a member connects from; Java writes a slash before addresses.
fn host(said: &str) -> &str {
    said.strip_prefix('/').unwrap_or(said)
}

/// Partitions by topic, those that follow each other as one: `orders:0-3,7 payments:1`.
fn spans(partitions: &BTreeSet<TopicPartition>) -> String {
    let mut said = String::new();
    let mut rest = partitions.iter().peekable();
    let mut topic = None;
    while let Some(first) = rest.next() {
        let mut last = first.partition.0;
        while let Some(next) = rest.peek()
            && next.topic == first.topic
            && next.partition.0 == last + 1
        {
            last += 1;
            rest.next();
        }
        match topic.replace(&first.topic) {
            Some(before) if *before == first.topic => said.push(','),
            Some(_) => said.push_str(&format!(" {}:", first.topic)),
            None => said.push_str(&format!("{}:", first.topic)),
        }
        match first.partition.0 {
            first if first == last => said.push_str(&first.to_string()),
            first => said.push_str(&format!("{first}-{last}")),
        }
    }
    said
}

/// Says what failed.
fn say_failures(failures: Vec<AdminError>) -> Result<()> {
    super::admin::say_failures(failures, Asked::Group)
}

#[cfg(test)]
mod tests {
    use base::{PartitionIndex, TopicName};

    use super::*;

    #[test]
    fn partitions_that_follow_each_other_are_one_span() {
        let of = |(topic, index): &(&str, i32)| TopicPartition {
            topic: TopicName::new(topic).expect("it is legal"),
            partition: PartitionIndex(*index),
        };
        let spell = |all: &[(&str, i32)]| spans(&all.iter().map(of).collect());
        assert_eq!(spell(&[]), "");
        assert_eq!(spell(&[("a", 3)]), "a:3");
        assert_eq!(spell(&[("a", 0), ("a", 1), ("a", 2), ("a", 4), ("b", 5), ("b", 6)]), "a:0-2,4 b:5-6");
    }
}
