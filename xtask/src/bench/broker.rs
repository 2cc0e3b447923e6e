//! A broker that is measured, ours or Kafka's: started, killed, and started again.

mod cluster;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::leftovers::{Leftovers, signal};
use super::process::{arguments, is_alive};
use super::requests::{PATIENCE, first_metadata};
use super::wire::Asker;

pub(super) use cluster::{Cluster, NODES};

/// The controller of a Kafka, and the cluster listener of ours, listen that much above their broker.
const CONTROLLER_ABOVE: u16 = 100;

/// Where things are that all brokers need.
pub(super) struct Site {
    /// What cleans up.
    pub(super) leftovers: Leftovers,
    /// Our binary.
    pub(super) vltava: PathBuf,
    /// Whether it was built from this tree just before.
    pub(super) built: bool,
    /// Kafka's scripts.
    pub(super) kafka: PathBuf,
    /// Our program with librdkafka in it, where clients are measured.
    pub(super) load: Option<PathBuf>,
    /// The program that does things to clusters, where that is measured.
    pub(super) torture: Option<PathBuf>,
    /// Everything that is written.
    pub(super) dir: PathBuf,
}

/// Which of the two, and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Ours, with this flush.policy.
    Vltava(&'static str),
    /// Apache Kafka as its own configuration file has it.
    Kafka,
}

impl Side {
    /// Its column in every table.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Vltava("os") => OS,
            Self::Vltava(_) => ACK,
            Self::Kafka => KAFKA,
        }
    }
}

/// Our column, durability left to the operating system.
pub(super) const OS: &str = "Vltava, flush.policy=os";
/// Our column, durable before it is acknowledged.
pub(super) const ACK: &str = "Vltava, flush.policy=ack";
/// Their column.
pub(super) const KAFKA: &str = "Kafka, no fsync";

/// A broker with its data.
pub(super) struct Broker<'a> {
    site: &'a Site,
    side: Side,
    home: PathBuf,
    /// Which of those that share the home, from 1 on.
    number: usize,
    words: Vec<String>,
    process: Process,
    /// Its group of processes, for as long as it is known to be there: ids are used again.
    group: Option<u32>,
    /// Whether nothing of it is left.
    removed: bool,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

enum Process {
    Ours(Child),
    /// Started by a script, so nobody here collects it.
    Theirs(u32),
}

impl<'a> Broker<'a> {
    /// Starts one without data and waits until it answers; also how long that took, if it is one's own
    /// process from the first moment.
    pub(super) fn start(site: &'a Site, side: Side) -> Result<(Self, Asker, Duration)> {
        match side {
            Side::Vltava(policy) => Self::start_ours(site, policy),
            Side::Kafka => Self::start_kafka(site),
        }
    }

    fn start_ours(site: &'a Site, policy: &'static str) -> Result<(Self, Asker, Duration)> {
        let home = site.dir.join(format!("vltava-{}", next_number()));
        std::fs::create_dir(&home)?;
        let address = free_addresses(1)?[0];
        let words = words(site, &data(&home, 1), address, &[format!("flush.policy={policy}")]);
        let since = Instant::now();
        let broker = Self::spawned(site, (Side::Vltava(policy), 1), home, words, address)?;
        let (asker, took) = broker.answers(since)?;
        Ok((broker, asker, took))
    }

    /// Starts a process of ours.
    fn spawned(
        site: &'a Site,
        (side, number): (Side, usize),
        home: PathBuf,
        words: Vec<String>,
        address: SocketAddr,
    ) -> Result<Self> {
        let child = spawn(site, &words, &home, number)?;
        let (group, process) = (Some(child.id()), Process::Ours(child));
        Ok(Self { site, side, home, number, words, process, group, removed: false, address })
    }

    /// Takes over a process that Kafka's script started there.
    fn theirs(site: &'a Site, home: PathBuf, number: usize, address: SocketAddr) -> Result<Self> {
        let pid = std::fs::read_to_string(home.join(format!("{number}.pid")))?.trim().parse()?;
        let (words, process) = (arguments(pid)?, Process::Theirs(pid));
        let (side, group, removed) = (Side::Kafka, None, false);
        Ok(Self { site, side, home, number, words, process, group, removed, address })
    }

    fn start_kafka(site: &'a Site) -> Result<(Self, Asker, Duration)> {
        let home = site.dir.join(format!("kafka-{}", next_number()));
        let address = free_addresses(1)?[0];
        let since = Instant::now();
        let group = up(site, &home, address, 1)?;
        let mut broker = Self::theirs(site, home, 1, address)?;
        broker.group = Some(group);
        let (asker, took) = broker.answers(since)?;
        Ok((broker, asker, took))
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        match &self.process {
            Process::Ours(child) => child.id(),
            Process::Theirs(pid) => *pid,
        }
    }

    fn answers(&self, since: Instant) -> Result<(Asker, Duration)> {
        let pid = self.pid();
        first_metadata(self.address, since, || is_alive(pid))
    }

    /// What it logged last, for when it fails.
    fn last_words(&self) -> String {
        let log = self.home.join(format!("{}.log", self.number));
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        format!("{:?}, broker {}, logged:\n{last}", self.side, self.number)
    }

    /// How long the files of its log are.
    pub(super) fn log_bytes(&self) -> Result<u64> {
        log_bytes(&data(&self.home, self.number))
    }

    /// Stops it in good order.
    pub(super) fn terminate(&mut self) -> Result<()> {
        signal("TERM", &self.pid().to_string());
        self.await_end()
    }

    /// Stops it as a crash would.
    pub(super) fn kill(&mut self) -> Result<()> {
        signal("KILL", &self.pid().to_string());
        self.await_end()
    }

    fn await_end(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let pid = self.pid();
        while is_alive(pid) {
            ensure!(Instant::now() < deadline, "{:?} does not stop", self.side);
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Process::Ours(child) = &mut self.process {
            child.wait()?;
        }
        self.forget_group()
    }

    fn forget_group(&mut self) -> Result<()> {
        self.group.take().map_or(Ok(()), |group| self.site.leftovers.ended(group))
    }

    /// Starts it again on the data it has; the moment before the process was made, and the first answer.
    pub(super) fn start_again(&mut self) -> Result<(Instant, Asker, Duration)> {
        let since = Instant::now();
        let child = spawn(self.site, &self.words, &self.home, self.number)?;
        self.group = Some(child.id());
        if self.side == Side::Kafka {
            std::fs::write(self.home.join(format!("{}.pid", self.number)), child.id().to_string())?;
        }
        self.process = Process::Ours(child);
        let (asker, took) = self.answers(since)?;
        Ok((since, asker, took))
    }

    /// Stops it and removes what it wrote.
    pub(super) fn remove(mut self) -> Result<()> {
        if self.side == Side::Kafka {
            down(self.site, &self.home)?;
            self.forget_group()?;
        } else if is_alive(self.pid()) {
            // As Kafka's script ends Kafka.
            self.terminate()?;
        }
        self.remove_data()?;
        self.removed = true;
        Ok(())
    }

    fn remove_data(&self) -> Result<()> {
        if self.home.exists() {
            std::fs::remove_dir_all(&self.home)?;
        }
        Ok(())
    }
}

impl Drop for Broker<'_> {
    /// After a failed measurement: shows what the broker said, and makes room for the next part.
    fn drop(&mut self) {
        if !self.removed {
            eprintln!("{}", self.last_words());
            // What does not work here is done at the end by what cleans up.
            let _ = self.kill().and_then(|()| self.remove_data());
        }
    }
}

/// Where a broker has its data, as Kafka's script has it.
fn data(home: &Path, number: usize) -> PathBuf {
    home.join(format!("data-{number}"))
}

/// How long the files of all logs below are.
fn log_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            bytes += log_bytes(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "log") {
            // It may be gone by now.
            bytes += path.metadata().map_or(0, |found| found.len());
        }
    }
    Ok(bytes)
}

/// How a process of ours is started, with these settings.
fn words(site: &Site, data: &Path, address: SocketAddr, settings: &[String]) -> Vec<String> {
    let mut words = vec![site.vltava.display().to_string(), "server".to_owned()];
    words.extend(["--data-dir".to_owned(), data.display().to_string()]);
    words.extend(["--listen".to_owned(), address.to_string()]);
    words.extend(["--http-listen".to_owned(), "127.0.0.1:0".to_owned()]);
    words.extend(settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]));
    words
}

/// Has Kafka's script start so many brokers from this address on; the group of their processes.
fn up(site: &Site, home: &Path, first: SocketAddr, brokers: usize) -> Result<u32> {
    let mut up = Command::new(site.kafka.join("up"));
    up.arg(brokers.to_string()).env("KAFKA_RUN", home).env("KAFKA_PORT", first.port().to_string());
    let log = site.dir.join("kafka-up.log");
    let mut child = site.leftovers.spawn(up.stdout(File::create(&log)?).stderr(Stdio::inherit()))?;
    ensure!(child.wait()?.success(), "Kafka's script `up` failed");
    Ok(child.id())
}

/// Has Kafka's script end all brokers of a home.
fn down(site: &Site, home: &Path) -> Result<()> {
    let mut down = Command::new(site.kafka.join("down"));
    let mut down = site.leftovers.spawn(down.env("KAFKA_RUN", home))?;
    let ended = down.wait()?;
    site.leftovers.ended(down.id())?;
    ensure!(ended.success(), "Kafka's script `down` failed");
    Ok(())
}

fn spawn(site: &Site, words: &[String], home: &Path, number: usize) -> Result<Child> {
    let (program, arguments) = words.split_first().context("a program")?;
    let log = File::options().create(true).append(true).open(home.join(format!("{number}.log")))?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(log.try_clone()?).stderr(log);
    site.leftovers.spawn(&mut command)
}

/// No two brokers share a directory, even if one could not be removed.
fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Ports in a row that are free, with those of controllers; below those that the system gives to clients.
fn free_addresses(count: u16) -> Result<Vec<SocketAddr>> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let are_free =
        |port: u16| (port..port + count).all(|port| is_free(port) && is_free(port + CONTROLLER_ABOVE));
    let first = 20_000 + (std::process::id() % 8_000) as u16;
    let first = (first..32_000).find(|port| are_free(*port)).context("no free port")?;
    Ok((first..first + count).map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect())
}
