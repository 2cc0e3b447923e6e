//! What is tortured: our node, or Apache Kafka's, which shows that the harness is fair and what others do.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use conformance::{home, kafka};
use rustix::fs::syncfs;

use crate::net::Place;

/// Where clients of a broker connect.
pub const CLIENT_PORT: u16 = 9092;
/// Where brokers speak among themselves.
const CLUSTER_PORT: u16 = 19092;
/// Where a broker of ours serves HTTP.
const HTTP_PORT: u16 = 9644;
/// Any will do.
const CLUSTER_ID: &str = "4L6g3nShT-eMCtK--X86sw";

/// Whose brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// `vltava server`, of this binary.
    Vltava(PathBuf),
    /// Apache Kafka, from the jars of the conformance tests.
    Kafka,
}

/// When an acknowledged record is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Flush {
    /// Before it is acknowledged.
    Ack,
    /// When the operating system likes.
    Os,
}

/// How the brokers of a run are started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Whose.
    pub system: System,
    /// How many; each is a controller too.
    pub nodes: i32,
    /// When they flush.
    pub flush: Flush,
    /// Further settings, by the system's own names.
    pub settings: Vec<(String, String)>,
}

impl System {
    /// Ours, of the build this is from or that the environment names.
    pub fn vltava() -> Result<Self> {
        Ok(Self::Vltava(home::vltava()?))
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Vltava(_) => "vltava",
            Self::Kafka => "kafka",
        }
    }

    /// Settings of a topic that make it flush so, where that is not a setting of the broker.
    pub fn topic_settings(&self, flush: Flush) -> Vec<(String, String)> {
        match (self, flush) {
            (Self::Kafka, Flush::Ack) => vec![("flush.messages".to_owned(), "1".to_owned())],
            (Self::Kafka, Flush::Os) | (Self::Vltava(_), _) => Vec::new(),
        }
    }
}

impl Launch {
    /// The addresses that clients are given.
    pub fn bootstrap(&self) -> String {
        let each = |id| format!("{}:{CLIENT_PORT}", Place::Node(id).address());
        (1..=self.nodes).map(each).collect::<Vec<_>>().join(",")
    }

    /// The command that starts a broker with its data there. `folder` is for what it needs beside its disk.
    pub fn command(&self, id: i32, data_dir: &Path, folder: &Path) -> Result<Command> {
        let mut command = match &self.system {
            System::Vltava(binary) => self.vltava(binary, id, data_dir),
            System::Kafka => self.kafka(id, data_dir, folder)?,
        };
        command.stdin(Stdio::null());
        Ok(command)
    }

    fn voters(&self) -> String {
        let each = |id| format!("{id}@{}:{CLUSTER_PORT}", Place::Node(id).address());
        (1..=self.nodes).map(each).collect::<Vec<_>>().join(",")
    }

    fn vltava(&self, binary: &Path, id: i32, data_dir: &Path) -> Command {
        let address = Place::Node(id).address();
        let flush = match self.flush {
            Flush::Ack => "ack",
            Flush::Os => "os",
        };
        let mut settings = vec![
            ("node.id".to_owned(), id.to_string()),
            ("listeners".to_owned(), format!("PLAINTEXT://{address}:{CLIENT_PORT}")),
            ("http.listen".to_owned(), format!("{address}:{HTTP_PORT}")),
            ("flush.policy".to_owned(), flush.to_owned()),
            // The disks are small.
            ("log.dir.reserve.bytes".to_owned(), RESERVE_BYTES.to_string()),
        ];
        if self.nodes > 1 {
            settings.push(("cluster.peers".to_owned(), self.voters()));
        }
        settings.extend(self.settings.iter().cloned());
        let mut command = Command::new(binary);
        command.arg("server").arg("--data-dir").arg(data_dir);
        for (name, value) in settings {
            command.args(["--set", &format!("{name}={value}")]);
        }
        command
    }

    fn kafka(&self, id: i32, data_dir: &Path, folder: &Path) -> Result<Command> {
        let properties = folder.join("server.properties");
        fs::write(&properties, self.properties(id, data_dir))?;
        if !data_dir.join("meta.properties").exists() {
            format_kafka(&properties)?;
            // The tool flushes nothing, and a power cut is not to find a cluster that was never set up.
            syncfs(File::open(data_dir)?)?;
        }
        let mut command = kafka::java("320m")?;
        command.arg("kafka.Kafka").arg(properties);
        Ok(command)
    }

    fn properties(&self, id: i32, data_dir: &Path) -> String {
        let address = Place::Node(id).address();
        let replicas = self.nodes.min(3);
        let mut lines = format!(
            "process.roles=broker,controller\n\
             node.id={id}\n\
             controller.quorum.voters={voters}\n\
             listeners=PLAINTEXT://{address}:{CLIENT_PORT},CONTROLLER://{address}:{CLUSTER_PORT}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
             inter.broker.listener.name=PLAINTEXT\n\
             offsets.topic.replication.factor={replicas}\n\
             offsets.topic.num.partitions=1\n\
             transaction.state.log.num.partitions=1\n\
             transaction.state.log.replication.factor={replicas}\n\
             log.dirs={data}\n",
            voters = self.voters(),
            data = data_dir.display()
        );
        for (name, value) in &self.settings {
            lines += &format!("{name}={value}\n");
        }
        lines
    }
}

/// What a broker of ours keeps free.
pub const RESERVE_BYTES: u64 = 32 << 20;

fn format_kafka(properties: &Path) -> Result<()> {
    let mut command = kafka::java("256m")?;
    command.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"]);
    let done = command.arg(properties).stdin(Stdio::null()).output().context("java")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "Kafka's directory was not formatted: {said}");
    Ok(())
}
