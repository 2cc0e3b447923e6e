//! Which cluster, and by which settings: what `produce` and `consume` have in common.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use client::Admin;
use client::admin::{At, Topic};

use crate::reach::reach;

/// Where the cluster is, and Kafka's settings for its client.
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// Brokers to connect to, between commas; one that answers is enough [default: 127.0.0.1:9092]
    #[arg(short, long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// A setting of the client, by Kafka's name for it. Can be given several times
    #[arg(short = 'X', long = "property", value_name = "NAME=VALUE", value_parser = super::pair)]
    properties: Vec<(String, String)>,
    /// A file of such settings; those on the command line come before them
    #[arg(short = 'F', long, alias = "command-config", value_name = "FILE")]
    property_file: Option<PathBuf>,
}

impl Arguments {
    /// All settings, those that count more last.
    pub(super) fn settings(&self) -> Result<Settings> {
        let mut properties = match &self.property_file {
            Some(path) => super::properties::read(path)?,
            None => Vec::new(),
        };
        properties.extend(self.properties.iter().cloned());
        let known = properties.iter().rfind(|(name, _)| name == BOOTSTRAP_SERVERS).map(|(_, value)| value);
        let servers = self.bootstrap_server.as_ref().or(known).map_or("127.0.0.1:9092", String::as_str);
        Ok(Settings { bootstrap_servers: servers.to_owned(), properties })
    }
}

const BOOTSTRAP_SERVERS: &str = "bootstrap.servers";
/// How long a cluster may take to answer.
const TIME_MAX: Duration = Duration::from_secs(30);

/// What was chosen.
pub(super) struct Settings {
    bootstrap_servers: String,
    properties: Vec<(String, String)>,
}

impl Settings {
    /// Brokers to connect to.
    pub(super) fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Settings for a client, without those that mean nothing outside of Java.
    pub(super) fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.properties.iter().map(|(name, value)| (&**name, &**value));
        all.filter(|(name, _)| !name.ends_with("serializer") && *name != BOOTSTRAP_SERVERS)
    }

    /// Fails at once if there is no server.
    pub(super) fn reach(&self) -> Result<()> {
        Ok(reach(&self.bootstrap_servers, TIME_MAX)?)
    }

    /// Connects to one that answers.
    pub(super) fn connect(&self) -> Result<Cluster> {
        self.reach()?;
        Ok(Cluster { admin: Admin::builder(&self.bootstrap_servers).timeout(TIME_MAX).build()? })
    }
}

/// A cluster that answers.
pub(super) struct Cluster {
    admin: Admin,
}

impl Cluster {
    /// What a topic is made of.
    pub(super) fn topic(&mut self, name: &str) -> Result<Topic> {
        Ok(self.admin.describe_topic(name).wait()?)
    }

    /// The offset of a place in each of these partitions; negative where there is no such record.
    pub(super) fn offsets(&mut self, topic: &Topic, partitions: &[i32], at: At) -> Result<Vec<i64>> {
        let is_led = |index: i32| {
            let partition = topic.partitions.iter().find(|partition| partition.index.0 == index);
            partition.is_some_and(|partition| partition.leader.is_some())
        };
        if let Some(partition) = partitions.iter().find(|&&index| !is_led(index)) {
            bail!(
                "{} [{partition}] has no leader: name the partitions that have one with -p, or wait",
                topic.name
            );
        }
        let places = partitions.iter().map(|&index| (&*topic.name, index, at));
        let found = self.admin.list_offsets(places).wait();
        found.into_iter().map(|found| Ok(found?.offset.map_or(-1, |offset| offset.0))).collect()
    }
}
