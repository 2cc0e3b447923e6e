//! What the stories share: a topic with records, its group, and waiting for what members see.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use vltava_conformance::driver::{Driver, How, Place};
use vltava_conformance::group::{Joining, Protocol, Read, Seen};
use vltava_conformance::matrix::{self, Client};
use vltava_conformance::record::{Bytes, Record};
use vltava_conformance::suite::{self, Suite};

/// Two members have two each.
pub(crate) const PARTITIONS: i32 = 4;
/// Longer than any session and any client's patience with a rebalance.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Between two looks at what members have seen.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const PROMISE: How = How { compression: "none", acks: "all", idempotent: true };

/// Who plays a member.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) client: Client,
    pub(crate) protocol: Protocol,
}

/// A topic and the group that reads it. Both have one name.
pub(crate) struct Scene<'a> {
    suite: &'a Suite,
    pub(crate) topic: String,
    /// How many records are in each partition.
    pub(crate) end: i64,
}

impl<'a> Scene<'a> {
    /// Makes the topic, with some records in each partition.
    pub(crate) fn new(suite: &'a Suite, story: &str, part: &Part, records: i64) -> Result<Self> {
        Self::named(suite, suite::topic(&format!("{story}-{}", part.protocol), &part.client), records)
    }

    /// The same with a topic of this name.
    pub(crate) fn named(suite: &'a Suite, topic: String, records: i64) -> Result<Self> {
        suite.tell(&writer()?, |driver| suite.create(driver, &topic, PARTITIONS, &[]))?;
        let mut scene = Self { suite, topic, end: 0 };
        if records > 0 {
            scene.write(records)?;
        }
        Ok(scene)
    }

    /// How a member of the group joins it.
    pub(crate) fn joining(&self, part: &Part) -> Joining<'_> {
        Joining::new(&self.topic, &self.topic, part.protocol)
    }

    /// Writes this many records more to each partition.
    pub(crate) fn write(&mut self, count: i64) -> Result<()> {
        let value = Some(Bytes::from("value"));
        let record = Record { key: None, value, headers: Vec::new(), timestamp: None };
        let records = vec![record; count as usize];
        self.suite.tell(&writer()?, |driver| {
            for partition in 0..PARTITIONS {
                driver.produce(Place { topic: &self.topic, partition }, PROMISE, &records)?;
            }
            Ok(())
        })?;
        self.end += count;
        Ok(())
    }

    /// Waits until every partition is one member's, and every member has some.
    pub(crate) fn wait_until_shared(&self, members: &mut [&mut Driver]) -> Result<Vec<Seen>> {
        wait(members, "partitions are shared", |seen| {
            let owned: Vec<_> = seen.iter().map(Seen::owns).collect();
            let sum: usize = owned.iter().map(BTreeSet::len).sum();
            let all: BTreeSet<_> = owned.iter().flatten().copied().collect();
            let is_whole = all == (0..PARTITIONS).collect() && sum == all.len();
            is_whole && owned.iter().all(|owned| !owned.is_empty())
        })
    }

    /// Waits until the members have read all that was written from this offset on; each record once, in its order.
    pub(crate) fn wait_until_read(&self, members: &mut [&mut Driver], from: i64) -> Result<Vec<Seen>> {
        let wanted: BTreeSet<_> = (0..PARTITIONS)
            .flat_map(|partition| (from..self.end).map(move |offset| Read { partition, offset }))
            .collect();
        let seen = wait(members, "all is read", |seen| {
            let read: BTreeSet<_> = seen.iter().flat_map(|seen| &seen.records).copied().collect();
            wanted.is_subset(&read)
        })?;
        check_once(&seen)?;
        Ok(seen)
    }

    /// Each member commits the end of what it owns.
    pub(crate) fn commit(&self, members: &mut [&mut Driver]) -> Result<()> {
        for driver in members {
            let owned = driver.member()?.owns();
            let end = |partition| owned.contains(&partition).then_some(self.end);
            let offsets: Vec<_> = (0..PARTITIONS).map(end).collect();
            driver.commit(&self.topic, &offsets)?;
        }
        Ok(())
    }

    /// Checks what the group has committed.
    pub(crate) fn check_committed(&self, driver: &mut Driver, wanted: &[Option<i64>]) -> Result<()> {
        let committed = driver.committed(&self.topic, &self.topic, wanted.len())?;
        ensure!(committed == wanted, "{committed:?} is committed, not {wanted:?}");
        Ok(())
    }
}

/// Nothing is read twice, by whomever, and nothing before what comes before it.
fn check_once(seen: &[Seen]) -> Result<()> {
    let mut read = BTreeSet::new();
    for member in seen {
        let mut last = BTreeMap::new();
        for record in &member.records {
            let is_next =
                last.insert(record.partition, record.offset).is_none_or(|last| last < record.offset);
            ensure!(is_next && read.insert(*record), "{record:?} is read again: {seen:?}");
        }
    }
    Ok(())
}

/// Waits until what the members have seen is so.
pub(crate) fn wait(
    members: &mut [&mut Driver],
    what: &str,
    is_so: impl Fn(&[Seen]) -> bool,
) -> Result<Vec<Seen>> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let seen = members.iter_mut().map(|driver| driver.member()).collect::<Result<Vec<_>>>()?;
        if is_so(&seen) {
            return Ok(seen);
        }
        if Instant::now() > deadline {
            bail!("not in {WAIT_MAX:?}: {what}: {seen:?}");
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The client that writes what members read.
fn writer() -> Result<Client> {
    let clients = matrix::clients()?;
    clients.into_iter().find(|client| client.name == "librdkafka").context("librdkafka is in matrix.toml")
}
