//! The topics of a run: made for it, and gone behind it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::{ErrorCode, Offset};
use client::Admin;
use client::admin::{AdminError, At, FoundOffset, NewTopic};

use super::clients::Clients;
use crate::driver::Driver;
use crate::workload::Workload;

/// Topics that nobody else has.
pub(super) struct Topics {
    names: Vec<String>,
    partitions: usize,
}

/// Where each place ends, by its number.
pub(crate) type Ends = Vec<Offset>;

/// So the names of all of them begin.
pub(super) const NAMED: &str = "bench-";
/// A partition has a leader by then.
const LED_MAX: Duration = Duration::from_secs(60);
/// Without acks=all a record may be acknowledged before it can be read; not for longer than this.
const READABLE_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// What does not grow for so long has come to its end: a record that is there twice may make up for one that cannot be
/// read yet.
const SETTLED: Duration = Duration::from_millis(200);

impl Topics {
    /// Makes them, and waits until each partition is led, and its leader knows that.
    pub(super) fn create(admin: &Admin, driver: &Driver, workload: &Workload, run: u64) -> Result<Self> {
        let names: Vec<String> = (0..workload.topics).map(|at| format!("{NAMED}{run:016x}-{at}")).collect();
        let replicas = driver.replication_factor.unwrap_or(workload.replication_factor);
        let configs = driver.topic.iter().chain(&workload.topic);
        let configs: crate::yaml::Settings =
            configs.map(|(name, value)| (name.clone(), value.clone())).collect();
        let (partitions, replication_factor) =
            (i32::try_from(workload.partitions)?, Some(i16::try_from(replicas)?));
        let topic = |name: &String| NewTopic {
            partitions: Some(partitions),
            replication_factor,
            configs: configs.clone().into_iter().collect(),
            ..NewTopic::named(name)
        };
        let created = admin.create_topics(names.iter().map(topic)).wait();
        let topics = Self { names, partitions: workload.partitions as usize };
        let created =
            done(created, ErrorCode::TopicAlreadyExists).context("cannot make the topics of the run");
        let made = created.and_then(|()| topics.await_leaders(admin));
        if let Err(error) = made {
            // The cluster may be somebody's: nothing stays of them, though nobody may know which it has.
            drop(topics.delete(admin));
            return Err(error);
        }
        Ok(topics)
    }

    /// Those that somebody else made.
    pub(super) fn known(names: Vec<String>, workload: &Workload) -> Self {
        Self { names, partitions: workload.partitions as usize }
    }

    fn await_leaders(&self, admin: &Admin) -> Result<()> {
        let until = Instant::now() + LED_MAX;
        loop {
            // What the controller decided, a broker may not know yet.
            let missing = admin.describe_topics(self.names.iter().cloned()).wait().into_iter().any(|topic| {
                topic.map_or(true, |topic| {
                    topic.partitions.len() != self.partitions
                        || topic.partitions.iter().any(|partition| partition.leader.is_none())
                })
            });
            // And what it says of another, that one may not know: with acks=0 it would drop what comes, and say nothing.
            if !missing && self.ask_ends(admin).into_iter().all(|end| end.is_ok()) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "the partitions of the run have no leaders after {LED_MAX:?}");
            std::thread::sleep(LOOK);
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Partitions of all of them.
    pub(super) fn places(&self) -> usize {
        self.names.len() * self.partitions
    }

    /// The topic and the partition of a place.
    pub(super) fn at(&self, place: usize) -> (&str, i32) {
        (&self.names[place / self.partitions], (place % self.partitions) as i32)
    }

    /// The place of a partition; `None` of one that is none of these.
    pub(super) fn place(&self, topic: &str, partition: i32) -> Option<usize> {
        let at = match &*self.names {
            [only] => (only == topic).then_some(0),
            names => names.iter().position(|name| name == topic),
        };
        let partition = usize::try_from(partition).ok().filter(|index| *index < self.partitions)?;
        Some(at? * self.partitions + partition)
    }

    /// Where they end, once so many records can be read and no more become readable, or after some time all the same.
    pub(super) fn ends(&self, clients: &Clients<'_>, acknowledged: u64) -> Result<Ends> {
        let admin = clients.admin()?;
        let until = Instant::now() + READABLE_MAX;
        let (mut before, mut since) = (Ends::new(), Instant::now());
        loop {
            let end = |found: Result<FoundOffset, AdminError>| {
                found?.offset.context("a partition does not say where it ends")
            };
            let ends = self.ask_ends(&admin).into_iter().map(end).collect::<Result<Ends>>()?;
            let readable: i64 = ends.iter().map(|end| end.0).sum();
            if ends != before {
                (before, since) = (ends, Instant::now());
            }
            let is_all = u64::try_from(readable).unwrap_or(0) >= acknowledged && since.elapsed() >= SETTLED;
            if is_all || Instant::now() >= until {
                return Ok(before);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What the leader of each place says of its end.
    fn ask_ends(&self, admin: &Admin) -> Vec<Result<FoundOffset, AdminError>> {
        let places = (0..self.places()).map(|place| {
            let (topic, partition) = self.at(place);
            (topic, partition, At::Latest)
        });
        admin.list_offsets(places).wait()
    }

    /// What a record takes in a log on average, one copy of it, where records are compressed; `None` if the
    /// cluster does not say.
    pub(super) fn log_bytes_per_record(&self, clients: &Clients<'_>) -> Option<f64> {
        let is_compressed = |(name, codec): &(&str, String)| *name == "compression.type" && codec != "none";
        if !clients.properties().iter().any(is_compressed) {
            return None;
        }
        let records: i64 = self.ends(clients, 0).ok()?.iter().map(|end| end.0).sum();
        // Only a leader is sure to have all of it.
        let mut largest = vec![0; self.places()];
        for (_, dirs) in clients.admin().ok()?.describe_all_log_dirs().wait().ok()? {
            for replica in dirs.ok()?.into_iter().flat_map(|dir| dir.replicas) {
                if let Some(place) = self.place(&replica.topic, replica.partition.0) {
                    largest[place] = replica.bytes.max(largest[place]);
                }
            }
        }
        let bytes: u64 = largest.iter().sum();
        (records > 0 && bytes > 0).then(|| bytes as f64 / records as f64)
    }

    pub(super) fn delete(&self, admin: &Admin) -> Result<()> {
        let deleted = admin.delete_topics(self.names.iter().cloned()).wait();
        done(deleted, ErrorCode::UnknownTopicOrPartition).context("cannot delete the topics of the run")
    }
}

/// Whether all of it was done. Who hears nothing asks again, a client its broker and a broker its controller: what was
/// done the first time is answered with this code, for nobody else has topics of these names.
fn done<T>(results: Vec<Result<T, AdminError>>, before: ErrorCode) -> Result<(), AdminError> {
    let error = results.into_iter().filter_map(Result::err).find(|error| error.code() != Some(before));
    error.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_partitions_in_order() {
        let topics = Topics { names: vec!["a".to_owned(), "b".to_owned()], partitions: 3 };
        for place in 0..topics.places() {
            let (topic, partition) = topics.at(place);
            assert_eq!(topics.place(topic, partition), Some(place));
        }
        for (topic, partition) in [("c", 0), ("a", 3), ("a", -1)] {
            assert_eq!(topics.place(topic, partition), None);
        }
    }
}
