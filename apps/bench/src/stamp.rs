//! What a cluster promised while it was measured: how durable an acknowledged record is, and what was set.
//!
//! The cluster itself is asked, so that it is told of any that speaks the protocol. A number without its promise
//! says little: one system may be faster because it has less to do.

use client::Admin;
use client::admin::{ConfigSource, Resource, Setting};
use serde::{Deserialize, Serialize};

use crate::yaml::Settings;

/// What held for the records of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stamp {
    /// Who has a record before it is acknowledged.
    pub acks: String,
    /// Copies of each.
    pub replication_factor: u16,
    /// So many have it at least before acks=all is answered; `None` if the cluster does not say.
    pub min_insync_replicas: Option<String>,
    /// When it is on the medium, in words; `None` if the cluster does not say.
    pub flush: Option<String>,
    /// Whether it is there before it is acknowledged.
    pub is_flushed: bool,
    /// Settings of a broker that are not its defaults, without those that say where it is.
    pub broker_settings: Settings,
    /// Settings of the topics that are their own.
    pub topic_settings: Settings,
    /// Settings of the clients that are not their defaults.
    pub client_settings: Settings,
}

/// They say where a node is, or who it is, and nothing of how it works.
const PLACES: [&str; 15] = [
    "node.id",
    "broker.id",
    "broker.rack",
    "process.roles",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "cluster.peers",
    "inter.broker.listener.name",
    "http.listen",
];
/// As many records, or milliseconds, as no log ever sees: what Kafka writes for "never".
const NEVER: &str = "9223372036854775807";

impl Stamp {
    /// Asks the cluster about the topic of a run. What it does not answer is not known, and says why.
    pub fn ask(&mut self, admin: &Admin, topic: &str) -> Option<String> {
        let of_topic = match admin.describe_config(Resource::Topic(topic.to_owned())).wait() {
            Ok(settings) => settings,
            Err(error) => return Some(format!("the cluster does not tell its settings: {error}")),
        };
        self.of_topic(&of_topic);
        let cluster = match admin.describe_cluster().wait() {
            Ok(cluster) => cluster,
            Err(error) => return Some(format!("the cluster does not tell its brokers: {error}")),
        };
        let broker = cluster.brokers.first()?.id;
        match admin.describe_config(Resource::Broker(broker)).wait() {
            Ok(settings) => {
                self.broker_settings = changed(&settings, |source| *source != ConfigSource::Default)
            }
            Err(error) => return Some(format!("broker {broker} does not tell its settings: {error}")),
        }
        None
    }

    fn of_topic(&mut self, settings: &[Setting]) {
        let value = |name: &str| settings.iter().find(|setting| setting.name == name)?.value.clone();
        self.min_insync_replicas = value("min.insync.replicas");
        self.flush = flush(value("flush.policy"), value("flush.messages"), value("flush.ms"));
        self.is_flushed = match value("flush.policy") {
            Some(policy) => self.acks == "all" && policy == "ack",
            // Kafka's leader flushes before it answers, if anybody is answered.
            None => self.acks != "0" && value("flush.messages").as_deref() == Some("1"),
        };
        self.topic_settings = changed(settings, |source| *source == ConfigSource::Topic);
    }

    /// The promise, in a few words.
    pub fn in_words(&self) -> String {
        let mut words = vec![format!("acks={}", self.acks), format!("{} replicas", self.replication_factor)];
        words.extend(self.min_insync_replicas.as_ref().map(|least| format!("{least} in sync at least")));
        words.extend(self.flush.clone());
        words.join(", ")
    }
}

/// When records reach the medium. Only this program has a policy; others have numbers.
fn flush(policy: Option<String>, records: Option<String>, ms: Option<String>) -> Option<String> {
    let is_set = |value: &String| value != NEVER;
    let after = match (records.filter(is_set), ms.filter(is_set)) {
        (Some(records), Some(ms)) => Some(format!("flushed after {records} records or {ms} ms")),
        (Some(records), None) => Some(format!("flushed after {records} records")),
        (None, Some(ms)) => Some(format!("flushed after {ms} ms")),
        (None, None) => None,
    };
    match policy.as_deref() {
        Some("ack") => Some("flushed before acks=all is answered".to_owned()),
        Some("interval") => after.or_else(|| Some("flushed from time to time".to_owned())),
        Some(_) => Some("flushed when the system does".to_owned()),
        None => after.or_else(|| Some("flushed when the system does".to_owned())),
    }
}

fn changed(settings: &[Setting], is_wanted: impl Fn(&ConfigSource) -> bool) -> Settings {
    let are_told = settings.iter().filter(|setting| {
        is_wanted(&setting.source) && !setting.is_sensitive && !PLACES.contains(&&*setting.name)
    });
    are_told.filter_map(|setting| Some((setting.name.clone(), setting.value.clone()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str, source: ConfigSource) -> Setting {
        let (name, value) = (name.to_owned(), Some(value.to_owned()));
        Setting { name, value, source, is_read_only: false, is_sensitive: false }
    }

    #[test]
    fn what_is_promised_is_said() {
        let cases = [
            ([None, Some(NEVER), Some(NEVER)], "flushed when the system does"),
            ([None, Some("1"), Some(NEVER)], "flushed after 1 records"),
            ([None, Some("10"), Some("1000")], "flushed after 10 records or 1000 ms"),
            ([Some("ack"), Some(NEVER), Some(NEVER)], "flushed before acks=all is answered"),
            ([Some("os"), Some(NEVER), Some(NEVER)], "flushed when the system does"),
            ([Some("interval"), Some(NEVER), Some("500")], "flushed after 500 ms"),
        ];
        for (values, expected) in cases {
            let [policy, records, ms] = values.map(|value| value.map(str::to_owned));
            assert_eq!(flush(policy, records, ms).as_deref(), Some(expected), "{values:?}");
        }
    }

    #[test]
    fn what_differs_from_defaults_is_told_and_places_are_not() {
        let settings = [
            setting("min.insync.replicas", "2", ConfigSource::Topic),
            setting("flush.policy", "ack", ConfigSource::Start),
            setting("log.dirs", "/data", ConfigSource::Start),
            setting("retention.ms", "5", ConfigSource::Default),
            Setting { is_sensitive: true, ..setting("password", "p", ConfigSource::Start) },
        ];
        let mut stamp = Stamp { acks: "all".to_owned(), replication_factor: 3, ..Stamp::default() };
        stamp.of_topic(&settings);
        assert_eq!(stamp.topic_settings, [("min.insync.replicas".to_owned(), "2".to_owned())].into());
        assert!(stamp.is_flushed);
        assert_eq!(
            stamp.in_words(),
            "acks=all, 3 replicas, 2 in sync at least, flushed before acks=all is answered"
        );
        let of_broker = changed(&settings, |source| *source != ConfigSource::Default);
        assert_eq!(of_broker.keys().collect::<Vec<_>>(), ["flush.policy", "min.insync.replicas"]);
        let mut weaker = Stamp { acks: "1".to_owned(), ..Stamp::default() };
        weaker.of_topic(&settings);
        assert!(!weaker.is_flushed, "it is answered before");
        for (acks, is_flushed) in [("all", true), ("1", true), ("0", false)] {
            let mut of_kafka = Stamp { acks: acks.to_owned(), ..Stamp::default() };
            of_kafka.of_topic(&[setting("flush.messages", "1", ConfigSource::Topic)]);
            assert_eq!(of_kafka.is_flushed, is_flushed, "acks={acks}");
        }
    }
}
