//! Brokers that are started for a run, on fresh data, and gone behind it.
//!
//! ```text
//!   driver ─▶ start: nodes of this program, or of Apache Kafka ─▶ ready: all know all ─▶ bootstrap servers
//!                                                                 stop: ended, data removed
//! ```
//!
//! **Invariant:** whatever ends this process, no broker that it started outlives it.

mod kafka;
mod process;
mod trouble;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::Admin;

use crate::ballast::Ballast;
use crate::driver::{Driver, System};
use crate::resources::Tally;
use process::Process;

pub use kafka::Kafka;
pub use trouble::{Began, Deed};

/// Where things are that brokers need.
#[derive(Debug, Clone)]
pub struct Site {
    /// This program.
    pub vltava: PathBuf,
    /// Apache Kafka's jars, if somebody said where they are.
    pub kafka: Option<Kafka>,
    /// Where brokers keep their data meanwhile.
    pub dir: PathBuf,
    /// The first port that they may take.
    pub port: u16,
    /// What fills free memory before they are started.
    pub ballast: Option<Arc<Ballast>>,
}

/// Brokers that run.
pub struct Cluster {
    processes: Vec<Process>,
    /// What each of those uses.
    tallies: Arc<[Tally]>,
    home: Option<PathBuf>,
    servers: String,
    metrics: Vec<String>,
}

const NO_KAFKA: &str = "nobody says where Apache Kafka's jars are";
/// A cluster that is not there by then will not be.
const READY_MAX: Duration = Duration::from_secs(90);
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(50);
/// From a node's port to the one on which nodes speak to each other.
const CLUSTER_ABOVE: u16 = 100;
/// From a node's port to the one on which it tells what it counts.
const METRICS_ABOVE: u16 = 200;
/// More are not looked through for free ones.
const PORTS: u16 = 800;

impl Cluster {
    /// Starts what a driver says, with so many brokers, and waits until all of them serve.
    pub fn start(driver: &Driver, brokers: u16, site: &Site) -> Result<Self> {
        if driver.system == System::Bootstrap {
            let (servers, metrics) = (driver.bootstrap_servers.clone(), driver.metrics.clone());
            return Ok(Self { processes: Vec::new(), tallies: Arc::default(), home: None, servers, metrics });
        }
        ensure!(driver.system != System::Kafka || site.kafka.is_some(), NO_KAFKA);
        if let Some(ballast) = &site.ballast {
            ballast.fill()?;
        }
        let home = site.dir.join(format!("{}-{}", driver.name, next_number()));
        std::fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let first = free_ports(site.port, brokers)?;
        let ports: Vec<u16> = (first..first + brokers).collect();
        let addresses: Vec<String> = ports.iter().map(|port| loopback(*port)).collect();
        let mut metrics = driver.metrics.clone();
        if driver.system == System::Vltava {
            metrics.extend(
                ports.iter().map(|port| format!("http://{}/metrics", loopback(port + METRICS_ABOVE))),
            );
        }
        let servers = addresses.join(",");
        let (processes, tallies) = (Vec::new(), Arc::default());
        let mut cluster = Self { processes, tallies, home: Some(home), servers, metrics };
        match driver.system {
            System::Kafka => cluster.start_kafka(driver, &ports, site)?,
            System::Vltava | System::Bootstrap => cluster.start_ours(driver, &ports, site)?,
        }
        cluster.tallies = cluster.processes.iter().map(|process| Tally::of(process.pid())).collect();
        cluster.wait_until_ready(brokers.into())?;
        Ok(cluster)
    }

    fn start_ours(&mut self, driver: &Driver, ports: &[u16], site: &Site) -> Result<()> {
        let peer = |(at, port): (usize, &u16)| format!("{}@{}", at + 1, loopback(port + CLUSTER_ABOVE));
        let peers: Vec<String> = ports.iter().enumerate().map(peer).collect();
        for (id, port) in (1..).zip(ports) {
            let mut words = vec!["server".to_owned()];
            words.extend(["--end-with-parent".to_owned(), std::process::id().to_string()]);
            words.extend(["--listen".to_owned(), loopback(*port)]);
            words.extend(["--http-listen".to_owned(), loopback(port + METRICS_ABOVE)]);
            words.extend(["--data-dir".to_owned(), self.data(id)?.display().to_string()]);
            let mut settings = vec![format!("node.id={id}")];
            if ports.len() > 1 {
                settings.push(format!("cluster.peers={}", peers.join(",")));
            }
            settings.extend(driver.settings.iter().map(|(name, value)| format!("{name}={value}")));
            words.extend(settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]));
            let log = self.log(id)?;
            self.processes.push(Process::start(&site.vltava, words, &log)?);
        }
        Ok(())
    }

    fn start_kafka(&mut self, driver: &Driver, ports: &[u16], site: &Site) -> Result<()> {
        let kafka = site.kafka.as_ref().context(NO_KAFKA)?;
        let mut nodes = Vec::new();
        for id in 1..=ports.len() {
            let properties = kafka::properties(id, ports, CLUSTER_ABOVE, &self.data(id)?, &driver.settings);
            let file = self.home()?.join(format!("{id}.properties"));
            std::fs::write(&file, properties).with_context(|| format!("cannot write {}", file.display()))?;
            kafka.format(&file, &self.log(id)?)?;
            nodes.push((file, self.log(id)?));
        }
        for (file, log) in nodes {
            self.processes.push(kafka.start(&file, &log)?);
        }
        Ok(())
    }

    /// Waits until the first broker knows all of them.
    fn wait_until_ready(&mut self, brokers: usize) -> Result<()> {
        let until = Instant::now() + READY_MAX;
        let admin = Admin::builder(&self.servers).timeout(Duration::from_secs(5)).build()?;
        while Instant::now() < until {
            self.must_run()?;
            let known = admin
                .describe_cluster()
                .wait()
                .map(|cluster| cluster.brokers.iter().filter(|broker| !broker.is_fenced).count());
            if known.is_ok_and(|known| known == brokers) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        bail!("the brokers are no cluster after {READY_MAX:?}; see their logs in {}", self.home()?.display())
    }

    /// Fails if one of its brokers ended that nobody had end.
    fn must_run(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::must_run)
    }

    /// How many brokers were started; none of a cluster that was there before.
    pub fn brokers(&self) -> u16 {
        u16::try_from(self.processes.len()).unwrap_or(u16::MAX)
    }

    /// Where clients begin: `host:port`, between commas.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// What each of its brokers uses; nothing of a cluster that was there before.
    pub fn tallies(&self) -> Arc<[Tally]> {
        Arc::clone(&self.tallies)
    }

    /// Where its brokers tell what they count.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// Ends its brokers and removes what they wrote.
    pub fn stop(mut self) -> Result<()> {
        self.processes.iter_mut().for_each(Process::end);
        for mut process in std::mem::take(&mut self.processes) {
            process.wait()?;
        }
        if let Some(home) = self.home.take() {
            std::fs::remove_dir_all(&home).with_context(|| format!("cannot remove {}", home.display()))?;
        }
        Ok(())
    }

    /// Where its brokers have their data, each in a directory of its own; `None` of those that were there before.
    pub fn dir(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    fn home(&self) -> Result<&Path> {
        self.dir().context("it was there before, and has no folder here")
    }

    fn data(&self, id: usize) -> Result<PathBuf> {
        Ok(self.home()?.join(format!("data-{id}")))
    }

    fn log(&self, id: usize) -> Result<PathBuf> {
        Ok(self.home()?.join(format!("{id}.log")))
    }
}

impl Drop for Cluster {
    /// After a run that failed: processes end, and their logs stay for whoever wants to know why.
    fn drop(&mut self) {
        let brokers = self.processes.len();
        self.processes.clear();
        for data in (1..=brokers).filter_map(|id| self.data(id).ok()) {
            // What cannot be removed is in the system's folder for what is temporary.
            let _ = std::fs::remove_dir_all(data);
        }
    }
}

fn loopback(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// No two clusters share a folder, even if one could not be removed.
fn next_number() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Ports in a row that are free, with those on which nodes speak to each other.
fn free_ports(from: u16, count: u16) -> Result<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let above = [0, CLUSTER_ABOVE, METRICS_ABOVE];
    let are_free =
        |first: &u16| (*first..first + count).all(|port| above.iter().all(|above| is_free(port + above)));
    ensure!(
        from < u16::MAX - PORTS - METRICS_ABOVE - count,
        "port {from} is too high: others come behind it"
    );
    (from..from + PORTS)
        .step_by(count.into())
        .find(are_free)
        .with_context(|| format!("no free ports from {from} on: choose others with --port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_somebody_has_is_passed_over() {
        let first = free_ports(27_000, 3).expect("some are free");
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1)).expect("it was free");
        let next = free_ports(first, 3).expect("some are free");
        assert!(next > first + 1, "{next}");
        drop(taken);
        assert!(free_ports(u16::MAX - 10, 3).is_err());
    }
}
