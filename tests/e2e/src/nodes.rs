//! Several nodes of one cluster on loopback, each a process that is started, stopped and killed by its number.
//!
//! Dropped, all of them are killed, and their files go away unless a story failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use conformance::home;
use conformance::{free_node_port, free_port};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{http, terminal, wait};

/// How long a node may take to serve, or to stop.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A node that joins and is told no more listens for others so far above where it listens for clients.
const PORTS_APART: u16 = 10_000;

/// See the module.
#[derive(Debug)]
pub struct Nodes {
    dir: TempDir,
    places: BTreeMap<i32, Place>,
    running: BTreeMap<i32, Child>,
    /// Who serves no clients.
    deaf: BTreeSet<i32>,
    /// Who has two log directories.
    two_disks: BTreeSet<i32>,
    /// Of those that run and those that ran: the log of its last life.
    logs: BTreeMap<i32, PathBuf>,
    lives: u32,
}

/// Where a node listens.
#[derive(Clone, Copy, Debug)]
struct Place {
    kafka: u16,
    cluster: u16,
    http: u16,
}

/// Whether a status says that all replicas are in sync, and all partitions led.
pub fn is_well(status: &Value) -> bool {
    status["partitions_not_in_sync"] == 0 && status["partitions_without_leader"] == 0
}

impl Nodes {
    /// No node runs.
    pub fn new() -> Result<Self> {
        Ok(Self {
            dir: tempfile::tempdir()?,
            places: BTreeMap::new(),
            running: BTreeMap::new(),
            deaf: BTreeSet::new(),
            two_disks: BTreeSet::new(),
            logs: BTreeMap::new(),
            lives: 0,
        })
    }

    /// Starts nodes that found a cluster together, and waits until they serve.
    pub fn found(ids: &[i32]) -> Result<Self> {
        let mut nodes = Self::new()?;
        nodes.start_together(ids)?;
        Ok(nodes)
    }

    /// Starts nodes that all know where all of them are, and waits until they serve.
    pub fn start_together(&mut self, ids: &[i32]) -> Result<()> {
        let peers = self.peers(ids)?;
        for id in ids {
            self.spawn(*id, &[("cluster.peers", &peers)])?;
        }
        ids.iter().try_for_each(|id| self.wait_until_serving(*id))
    }

    /// `cluster.peers` with these nodes.
    pub fn peers(&mut self, ids: &[i32]) -> Result<String> {
        let peers: Result<Vec<String>> =
            ids.iter().map(|id| Ok(format!("{id}@{}", self.cluster_address(*id)?))).collect();
        Ok(peers?.join(","))
    }

    /// Nodes that are to listen elsewhere from now on; those of another cluster, none of which runs, that will
    /// listen where these did.
    pub fn move_all(&mut self) -> Result<Self> {
        ensure!(self.running.is_empty(), "who runs cannot move");
        let mut others = Self::new()?;
        std::mem::swap(&mut others.places, &mut self.places);
        Ok(others)
    }

    /// A node that does not run is to listen elsewhere from now on.
    pub fn move_one(&mut self, id: i32) -> Result<()> {
        ensure!(!self.running.contains_key(&id), "who runs cannot move");
        self.places.remove(&id);
        Ok(())
    }

    fn place(&mut self, id: i32) -> Result<Place> {
        if let Some(place) = self.places.get(&id) {
            return Ok(*place);
        }
        let (http, kafka) = (free_port()?, free_node_port(PORTS_APART)?);
        let place = Place { kafka, cluster: kafka + PORTS_APART, http };
        self.places.insert(id, place);
        Ok(place)
    }

    /// Where other nodes reach one.
    pub fn cluster_address(&mut self, id: i32) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.place(id)?.cluster))
    }

    /// Where clients reach one.
    pub fn address(&mut self, id: i32) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.place(id)?.kafka))
    }

    /// `host:port` of what runs, for clients.
    pub fn bootstrap(&self) -> String {
        let ports = self
            .running
            .keys()
            .filter(|id| !self.deaf.contains(id))
            .map(|id| format!("127.0.0.1:{}", self.places[id].kafka));
        ports.collect::<Vec<_>>().join(",")
    }

    /// The numbers that a node shows.
    pub fn metrics(&self, id: i32) -> Result<BTreeMap<String, f64>> {
        let place = self.places.get(&id).context("it was started")?;
        let page = http::get(([127, 0, 0, 1], place.http).into(), "/metrics")?;
        http::metrics(&page.body)
    }

    /// A node's data.
    pub fn data_dir(&self, id: i32) -> PathBuf {
        self.dir.path().join(id.to_string())
    }

    /// A node is to have another log directory from its next start on: where it is.
    pub fn second_disk(&mut self, id: i32) -> PathBuf {
        self.two_disks.insert(id);
        self.dir.path().join(format!("{id}-second"))
    }

    /// What a node said in its last life.
    pub fn log(&self, id: i32) -> String {
        self.logs.get(&id).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
    }

    fn command(&mut self, id: i32, set: &[(&str, &str)]) -> Result<Command> {
        let place = self.place(id)?;
        let mut command = Command::new(home::vltava()?);
        command.arg("server").arg("--data-dir").arg(self.data_dir(id));
        if self.two_disks.contains(&id) {
            let second = self.second_disk(id);
            command.arg("--data-dir").arg(second);
        }
        command.args(["--listen", &format!("127.0.0.1:{}", place.kafka)]);
        command.args(["--http-listen", &format!("127.0.0.1:{}", place.http)]);
        command.args(["--set", &format!("node.id={id}"), "--set", "num.io.threads=1"]);
        for (name, value) in set {
            command.args(["--set", &format!("{name}={value}")]);
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Starts a node and waits for nothing.
    pub fn spawn(&mut self, id: i32, set: &[(&str, &str)]) -> Result<()> {
        self.lives += 1;
        let path = self.dir.path().join(format!("{id}-{}.log", self.lives));
        let log = File::create(&path)?;
        self.logs.insert(id, path);
        let child = self.command(id, set)?.stdout(log.try_clone()?).stderr(log).spawn()?;
        match set.contains(&("process.roles", "controller")) {
            true => self.deaf.insert(id),
            false => self.deaf.remove(&id),
        };
        self.running.insert(id, child);
        Ok(())
    }

    /// Starts a node and waits until it does what it is for.
    pub fn start(&mut self, id: i32, set: &[(&str, &str)]) -> Result<()> {
        self.spawn(id, set)?;
        self.wait_until_serving(id)
    }

    /// Starts a node that is to join the cluster of others; where it listens for them is for it to know.
    pub fn join(&mut self, id: i32, by: &[i32], set: &[(&str, &str)]) -> Result<()> {
        let by: Result<Vec<String>> = by.iter().map(|id| self.cluster_address(*id)).collect();
        let by = by?.join(",");
        let joins = [("cluster.join", by.as_str())];
        self.start(id, &[&joins, set].concat())
    }

    /// Waits until a node that was started does what it is for.
    pub fn wait_until_serving(&mut self, id: i32) -> Result<()> {
        let path = self.logs.get(&id).context("it was started")?;
        let child = self.running.get_mut(&id).context("it was started")?;
        let waited = wait::until("a node serves", TIME_MAX, || {
            if let Some(status) = child.try_wait()? {
                bail!("node {id} ended, {status}");
            }
            let text = fs::read_to_string(path)?;
            let is_up = ["serving kafka=", "serves no clients is up"].iter().any(|word| text.contains(word));
            Ok(is_up.then_some(()))
        });
        waited.with_context(|| format!("node {id} said:\n{}", tail(&self.log(id))))
    }

    /// Waits until a node has said something.
    pub fn until_log(&self, id: i32, words: &str) -> Result<()> {
        let heard = wait::until(words, TIME_MAX, || Ok(self.log(id).contains(words).then_some(())));
        heard.with_context(|| format!("node {id} said:\n{}", tail(&self.log(id))))
    }

    /// Runs a node that must end by itself; what it said.
    pub fn refused(&mut self, id: i32, set: &[(&str, &str)]) -> Result<String> {
        let mut command = self.command(id, set)?;
        let log = self.dir.path().join("refused.log");
        let file = File::create(&log)?;
        let mut child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        let ended = wait::until("the node ends", TIME_MAX, || Ok(child.try_wait()?));
        if ended.is_err() {
            child.kill()?;
            child.wait()?;
        }
        let said = fs::read_to_string(&log)?;
        let status = ended.with_context(|| said.clone())?;
        ensure!(!status.success(), "it ended well: {said}");
        Ok(said)
    }

    /// Ends a node in order.
    pub fn stop(&mut self, id: i32) -> Result<()> {
        let mut child = self.running.remove(&id).context("it runs")?;
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM)?;
        let status = wait::until("a node stops", TIME_MAX, || Ok(child.try_wait()?));
        let status = status.with_context(|| format!("node {id} said:\n{}", tail(&self.log(id))))?;
        ensure!(status.success(), "node {id} ended with {status}:\n{}", tail(&self.log(id)));
        Ok(())
    }

    /// Stops a node's clock, or lets it go on.
    pub fn signal(&self, id: i32, signal: Signal) -> Result<()> {
        let child = self.running.get(&id).context("it runs")?;
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// Ends a node as a crash does.
    pub fn kill(&mut self, id: i32) -> Result<()> {
        let mut child = self.running.remove(&id).context("it runs")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn asking(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(home::vltava()?);
        command.args(arguments).args(["--bootstrap-server", &self.bootstrap()]).stdin(Stdio::null());
        Ok(command)
    }

    /// A command, however it ends.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.asking(arguments)?.output()?)
    }

    /// What a command that must succeed shows at a terminal, with all that it wrote over.
    pub fn shows(&self, arguments: &[&str]) -> Result<String> {
        let (status, shown) = terminal::run(self.asking(arguments)?)?;
        ensure!(status.success(), "vltava {}: {shown}", arguments.join(" "));
        Ok(shown)
    }

    /// What a command says that must succeed.
    pub fn says(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "vltava {}: {error}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The error of a command that must fail.
    pub fn refuses(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(!output.status.success(), "vltava {} is done", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// `vltava cluster status`.
    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.says(&["cluster", "status", "--json"])?)?)
    }

    /// The partitions of a topic, as `vltava topic describe` tells them.
    pub fn partitions(&self, topic: &str) -> Result<Vec<Value>> {
        let described: Value = serde_json::from_str(&self.says(&["topic", "describe", topic, "--json"])?)?;
        let partitions = described[0]["partitions"].as_array().cloned();
        partitions.with_context(|| format!("{described:#}"))
    }

    /// Looks at the cluster until it is as it should be. While a leader is looked for nobody may know.
    pub fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = None;
        let seen = wait::until(what, TIME_MAX, || {
            last = Some(self.status());
            Ok(match &last {
                Some(Ok(status)) if is_so(status) => Some(status.clone()),
                _ => None,
            })
        });
        seen.with_context(|| format!("{last:?}"))
    }

    /// Tells a story with these nodes; if it fails, says where their files are left.
    pub fn told(mut self, story: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let told = story(&mut self);
        if told.is_err() {
            self.dir.disable_cleanup(true);
        }
        told.with_context(|| format!("the nodes' files are left in {}", self.dir.path().display()))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The last lines.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
