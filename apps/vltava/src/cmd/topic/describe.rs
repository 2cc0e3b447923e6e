//! `vltava topic describe`: what a topic is made of and what is in it.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use base::{BrokerId, ErrorCode, Offset, PartitionIndex};
use client::Admin;
use client::admin::{At, ConfigSource, Partition, Resource, Setting, Topic};
use serde_json::{Map, Value, json};

use super::pairs;
use crate::output::Table;

type Offsets = BTreeMap<PartitionIndex, Result<Offset, ErrorCode>>;

/// A topic, its settings that are not defaults, and where its partitions begin and end.
struct Described {
    topic: Topic,
    settings: Vec<Setting>,
    earliest: Offsets,
    latest: Offsets,
}

pub(super) fn run(admin: &mut Admin, names: &[String], as_json: bool, out: &mut dyn Write) -> Result<()> {
    let mut all = Vec::new();
    for topic in admin.describe_topics(names)? {
        let settings = admin.describe_configs(&Resource::Topic(topic.name.clone()))?;
        let earliest = admin.list_offsets(&topic, At::Earliest)?;
        let latest = admin.list_offsets(&topic, At::Latest)?;
        let settings =
            settings.into_iter().filter(|setting| setting.source != ConfigSource::Default).collect();
        all.push(Described { topic, settings, earliest, latest });
    }
    if as_json {
        return Ok(writeln!(out, "{:#}", all.iter().map(json_of).collect::<Value>())?);
    }
    for (at, described) in all.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        table_of(described, out)?;
    }
    Ok(())
}

fn table_of(described: &Described, out: &mut dyn Write) -> Result<()> {
    let topic = &described.topic;
    writeln!(out, "Topic {}  id {}", topic.name, topic.id)?;
    let mut table = Table::new(&["partition", "leader", "epoch", "replicas", "in sync", "begins", "ends"]);
    for partition in &topic.partitions {
        let offset = |offsets: &Offsets| match offsets.get(&partition.index) {
            Some(Ok(offset)) => offset.to_string(),
            Some(Err(error)) => error.name().to_owned(),
            None => "?".to_owned(),
        };
        table.row([
            partition.index.to_string(),
            partition.leader.map_or("none".to_owned(), |leader| leader.to_string()),
            partition.leader_epoch.to_string(),
            listed(&partition.replicas),
            listed(&partition.in_sync),
            offset(&described.earliest),
            offset(&described.latest),
        ]);
    }
    writeln!(out, "{table}")?;
    if !described.settings.is_empty() {
        let rows = described.settings.iter().map(|setting| (setting.name.as_str(), shown(setting)));
        writeln!(out, "\n{}", pairs(["setting", "value"], rows))?;
    }
    Ok(())
}

fn shown(setting: &Setting) -> &str {
    match &setting.value {
        Some(value) => value,
        None if setting.is_sensitive => "(hidden)",
        None => "(not set)",
    }
}

fn listed(brokers: &[BrokerId]) -> String {
    brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn json_of(described: &Described) -> Value {
    let topic = &described.topic;
    let settings: Map<String, Value> =
        described.settings.iter().map(|setting| (setting.name.clone(), json!(setting.value))).collect();
    json!({
        "name": topic.name,
        "id": topic.id.to_string(),
        "internal": topic.is_internal,
        "partitions": topic.partitions.iter().map(|partition| partition_json(described, partition)).collect::<Value>(),
        "settings": settings,
    })
}

fn partition_json(described: &Described, partition: &Partition) -> Value {
    let ids = |brokers: &[BrokerId]| brokers.iter().map(|broker| broker.0).collect::<Vec<_>>();
    let known = |offset: Option<&Result<Offset, ErrorCode>>| offset?.ok().map(|offset| offset.0);
    let error = described.latest.get(&partition.index).and_then(|offset| offset.err());
    json!({
        "partition": partition.index.0,
        "leader": partition.leader.map(|leader| leader.0),
        "leader_epoch": partition.leader_epoch,
        "replicas": ids(&partition.replicas),
        "in_sync": ids(&partition.in_sync),
        "offline": ids(&partition.offline),
        "earliest_offset": known(described.earliest.get(&partition.index)),
        "latest_offset": known(described.latest.get(&partition.index)),
        "error": error.map(|error| error.name()),
    })
}
