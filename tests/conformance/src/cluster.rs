//! The nodes of a cluster that `vltava dev` keeps running: who leads, and their sudden end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long the cluster may take until all its replicas are in sync again.
const WHOLE_MAX: Duration = Duration::from_secs(60);
/// Between two looks at processes that give no sign of their own.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Three nodes of ours.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) binary: PathBuf,
    /// Of `vltava dev`, their parent.
    pub(crate) pid: u32,
    /// `host:port` of each, between commas.
    pub(crate) bootstrap: String,
}

impl Cluster {
    /// Ends the node that leads a topic's first partition as a crash does: the number of it. `vltava dev` starts it again.
    pub fn kill_leader(&self, topic: &str) -> Result<i64> {
        let described = self.says(&["topic", "describe", topic, "--json"])?;
        let leader = described[0]["partitions"][0]["leader"].as_i64();
        let leader = leader.with_context(|| format!("nobody leads {topic}: {described}"))?;
        kill_process(self.process(leader)?, Signal::KILL)?;
        Ok(leader)
    }

    /// Waits until every node is there and every replica in sync.
    pub fn wait_until_whole(&self) -> Result<()> {
        let deadline = Instant::now() + WHOLE_MAX;
        loop {
            let status = self.says(&["cluster", "status", "--json"]);
            if status.as_ref().is_ok_and(is_whole) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the cluster does not heal: {status:?}");
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn says(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).args(["--bootstrap-server", &self.bootstrap]).stdin(Stdio::null());
        let output = command.output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "vltava {}: {error}", arguments.join(" "));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The process of a node.
    fn process(&self, node: i64) -> Result<Pid> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid))?;
        let is_named = |pid: &str| {
            let words = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
            let name = format!("node.id={node}");
            words.split(|byte| *byte == 0).any(|word| word == name.as_bytes())
        };
        let found = children.split_whitespace().find(|pid| is_named(pid));
        match found.and_then(|pid| Pid::from_raw(pid.parse().ok()?)) {
            Some(pid) => Ok(pid),
            None => bail!("node {node} is not among the processes {children}"),
        }
    }
}

fn is_whole(status: &Value) -> bool {
    let all_are_up =
        status["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(|node| node["up"] == true));
    all_are_up && status["partitions_not_in_sync"] == 0 && status["partitions_without_leader"] == 0
}
