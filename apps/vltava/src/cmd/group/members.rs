//! `vltava group members`.

use std::io::Write;

use anyhow::Result;
use client::Admin;
use client::admin::{GroupDescription, GroupMember};
use serde_json::{Value, json};

use super::head::Head;
use super::{describe_one, host, spans};
use crate::output::Table;

/// Show who is in a group, where they are, and what each one reads
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava group members billing
  vltava group members billing --json | jq '.members[].client'")]
pub(super) struct Arguments {
    /// Which group
    name: String,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let name = &arguments.name;
    let group = describe_one(admin, name)?;
    // It is only shown: who does not know the question is not asked again.
    let coordinator = admin.find_coordinators([name]).wait().pop().and_then(Result::ok);
    let head = Head { group: &group, coordinator: coordinator.as_ref() };
    if as_json {
        let mut value = head.as_value();
        value["members"] = group.members.iter().map(member_json).collect();
        return Ok(writeln!(out, "{value:#}")?);
    }
    writeln!(out, "{head}")?;
    if group.members.is_empty() {
        return Ok(());
    }
    Ok(writeln!(out, "{}", table(&group))?)
}

fn table(group: &GroupDescription) -> Table {
    let mut columns = vec!["member", "instance", "client", "host", "partitions", "assignment"];
    // Only the consumer protocol takes partitions away from one before it gives them to another.
    let has_targets = group.epochs.is_some();
    if has_targets {
        columns.extend(["epoch", "is to have"]);
    }
    let mut table = Table::new(&columns);
    for member in &group.members {
        let mut row = vec![
            member.member_id.clone(),
            member.instance_id.clone().unwrap_or_default(),
            member.client_id.clone(),
            host(&member.host).to_owned(),
            member.assignment.len().to_string(),
            spans(&member.assignment),
        ];
        if has_targets {
            row.push(member.epoch.map_or(String::new(), |epoch| epoch.to_string()));
            let differs = member.target.as_ref().filter(|target| **target != member.assignment);
            row.push(differs.map(spans).unwrap_or_default());
        }
        table.row(row);
    }
    table
}

fn member_json(member: &GroupMember) -> Value {
    let partitions = |of: &std::collections::BTreeSet<base::TopicPartition>| {
        let one =
            |of: &base::TopicPartition| json!({ "topic": of.topic.to_string(), "partition": of.partition.0 });
        of.iter().map(one).collect::<Value>()
    };
    json!({
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": host(&member.host),
        "epoch": member.epoch,
        "topics": member.topics.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "pattern": member.pattern,
        "assignment": partitions(&member.assignment),
        "target": member.target.as_ref().map(partitions),
    })
}
