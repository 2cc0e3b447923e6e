//! What a workload is run against: brokers that are started for it, or a cluster that is there.
//!
//! A driver is a YAML file; one of the OpenMessaging Benchmark, for Kafka, is read, too.
//!
//! ```yaml
//! name: vltava-durable
//! system: vltava
//! settings:
//!   flush.policy: ack
//! ```

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::yaml::{self, Fields, Settings, Source};

/// What a workload is run against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Driver {
    /// What results call it.
    pub name: String,
    /// What it is.
    pub system: System,
    /// Where a cluster is that is there: `host:port`, between commas.
    pub bootstrap_servers: String,
    /// Settings of each broker that is started, beside those that every one needs.
    #[serde(deserialize_with = "yaml::settings")]
    pub settings: Settings,
    /// What results say of which version it is, where it is a cluster that is there.
    pub version: Option<String>,
    /// Replicas of each partition, whatever the workload says.
    pub replication_factor: Option<u16>,
    /// Settings of each topic; those of the workload come before them.
    #[serde(deserialize_with = "yaml::settings")]
    pub topic: Settings,
    /// Settings of each producer; those of the workload come before them.
    #[serde(deserialize_with = "yaml::settings")]
    pub producer: Settings,
    /// Settings of each consumer; those of the workload come before them.
    #[serde(deserialize_with = "yaml::settings")]
    pub consumer: Settings,
    /// Where brokers tell Prometheus what they count: addresses that begin with `http://`. Those of this program
    /// that a run starts are known.
    pub metrics: Vec<String>,
    /// How its brokers are warmed up before each run, beside what the workload says.
    pub warmup: Option<Warmup>,
    /// Whether settings that our clients do not have are passed over, with a note.
    pub is_lenient: bool,
    /// What its file says and is not done.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Tries of the workload on the brokers of a run, until two in a row make it no faster by a twentieth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Warmup {
    /// No more than so many.
    pub tries_max: u16,
    /// How long each takes, where the workload is not of so many records.
    pub seconds: f64,
}

impl Default for Warmup {
    fn default() -> Self {
        Self { tries_max: 5, seconds: 40.0 }
    }
}

impl Warmup {
    fn check(&self) -> Result<()> {
        ensure!((1..=100).contains(&self.tries_max), "tries_max: not between 1 and 100");
        ensure!((0.1..=600.0).contains(&self.seconds), "seconds: not between 0.1 and 600");
        Ok(())
    }
}

/// A system that speaks the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Processes of this program, started on fresh data for each run.
    #[default]
    Vltava,
    /// Apache Kafka, started on fresh data for each run.
    Kafka,
    /// Whatever answers at an address.
    Bootstrap,
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            name: String::new(),
            system: System::Vltava,
            bootstrap_servers: String::new(),
            settings: Settings::new(),
            version: None,
            replication_factor: None,
            topic: Settings::new(),
            producer: Settings::new(),
            consumer: Settings::new(),
            metrics: Vec::new(),
            warmup: None,
            is_lenient: false,
            notes: Vec::new(),
        }
    }
}

/// Those that ship, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("vltava", include_str!("../drivers/vltava.yaml")),
    ("vltava-durable", include_str!("../drivers/vltava-durable.yaml")),
    ("kafka", include_str!("../drivers/kafka.yaml")),
];

/// The drivers of the OpenMessaging Benchmark, as its files have them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Theirs {
    name: String,
    driver_class: String,
    replication_factor: Option<u16>,
    reset: bool,
    topic_config: String,
    common_config: String,
    producer_config: String,
    consumer_config: String,
}

impl Driver {
    /// One that ships, or that is in a file.
    pub fn find(name: &str) -> Result<Self> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Self::read(name, text);
        }
        let path = Path::new(name);
        let is_path = name.contains(['/', '.']);
        ensure!(
            is_path,
            "there is no driver {name}; there are {}, or the path of a file",
            names().join(", ")
        );
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Self::read(name, &text)
    }

    /// A cluster that is there.
    pub fn at(bootstrap_servers: &str) -> Self {
        Self {
            name: bootstrap_servers.to_owned(),
            system: System::Bootstrap,
            bootstrap_servers: bootstrap_servers.to_owned(),
            ..Self::default()
        }
    }

    /// The same, whose brokers tell Prometheus at these addresses what they count. An error if it starts its brokers
    /// itself, which it knows how to ask, or if one is not an `http://` address.
    pub fn counting_at(mut self, urls: &[String]) -> Result<Self> {
        ensure!(self.system == System::Bootstrap, "{} starts its brokers itself", self.name);
        check_metrics(urls)?;
        self.metrics = urls.to_vec();
        Ok(self)
    }

    /// What it says of its brokers' settings, if anything.
    pub(crate) fn settings_in_words(&self) -> Option<String> {
        let settings = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        (!self.settings.is_empty()).then(|| settings.collect::<Vec<_>>().join(" "))
    }

    /// Whether its brokers are on this machine.
    pub fn is_here(&self) -> bool {
        self.system != System::Bootstrap || is_loopback(&self.bootstrap_servers)
    }

    /// Reads a text; `name` is what errors call it.
    pub fn read(name: &str, text: &str) -> Result<Self> {
        let source = Source { name, text };
        let fields = source.fields()?;
        let driver = if fields.contains_key("driverClass") {
            translated(source, &fields)?
        } else {
            source.only(&fields, &yaml::names::<Self>())?;
            source.typed::<Self>(&fields)?
        };
        ensure!(!driver.name.is_empty(), "{name}: name: it has none");
        let is_there = driver.system == System::Bootstrap;
        ensure!(
            is_there != driver.bootstrap_servers.is_empty(),
            "{name}: bootstrap_servers is for `system: bootstrap`, which needs it"
        );
        driver.warmup.as_ref().map_or(Ok(()), Warmup::check).with_context(|| format!("{name}: warmup"))?;
        check_metrics(&driver.metrics).with_context(|| format!("{name}: metrics"))?;
        ensure!(
            is_there || driver.version.is_none(),
            "{name}: version: that of brokers that a run starts is known"
        );
        ensure!(
            !is_there || driver.settings.is_empty(),
            "{name}: settings: the brokers of a cluster that is there have theirs"
        );
        Ok(driver)
    }
}

fn check_metrics(urls: &[String]) -> Result<()> {
    ensure!(urls.iter().all(|url| url.starts_with("http://")), "an address begins with http://");
    Ok(())
}

/// Whether all of these addresses are of this machine.
fn is_loopback(servers: &str) -> bool {
    let starts = ["127.", "localhost:", "[::1]:"];
    servers.split(',').all(|server| starts.iter().any(|start| server.trim().starts_with(start)))
}

/// Those that ship.
pub fn names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// Their `reset`.
const RESET: &str = "reset: true: topics of earlier runs stay; each run makes topics of its own";

fn translated(source: Source<'_>, fields: &Fields) -> Result<Driver> {
    let class = fields.get("driverClass").and_then(|class| class.as_str()).unwrap_or_default();
    ensure!(
        ["Kafka", "Redpanda"].iter().any(|name| class.contains(name)),
        "{}: driverClass: {class} is not of Kafka or Redpanda, and this harness speaks no other protocol",
        source.name
    );
    source.only(fields, &yaml::names::<Theirs>())?;
    let theirs: Theirs = source.typed(fields)?;
    let read =
        |field: &str, text: &str| yaml::properties(text).with_context(|| format!("{}: {field}", source.name));
    let mut common = read("commonConfig", &theirs.common_config)?;
    let bootstrap_servers = common.remove("bootstrap.servers").unwrap_or_default();
    let with_common = |own: Settings| common.clone().into_iter().chain(own).collect::<Settings>();
    Ok(Driver {
        name: theirs.name,
        system: System::Bootstrap,
        bootstrap_servers,
        settings: Settings::new(),
        version: None,
        replication_factor: theirs.replication_factor,
        topic: read("topicConfig", &theirs.topic_config)?,
        producer: with_common(read("producerConfig", &theirs.producer_config)?),
        consumer: with_common(read("consumerConfig", &theirs.consumer_config)?),
        metrics: Vec::new(),
        warmup: None,
        is_lenient: true,
        notes: theirs.reset.then(|| RESET.to_owned()).into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        match Driver::read("d.yaml", text) {
            Ok(_) => format!("{text} was taken"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn those_that_ship_can_be_read() {
        for name in names() {
            assert_eq!(Driver::find(name).expect(name).name, name);
        }
        let error = Driver::find("kafkaa").expect_err("there is none").to_string();
        assert_eq!(
            error,
            "there is no driver kafkaa; there are vltava, vltava-durable, kafka, or the path of a file"
        );
    }

    #[test]
    fn only_what_runs_here_is_bound_by_this_machine() {
        for (servers, expected) in [
            ("127.0.0.1:9092,localhost:9093", true),
            ("[::1]:9092", true),
            ("127.0.0.1:9092,broker:9092", false),
            ("localhost.example.org:9092", false),
        ] {
            assert_eq!(Driver::at(servers).is_here(), expected, "{servers}");
        }
    }

    #[test]
    fn a_driver_of_the_openmessaging_benchmark_is_read() {
        let text = "\
name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 3
reset: true
topicConfig: |
  min.insync.replicas=2
commonConfig: |
  bootstrap.servers=localhost:9092
  request.timeout.ms=120000
producerConfig: |
  acks=all
  linger.ms=10
  batch.size=1048576
consumerConfig: |
  auto.offset.reset=earliest
  enable.auto.commit=false
";
        let driver = Driver::read("d.yaml", text).expect("it is right");
        assert_eq!(
            (&*driver.name, driver.system, driver.replication_factor),
            ("Kafka", System::Bootstrap, Some(3))
        );
        assert_eq!(driver.bootstrap_servers, "localhost:9092");
        assert_eq!(driver.topic["min.insync.replicas"], "2");
        assert_eq!(driver.producer.len(), 4);
        assert_eq!(driver.consumer["request.timeout.ms"], "120000");
        assert_eq!(driver.notes, [RESET]);
        let redpanda = text.replace("kafka.Kafka", "redpanda.Redpanda");
        assert_eq!(Driver::read("d.yaml", &redpanda).expect("it speaks Kafka").producer.len(), 4);
        let other = text.replace("kafka.Kafka", "pulsar.Pulsar");
        assert!(refusal(&other).starts_with("d.yaml: driverClass: io.openmessaging"), "{}", refusal(&other));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cases = [
            ("name: a\nsystem: redpanda", "d.yaml:2: system: unknown variant `redpanda`"),
            ("name: a\nsetings: {}", "d.yaml:2: unknown field `setings`: did you mean `settings`?"),
            ("name: a\nsystem: bootstrap", "d.yaml: bootstrap_servers is for"),
            ("name: a\nbootstrap_servers: h:1", "d.yaml: bootstrap_servers is for"),
            ("system: kafka", "d.yaml: name: it has none"),
            ("name: a\nversion: x", "d.yaml: version: that of brokers that a run starts"),
            ("name: a\nmetrics: ['h:1/metrics']", "d.yaml: metrics: an address begins"),
        ];
        for (text, expected) in cases {
            assert!(refusal(text).starts_with(expected), "{}", refusal(text));
        }
    }
}
