//! `vltava dev`: a cluster to try things on, whose nodes may be killed, and which leaves nothing behind.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use client::admin::{NewTopic, Topic};
use client::consumer::{Consumer, Start};
use client::producer::{Producer, Record};
use client::{Admin, Scratch};
use conformance::home;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use vltava_e2e::churn::admin;
use vltava_e2e::{http, wait};

const PATIENCE: Duration = Duration::from_secs(60);
/// Where what it says at its end goes.
const SAID_LAST: &str = "said-last";

/// `vltava dev` that runs, and what it said of itself.
struct Dev {
    process: Child,
    said: Value,
}

fn command(port: u16) -> Result<Command> {
    let mut command = Command::new(home::vltava()?);
    command.args(["dev", "--port", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

impl Dev {
    fn start(port: u16, arguments: &[&str]) -> Result<Self> {
        let mut process = command(port)?.arg("--json").args(arguments).spawn()?;
        let mut line = String::new();
        let out = process.stdout.take().context("it is a pipe")?;
        let read = BufReader::new(out).read_line(&mut line);
        let mut dev = Self { process, said: Value::Null };
        read?;
        dev.said = serde_json::from_str(&line).with_context(|| format!("{line:?} is not JSON"))?;
        Ok(dev)
    }

    /// The same as people start it, who keep what comes in `temp`; and what it says to them.
    fn start_for_people(port: u16, arguments: &[&str], temp: &Path) -> Result<(Self, String)> {
        let mut command = command(port)?;
        let log = File::create(temp.join(SAID_LAST))?;
        let mut process = command.args(arguments).env("TMPDIR", temp).stderr(log).spawn()?;
        let out = process.stdout.take().context("it is a pipe")?;
        let dev = Self { process, said: Value::Null };
        let mut said = String::new();
        for line in BufReader::new(out).lines() {
            let line = line?;
            said += &format!("{line}\n");
            if line == "Ctrl-C stops it." {
                return Ok((dev, said));
            }
        }
        bail!("it ended: {said}")
    }

    fn bootstrap(&self) -> Result<String> {
        Ok(self.said["bootstrap_servers"].as_str().context("it says where it is")?.to_owned())
    }

    /// The processes of the nodes as they were at first.
    fn pids(&self) -> Result<Vec<Pid>> {
        let nodes = self.said["nodes"].as_array().context("it tells of its nodes")?;
        let pid = |node: &Value| Pid::from_raw(i32::try_from(node["pid"].as_i64()?).ok()?);
        nodes.iter().map(|node| pid(node).context("a node is a process")).collect()
    }

    /// Where data and logs are.
    fn place(&self) -> Result<PathBuf> {
        let first = self.said["nodes"][0]["data_dir"].as_str().context("a node has a directory")?;
        Ok(Path::new(first).parent().context("which is in another")?.to_owned())
    }

    fn stop(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::INT)?;
        let status = wait::until("it ends", PATIENCE, || Ok(self.process.try_wait()?))?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Its nodes end with it. It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn all_gone(pids: &[Pid]) -> Result<()> {
    wait::until("the nodes end", PATIENCE, || {
        Ok(pids.iter().all(|&pid| test_kill_process(pid).is_err()).then_some(()))
    })
}

/// A topic of one partition that all three nodes have.
fn create(admin: &Admin, topic: &str) -> Result<()> {
    admin.create_topic(NewTopic { partitions: Some(1), ..NewTopic::named(topic) }).wait()?;
    in_sync(admin, topic)
}

fn in_sync(admin: &Admin, topic: &str) -> Result<()> {
    let mut last = None;
    let waited = wait::until("all three have it", PATIENCE, || {
        let described = admin.describe_topic(topic).wait();
        let has_all = |topic: &Topic| topic.partitions.iter().all(|partition| partition.in_sync.len() == 3);
        let is_so = described.as_ref().is_ok_and(has_all);
        last = Some(described);
        Ok(is_so.then_some(()))
    });
    waited.with_context(|| format!("it is {last:?}"))
}

/// Writes numbers one by one until it is told to stop; how many were acknowledged, all from 0 on.
fn write(bootstrap: &str, topic: &str, acknowledged: &AtomicU64, stop: &AtomicBool) -> Result<u64> {
    let producer = Producer::builder(bootstrap).set("acks", "all")?.build()?;
    let mut next = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        producer.send_blocking(&Record::to(topic).value(&next.to_be_bytes()))?.wait()?;
        next += 1;
        acknowledged.store(next, Ordering::Relaxed);
    }
    Ok(next)
}

/// Reads so many numbers: they are there in order, each once.
fn read(bootstrap: &str, topic: &str, count: u64) -> Result<()> {
    let mut consumer = Consumer::builder(bootstrap).build()?;
    consumer.assign([(topic, 0, Start::Earliest)]);
    let (mut next, mut scratch) = (0, Scratch::default());
    while next < count {
        let batch =
            consumer.next_batch_within(PATIENCE)?.with_context(|| format!("{next} of {count} read"))?;
        for record in batch.records(&mut scratch)? {
            let value = record?.value.context("it has a value")?;
            ensure!(value == next.to_be_bytes(), "{value:?} where {next} should be");
            next += 1;
        }
    }
    Ok(())
}

#[test]
fn nodes_die_and_come_back_and_nothing_is_lost_or_left() -> Result<()> {
    let mut dev = Dev::start(conformance::free_cluster_port()?, &[])?;
    let (bootstrap, pids, place) = (dev.bootstrap()?, dev.pids()?, dev.place()?);
    ensure!(pids.len() == 3 && place.is_dir(), "{}", dev.said);
    let admin = admin(&bootstrap)?;
    create(&admin, "orders")?;
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&bootstrap, "orders", &acknowledged, &stop));
        let killed = pids.iter().try_for_each(|&pid| {
            let before = acknowledged.load(Ordering::Relaxed);
            kill_process(pid, Signal::KILL)?;
            wait::until("others take over", PATIENCE, || {
                let now = acknowledged.load(Ordering::Relaxed);
                Ok((now > before + 100 || writer.is_finished()).then_some(()))
            })?;
            in_sync(&admin, "orders")
        });
        stop.store(true, Ordering::Relaxed);
        let written = writer.join().map_err(|_| anyhow!("the writer panicked"))?;
        killed.and(written)
    })?;
    read(&bootstrap, "orders", written)?;
    dev.stop()?;
    all_gone(&pids)?;
    ensure!(!place.exists(), "{} is left", place.display());
    Ok(())
}

/// What is said behind these words.
fn told<'a>(said: &'a str, what: &str) -> Result<&'a str> {
    let found = said.lines().find_map(|line| line.trim_start().strip_prefix(what));
    Ok(found.with_context(|| format!("{what} is not told: {said}"))?.trim())
}

#[test]
fn a_cluster_whose_data_is_kept_goes_on_another_day_and_ends_with_its_parent() -> Result<()> {
    let temp = tempfile::tempdir()?;
    let port = conformance::free_cluster_port()?;
    let arguments = ["--nodes", "3", "--keep", "--set", "flush.policy=os"];
    let (mut dev, said) = Dev::start_for_people(port, &arguments, temp.path())?;
    let told = |what| told(&said, what);
    let bootstrap = told("bootstrap servers")?;
    let addresses: Vec<String> = (port..port + 3).map(|port| format!("127.0.0.1:{port}")).collect();
    ensure!(bootstrap == addresses.join(","), "{said}");
    let console = told("console")?.strip_prefix("http://").context("it is an address")?;
    ensure!(http::get(console.parse()?, "/health/ready")?.status == 200, "{console}");
    let place = told("data and logs")?.strip_suffix(" (kept)").context("it is kept")?;
    ensure!(Path::new(place).starts_with(temp.path()), "{place}");
    create(&admin(bootstrap)?, "orders")?;
    let producer = Producer::builder(bootstrap).set("acks", "all")?.build()?;
    for number in 0..100_u64 {
        producer.send_blocking(&Record::to("orders").value(&number.to_be_bytes()))?.wait()?;
    }
    drop(producer);
    dev.stop()?;
    let last = fs::read_to_string(temp.path().join(SAID_LAST))?;
    let wanted = format!("the data is in {place}: `vltava dev --data-dir {place}` goes on with it\n");
    ensure!(last == wanted, "{last}");
    // Other nodes may have the ports by then.
    let dev = Dev::start(conformance::free_cluster_port()?, &["--data-dir", place])?;
    read(&dev.bootstrap()?, "orders", 100)?;
    let pids = dev.pids()?;
    drop(dev);
    // It was killed, and could not stop them.
    all_gone(&pids)
}

#[test]
fn what_keeps_nodes_from_starting_is_said_and_nothing_is_left_running() -> Result<()> {
    let port = conformance::free_cluster_port()?.to_string();
    let mut dev = Command::new(home::vltava()?);
    let said = dev.args(["dev", "--port", &port, "--set", "num.partitions=none"]).output()?;
    let error = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.code() == Some(1), "{error}");
    ensure!(error.contains("did not start") && error.contains("num.partitions"), "{error}");
    Ok(())
}
