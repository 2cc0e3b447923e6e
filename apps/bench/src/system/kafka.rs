//! Apache Kafka, from its jars: a cluster of combined brokers and controllers, as its own `server.properties`
//! and start scripts have it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::process::Process;
use crate::yaml::Settings;

/// Where its jars are, and which version they are of.
#[derive(Debug, Clone)]
pub struct Kafka {
    libs: PathBuf,
    version: String,
    /// Which Java it is, if that says so.
    java: Option<String>,
}

/// The version that is fetched where nobody says where there is one.
const VERSION: &str = "4.3.1";
/// Its jars, and with them what they need.
const POM: &str = include_str!("kafka.pom.xml");

/// What all its nodes call their cluster: any sixteen bytes.
const CLUSTER_ID: &str = "dmx0YXZhLWJlbmNobWFyaw";
/// Heap and collector as in Kafka's start scripts.
const OPTIONS: [&str; 9] = [
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
];

impl Kafka {
    /// In a folder with its jars, or with a folder `libs` that has them.
    pub fn find(folder: &Path) -> Result<Self> {
        let below = folder.join("libs");
        let libs = if below.is_dir() { below } else { folder.to_owned() };
        let entries = std::fs::read_dir(&libs).with_context(|| format!("cannot read {}", libs.display()))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut versions = names.filter_map(|name| version(&name));
        let version = versions.next();
        ensure!(version.is_some(), "{} has no jar of a Kafka broker, kafka_2.13-*.jar", libs.display());
        let libs = std::path::absolute(&libs)?;
        Ok(Self { libs, version: version.unwrap_or_default(), java: java() })
    }

    /// The jars that Maven fetches, once for all commands of a user.
    pub fn fetched() -> Result<Self> {
        let cache = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        let cache = cache.or_else(home).context("there is neither XDG_CACHE_HOME nor a home directory")?;
        let folder = cache.join("vltava").join(format!("kafka-{VERSION}"));
        let complete = folder.join("complete");
        if !complete.exists() {
            eprintln!("fetching Apache Kafka {VERSION} with Maven into {}", folder.display());
            fetch(&folder).context("--kafka or KAFKA_HOME may also name a folder with its jars in libs/")?;
            std::fs::write(&complete, "")?;
        }
        Self::find(&folder)
    }

    /// Which it is, and on which Java.
    pub fn version(&self) -> String {
        match &self.java {
            Some(java) => format!("Apache Kafka {}, {java}", self.version),
            None => format!("Apache Kafka {}", self.version),
        }
    }

    /// What its JVM is told on heap and collector, of every node.
    pub fn options() -> String {
        OPTIONS.join(" ")
    }

    fn words(&self, class: &str) -> Vec<String> {
        let mut words: Vec<String> = OPTIONS.map(str::to_owned).into();
        words.extend(["-cp".to_owned(), format!("{}/*", self.libs.display()), class.to_owned()]);
        words
    }

    /// Prepares the directory of a node.
    pub(super) fn format(&self, properties: &Path, log: &Path) -> Result<()> {
        let out = std::fs::File::options().create(true).append(true).open(log)?;
        let done = Command::new("java")
            .args(self.words("kafka.tools.StorageTool"))
            .args(["format", "--cluster-id", CLUSTER_ID, "--config"])
            .arg(properties)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .status()
            .context("cannot start java, which Apache Kafka needs")?;
        ensure!(done.success(), "Apache Kafka cannot format its storage; see {}", log.display());
        Ok(())
    }

    pub(super) fn start(&self, properties: &Path, log: &Path) -> Result<Process> {
        let mut words = self.words("kafka.Kafka");
        words.push(properties.display().to_string());
        Process::start_kept("java", words, log)
    }
}

/// Has Maven copy the jars into `libs` of a folder.
fn fetch(folder: &Path) -> Result<()> {
    let libs = folder.join("libs");
    std::fs::create_dir_all(&libs).with_context(|| format!("cannot make {}", libs.display()))?;
    let pom = folder.join("pom.xml");
    std::fs::write(&pom, POM).with_context(|| format!("cannot write {}", pom.display()))?;
    let done = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "--file"])
        .arg(&pom)
        .arg(format!("-Dkafka.version={VERSION}"))
        .arg(format!("-DoutputDirectory={}", libs.display()))
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .context("cannot start mvn, which fetches Apache Kafka")?;
    ensure!(done.success(), "Maven cannot fetch Apache Kafka {VERSION}");
    Ok(())
}

/// As in `openjdk 17.0.15 2025-04-15`.
fn java() -> Option<String> {
    let said = Command::new("java").arg("-version").stdin(Stdio::null()).output().ok()?;
    let first = String::from_utf8_lossy(&said.stderr).lines().next()?.replace('"', "");
    Some(first.replace(" version ", " "))
}

/// The version in the name of the broker's jar.
fn version(name: &str) -> Option<String> {
    let rest = name.strip_prefix("kafka_2.")?.strip_suffix(".jar")?;
    let (_, version) = rest.split_once('-')?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

/// Kafka's own `server.properties`, but for addresses, directories and the number of nodes.
pub(super) fn properties(id: usize, ports: &[u16], above: u16, data: &Path, settings: &Settings) -> String {
    let voter = |(at, port): (usize, &u16)| format!("{}@127.0.0.1:{}", at + 1, port + above);
    let voters: Vec<String> = ports.iter().enumerate().map(voter).collect();
    let (port, nodes) = (ports[id - 1], ports.len());
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         log.dirs={}\n\
         num.network.threads=3\n\
         num.io.threads=8\n\
         socket.send.buffer.bytes=102400\n\
         socket.receive.buffer.bytes=102400\n\
         socket.request.max.bytes=104857600\n\
         num.partitions=1\n\
         num.recovery.threads.per.data.dir=2\n\
         offsets.topic.replication.factor={nodes}\n\
         transaction.state.log.replication.factor={nodes}\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor={nodes}\n\
         share.coordinator.state.topic.min.isr=1\n\
         log.retention.hours=168\n\
         log.segment.bytes=1073741824\n\
         log.retention.check.interval.ms=300000\n",
        voters.join(","),
        port + above,
        data.display(),
    );
    for (name, value) in settings {
        text.push_str(&format!("{name}={value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_in_the_name_of_a_jar() {
        assert_eq!(version("kafka_2.13-4.3.1.jar").as_deref(), Some("4.3.1"));
        assert_eq!(version("kafka_2.13-4.4.0-rc1.jar").as_deref(), Some("4.4.0-rc1"));
        for other in ["kafka-clients-4.3.1.jar", "kafka_2.13-sources.jar", "kafka_2.13-4.3.1.pom"] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn each_node_has_its_own_and_all_know_all() {
        let settings = [("num.io.threads".to_owned(), "2".to_owned())].into();
        let text = properties(2, &[9000, 9001, 9002], 100, Path::new("/d"), &settings);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:9100,2@127.0.0.1:9101,3@127.0.0.1:9102",
            "listeners=PLAINTEXT://127.0.0.1:9001,CONTROLLER://127.0.0.1:9101",
            "log.dirs=/d",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
        assert!(text.ends_with("num.io.threads=2\n"), "what a driver says comes last");
    }
}
