//! Reads back what a run wrote, and checks it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use base::{ErrorCode, Offset, PartitionIndex};
use bench::verify::{Checker, ReadAt, Verdict};
use client::admin::{At, NewTopic, Topic};
use client::consumer::{Consumer, Start};
use client::{Admin, Scratch};

use crate::progress::Progress;

/// Where the partitions of a topic end.
pub(super) type Ends = BTreeMap<PartitionIndex, Offset>;

/// An offset of each partition of a topic; an error if one of them has no leader to tell it.
pub(super) fn offsets(admin: &Admin, topic: &Topic, at: At) -> Result<Ends> {
    for partition in &topic.partitions {
        ensure!(partition.leader.is_some(), "{}-{} has no leader", topic.name, partition.index);
    }
    let places = topic.partitions.iter().map(|partition| (&*topic.name, partition.index.0, at));
    let found = topic.partitions.iter().zip(admin.list_offsets(places).wait());
    let offset = found.map(|(partition, found)| {
        let nowhere = || format!("{}-{} does not say where it begins or ends", topic.name, partition.index);
        Ok((partition.index, found?.offset.with_context(nowhere)?))
    });
    offset.collect()
}

/// A topic by its name; `None` if there is none.
pub(super) fn topic(admin: &Admin, name: &str) -> Result<Option<Topic>> {
    match admin.describe_topic(name).wait() {
        Ok(topic) => Ok(Some(topic)),
        Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a topic with one partition and one replica, and waits until it is led.
pub(super) fn create(admin: &Admin, name: &str) -> Result<(Topic, Ends)> {
    let (partitions, replication_factor) = (Some(1), Some(1));
    admin.create_topic(NewTopic { partitions, replication_factor, ..NewTopic::named(name) }).wait()?;
    // What the controller decided, the brokers may not know yet: an offset is waited for.
    admin.list_offsets([(name, 0, At::Latest)]).wait().into_iter().try_for_each(|found| found.map(drop))?;
    let topic = topic(admin, name)?.with_context(|| format!("topic {name} was created and is not there"))?;
    let ends = offsets(admin, &topic, At::Latest)?;
    Ok((topic, ends))
}

/// A topic as it was before a run.
pub(super) struct ReadBack {
    admin: Admin,
    topic: String,
    run: u64,
    before: Ends,
}

/// A reader that gets nothing for so long gets nothing more.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Without acks=all a record may be acknowledged before it can be read, and the partition seems to end
/// before it. So long after all that was sent, nothing more comes that was not sent.
const LATE_MAX: Duration = Duration::from_secs(1);

impl ReadBack {
    /// To be called before anything is sent.
    pub(super) fn begin(servers: &str, name: &str, run: u64) -> Result<Self> {
        let admin = super::admin(servers)?;
        // One that is not there yet is made by the first record.
        let before = match topic(&admin, name)? {
            Some(topic) => offsets(&admin, &topic, At::Latest)?,
            None => Ends::new(),
        };
        Ok(Self { admin, topic: name.to_owned(), run, before })
    }

    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// Reads what came since, and tells whether it is what was sent: so many records of each sender, of
    /// which those with these numbers were given up. A cluster that acknowledges records before they can be read
    /// is given some time to show them.
    pub(super) fn check(
        self,
        consumer: Consumer,
        sent: &[u64],
        given_up: &[Vec<u64>],
        may_be_behind: bool,
    ) -> Result<Verdict> {
        let missing = || anyhow!("topic {} is not there", self.topic);
        let topic = topic(&self.admin, &self.topic)?.ok_or_else(missing)?;
        let ends = offsets(&self.admin, &topic, At::Latest)?;
        let mut reader = Reader::new(consumer, &topic, &self.before, Checker::new(Some(self.run)));
        let mut progress = Progress::of(sent.iter().sum());
        while !reader.has_reached(&ends) && reader.read(SILENCE_MAX)? {
            progress.set(reader.checker.so_far().arrived());
        }
        if may_be_behind {
            reader.read_for(SILENCE_MAX, |checker| checker.missing(sent, given_up) == 0)?;
            reader.read_late()?;
        }
        progress.end();
        Ok(reader.checker.verdict_on(sent, given_up))
    }
}

/// Reads a topic from some offsets on, and checks every record.
pub(super) struct Reader {
    consumer: Consumer,
    scratch: Scratch,
    pub(super) checker: Checker,
    /// In their order.
    partitions: Vec<PartitionIndex>,
    /// Where each goes on.
    next: Ends,
}

impl Reader {
    pub(super) fn new(mut consumer: Consumer, topic: &Topic, from: &Ends, checker: Checker) -> Self {
        let begins = |index| from.get(&index).copied().unwrap_or(Offset(0));
        let next: Ends =
            topic.partitions.iter().map(|partition| (partition.index, begins(partition.index))).collect();
        consumer.assign(next.iter().map(|(index, &from)| (&*topic.name, index.0, Start::Offset(from))));
        let partitions = next.keys().copied().collect();
        Self { consumer, scratch: Scratch::default(), checker, partitions, next }
    }

    pub(super) fn has_reached(&self, ends: &Ends) -> bool {
        ends.iter().all(|(index, end)| self.next.get(index).is_some_and(|next| next >= end))
    }

    /// Reads what comes a little after all that is known to be there.
    pub(super) fn read_late(&mut self) -> Result<()> {
        self.read_for(LATE_MAX, |_| false)
    }

    /// Reads so long, or until it is enough. Others may write for ever.
    fn read_for(&mut self, time: Duration, is_enough: impl Fn(&Checker) -> bool) -> Result<()> {
        let deadline = Instant::now() + time;
        while !is_enough(&self.checker) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.read(left)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next batch; false if none comes in time.
    pub(super) fn read(&mut self, timeout: Duration) -> Result<bool> {
        let Some(batch) = self.consumer.next_batch_within(timeout)? else { return Ok(false) };
        self.next.insert(batch.partition(), batch.header().next_offset());
        // Its rank: a broker that gives partitions any numbers makes nobody keep room for those between.
        let place = self.partitions.binary_search(&batch.partition()).ok().context("it was not asked for")?;
        let (header, topic, partition) = (*batch.header(), batch.topic(), batch.partition());
        for record in batch.records(&mut self.scratch)? {
            let record = record?;
            self.checker
                .check(ReadAt { place, topic, partition, offset: record.offset(&header) }, &record)?;
        }
        Ok(true)
    }
}
