//! Under what circumstances a result was measured: a number means nothing without them.

use bench::machine::Machine;
use client::Admin;
use client::admin::{Resource, Setting};
use serde_json::{Map, Value, json};

use super::readback;
use crate::cmd::VERSION;

/// The settings of the client, what an acknowledgement is worth, and the machine.
pub(super) struct Stamp {
    settings: Vec<(&'static str, String)>,
    durability: Durability,
    machine: Machine,
}

/// What the brokers do with a record before they acknowledge it.
#[derive(Debug, Default, PartialEq)]
struct Durability {
    replicas: Option<usize>,
    /// `min.insync.replicas`.
    in_sync_min: Option<String>,
    flush: Flush,
    log_dirs: Option<String>,
}

/// When records reach the medium.
#[derive(Debug, Default, PartialEq)]
enum Flush {
    /// Nobody could tell.
    #[default]
    Unknown,
    /// What ours is set to.
    Policy(String),
    /// After so many records, or so many milliseconds, as Kafka has it.
    Every { messages: String, ms: String },
}

/// Kafka's way to say never.
const NEVER: &str = "9223372036854775807";

impl Stamp {
    /// Asks the brokers: a topic that was not there before the run is there behind it.
    pub(super) fn take(servers: &str, topic: &str, settings: Vec<(&'static str, String)>) -> Self {
        // What cannot be found out is unknown, and no reason to throw the result away.
        let durability = Durability::ask(servers, topic).unwrap_or_default();
        let machine = Machine::here(durability.log_dirs.as_deref());
        Self { settings, durability, machine }
    }

    /// What this run's producer waits for, if it has one.
    fn acks(&self) -> Option<&str> {
        self.settings.iter().find(|(name, _)| *name == "acks").map(|(_, value)| &**value)
    }

    /// Adds it to a result for programs.
    pub(super) fn put_into(&self, result: &mut Value) {
        let settings: Map<String, Value> =
            self.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        result["settings"] = Value::Object(settings);
        result["durability"] = self.durability.json(self.acks());
        result["machine"] = self.machine.json();
        result["version"] = json!(VERSION);
    }

    /// For people, a line each.
    pub(super) fn lines(&self) -> [String; 3] {
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        [
            format!("settings: {}", settings.join(" ")),
            format!("durability: {}", self.durability.in_words(self.acks())),
            format!("machine: {}; vltava {}", self.machine.in_words(), VERSION),
        ]
    }
}

impl Durability {
    fn ask(servers: &str, name: &str) -> anyhow::Result<Self> {
        let admin = super::admin(servers)?;
        let of_topic = admin.describe_config(Resource::Topic(name.to_owned())).wait()?;
        let topic = readback::topic(&admin, name)?;
        let partition = topic.as_ref().and_then(|topic| topic.partitions.first());
        Ok(Self {
            replicas: partition.map(|partition| partition.replicas.len()),
            in_sync_min: value(&of_topic, "min.insync.replicas"),
            flush: Flush::of(&of_topic),
            log_dirs: log_dirs(&admin),
        })
    }

    fn json(&self, acks: Option<&str>) -> Value {
        let (policy, messages, ms) = match &self.flush {
            Flush::Unknown => (None, None, None),
            Flush::Policy(policy) => (Some(policy), None, None),
            Flush::Every { messages, ms } => (None, Some(messages), Some(ms)),
        };
        let mut said = json!({
            "replicas": self.replicas,
            "min.insync.replicas": self.in_sync_min,
            "mode": self.flush.in_words(acks),
        });
        for (name, value) in [("flush.policy", policy), ("flush.messages", messages), ("flush.ms", ms)] {
            if let Some(value) = value {
                said[name] = json!(value);
            }
        }
        said
    }

    fn in_words(&self, acks: Option<&str>) -> String {
        let unknown = || "unknown".to_owned();
        let replicas = self.replicas.map_or_else(unknown, |replicas| replicas.to_string());
        let in_sync = self.in_sync_min.clone().unwrap_or_else(unknown);
        format!("{}; replicas: {replicas}, min.insync.replicas: {in_sync}", self.flush.in_words(acks))
    }
}

impl Flush {
    fn of(settings: &[Setting]) -> Self {
        if let Some(policy) = value(settings, "flush.policy") {
            return Self::Policy(policy);
        }
        match (value(settings, "flush.messages"), value(settings, "flush.ms")) {
            (Some(messages), Some(ms)) => Self::Every { messages, ms },
            _ => Self::Unknown,
        }
    }

    /// What an acknowledgement of this run is worth; for a reader, those of whoever wrote.
    fn in_words(&self, acks: Option<&str>) -> String {
        let (mut mode, mut means) = match self {
            Self::Unknown => ("unknown".to_owned(), "the broker does not say when it flushes"),
            Self::Policy(policy) => {
                let means = match (policy.as_str(), acks) {
                    ("ack", None) => "an acks=all answer means that the record is on the medium",
                    ("ack", Some("all")) => "an answer means that the record is on the medium",
                    ("interval", _) => "acknowledged records reach the medium every flush.interval.ms",
                    _ => IN_CACHE,
                };
                (format!("flush.policy={policy}"), means)
            }
            Self::Every { messages, ms } if messages == NEVER && ms == NEVER => {
                ("no flush.messages and no flush.ms".to_owned(), IN_CACHE)
            }
            Self::Every { messages, ms } => (
                format!("flush.messages={messages}, flush.ms={ms}"),
                "acknowledged records are in the page cache until the first of the two, or the system, writes them",
            ),
        };
        if let Some(acks) = acks {
            mode = format!("{mode}, acks={acks}");
        }
        if acks == Some("0") {
            means = "no broker answers: a record that counts as sent may never have arrived";
        }
        format!("{mode}: {means}")
    }
}

const IN_CACHE: &str = "acknowledged records are in the page cache, until the system writes them";

fn value(settings: &[Setting], name: &str) -> Option<String> {
    settings.iter().find(|setting| setting.name == name)?.value.clone()
}

/// Where the first broker keeps its data, if that is on this machine.
fn log_dirs(admin: &Admin) -> Option<String> {
    let cluster = admin.describe_cluster().wait().ok()?;
    let broker = cluster.brokers.first()?;
    let is_here = broker.host == "localhost"
        || broker.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let settings = admin.describe_config(Resource::Broker(broker.id)).wait().ok().filter(|_| is_here)?;
    value(&settings, "log.dirs").or_else(|| value(&settings, "log.dir"))
}

#[cfg(test)]
mod tests {
    use client::admin::ConfigSource;

    use super::*;

    /// What a broker says of its settings.
    type Said<'a> = &'a [(&'a str, &'a str)];

    fn says(settings: Said<'_>, acks: Option<&str>) -> String {
        let setting = |&(name, value): &(&str, &str)| Setting {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source: ConfigSource::Default,
            is_read_only: false,
            is_sensitive: false,
        };
        let settings: Vec<Setting> = settings.iter().map(setting).collect();
        Flush::of(&settings).in_words(acks)
    }

    #[test]
    fn durability_is_said_as_the_broker_has_it() {
        // Ours has Kafka's settings beside its own, which counts.
        let ours = [("flush.messages", NEVER), ("flush.ms", NEVER), ("flush.policy", "ack")];
        let cases: [(Said<'_>, Option<&str>, &str, &str); 9] = [
            (&ours, None, "flush.policy=ack: ", "an acks=all answer means that the record is on the medium"),
            (&ours, Some("all"), "flush.policy=ack, acks=all: ", "on the medium"),
            (&ours, Some("1"), "flush.policy=ack, acks=1: ", "in the page cache"),
            (&ours, Some("0"), "flush.policy=ack, acks=0: ", "no broker answers"),
            (&[("flush.policy", "os")], Some("all"), "flush.policy=os, acks=all: ", "in the page cache"),
            (
                &[("flush.policy", "interval")],
                Some("1"),
                "flush.policy=interval, ",
                "every flush.interval.ms",
            ),
            (&ours[..2], Some("all"), "no flush.messages and no flush.ms, ", "in the page cache"),
            (
                &[("flush.messages", "1"), ("flush.ms", "50")],
                None,
                "flush.messages=1, flush.ms=50: ",
                "the first of",
            ),
            (&[], Some("all"), "unknown, acks=all: ", "does not say"),
        ];
        for (settings, acks, mode, means) in cases {
            let said = says(settings, acks);
            assert!(said.starts_with(mode) && said.contains(means), "{said}");
        }
    }
}
