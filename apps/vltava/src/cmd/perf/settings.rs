//! Settings of a client, as scripts for Kafka's tools have them: in a file, beside the arguments, and with
//! many that only Java's clients know.

use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use client::consumer::ConsumerBuilder;
use client::producer::{Producer, ProducerBuilder, PropertyError};

/// The brokers, and what was said of the clients.
pub(super) struct Settings {
    servers: String,
    /// Later ones count.
    given: Vec<(String, String)>,
}

impl Settings {
    /// An argument comes before the command line's settings, and those before the file's.
    pub(super) fn read(
        servers: Option<&str>,
        file: Option<&Path>,
        of_command_line: &[(String, String)],
    ) -> Result<Self> {
        let mut given = file.map_or(Ok(Vec::new()), crate::cmd::properties::read)?;
        given.extend_from_slice(of_command_line);
        let of_settings = given.iter().rfind(|(name, _)| name == SERVERS).map(|(_, value)| &**value);
        let servers = servers.or(of_settings).unwrap_or("127.0.0.1:9092").to_owned();
        Ok(Self { servers, given })
    }

    pub(super) fn servers(&self) -> &str {
        &self.servers
    }

    /// A producer with these settings.
    pub(super) fn producer(&self) -> Result<ProducerBuilder> {
        let mut producer = Producer::builder(&self.servers);
        self.set("producer", |name, value| {
            producer = producer.clone().set(name, value)?;
            Ok(())
        })?;
        Ok(producer)
    }

    /// A consumer with these settings in place of those that it has.
    pub(super) fn consumer(&self, mut consumer: ConsumerBuilder) -> Result<ConsumerBuilder> {
        self.set("consumer", |name, value| {
            consumer = consumer.clone().set(name, value)?;
            Ok(())
        })?;
        Ok(consumer)
    }

    /// One of each: a setting is for whoever knows it.
    pub(super) fn pair(&self, mut consumer: ConsumerBuilder) -> Result<(ProducerBuilder, ConsumerBuilder)> {
        let mut producer = Producer::builder(&self.servers);
        self.set("producer or consumer", |name, value| {
            let of_producer = if_known(producer.clone().set(name, value))?;
            let of_consumer = if_known(consumer.clone().set(name, value))?;
            if of_producer.is_none() && of_consumer.is_none() {
                return Err(PropertyError::Unknown { name: name.to_owned(), of: "producer or consumer" });
            }
            producer = of_producer.unwrap_or_else(|| producer.clone());
            consumer = of_consumer.unwrap_or_else(|| consumer.clone());
            Ok(())
        })?;
        Ok((producer, consumer))
    }

    /// Has a client take each setting. What only Java's clients know is passed over, and told of in a line.
    fn set(&self, client: &str, mut take: impl FnMut(&str, &str) -> Result<(), PropertyError>) -> Result<()> {
        let mut passed: Vec<&str> = Vec::new();
        for (name, value) in &self.given {
            check(name, value)?;
            match take(name, value) {
                Err(PropertyError::Unknown { .. }) if is_javas(name) => passed.push(name),
                Err(PropertyError::Unknown { .. }) => {
                    bail!("{name} is not a setting of this {client}, nor of Java's")
                }
                taken => taken?,
            }
        }
        passed.retain(|name| ![SERVERS, "security.protocol"].contains(name));
        passed.sort_unstable();
        passed.dedup();
        if !passed.is_empty() {
            eprintln!("note: settings of Java's clients that do nothing here: {}", passed.join(", "));
        }
        Ok(())
    }
}

const SERVERS: &str = "bootstrap.servers";

fn if_known<T>(set: Result<T, PropertyError>) -> Result<Option<T>, PropertyError> {
    match set {
        Err(PropertyError::Unknown { .. }) => Ok(None),
        set => set.map(Some),
    }
}

/// What must not be passed over: it would be another measurement than was asked for.
fn check(name: &str, value: &str) -> Result<()> {
    ensure!(
        name != "security.protocol" || value.eq_ignore_ascii_case("PLAINTEXT"),
        "security.protocol={value}: these clients speak PLAINTEXT only; measure at a listener without encryption and \
         without authentication"
    );
    if name == "transactional.id" {
        return Err(no_transactions("transactional.id"));
    }
    Ok(())
}

/// For whoever asks for transactions.
pub(super) fn no_transactions(asked: &str) -> anyhow::Error {
    anyhow!(
        "{asked}: this producer has no transactions yet, and without them it would measure something else; leave \
         it out to measure plain records"
    )
}

/// Whether a setting is one of the producer or the consumer of Apache Kafka 4.3.
fn is_javas(name: &str) -> bool {
    // Without TLS and SASL none of theirs means anything.
    JAVAS.binary_search(&name).is_ok() || name.starts_with("sasl.") || name.starts_with("ssl.")
}

/// The names in ProducerConfig and ConsumerConfig, in their order: scripts often have one file for both.
const JAVAS: &[&str] = &[
    "acks",
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.servers",
    "buffer.memory",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "config.providers",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "security.protocol",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "transaction.timeout.ms",
    "transaction.two.phase.commit.enable",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
];

#[cfg(test)]
mod tests {
    use client::consumer::Consumer;

    use super::*;

    fn settings(given: &[(&str, &str)]) -> Settings {
        let given: Vec<_> = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Settings::read(None, None, &given).expect("no file is read")
    }

    fn refusal(given: &[(&str, &str)]) -> String {
        settings(given).producer().map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn what_only_javas_clients_know_is_passed_over() {
        assert!(JAVAS.is_sorted());
        let everyday = settings(&[
            ("retries", "3"),
            ("security.protocol", "plaintext"),
            ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
            ("connections.max.idle.ms", "60000"),
            ("max.poll.records", "500"),
            ("enable.auto.commit", "false"),
            ("receive.buffer.bytes", "65536"),
            ("session.timeout.ms", "45000"),
            ("sasl.mechanism", "PLAIN"),
        ]);
        assert!(everyday.producer().is_ok());
        assert!(everyday.consumer(Consumer::builder("127.0.0.1:1")).is_ok());
        assert!(everyday.pair(Consumer::builder("127.0.0.1:1")).is_ok());
    }

    #[test]
    fn what_has_a_meaning_here_is_taken() {
        let waits = [
            "metadata.max.age.ms",
            "reconnect.backoff.ms",
            "reconnect.backoff.max.ms",
            "retry.backoff.ms",
            "retry.backoff.max.ms",
            "socket.connection.setup.timeout.ms",
        ];
        for name in waits {
            let wrong = settings(&[(name, "soon")]);
            let says = format!("{name}=soon: a number of milliseconds");
            assert_eq!(wrong.producer().err().expect("it is wrong").to_string(), says);
            let consumer = wrong.consumer(Consumer::builder("127.0.0.1:1"));
            assert_eq!(consumer.expect_err("it is wrong").to_string(), says);
            assert!(settings(&[(name, "700")]).pair(Consumer::builder("127.0.0.1:1")).is_ok());
        }
    }

    #[test]
    fn what_would_be_another_measurement_is_refused() {
        assert!(refusal(&[("security.protocol", "SASL_SSL")]).contains("speak PLAINTEXT only"));
        assert!(refusal(&[("transactional.id", "t")]).contains("has no transactions yet"));
        assert!(refusal(&[("acks", "most")]).contains("0, 1, all or -1"));
        assert!(
            refusal(&[("linger", "5")])
                .starts_with("linger is not a setting of this producer, nor of Java's")
        );
    }

    #[test]
    fn a_setting_of_a_pair_is_for_whoever_knows_it() {
        let pair = |given: &[(&str, &str)]| settings(given).pair(Consumer::builder("127.0.0.1:1"));
        let (producer, consumer) =
            pair(&[("linger.ms", "7"), ("fetch.min.bytes", "9")]).expect("both are known");
        assert!(producer.properties().contains(&("linger.ms", "7".to_owned())));
        assert!(consumer.properties().contains(&("fetch.min.bytes", "9".to_owned())));
        assert!(pair(&[("fetch.min.bytes", "few")]).is_err());
        assert!(pair(&[("fetch.min.byte", "1")]).is_err());
    }

    #[test]
    fn arguments_come_before_settings() {
        let given = [("bootstrap.servers".to_owned(), "b:2".to_owned())];
        let servers =
            |argument| Settings::read(argument, None, &given).expect("no file").servers().to_owned();
        assert_eq!((servers(Some("a:1")), servers(None)), ("a:1".to_owned(), "b:2".to_owned()));
        assert_eq!(settings(&[]).servers(), "127.0.0.1:9092");
    }
}
