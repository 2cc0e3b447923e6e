//! `vltava topic describe`: what a topic is made of and what is in it.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use base::{BrokerId, ErrorCode, Offset, PartitionIndex};
use client::Admin;
use client::admin::{AdminError, At, ConfigSource, Partition, Resource, Setting, Topic};
use serde_json::{Map, Value, json};

use super::{pairs, say_failures};
use crate::output::Table;

type Offsets = BTreeMap<PartitionIndex, Result<Option<Offset>, AdminError>>;

/// A topic, its settings that are not defaults, and where its partitions begin and end.
struct Described {
    topic: Topic,
    settings: Vec<Setting>,
    earliest: Offsets,
    latest: Offsets,
}

pub(super) fn run(admin: &Admin, names: &[String], as_json: bool, out: &mut dyn Write) -> Result<()> {
    let (mut topics, mut failures) = (Vec::new(), Vec::new());
    if names.is_empty() {
        topics = admin.list_topics().wait()?;
    } else {
        for result in admin.describe_topics(names).wait() {
            match result {
                Ok(topic) => topics.push(topic),
                Err(error) => failures.push(error),
            }
        }
        topics.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let all = describe(admin, topics)?;
    if as_json {
        writeln!(out, "{:#}", all.iter().map(json_of).collect::<Value>())?;
        return say_failures(failures);
    }
    for (at, described) in all.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        table_of(described, out)?;
    }
    say_failures(failures)
}

/// Asks for what belongs to topics, all of them together.
fn describe(admin: &Admin, topics: Vec<Topic>) -> Result<Vec<Described>> {
    let resources = topics.iter().map(|topic| Resource::Topic(topic.name.clone()));
    let mut settings = admin.describe_configs(resources).wait().into_iter();
    let mut earliest = offsets(admin, &topics, At::Earliest).into_iter();
    let mut latest = offsets(admin, &topics, At::Latest).into_iter();
    let mut all = Vec::new();
    for topic in topics {
        let (earliest, latest) = (earliest.next().unwrap_or_default(), latest.next().unwrap_or_default());
        let mut settings = match settings.next().unwrap_or(Ok(Vec::new())) {
            // It was deleted since it was named.
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => continue,
            settings => settings?,
        };
        settings.retain(|setting| setting.source != ConfigSource::Default);
        all.push(Described { topic, settings, earliest, latest });
    }
    Ok(all)
}

/// The offsets of a place in each topic's partitions; those without a leader have nobody to ask.
fn offsets(admin: &Admin, topics: &[Topic], at: At) -> Vec<Offsets> {
    let led = |topic: &Topic| {
        let led = topic.partitions.iter().filter(|partition| partition.leader.is_some());
        led.map(|partition| partition.index).collect::<Vec<_>>()
    };
    let places = topics.iter().flat_map(|topic| {
        let of = move |index: PartitionIndex| (topic.name.clone(), index.0, at);
        led(topic).into_iter().map(of)
    });
    let mut found = admin.list_offsets(places).wait().into_iter();
    let of = |topic: &Topic| {
        let found = led(topic).into_iter().zip(found.by_ref());
        found.map(|(index, found)| (index, found.map(|found| found.offset))).collect()
    };
    topics.iter().map(of).collect()
}

fn table_of(described: &Described, out: &mut dyn Write) -> Result<()> {
    let topic = &described.topic;
    writeln!(out, "Topic {}  id {}", topic.name, topic.id)?;
    let mut table = Table::new(&["partition", "leader", "epoch", "replicas", "in sync", "begins", "ends"]);
    for partition in &topic.partitions {
        let offset = |offsets: &Offsets| match offsets.get(&partition.index) {
            Some(Ok(Some(offset))) => offset.to_string(),
            Some(Err(error)) => error.code().map_or("?", |code| code.name()).to_owned(),
            Some(Ok(None)) | None => "?".to_owned(),
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
    let known = |offsets: &Offsets| {
        let found = offsets.get(&partition.index)?.as_ref().ok()?;
        found.map(|offset| offset.0)
    };
    let error = described.latest.get(&partition.index).and_then(|offset| offset.as_ref().err());
    json!({
        "partition": partition.index.0,
        "leader": partition.leader.map(|leader| leader.0),
        "leader_epoch": partition.leader_epoch.0,
        "replicas": ids(&partition.replicas),
        "in_sync": ids(&partition.in_sync),
        "offline": ids(&partition.offline),
        "earliest_offset": known(&described.earliest),
        "latest_offset": known(&described.latest),
        "error": error.map(|error| error.code().map_or("TIMED_OUT", |code| code.name())),
    })
}
