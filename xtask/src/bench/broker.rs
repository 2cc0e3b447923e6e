//! A broker that is measured, ours or Kafka's: started, killed, and started again.

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

/// The controller of a Kafka listens that much above its broker.
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
        let address = free_address()?;
        let mut words = vec![site.vltava.display().to_string(), "server".to_owned()];
        let data = home.join("data").display().to_string();
        words.extend(["--data-dir".to_owned(), data, "--listen".to_owned(), address.to_string()]);
        words.extend(["--http-listen".to_owned(), "127.0.0.1:0".to_owned()]);
        words.extend(["--set".to_owned(), format!("flush.policy={policy}")]);
        let since = Instant::now();
        let child = spawn(site, &words, &home)?;
        let side = Side::Vltava(policy);
        let group = Some(child.id());
        let broker =
            Self { site, side, home, words, process: Process::Ours(child), group, removed: false, address };
        let (asker, took) = broker.answers(since)?;
        Ok((broker, asker, took))
    }

    fn start_kafka(site: &'a Site) -> Result<(Self, Asker, Duration)> {
        let home = site.dir.join(format!("kafka-{}", next_number()));
        let address = free_address()?;
        let since = Instant::now();
        let mut up = Command::new(site.kafka.join("up"));
        up.arg("1").env("KAFKA_RUN", &home).env("KAFKA_PORT", address.port().to_string());
        let log = site.dir.join("kafka-up.log");
        let mut child = site.leftovers.spawn(up.stdout(File::create(&log)?).stderr(Stdio::inherit()))?;
        let group = child.id();
        ensure!(child.wait()?.success(), "Kafka's script `up` failed");
        let pid = std::fs::read_to_string(home.join("1.pid"))?.trim().parse()?;
        let words = arguments(pid)?;
        let process = Process::Theirs(pid);
        let group = Some(group);
        let broker = Self { site, side: Side::Kafka, home, words, process, group, removed: false, address };
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
        let log = self.home.join("1.log");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        format!("{:?} logged:\n{last}", self.side)
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
        let child = spawn(self.site, &self.words, &self.home)?;
        self.group = Some(child.id());
        if self.side == Side::Kafka {
            std::fs::write(self.home.join("1.pid"), child.id().to_string())?;
        }
        self.process = Process::Ours(child);
        let (asker, took) = self.answers(since)?;
        Ok((since, asker, took))
    }

    /// Stops it and removes what it wrote.
    pub(super) fn remove(mut self) -> Result<()> {
        if self.side == Side::Kafka {
            self.down()?;
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

    fn down(&mut self) -> Result<()> {
        let mut down = Command::new(self.site.kafka.join("down"));
        let mut down = self.site.leftovers.spawn(down.env("KAFKA_RUN", &self.home))?;
        let ended = down.wait()?;
        self.site.leftovers.ended(down.id())?;
        ensure!(ended.success(), "Kafka's script `down` failed");
        self.forget_group()
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

fn spawn(site: &Site, words: &[String], home: &Path) -> Result<Child> {
    let (program, arguments) = words.split_first().context("a program")?;
    let log = File::options().create(true).append(true).open(home.join("1.log"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(log.try_clone()?).stderr(log);
    site.leftovers.spawn(&mut command)
}

/// No two brokers share a directory, even if one could not be removed.
fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A port that is free, with that of a controller; below those that the system gives to clients.
fn free_address() -> Result<SocketAddr> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let first = 20_000 + (std::process::id() % 8_000) as u16;
    let port = (first..32_000).find(|port| is_free(*port) && is_free(port + CONTROLLER_ABOVE));
    Ok((Ipv4Addr::LOCALHOST, port.context("no free port")?).into())
}
