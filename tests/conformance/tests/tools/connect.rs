//! Kafka Connect: lines go from a file into a topic, and from there into another file; by one worker, and by two.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use vltava_conformance::{free_port, kafka};

use crate::toolbox::{Toolbox, eventually_in};

/// Above a start of Java, and the session of a worker that died.
const PATIENCE: Duration = Duration::from_secs(90);

/// A worker. It ends when this is dropped.
struct Worker {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Worker {
    /// Starts one that serves its commands on a port of its own.
    fn start(folder: &Path, class: &str, settings: &str, more: &[&Path]) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let path = folder.join(format!("worker-{}.properties", address.port()));
        fs::write(&path, format!("{settings}listeners=http://{address}\n"))?;
        let log = path.with_extension("log");
        let mut command: Command = kafka::java("512m")?;
        command.arg(format!("org.apache.kafka.connect.cli.{class}")).arg(path).args(more);
        let output = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: command.spawn()?, address, log })
    }

    /// Tells it to stop, and waits until it has.
    fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// The answer to a command, if it is one that says it was done.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        Ok(answer)
    }

    fn log_tail(&self) -> String {
        const LINES: usize = 40;
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two files.
struct Pipe {
    folder: PathBuf,
    topic: String,
    written: Vec<String>,
}

impl Pipe {
    fn new(folder: &Path, topic: String) -> Self {
        Self { folder: folder.to_owned(), topic, written: Vec::new() }
    }

    fn from(&self) -> String {
        self.folder.join("from.txt").display().to_string()
    }

    fn to(&self) -> String {
        self.folder.join("to.txt").display().to_string()
    }

    /// Name and settings of both connectors.
    fn connectors(&self) -> [(&'static str, Vec<(&'static str, String)>); 2] {
        let class = |name| format!("org.apache.kafka.connect.file.FileStream{name}Connector");
        let source = vec![
            ("connector.class", class("Source")),
            ("tasks.max", "1".into()),
            ("file", self.from()),
            ("topic", self.topic.clone()),
        ];
        let sink = vec![
            ("connector.class", class("Sink")),
            ("tasks.max", "1".into()),
            ("file", self.to()),
            ("topics", self.topic.clone()),
        ];
        [("source", source), ("sink", sink)]
    }

    /// Adds lines to the first file.
    fn write(&mut self, count: usize) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.from())?;
        for number in self.written.len()..self.written.len() + count {
            let line = format!("line {number}");
            writeln!(file, "{line}")?;
            self.written.push(line);
        }
        Ok(())
    }

    /// Waits until all lines have arrived in the other: in their order, and each once if nothing failed.
    fn wait(&self, worker: &Worker, is_once: bool) -> Result<()> {
        let arrived = || {
            let text = fs::read_to_string(self.to()).unwrap_or_default();
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            if !is_once {
                let mut seen = std::collections::BTreeSet::new();
                lines.retain(|line| seen.insert(line.clone()));
            }
            ensure!(lines == self.written, "{} lines of {} arrived", lines.len(), self.written.len());
            Ok(())
        };
        eventually_in(PATIENCE, arrived).with_context(|| worker.log_tail())
    }
}

/// What all workers are told.
fn settings(toolbox: &Toolbox) -> Result<String> {
    Ok(format!(
        "bootstrap.servers={}\n\
         key.converter=org.apache.kafka.connect.storage.StringConverter\n\
         value.converter=org.apache.kafka.connect.storage.StringConverter\n\
         offset.flush.interval.ms=500\n\
         consumer.session.timeout.ms=6000\n\
         consumer.auto.offset.reset=earliest\n",
        toolbox.suite.bootstrap()?
    ))
}

/// One worker that keeps its offsets in a file, stopped and started again.
pub(crate) fn standalone(toolbox: &Toolbox) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut pipe = Pipe::new(folder.path(), toolbox.create("connect-standalone", 1)?);
    let offsets = folder.path().join("offsets").display().to_string();
    let settings = format!("{}offset.storage.file.filename={offsets}\n", settings(toolbox)?);
    let mut files = Vec::new();
    for (name, settings) in pipe.connectors() {
        let path = folder.path().join(format!("{name}.properties"));
        let lines = settings.iter().map(|(name, value)| format!("{name}={value}\n"));
        fs::write(&path, format!("name={}-{name}\n{}", pipe.topic, lines.collect::<String>()))?;
        files.push(path);
    }
    let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
    let start = || Worker::start(folder.path(), "ConnectStandalone", &settings, &files);

    pipe.write(10)?;
    let worker = start()?;
    pipe.wait(&worker, true)?;
    pipe.write(10)?;
    pipe.wait(&worker, true)?;
    worker.stop()?;
    pipe.write(10)?;
    let worker = start()?;
    pipe.wait(&worker, true)?;
    worker.stop()
}

/// Two workers that are a group of their own kind; one is killed, and the other does all.
pub(crate) fn distributed(toolbox: &Toolbox) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut pipe = Pipe::new(folder.path(), toolbox.create("connect-distributed", 1)?);
    let name = &pipe.topic;
    let mut settings = settings(toolbox)?;
    settings += &format!(
        "group.id={name}\nsession.timeout.ms=6000\nheartbeat.interval.ms=500\nscheduled.rebalance.max.delay.ms=1000\n"
    );
    for part in ["config", "offset", "status"] {
        settings += &format!("{part}.storage.topic={name}-{part}\n{part}.storage.replication.factor=-1\n");
    }
    settings += "offset.storage.partitions=2\nstatus.storage.partitions=1\n";
    let start = || Worker::start(folder.path(), "ConnectDistributed", &settings, &[]);
    let (first, second) = (start()?, start()?);
    for (kind, settings) in pipe.connectors() {
        let config: Value =
            settings.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let name = format!("{}-{kind}", pipe.topic);
        let made = json!({"name": name, "config": config});
        eventually_in(PATIENCE, || first.ask("POST", "/connectors", &made).map(drop))
            .with_context(|| first.log_tail())?;
    }
    pipe.write(10)?;
    pipe.wait(&first, true)?;
    eventually_in(PATIENCE, || {
        let listed = second.ask("GET", "/connectors?expand=status", &Value::Null)?;
        ensure!(listed.matches("\"RUNNING\"").count() >= 4, "{listed}");
        Ok(())
    })?;
    drop(first);
    pipe.write(10)?;
    pipe.wait(&second, false)?;
    second.stop()
}
