//! Any node does what an administrator asks, whoever is the active controller, and shows at once what it did.

use anyhow::{Context, Result, ensure};
use base::ErrorCode;
use client::{ClientError, ConnectOptions, Connection};
use vltava_e2e::nodes::Nodes;
use wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

const IDS: [i32; 3] = [1, 2, 3];
/// What a node shows too soon or too late it does not each time.
const ROUNDS: i32 = 10;
/// Of a resource: a topic.
const TOPIC: i8 = 2;

fn create(node: &mut Connection, name: &str) -> Result<()> {
    let topic = CreatableTopic { name, num_partitions: 2, replication_factor: -1, ..Default::default() };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    let made = answer.topics.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), made.error_code, made.error_message)?)
}

/// How many replicas the partitions of a topic have; none if the node does not know it.
fn replicas(node: &mut Connection, name: &str) -> Result<Vec<usize>> {
    let topic = MetadataRequestTopic { name: Some(name), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    let topic = answer.topics.first().context("it answers")?;
    if topic.error_code == ErrorCode::UnknownTopicOrPartition.code() {
        return Ok(Vec::new());
    }
    ClientError::check(|| name.to_owned(), topic.error_code, None)?;
    Ok(topic.partitions.iter().map(|partition| partition.replica_nodes.len()).collect())
}

fn keep_for(node: &mut Connection, name: &str, retention_ms: &str) -> Result<()> {
    let config = AlterableConfig { name: "retention.ms", config_operation: 0, value: Some(retention_ms) };
    let resource = AlterConfigsResource { resource_type: TOPIC, resource_name: name, configs: vec![config] };
    let answer =
        node.ask(&IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false })?;
    let answer = answer.read()?;
    let done = answer.responses.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), done.error_code, done.error_message)?)
}

fn kept_for(node: &mut Connection, name: &str) -> Result<String> {
    let resource = DescribeConfigsResource {
        resource_type: TOPIC,
        resource_name: name,
        configuration_keys: Some(vec!["retention.ms"]),
    };
    let answer = node.ask(&DescribeConfigsRequest { resources: vec![resource], ..Default::default() })?;
    let answer = answer.read()?;
    let found = answer.results.first().context("it answers")?;
    ClientError::check(|| name.to_owned(), found.error_code, found.error_message)?;
    Ok(found.configs.first().and_then(|config| config.value).unwrap_or_default().to_owned())
}

fn delete(node: &mut Connection, name: &str) -> Result<()> {
    let topic = DeleteTopicState { name: Some(name), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    let gone = answer.responses.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), gone.error_code, gone.error_message)?)
}

/// Everything is asked of this one node, which shows each time what it has said is so.
fn does_and_shows(address: &str, names: impl Iterator<Item = String>) -> Result<()> {
    let node = &mut Connection::connect(address, ConnectOptions::default())?;
    for name in names {
        create(node, &name)?;
        let replicas_of = replicas(node, &name)?;
        ensure!(replicas_of == [3, 3], "{name}: {replicas_of:?}");
        keep_for(node, &name, "4711")?;
        let kept = kept_for(node, &name)?;
        ensure!(kept == "4711", "{name} is kept for {kept:?}");
        delete(node, &name)?;
        let left = replicas(node, &name)?;
        ensure!(left.is_empty(), "{name} is still there: {left:?}");
    }
    Ok(())
}

#[test]
fn every_node_does_what_it_is_asked_and_shows_it_at_once() -> Result<()> {
    Nodes::found(&IDS)?.told(|nodes| {
        let names = |id: i32, part: &str| {
            let part = part.to_owned();
            (0..ROUNDS).map(move |round| format!("{part}-{id}-{round}"))
        };
        let leader = nodes.status()?["quorum"]["leader"].as_i64().context("somebody leads")? as i32;
        for id in IDS {
            let address = nodes.address(id)?;
            does_and_shows(&address, names(id, "first"))
                .with_context(|| format!("asked of {id}, node {leader} leads the quorum"))?;
        }
        // Whoever leads now, at least one of those who are left does not.
        nodes.stop(leader)?;
        for id in IDS.into_iter().filter(|id| *id != leader) {
            let address = nodes.address(id)?;
            does_and_shows(&address, names(id, "then"))
                .with_context(|| format!("asked of {id}, node {leader} is gone"))?;
        }
        Ok(())
    })
}
