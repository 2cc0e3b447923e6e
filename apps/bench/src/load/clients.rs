//! The clients of a run, with the settings that the workload and the driver give them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use client::Admin;
use client::consumer::{Consumer, ConsumerBuilder};
use client::producer::{Producer, ProducerBuilder, PropertyError};

use super::Target;
use crate::yaml::Settings;

pub(super) struct Clients<'a> {
    target: Target<'a>,
    notes: Mutex<BTreeSet<String>>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(target: Target<'a>) -> Self {
        Self { target, notes: Mutex::default() }
    }

    pub(super) fn admin(&self) -> Result<Admin> {
        Ok(Admin::builder(self.target.servers).timeout(Duration::from_secs(60)).build()?)
    }

    pub(super) fn producer(&self) -> Result<ProducerBuilder> {
        let Target { servers, workload, driver, .. } = self.target;
        let producer = Producer::builder(servers).set("acks", &workload.acks)?;
        let set = |producer: &ProducerBuilder, name: &str, value: &str| producer.clone().set(name, value);
        let producer = self.with(producer, "producer", &driver.producer, &workload.producer, set)?;
        // As Kafka's own tool has it: one at a time, a record is sent at once, whatever a file says.
        Ok(if workload.one_at_a_time { producer.linger(Duration::ZERO) } else { producer })
    }

    pub(super) fn consumer(&self) -> Result<ConsumerBuilder> {
        let Target { servers, workload, driver, .. } = self.target;
        let consumer = Consumer::builder(servers);
        let set = |consumer: &ConsumerBuilder, name: &str, value: &str| consumer.clone().set(name, value);
        let consumer = self.with(consumer, "consumer", &driver.consumer, &workload.consumer, set)?;
        let said = driver.consumer.keys().chain(workload.consumer.keys());
        for name in only_of_a_group(&consumer).filter(|name| said.clone().any(|said| said == *name)) {
            self.note(format!("consumers are in no group, so that {name} does nothing: it needs a group.id"));
        }
        Ok(consumer)
    }

    fn note(&self, note: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(note);
    }

    /// Sets what the driver says, and then what the workload says.
    fn with<B>(
        &self,
        mut client: B,
        what: &str,
        of_driver: &Settings,
        of_workload: &Settings,
        set: impl Fn(&B, &str, &str) -> Result<B, PropertyError>,
    ) -> Result<B> {
        for (name, value) in of_driver.iter().chain(of_workload) {
            client = match set(&client, name, value) {
                Err(PropertyError::Unknown { .. }) if self.target.driver.is_lenient => {
                    self.note(format!("this {what} has no setting {name}: it is passed over"));
                    client
                }
                set => set?,
            };
        }
        Ok(client)
    }

    /// The settings of both, by Kafka's names; of those that both have, the producer's.
    pub(super) fn properties(&self) -> Vec<(&'static str, String)> {
        let of_producer = self.producer().map(|producer| producer.properties()).unwrap_or_default();
        let of_consumer = self.consumer().map(|consumer| consumer.properties()).unwrap_or_default();
        let is_new = |(name, _): &(&str, String)| !of_producer.iter().any(|(known, _)| known == name);
        let more: Vec<_> = of_consumer.into_iter().filter(is_new).collect();
        of_producer.into_iter().chain(more).collect()
    }

    /// Those of the settings that are not what the clients have by themselves.
    pub(super) fn changed(&self) -> Settings {
        let nowhere = "127.0.0.1:1";
        let usual: Vec<_> = Producer::builder(nowhere)
            .properties()
            .into_iter()
            .chain(Consumer::builder(nowhere).properties())
            .collect();
        let is_changed = |setting: &(&'static str, String)| !usual.contains(setting);
        let changed = self.properties().into_iter().filter(is_changed);
        changed.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What was passed over.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Settings that this consumer would have as a member of a group, and does not have as it is.
fn only_of_a_group(consumer: &ConsumerBuilder) -> impl Iterator<Item = &'static str> {
    let has = consumer.properties();
    let would_have = consumer.clone().group_id("any").properties();
    would_have.into_iter().map(|(name, _)| name).filter(move |name| !has.iter().any(|(has, _)| has == name))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::driver::Driver;
    use crate::resources::Sources;
    use crate::workload::Workload;

    fn target<'a>(
        servers: &'a str,
        driver: &'a Driver,
        workload: &'a Workload,
        stop: &'a AtomicBool,
    ) -> Target<'a> {
        Target { servers, sources: Sources::default(), driver, workload, stop, read_for: Duration::ZERO }
    }

    fn with<T>(consumer: &[(&str, &str)], one_at_a_time: bool, act: impl FnOnce(&Clients<'_>) -> T) -> T {
        let settings =
            |of: &[(&str, &str)]| of.iter().map(|(name, to)| ((*name).into(), (*to).into())).collect();
        let (mut driver, stop) = (Driver::at("127.0.0.1:1"), AtomicBool::new(false));
        driver.consumer = settings(consumer);
        let producer = settings(&[("linger.ms", "20")]);
        let workload = Workload { one_at_a_time, producer, ..Workload::default() };
        act(&Clients::new(target("127.0.0.1:1", &driver, &workload, &stop)))
    }

    #[test]
    fn what_needs_a_group_is_told_where_there_is_none() {
        let commit = ("enable.auto.commit", "false");
        let notes = |settings: &[(&str, &str)]| {
            with(settings, false, |clients| {
                drop(clients.properties());
                clients.notes()
            })
        };
        let told = "consumers are in no group, so that enable.auto.commit does nothing: it needs a group.id";
        assert_eq!(notes(&[commit, ("fetch.min.bytes", "5")]), [told]);
        assert_eq!(notes(&[commit, ("group.id", "g")]), [""; 0]);
    }

    /// A file for the OpenMessaging Benchmark, of a line of what it publishes.
    fn file_of(line: &str) -> String {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let lines = |settings: &[&str]| -> String {
            let settings = settings.iter().flat_map(|settings| settings.split_whitespace());
            settings.map(|setting| format!("  {setting}\n")).collect()
        };
        let consumer =
            "auto.offset.reset=earliest enable.auto.commit=false max.partition.fetch.bytes=10485760";
        format!(
            "name: {}\ndriverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver\n\
             replicationFactor: 3\n\
             topicConfig: |\n{}commonConfig: |\n{}producerConfig: |\n{}consumerConfig: |\n{}",
            fields[0],
            lines(&["min.insync.replicas=2", fields[1]]),
            lines(&["bootstrap.servers=localhost:9092", fields[2]]),
            lines(&["acks=all", fields[3]]),
            lines(&[consumer]),
        )
    }

    /// Nothing that one of them says is lost without a word.
    #[test]
    fn all_published_drivers_of_the_openmessaging_benchmark_are_taken() {
        let table = include_str!("../../testdata/openmessaging-drivers.txt");
        let lines: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), 14);
        for line in lines {
            let driver = Driver::read(line, &file_of(line)).expect("it is right");
            let (workload, stop) = (Workload::default(), AtomicBool::new(false));
            let clients = Clients::new(target(&driver.bootstrap_servers, &driver, &workload, &stop));
            let producer = clients.producer().expect(line).properties();
            let consumer = clients.consumer().expect(line).properties();
            let notes = clients.notes();
            for (of, said, taken) in
                [("producer", &driver.producer, &producer), ("consumer", &driver.consumer, &consumer)]
            {
                for (name, value) in said {
                    let is_taken = taken.iter().any(|(known, has)| known == name && has == value);
                    let is_told = notes.iter().any(|note| note.contains(&**name));
                    assert!(
                        is_taken || is_told,
                        "{line}: the {of} has {name}={value} of {taken:?}, {notes:?}"
                    );
                }
            }
            // What is passed over is of how long a call may take, and of how often it is tried.
            let passed_over = notes.iter().filter(|note| note.ends_with("it is passed over"));
            let known = ["default.api.timeout.ms", "retries"];
            passed_over
                .for_each(|note| assert!(known.iter().any(|name| note.contains(name)), "{line}: {note}"));
        }
    }

    #[test]
    fn one_at_a_time_nothing_lingers_and_that_is_told() {
        for (one_at_a_time, expected) in [(false, "20"), (true, "0")] {
            let properties = with(&[], one_at_a_time, |clients| clients.properties());
            let linger = properties.iter().find(|(name, _)| *name == "linger.ms");
            assert_eq!(linger.map(|(_, value)| &**value), Some(expected));
        }
    }
}
