//! What to measure, how often, and where the result goes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// The words of `cargo xtask bench`.
pub(super) const USAGE: &str = "\
cargo xtask bench broker [OPTION...]   measures our node beside Apache Kafka, turn by turn
cargo xtask bench client [OPTION...]   measures our clients beside Kafka's and librdkafka, turn by turn;
                                       librdkafka is built for it, which takes a C compiler and make
cargo xtask bench cluster [OPTION...]  measures three nodes of ours beside three of Kafka's, each with its
                                       own clients; builds librdkafka, too, for what is measured beside;
                                       failover needs root, and what docs/operate/torture.md says
cargo xtask bench groups [OPTION...]   measures consumer groups on ours beside Kafka's; builds librdkafka, too

  --kafka DIR        the scripts up, tool, down and install of Apache Kafka; else $KAFKA_PEER
  --runs N           runs of each measurement (5; groups: 3)
  --records N        records of 100 bytes where throughput is measured (20000000; cluster: 10000000)
  --only PART,...    broker: of produce, consume, durable, start, partitions, recovery
                     client: of produce, consume, durable, latency, send, overload
                     cluster: of produce, three-producers, consume, failover, catch-up
                     groups: of join, members, commits, lag, load
  --binary FILE      our node and tools, already built; else built with --profile dist
  --dir DIR          where the data of both goes (the directory for temporary files)
  --out FILE.md      the page; FILE.json beside it keeps every value, and parts that are not
                     measured this time stay as they are (docs/benchmarks/{broker,client,cluster,groups}.md)

broker only:
  --log-mib N        how much log is there at kill -9 in recovery (10240)
  --partitions N     how many partitions in partitions, a multiple of 100 (10000); groups: in lag
  --kafka-partitions yes|no
                     whether Kafka is measured in partitions too: once, for up to ten minutes (no)

client only:
  --latency-records N
                     records that are sent and read one by one in latency (20000)

cluster only:
  --rounds N         how often a leader of ours is killed in failover (30); the rest in proportion
  --torture FILE     the program that does it, already built; else built with --release
  --missed-mib N     how much a follower has missed in catch-up (5120)

groups only:
  --members N        how many members and partitions a group has in members (500)
  --offsets N        how many offsets are loaded in load (1000000)
";

/// What is measured, and the page that tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Page {
    /// One node, with Kafka's clients.
    #[default]
    Broker,
    /// Clients.
    Client,
    /// Three nodes, with the clients of each.
    Cluster,
    /// Consumer groups.
    Groups,
}

impl Page {
    /// Its word on the command line, and the name of its file.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Client => "client",
            Self::Cluster => "cluster",
            Self::Groups => "groups",
        }
    }

    /// What is measured for it, in the order in which it is measured and shown.
    fn parts(self) -> &'static [Part] {
        match self {
            Self::Broker => {
                &[Part::Produce, Part::Consume, Part::Durable, Part::Start, Part::Partitions, Part::Recovery]
            }
            Self::Client => {
                &[Part::Produce, Part::Consume, Part::Durable, Part::Latency, Part::Send, Part::Overload]
            }
            Self::Cluster => {
                &[Part::Produce, Part::ThreeProducers, Part::Consume, Part::Failover, Part::CatchUp]
            }
            Self::Groups => &[Part::Join, Part::Members, Part::Commits, Part::Lag, Part::Load],
        }
    }
}

/// Something to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    /// Small records in.
    Produce,
    /// The same from three processes at once.
    #[serde(rename = "three-producers")]
    ThreeProducers,
    /// And out again.
    Consume,
    /// Small records in, each durable before it is acknowledged.
    Durable,
    /// How soon a node is there, and what it costs to have one.
    Start,
    /// The same with very many partitions.
    Partitions,
    /// After kill -9 with much log.
    Recovery,
    /// From the producer to the consumer, one record after the other.
    Latency,
    /// How long a producer keeps its caller.
    Send,
    /// A producer that is given more than it can get rid of.
    Overload,
    /// How long nobody acknowledges when a broker goes.
    Failover,
    /// How a follower makes up for what it has missed.
    #[serde(rename = "catch-up")]
    CatchUp,
    /// How soon a group of one reads.
    Join,
    /// How soon a large group has agreed.
    Members,
    /// Offsets in.
    Commits,
    /// How far a group is behind.
    Lag,
    /// How soon a coordinator has what was committed.
    Load,
}

impl Part {
    /// Its word on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::ThreeProducers => "three-producers",
            Self::Consume => "consume",
            Self::Durable => "durable",
            Self::Start => "start",
            Self::Partitions => "partitions",
            Self::Recovery => "recovery",
            Self::Latency => "latency",
            Self::Send => "send",
            Self::Overload => "overload",
            Self::Failover => "failover",
            Self::CatchUp => "catch-up",
            Self::Join => "join",
            Self::Members => "members",
            Self::Commits => "commits",
            Self::Lag => "lag",
            Self::Load => "load",
        }
    }
}

/// What the command line says.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) page: Page,
    pub(super) kafka: PathBuf,
    pub(super) runs: usize,
    pub(super) records: u64,
    pub(super) only: Vec<Part>,
    pub(super) log_mib: u64,
    pub(super) partitions: u32,
    pub(super) kafka_partitions: bool,
    pub(super) latency_records: u64,
    pub(super) rounds: u32,
    pub(super) missed_mib: u64,
    pub(super) members: u32,
    pub(super) offsets: u64,
    pub(super) torture: Option<PathBuf>,
    pub(super) binary: Option<PathBuf>,
    pub(super) dir: PathBuf,
    pub(super) out: PathBuf,
}

impl Options {
    /// From words, with relative paths taken from where the user is.
    pub(super) fn parse(root: &Path, page: Page, words: &[&str]) -> Result<Self> {
        let mut options = Self {
            page,
            kafka: std::env::var_os("KAFKA_PEER").map(PathBuf::from).unwrap_or_default(),
            runs: if page == Page::Groups { 3 } else { 5 },
            records: if page == Page::Cluster { 10_000_000 } else { 20_000_000 },
            only: page.parts().to_vec(),
            log_mib: 10 * 1024,
            partitions: 10_000,
            kafka_partitions: false,
            latency_records: 20_000,
            rounds: 30,
            missed_mib: 5 * 1024,
            members: 500,
            offsets: 1_000_000,
            torture: None,
            binary: None,
            dir: std::env::temp_dir(),
            out: root.join(format!("docs/benchmarks/{}.md", page.word())),
        };
        for pair in words.chunks(2) {
            let [option, value] = *pair else { bail!("{} needs a value\n\n{USAGE}", pair[0]) };
            options.set(option, value)?;
        }
        options.check()
    }

    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        let number = || value.parse::<u64>().with_context(|| format!("{option} {value} is no number"));
        let (is_broker, is_client) = (self.page == Page::Broker, self.page == Page::Client);
        let (is_cluster, is_groups) = (self.page == Page::Cluster, self.page == Page::Groups);
        match option {
            "--kafka" => self.kafka = value.into(),
            "--runs" => self.runs = usize::try_from(number()?)?,
            "--records" => self.records = number()?,
            "--only" => self.only = parts(self.page, value)?,
            "--log-mib" if is_broker => self.log_mib = number()?,
            "--partitions" if is_broker || is_groups => self.partitions = u32::try_from(number()?)?,
            "--kafka-partitions" if is_broker => self.kafka_partitions = yes(option, value)?,
            "--latency-records" if is_client => self.latency_records = number()?,
            "--rounds" if is_cluster => self.rounds = u32::try_from(number()?)?,
            "--missed-mib" if is_cluster => self.missed_mib = number()?,
            "--members" if is_groups => self.members = u32::try_from(number()?)?,
            "--offsets" if is_groups => self.offsets = number()?,
            "--torture" if is_cluster => self.torture = Some(std::path::absolute(value)?),
            "--binary" => self.binary = Some(std::path::absolute(value)?),
            "--dir" => self.dir = std::path::absolute(value)?,
            "--out" => self.out = std::path::absolute(value)?,
            _ => bail!("no such option: {option}\n\n{USAGE}"),
        }
        Ok(())
    }

    fn check(mut self) -> Result<Self> {
        if self.kafka.as_os_str().is_empty() {
            bail!("--kafka or KAFKA_PEER must name the folder with Apache Kafka's scripts\n\n{USAGE}");
        }
        self.kafka = std::path::absolute(&self.kafka)?;
        for script in ["install", "up", "tool", "down"] {
            let path = self.kafka.join(script);
            if !path.is_file() {
                bail!("{} is not there", path.display());
            }
        }
        if self.out.extension().is_none_or(|extension| extension != "md") {
            bail!("--out names the page, so it ends in .md");
        }
        let sound = self.runs > 0 && self.records >= 1000 && self.log_mib > 0 && self.latency_records >= 1000;
        let sound = sound && self.rounds > 0 && self.missed_mib > 0 && self.members > 3 && self.offsets > 0;
        if !sound || self.partitions == 0 || !self.partitions.is_multiple_of(100) {
            bail!("there is nothing to measure\n\n{USAGE}");
        }
        Ok(self)
    }

    /// Whether a part is wanted.
    pub(super) fn wants(&self, part: Part) -> bool {
        self.only.contains(&part)
    }

    /// The command that measures a part again, without the paths of this machine.
    pub(super) fn command(&self, part: Part) -> String {
        let mut command =
            format!("cargo xtask bench {} --kafka $KAFKA --runs {}", self.page.word(), self.runs);
        command.push_str(&format!(" --only {}", part.word()));
        match part {
            Part::Produce
            | Part::ThreeProducers
            | Part::Consume
            | Part::Durable
            | Part::Send
            | Part::Overload => {
                command.push_str(&format!(" --records {}", self.records));
            }
            Part::Start | Part::Join | Part::Commits => {}
            Part::Members => command.push_str(&format!(" --members {}", self.members)),
            Part::Lag => command.push_str(&format!(" --partitions {}", self.partitions)),
            Part::Load => command.push_str(&format!(" --offsets {}", self.offsets)),
            Part::Partitions => {
                let kafka = if self.kafka_partitions { "yes" } else { "no" };
                command.push_str(&format!(" --partitions {} --kafka-partitions {kafka}", self.partitions));
            }
            Part::Latency => command.push_str(&format!(" --latency-records {}", self.latency_records)),
            Part::Recovery => command.push_str(&format!(" --log-mib {}", self.log_mib)),
            Part::Failover => command.push_str(&format!(" --rounds {}", self.rounds)),
            Part::CatchUp => {
                command.push_str(&format!(" --records {} --missed-mib {}", self.records, self.missed_mib));
            }
        }
        command
    }
}

fn yes(option: &str, value: &str) -> Result<bool> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => bail!("{option} is yes or no"),
    }
}

fn parts(page: Page, words: &str) -> Result<Vec<Part>> {
    let part = |word: &str| {
        let found = page.parts().iter().copied().find(|part| part.word() == word);
        found.with_context(|| format!("--only: there is no {word}\n\n{USAGE}"))
    };
    let mut parts = words.split(',').map(part).collect::<Result<Vec<_>>>()?;
    parts.sort();
    parts.dedup();
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_their_words() {
        let of_broker = |words| parts(Page::Broker, words);
        assert_eq!(of_broker("start,produce,start").unwrap(), [Part::Produce, Part::Start]);
        assert!(of_broker("nothing").is_err() && of_broker("latency").is_err());
        assert_eq!(parts(Page::Client, "latency").unwrap(), [Part::Latency]);
        let of_cluster = parts(Page::Cluster, "catch-up,three-producers,produce").unwrap();
        assert_eq!(of_cluster, [Part::Produce, Part::ThreeProducers, Part::CatchUp]);
        assert_eq!(parts(Page::Groups, "load,join").unwrap(), [Part::Join, Part::Load]);
    }
}
