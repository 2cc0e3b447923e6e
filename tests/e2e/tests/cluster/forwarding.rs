//! Any node does what an administrator asks, whoever is the active controller, and shows at once what it did.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::ErrorCode;
use client::{ClientError, ConnectOptions, Connection};
use vltava_e2e::nodes::Nodes;
use vltava_e2e::wait;
use wire::messages::alter_configs::{self, AlterConfigsRequest};
use wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::messages::api_versions::ApiVersionsRequest;
use wire::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData,
};
use wire::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use wire::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::messages::unregister_broker::UnregisterBrokerRequest;
use wire::messages::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};

const IDS: [i32; 3] = [1, 2, 3];
/// What a node shows too soon or too late it does not each time.
const ROUNDS: i32 = 10;
/// Of a resource: a topic.
const TOPIC: i8 = 2;
/// Of an update of a feature: to a level that is not below the one it has.
const UPGRADE: i8 = 1;
const TIMEOUT_MS: i32 = 30_000;
const TIME_MAX: Duration = Duration::from_secs(30);
/// No broker is called that.
const STRANGER: i32 = 4711;

fn create(node: &mut Connection, name: &str) -> Result<()> {
    let topic = CreatableTopic { name, num_partitions: 2, replication_factor: -1, ..Default::default() };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, ..Default::default() };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    let made = answer.topics.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), made.error_code, made.error_message)?)
}

/// Who leads each partition of a topic, and its replicas; none if the node does not know the topic.
fn partitions(node: &mut Connection, name: &str) -> Result<Vec<(i32, Vec<i32>)>> {
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
    let mut found: Vec<_> = topic.partitions.iter().collect();
    found.sort_by_key(|partition| partition.partition_index);
    Ok(found.iter().map(|partition| (partition.leader_id, partition.replica_nodes.clone())).collect())
}

/// How many replicas the partitions of a topic have.
fn replicas(node: &mut Connection, name: &str) -> Result<Vec<usize>> {
    Ok(partitions(node, name)?.iter().map(|(_, replicas)| replicas.len()).collect())
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
    let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, ..Default::default() };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    let gone = answer.responses.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), gone.error_code, gone.error_message)?)
}

fn grow(node: &mut Connection, name: &str, count: i32) -> Result<()> {
    let topic = CreatePartitionsTopic { name, count, assignments: None };
    let request =
        CreatePartitionsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, validate_only: false };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    let grown = answer.results.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), grown.error_code, grown.error_message)?)
}

/// All that was set of the topic is replaced by this.
fn keep_only_for(node: &mut Connection, name: &str, retention_ms: &str) -> Result<()> {
    let config = alter_configs::AlterableConfig { name: "retention.ms", value: Some(retention_ms) };
    let resource = alter_configs::AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: name,
        configs: vec![config],
    };
    let answer = node.ask(&AlterConfigsRequest { resources: vec![resource], validate_only: false })?;
    let answer = answer.read()?;
    let done = answer.responses.first().context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), done.error_code, done.error_message)?)
}

/// The first partition of a topic is to be on these, and is so once nothing is on its way.
fn move_first(node: &mut Connection, name: &str, to: &[i32]) -> Result<()> {
    let partition = ReassignablePartition { partition_index: 0, replicas: Some(to.to_vec()) };
    let topic = ReassignableTopic { name, partitions: vec![partition] };
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: TIMEOUT_MS,
        topics: vec![topic],
        ..AlterPartitionReassignmentsRequest::default()
    };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    ClientError::check(|| name.to_owned(), answer.error_code, answer.error_message)?;
    let begun = answer.responses.first().and_then(|topic| topic.partitions.first()).context("it answers")?;
    ClientError::check(|| name.to_owned(), begun.error_code, begun.error_message)?;
    wait::until("a replica is taken away", TIME_MAX, || {
        let request = ListPartitionReassignmentsRequest { timeout_ms: TIMEOUT_MS, topics: None };
        let answer = node.ask(&request)?;
        let answer = answer.read()?;
        ClientError::check(|| "what moves".to_owned(), answer.error_code, answer.error_message)?;
        Ok(answer.topics.is_empty().then_some(()))
    })
}

/// The first in line of a topic's first partition is to lead it.
fn elect(node: &mut Connection, name: &str) -> Result<()> {
    let first = TopicPartitions { topic: name, partitions: vec![0] };
    let request =
        ElectLeadersRequest { election_type: 0, topic_partitions: Some(vec![first]), timeout_ms: TIMEOUT_MS };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    ClientError::check(|| name.to_owned(), answer.error_code, None)?;
    let results = answer.replica_election_results.first();
    let elected = results.and_then(|topic| topic.partition_result.first()).context("it answers")?;
    Ok(ClientError::check(|| name.to_owned(), elected.error_code, elected.error_message)?)
}

/// Whether each feature could have the level that it has.
fn try_features(node: &mut Connection) -> Result<()> {
    let known = node.ask(&ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1",
        ..ApiVersionsRequest::default()
    })?;
    let known = known.read()?;
    let feature_updates = known.finalized_features.iter().map(|it| FeatureUpdateKey {
        feature: it.name,
        max_version_level: it.max_version_level,
        upgrade_type: UPGRADE,
        ..FeatureUpdateKey::default()
    });
    let feature_updates: Vec<_> = feature_updates.collect();
    ensure!(!feature_updates.is_empty(), "a cluster has features");
    let request = UpdateFeaturesRequest { timeout_ms: TIMEOUT_MS, feature_updates, validate_only: true };
    let answer = node.ask(&request)?;
    let answer = answer.read()?;
    Ok(ClientError::check(|| "features".to_owned(), answer.error_code, answer.error_message)?)
}

/// Who leads the quorum, and who votes.
fn quorum(node: &mut Connection) -> Result<(i32, Vec<i32>)> {
    let partitions = vec![DescribeQuorumRequestPartitionData { partition_index: 0 }];
    let topic = DescribeQuorumRequestTopicData { topic_name: "__cluster_metadata", partitions };
    let answer = node.ask(&DescribeQuorumRequest { topics: vec![topic] })?;
    let answer = answer.read()?;
    ClientError::check(|| "the quorum".to_owned(), answer.error_code, answer.error_message)?;
    let found = answer.topics.first().and_then(|topic| topic.partitions.first()).context("it answers")?;
    ClientError::check(|| "the quorum".to_owned(), found.error_code, found.error_message)?;
    let mut voters: Vec<i32> = found.current_voters.iter().map(|voter| voter.replica_id).collect();
    voters.sort_unstable();
    Ok((found.leader_id, voters))
}

fn forget(node: &mut Connection, broker_id: i32) -> Result<Option<ErrorCode>> {
    let answer = node.ask(&UnregisterBrokerRequest { broker_id })?;
    Ok(ErrorCode::from_i16(answer.read()?.error_code))
}

/// What else only the controller decides, asked of this one node while these live.
fn looks_after_all(address: &str, name: &str, alive: &[i32]) -> Result<()> {
    let node = &mut Connection::connect(address, ConnectOptions::default())?;
    create(node, name)?;
    grow(node, name, 4)?;
    let replicas_of = replicas(node, name)?;
    ensure!(replicas_of == [3; 4], "{name} has grown: {replicas_of:?}");

    keep_for(node, name, "4711")?;
    keep_only_for(node, name, "4712")?;
    let kept = kept_for(node, name)?;
    ensure!(kept == "4712", "{name} is kept for {kept:?}");

    let leader = partitions(node, name)?[0].0;
    let next = *alive.iter().find(|id| **id != leader).context("two live")?;
    move_first(node, name, &[next, leader])?;
    let moved = partitions(node, name)?[0].clone();
    ensure!(moved == (leader, vec![next, leader]), "{name} is where it was told to be: {moved:?}");
    elect(node, name)?;
    let leads = partitions(node, name)?[0].0;
    ensure!(leads == next, "{next} was elected, {leads} leads");

    try_features(node)?;
    let (leader, voters) = quorum(node)?;
    ensure!(alive.contains(&leader) && voters == IDS, "{leader} leads {voters:?}");
    let refused = forget(node, STRANGER)?;
    ensure!(refused == Some(ErrorCode::BrokerIdNotRegistered), "{refused:?}");
    delete(node, name)
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
                .and_then(|()| looks_after_all(&address, &format!("all-{id}"), &IDS))
                .with_context(|| format!("asked of {id}, node {leader} leads the quorum"))?;
        }
        // Whoever leads now, at least one of those who are left does not.
        nodes.stop(leader)?;
        let alive: Vec<i32> = IDS.into_iter().filter(|id| *id != leader).collect();
        for id in alive.iter().copied() {
            let address = nodes.address(id)?;
            does_and_shows(&address, names(id, "then"))
                .and_then(|()| looks_after_all(&address, &format!("left-{id}"), &alive))
                .with_context(|| format!("asked of {id}, node {leader} is gone"))?;
        }
        Ok(())
    })
}
