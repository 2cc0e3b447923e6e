//! Where the partitions begin and end that groups read, and what they take on disks.
//!
//! Each leader is asked once for all of its partitions, however many they are.

use std::collections::{BTreeMap, BTreeSet};

use base::{BrokerId, ErrorCode, TopicPartition};
use client::Admin;
use client::admin::{AdminError, At, FoundOffset, LogDir};

/// A partition's log.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    /// Who leads it.
    pub(super) leader: Option<BrokerId>,
    /// The first offset and the one behind the last that consumers may read, or why that is not known.
    pub(super) range: Option<Result<(i64, i64), String>>,
    /// What the leader has of it on its disks.
    pub(super) bytes: Option<u64>,
}

impl Log {
    /// Where it begins and ends, if that is known.
    pub(super) fn known(&self) -> Option<(i64, i64)> {
        self.range.as_ref()?.as_ref().ok().copied()
    }

    /// Why it is not known.
    pub(super) fn error(&self) -> Option<&str> {
        self.range.as_ref()?.as_ref().err().map(String::as_str)
    }
}

/// The logs of these partitions, all of them.
pub(super) fn find(admin: &Admin, of: &BTreeSet<TopicPartition>) -> BTreeMap<TopicPartition, Log> {
    let mut logs = leaders(admin, of);
    let led: Vec<TopicPartition> =
        logs.iter().filter(|(_, log)| log.leader.is_some()).map(|(of, _)| of.clone()).collect();
    let at = |at| admin.list_offsets(led.iter().map(move |of| place(of, at))).wait();
    let (earliest, latest) = (at(At::Earliest), at(At::Latest));
    for ((of, earliest), latest) in led.iter().zip(earliest).zip(latest) {
        let Some(log) = logs.get_mut(of) else { continue };
        log.range = Some(range(earliest, latest).map_err(|error| reason(&error)));
    }
    logs
}

/// A partition as the admin is asked about it.
pub(super) fn place<T>(of: &TopicPartition, rest: T) -> (String, i32, T) {
    (of.topic.to_string(), of.partition.0, rest)
}

/// Who leads these partitions. What nobody leads, or what is not there, has nobody to ask.
fn leaders(admin: &Admin, of: &BTreeSet<TopicPartition>) -> BTreeMap<TopicPartition, Log> {
    let mut by_topic: BTreeMap<String, Vec<&TopicPartition>> = BTreeMap::new();
    for of in of {
        by_topic.entry(of.topic.to_string()).or_default().push(of);
    }
    let mut logs = BTreeMap::new();
    let described = admin.describe_topics(by_topic.keys().map(String::as_str)).wait();
    for (partitions, described) in by_topic.into_values().zip(described) {
        for of in partitions {
            let found =
                described.as_ref().map(|topic| topic.partitions.iter().find(|it| it.index == of.partition));
            let (leader, why) = match found {
                Ok(Some(partition)) if partition.leader.is_some() => (partition.leader, None),
                Ok(Some(_)) => (None, Some(ErrorCode::LeaderNotAvailable.name().to_owned())),
                Ok(None) => (None, Some(ErrorCode::UnknownTopicOrPartition.name().to_owned())),
                Err(error) => (None, Some(reason(error))),
            };
            logs.insert(of.clone(), Log { leader, range: why.map(Err), bytes: None });
        }
    }
    logs
}

fn range(
    earliest: Result<FoundOffset, AdminError>,
    latest: Result<FoundOffset, AdminError>,
) -> Result<(i64, i64), AdminError> {
    let offset = |found: FoundOffset| found.offset.map_or(0, |offset| offset.0);
    Ok((offset(earliest?), offset(latest?)))
}

/// An error in one word, where there is one.
fn reason(error: &AdminError) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.name().to_owned())
}

/// Adds what the leaders have of these partitions on their disks. Of a leader that does not say it is not known.
pub(super) fn weigh(admin: &Admin, logs: &mut BTreeMap<TopicPartition, Log>, failures: &mut Vec<AdminError>) {
    let leaders: BTreeSet<BrokerId> = logs.values().filter_map(|log| log.leader).collect();
    let led = logs.iter().filter(|(_, log)| log.leader.is_some());
    let partitions: Vec<(String, i32)> = led.map(|(of, _)| (of.topic.to_string(), of.partition.0)).collect();
    let said = admin.describe_log_dirs_of(leaders.iter().copied(), partitions).wait();
    let mut sizes: BTreeMap<(BrokerId, String, i32), u64> = BTreeMap::new();
    for (leader, dirs) in leaders.into_iter().zip(said) {
        match dirs {
            Ok(dirs) => note_sizes(leader, dirs, &mut sizes),
            Err(error) => failures.push(error),
        }
    }
    for (of, log) in logs {
        let Some(leader) = log.leader else { continue };
        log.bytes = sizes.get(&(leader, of.topic.to_string(), of.partition.0)).copied();
    }
}

fn note_sizes(leader: BrokerId, dirs: Vec<LogDir>, sizes: &mut BTreeMap<(BrokerId, String, i32), u64>) {
    for replica in dirs.into_iter().flat_map(|dir| dir.replicas).filter(|replica| !replica.is_future) {
        sizes.insert((leader, replica.topic, replica.partition.0), replica.bytes);
    }
}
