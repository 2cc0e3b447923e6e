//! Requests that are right, and far too many or far too large.

use anyhow::{Context, Result, ensure};
use client::{ClientError, Connection};
use vltava_e2e::Chance;
use vltava_e2e::churn::admin;
use vltava_e2e::load::connect;
use wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::messages::init_producer_id::InitProducerIdRequest;
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use crate::target::{TOPIC, Target};

/// Requests that are sent before their answers are read.
const PIPELINED: usize = 50;

fn attacker(target: &Target) -> Result<Connection> {
    Ok(connect(&target.address.to_string())?)
}

/// Every request begins a session and none is ever used; there are at most so many, and then none.
pub(crate) fn fetch_sessions(target: &Target, _: &mut Chance) -> Result<()> {
    const CONNECTIONS: usize = 1_200;
    const PER_CONNECTION: usize = 2;
    let request = FetchRequest {
        max_wait_ms: 0,
        session_epoch: 0,
        topics: vec![FetchTopic {
            topic: TOPIC,
            partitions: (0..20).map(|partition| FetchPartition { partition, ..Default::default() }).collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let frame = wire::encode_request(7, None, 12, &request)?.bytes;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut attacker = target.connect()?;
        for _ in 0..PER_CONNECTION {
            attacker.send(&frame);
        }
        open.push(attacker);
    }
    for attacker in &mut open {
        for _ in 0..PER_CONNECTION {
            attacker.answer().context("a new fetch session")?;
        }
    }
    Ok(())
}

pub(crate) fn producer_ids(target: &Target, _: &mut Chance) -> Result<()> {
    const REQUESTS: usize = 20_000;
    let mut connection = attacker(target)?;
    let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    for _ in 0..REQUESTS / PIPELINED {
        for _ in 0..PIPELINED {
            connection.send(&request, 4)?;
        }
        for _ in 0..PIPELINED {
            connection.receive()?;
        }
    }
    Ok(())
}

/// A request with very many names is answered; nothing remembers them.
pub(crate) fn names(target: &Target, _: &mut Chance) -> Result<()> {
    const NAMES: usize = 100_000;
    let names: Vec<String> = (0..NAMES).map(|number| format!("nobody-{number}")).collect();
    let topics = names.iter().map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() });
    let request = MetadataRequest {
        topics: Some(topics.collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let mut connection = attacker(target)?;
    for version in [4, 9, 12] {
        let answer = connection.call(&request, version).with_context(|| format!("version {version}"))?;
        let answer = answer.read()?;
        ensure!(answer.topics.len() == NAMES, "{} answers to {NAMES} names", answer.topics.len());
    }
    Ok(())
}

/// No request makes more than the cluster can be asked for at once.
pub(crate) fn topics(target: &Target, _: &mut Chance) -> Result<()> {
    let mut connection = attacker(target)?;
    for partitions in [10_001, 1_000_000, i32::MAX] {
        refused(&mut connection, &[format!("wide-{partitions}")], partitions)?;
    }
    let names: Vec<String> = (0..50_000).map(|number| format!("many-{number}")).collect();
    refused(&mut connection, &names, 1)?;
    let there = admin(&target.address.to_string())?.list_topics().wait()?;
    let made =
        there.iter().filter(|topic| topic.name.starts_with("wide-") || topic.name.starts_with("many-"));
    ensure!(made.count() == 0, "some of them were made");
    Ok(())
}

fn refused(connection: &mut Connection, names: &[String], partitions: i32) -> Result<()> {
    let topics = names.iter().map(|name| CreatableTopic {
        name,
        num_partitions: partitions,
        replication_factor: 1,
        ..CreatableTopic::default()
    });
    let request = CreateTopicsRequest { topics: topics.collect(), timeout_ms: 10_000, validate_only: false };
    let what = || format!("{} topics of {partitions} partitions", names.len());
    let answer = match connection.ask(&request) {
        Ok(answer) => answer,
        // To close the connection is an answer, too.
        Err(ClientError::Closed { .. }) => return Ok(()),
        Err(error) => return Err(error).with_context(what),
    };
    let made = answer.read()?.topics.iter().filter(|topic| topic.error_code == 0).count();
    ensure!(made == 0, "{}: {made} were made", what());
    Ok(())
}
