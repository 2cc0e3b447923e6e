//! How far groups came, and how far behind they are.
//!
//! ```text
//!   log begins ──────── committed ──────────────── log ends
//!                            └── lag in records ──────┘   bytes: of the partition's size, its share of the records
//!                            └ when was this written? ─▶ now: lag in time
//! ```
//!
//! Coordinators are asked for their groups, leaders for their partitions, all at once; only the time costs a read of
//! one batch for each partition that lags.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use base::{ErrorCode, Offset, TimestampMs, TopicPartition};
use client::Admin;
use client::admin::{AdminError, GroupCoordinator, GroupDescription, OffsetAndMetadata};

use super::head::Head;
use super::logs::{self, Log};

/// A group, and how far it came.
pub(super) struct Surveyed {
    pub(super) group: GroupDescription,
    /// Who keeps it.
    pub(super) coordinator: Option<GroupCoordinator>,
    /// What it committed, and what its members have beside that, by topic and partition.
    pub(super) parts: Vec<Part>,
}

/// How far a group came in a partition.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) of: TopicPartition,
    pub(super) committed: Option<OffsetAndMetadata>,
    pub(super) log: Log,
    /// Which of the members has it.
    pub(super) member: Option<usize>,
    /// How long the first record waits that was not read, in milliseconds.
    pub(super) behind_ms: Option<u64>,
}

/// How much is to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Lag in records.
    Records,
    /// Bytes, too.
    Bytes,
    /// Bytes and time, too.
    All,
}

/// The lag of a group in all partitions of which it committed something. What is not known of one of them is not known
/// of the group: a part of a sum would be taken for all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lag {
    pub(super) records: Option<u64>,
    /// `None` also if nothing is committed.
    pub(super) bytes: Option<u64>,
    /// That of the partition that is behind most, of those whose next record could be read.
    pub(super) behind_ms: Option<u64>,
}

impl Lag {
    pub(super) fn of(parts: &[Part]) -> Self {
        let committed = || parts.iter().filter(|part| part.committed.is_some());
        let records =
            committed().map(Part::records).try_fold(0_u64, |sum, lag| Some(sum.saturating_add(lag?)));
        let bytes = committed().map(Part::bytes).reduce(|sum, lag| Some(sum?.saturating_add(lag?)));
        let behind_ms = committed().filter_map(|part| part.behind_ms).max();
        Self { records, bytes: bytes.flatten(), behind_ms: behind_ms.filter(|_| records.is_some()) }
    }
}

/// Surveys groups; what cannot be found out is among the failures.
pub(super) fn survey(admin: &Admin, names: &[String], depth: Depth) -> (Vec<Surveyed>, Vec<AdminError>) {
    let mut failures = Vec::new();
    let mut found = Vec::new();
    for described in admin.describe_groups(names).wait() {
        match described {
            Ok(group) => found.push(group),
            Err(error) => failures.push(error),
        }
    }
    let mut all = Vec::new();
    let ids = || found.iter().map(|group| group.group_id.as_str());
    let committed = admin.list_group_offsets(ids()).wait();
    // It is only shown: who does not know the question is not asked again.
    let coordinators = admin.find_coordinators(ids()).wait();
    for ((group, committed), coordinator) in found.into_iter().zip(committed).zip(coordinators) {
        match committed {
            Ok(committed) => {
                let parts = parts(&group, committed);
                all.push(Surveyed { group, coordinator: coordinator.ok(), parts });
            }
            // It was deleted since it was described.
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => {}
            Err(error) => failures.push(error),
        }
    }
    look_at_logs(admin, &mut all, depth, &mut failures);
    (all, failures)
}

fn parts(group: &GroupDescription, committed: BTreeMap<TopicPartition, OffsetAndMetadata>) -> Vec<Part> {
    let mut parts: BTreeMap<TopicPartition, Part> = BTreeMap::new();
    let part = |of: &TopicPartition| Part {
        of: of.clone(),
        committed: None,
        log: Log::default(),
        member: None,
        behind_ms: None,
    };
    for (of, committed) in committed {
        let it = Part { committed: Some(committed), ..part(&of) };
        parts.insert(of, it);
    }
    for (place, member) in group.members.iter().enumerate() {
        for of in &member.assignment {
            parts.entry(of.clone()).or_insert_with(|| part(of)).member = Some(place);
        }
    }
    parts.into_values().collect()
}

fn look_at_logs(admin: &Admin, all: &mut [Surveyed], depth: Depth, failures: &mut Vec<AdminError>) {
    let of: BTreeSet<TopicPartition> =
        all.iter().flat_map(|it| &it.parts).map(|part| part.of.clone()).collect();
    let mut logs = logs::find(admin, &of);
    if depth != Depth::Records {
        logs::weigh(admin, &mut logs, failures);
    }
    for surveyed in all {
        for part in &mut surveyed.parts {
            part.log = logs.get(&part.of).cloned().unwrap_or_default();
        }
        if depth == Depth::All {
            look_at_times(admin, &mut surveyed.parts);
        }
    }
}

/// Finds out how long the first records wait that were not read.
fn look_at_times(admin: &Admin, parts: &mut [Part]) {
    let mut lagging = Vec::new();
    for part in parts.iter_mut() {
        match (part.records(), part.next()) {
            (Some(0), _) => part.behind_ms = Some(0),
            (Some(_), Some(next)) => lagging.push((part, next)),
            _ => {}
        }
    }
    let places = lagging.iter().map(|(part, next)| logs::place(&part.of, Offset(*next)));
    let times = admin.record_times(places).wait();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    for ((part, _), time) in lagging.into_iter().zip(times) {
        // What cannot be found out is not known: the rest is.
        let Ok(Some(TimestampMs(written_ms))) = time else { continue };
        part.behind_ms = Some(u64::try_from(now_ms.saturating_sub(written_ms)).unwrap_or(0));
    }
}

impl Surveyed {
    pub(super) fn head(&self) -> Head<'_> {
        Head { group: &self.group, coordinator: self.coordinator.as_ref() }
    }

    /// The lag of all its partitions.
    pub(super) fn lag(&self) -> Lag {
        Lag::of(&self.parts)
    }
}

impl Part {
    /// Records between what was committed and the end, as Kafka counts them: also those that are gone.
    pub(super) fn records(&self) -> Option<u64> {
        let (committed, (_, end)) = (self.committed.as_ref()?, self.log.known()?);
        Some(u64::try_from(end.saturating_sub(committed.offset.0)).unwrap_or(0))
    }

    /// The first record that is there and was not read.
    fn next(&self) -> Option<i64> {
        let (committed, (start, _)) = (self.committed.as_ref()?, self.log.known()?);
        Some(committed.offset.0.max(start))
    }

    /// An estimate of the bytes that are to be read: if records are equally large, those that are left have this
    /// share of the partition's size.
    pub(super) fn bytes(&self) -> Option<u64> {
        let ((start, end), next) = (self.log.known()?, self.next()?);
        let (left, all) =
            (u128::try_from(end.saturating_sub(next)), u128::try_from(end.saturating_sub(start)));
        let (Ok(left), Ok(all @ 1..)) = (left, all) else { return Some(0) };
        u64::try_from(u128::from(self.log.bytes?) * left / all).ok()
    }

    /// What is wrong with what was committed, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let ((start, end), committed) = (self.log.known()?, self.committed.as_ref()?.offset.0);
        let of = &self.of;
        if committed < start {
            let gone = start - committed;
            return Some(format!(
                "{of}: {committed} is committed, and the log begins at {start}: {gone} records were deleted \
                 before they were read"
            ));
        }
        (committed > end).then(|| {
            format!("{of}: {committed} is committed, and the log ends at {end}: records were lost, or the topic is new")
        })
    }
}

#[cfg(test)]
mod tests {
    use base::{PartitionIndex, TopicName};

    use super::*;

    fn part(committed: Option<i64>, range: (i64, i64), bytes: Option<u64>) -> Part {
        let topic = TopicName::new("orders").expect("it is legal");
        Part {
            of: TopicPartition { topic, partition: PartitionIndex(1) },
            committed: committed.map(|offset| OffsetAndMetadata::at(Offset(offset))),
            log: Log { leader: None, range: Some(Ok(range)), bytes },
            member: None,
            behind_ms: None,
        }
    }

    #[test]
    fn lag_is_counted_from_what_was_committed() {
        //            committed, log,       size        records, bytes
        let cases = [
            (part(Some(50), (0, 100), Some(1_000)), Some(50), Some(500)),
            (part(Some(100), (0, 100), Some(1_000)), Some(0), Some(0)),
            (part(Some(0), (0, 0), Some(0)), Some(0), Some(0)),
            // What is gone is not read, but it was not read before, either.
            (part(Some(10), (50, 100), Some(1_000)), Some(90), Some(1_000)),
            (part(Some(150), (50, 100), Some(1_000)), Some(0), Some(0)),
            (part(Some(50), (0, 100), None), Some(50), None),
            (part(None, (0, 100), Some(1_000)), None, None),
            (part(Some(0), (0, i64::MAX), Some(u64::MAX)), Some(i64::MAX as u64), Some(u64::MAX)),
        ];
        for (part, records, bytes) in cases {
            assert_eq!((part.records(), part.bytes()), (records, bytes), "{part:?}");
        }
    }

    #[test]
    fn the_lag_of_a_group_is_known_if_that_of_each_partition_is() {
        let known = |lag: i64| Part { behind_ms: Some(7), ..part(Some(100 - lag), (0, 100), Some(1_000)) };
        let without_leader = |committed| {
            let range = Some(Err("LEADER_NOT_AVAILABLE".to_owned()));
            Part { log: Log { range, ..Log::default() }, ..part(committed, (0, 0), None) }
        };
        let sum = |parts: &[Part]| {
            let Lag { records, bytes, behind_ms } = Lag::of(parts);
            (records, bytes, behind_ms)
        };
        assert_eq!(sum(&[known(2), known(3)]), (Some(5), Some(50), Some(7)));
        assert_eq!(sum(&[known(2), without_leader(Some(1))]), (None, None, None));
        assert_eq!(sum(&[without_leader(Some(1))]), (None, None, None));
        // A member has it, and there is nothing that it could be behind of.
        assert_eq!(sum(&[known(2), without_leader(None)]), (Some(2), Some(20), Some(7)));
        assert_eq!(sum(&[without_leader(None)]), (Some(0), None, None));
        // Only its size, or only the time of its next record, cannot be found out.
        assert_eq!(sum(&[known(2), part(Some(97), (0, 100), None)]), (Some(5), None, Some(7)));
    }

    #[test]
    fn what_is_out_of_range_is_said() {
        assert_eq!(part(Some(50), (50, 100), None).trouble(), None);
        assert_eq!(part(Some(100), (50, 100), None).trouble(), None);
        let said = part(Some(40), (50, 100), None).trouble().expect("something is wrong");
        assert!(
            said.starts_with("orders-1: 40 is committed, and the log begins at 50: 10 records"),
            "{said}"
        );
        let said = part(Some(101), (50, 100), None).trouble().expect("something is wrong");
        assert!(said.contains("the log ends at 100"), "{said}");
    }
}
