//! Committers: each commits again as soon as its last commit was answered.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::{ApiKey, encode_request};

use super::dialogue::{Dialogue, hold};
use super::{
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, LOOK_EVERY, NOT_COORDINATOR,
    OFFSET_COMMIT_VERSION, OFFSET_FETCH_VERSION, as_millis, connect, coordinators, quantile, read,
};
use crate::PATIENCE;

/// One who commits for one partition, whose number is its own.
struct Committer {
    group: String,
    asked_at: Instant,
    /// What was asked for last, and the last that was answered with success.
    asked: i64,
    committed: i64,
}

struct Commits<'a> {
    topic: &'a str,
    committers: Vec<Committer>,
    /// What is answered between these counts.
    from: Instant,
    until: Instant,
    took_ms: Vec<f64>,
    /// How many were answered in all.
    all: u64,
}

/// Has so many commit, in one group all of them or in a group each. What is committed in the end must be what was
/// answered last.
pub(super) fn run(
    broker: &str,
    topic: &str,
    (are_together, count): (bool, usize),
    (warm, time): (Duration, Duration),
) -> Result<Value> {
    let name = |number| if are_together { "together".to_owned() } else { format!("apart-{number}") };
    let groups: Vec<String> = (0..count).map(name).collect();
    let addresses = ready(broker, topic, &groups)?;
    let now = Instant::now();
    let committer =
        |group: &String| Committer { group: group.clone(), asked_at: now, asked: 0, committed: 0 };
    let committers = groups.iter().map(committer).collect();
    let (from, until) = (now + warm, now + warm + time);
    let mut commits = Commits { topic, committers, from, until, took_ms: Vec::new(), all: 0 };
    hold(&addresses, &mut commits)?;
    for (place, (committer, address)) in commits.committers.iter().zip(&addresses).enumerate() {
        let found = committed(&address.to_string(), &committer.group, topic, i32::try_from(place)?)?;
        let wanted = committer.committed;
        ensure!(found == wanted, "{}: {wanted} was committed, and {found} is there", committer.group);
    }
    let Commits { mut took_ms, all, .. } = commits;
    took_ms.sort_by(f64::total_cmp);
    Ok(json!({
        "commits": took_ms.len(),
        "all_commits": all,
        "commits_per_sec": took_ms.len() as f64 / time.as_secs_f64(),
        "p50_ms": quantile(&took_ms, 0.5),
        "p99_ms": quantile(&took_ms, 0.99),
        "max_ms": quantile(&took_ms, 1.0),
    }))
}

impl Dialogue for Commits<'_> {
    fn next(&mut self, place: usize) -> Result<Option<Vec<u8>>> {
        let now = Instant::now();
        if now >= self.until {
            return Ok(None);
        }
        let committer = &mut self.committers[place];
        committer.asked = committer.committed + 1;
        committer.asked_at = now;
        commit(&committer.group, self.topic, &[(i32::try_from(place)?, committer.asked)]).map(Some)
    }

    fn on_answer(&mut self, place: usize, frame: &[u8]) -> Result<()> {
        let now = Instant::now();
        let committer = &mut self.committers[place];
        match refusal(frame)? {
            None => committer.committed = committer.asked,
            Some(code) => bail!("{}: a commit is refused with error {code}", committer.group),
        }
        self.all += 1;
        if (self.from..self.until).contains(&now) {
            self.took_ms.push(as_millis(now - committer.asked_at));
        }
        Ok(())
    }
}

/// Where the coordinators of these groups are, as soon as each has taken a commit: a broker may tell of one that
/// has not heard of it yet, or will not be it for long.
fn ready(broker: &str, topic: &str, groups: &[String]) -> Result<Vec<SocketAddr>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let addresses = coordinators(broker, groups)?;
        let mut connections = BTreeMap::new();
        let mut refused = None;
        for (place, (group, address)) in groups.iter().zip(&addresses).enumerate() {
            let connection = match connections.entry(*address) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(connect(&address.to_string())?),
            };
            let request = request(group, topic, &[(i32::try_from(place)?, 0)]);
            let answer = connection.call(&request, OFFSET_COMMIT_VERSION)?;
            refused = refused.or(first_error(&answer.read()?)?);
        }
        match refused {
            None => return Ok(addresses),
            Some(code) if is_passing(code) && Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            Some(code) => bail!("a first commit is refused with error {code}"),
        }
    }
}

/// Whether a coordinator is only just being made, or is another.
pub(super) fn is_passing(code: i16) -> bool {
    [COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR].contains(&code)
}

/// The frame of a request that commits for a group without members: partition and offset.
pub(super) fn commit(group: &str, topic: &str, offsets: &[(i32, i64)]) -> Result<Vec<u8>> {
    Ok(encode_request(0, Some("bench"), OFFSET_COMMIT_VERSION, &request(group, topic, offsets))?.bytes)
}

fn request<'a>(group: &'a str, topic: &'a str, offsets: &[(i32, i64)]) -> OffsetCommitRequest<'a> {
    let partition = |&(partition_index, committed_offset): &(i32, i64)| OffsetCommitRequestPartition {
        partition_index,
        committed_offset,
        committed_metadata: Some(""),
        ..OffsetCommitRequestPartition::default()
    };
    let partitions = offsets.iter().map(partition).collect();
    OffsetCommitRequest {
        group_id: group,
        topics: vec![OffsetCommitRequestTopic {
            name: topic,
            partitions,
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    }
}

/// The first error in the answer to a commit.
pub(super) fn refusal(frame: &[u8]) -> Result<Option<i16>> {
    first_error(&read(frame, ApiKey::OffsetCommit, OFFSET_COMMIT_VERSION)?)
}

fn first_error(said: &OffsetCommitResponse<'_>) -> Result<Option<i16>> {
    let mut partitions = said.topics.iter().flat_map(|topic| &topic.partitions).peekable();
    ensure!(partitions.peek().is_some(), "a commit is answered without a partition");
    Ok(partitions.map(|partition| partition.error_code).find(|code| *code != 0))
}

/// A request for what a group has committed of these partitions.
pub(super) fn fetch<'a>(group: &'a str, topic: &'a str, partitions: &[i32]) -> OffsetFetchRequest<'a> {
    let topics = OffsetFetchRequestTopics {
        name: topic,
        partition_indexes: partitions.to_vec(),
        ..OffsetFetchRequestTopics::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group,
        topics: Some(vec![topics]),
        ..OffsetFetchRequestGroup::default()
    };
    OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() }
}

/// The offsets in the answer, by partitions.
pub(super) fn fetched(said: &OffsetFetchResponse<'_>) -> Result<Vec<(i32, i64)>> {
    let group = said.groups.first().context("a question for a group is answered without one")?;
    ensure!(
        group.error_code == 0,
        "the offsets of {} are refused with error {}",
        group.group_id,
        group.error_code
    );
    let mut offsets = Vec::new();
    for partition in group.topics.iter().flat_map(|topic| &topic.partitions) {
        ensure!(partition.error_code == 0, "an offset is refused: {partition:?}");
        offsets.push((partition.partition_index, partition.committed_offset));
    }
    Ok(offsets)
}

fn committed(coordinator: &str, group: &str, topic: &str, partition: i32) -> Result<i64> {
    let answer = connect(coordinator)?.call(&fetch(group, topic, &[partition]), OFFSET_FETCH_VERSION)?;
    let offsets = fetched(&answer.read()?)?;
    offsets.first().map(|(_, offset)| *offset).context("no partition in the answer")
}
