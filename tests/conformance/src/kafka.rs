//! Apache Kafka itself, one combined node: what the suite proves itself against, and the writer of
//! directories that our node has to open. The settings are those of Kafka's own `server.properties`, with
//! its own topics as small as they can be.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::home;
use crate::launch::Launch;

/// Any will do: it is never part of a larger cluster.
const CLUSTER_ID: &str = "4L6g3nShT-eMCtK--X86sw";

/// The command that starts it, on a directory that is formatted first if it is new.
pub(crate) fn command(launch: &Launch<'_>) -> Result<Command> {
    let properties = launch.data_dir.with_extension("properties");
    fs::write(&properties, settings(launch))?;
    if !launch.data_dir.join("meta.properties").exists() {
        format(&properties)?;
    }
    let mut command = java("512m")?;
    command.arg("kafka.Kafka").arg(properties);
    Ok(command)
}

/// Java with Kafka's jars and the runner of its tools.
pub fn java(heap: &str) -> Result<Command> {
    let classes = home::installed("kafka/classes")?;
    let libs = home::installed("kafka/libs")?;
    let mut command = Command::new("java");
    command
        .arg(format!("-Xmx{heap}"))
        // What Kafka's start scripts set, and a small machine's threads.
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg("-cp")
        .arg(format!("{}:{}/*", classes.display(), libs.display()));
    Ok(command)
}

fn format(properties: &Path) -> Result<()> {
    let done = java("256m")?
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"])
        .arg(properties)
        .stdin(Stdio::null())
        .output()
        .context("java")?;
    ensure!(
        done.status.success(),
        "Kafka's directory was not formatted: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

fn settings(launch: &Launch<'_>) -> String {
    let Launch { address, advertised, side_port, .. } = launch;
    let controller = SocketAddr::new(address.ip(), *side_port);
    let mut lines = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@{controller}\n\
         listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{advertised},CONTROLLER://{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         log.dirs={}\n",
        launch.data_dir.display()
    );
    for (name, value) in launch.settings {
        lines += &format!("{name}={value}\n");
    }
    lines
}
