//! A node in a process of its own: started, waited for, stopped or killed, started again on the same
//! directory and port.
//!
//! A dropped node is killed and its directory is removed, unless [`Node::keep`] said that a test failed.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::launch::{self, Launch, free_port};
use crate::{home, kafka};

/// Java on a busy machine takes some seconds; ours takes none.
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(30);
/// Stands in the log before what each start of the node says.
const STARTS: &str = "--- starts ---";
/// Between two looks at a process that gives no sign of its own.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What runs as the node.
#[derive(Clone, Debug)]
pub enum Program {
    /// `vltava server`, of this binary.
    Vltava(PathBuf),
    /// `vltava dev`, of this binary: three nodes, which stop and start as one.
    Cluster(PathBuf),
    /// Apache Kafka, from the jars that `install.sh` fetched.
    Kafka,
    /// A server that runs already; it is never stopped.
    Given(SocketAddr),
}

impl Program {
    /// The one that the environment asks for.
    pub fn from_env() -> Result<Self> {
        if let Ok(address) = env::var("BOOTSTRAP") {
            return Ok(Self::Given(address.parse().context("BOOTSTRAP is not ip:port")?));
        }
        match env::var("CONFORMANCE_NODE").as_deref() {
            Ok("kafka") => Ok(Self::Kafka),
            Ok("cluster") => Ok(Self::Cluster(home::vltava()?)),
            Ok("vltava") | Err(_) => Ok(Self::Vltava(home::vltava()?)),
            Ok(other) => bail!("CONFORMANCE_NODE is {other:?}, not vltava, cluster or kafka"),
        }
    }
}

/// How to start a node.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What runs.
    pub program: Program,
    /// Where it keeps its data; None is a fresh directory that goes away with the node.
    pub data_dir: Option<PathBuf>,
    /// Log directories beside that one; only ours has such.
    pub more_data_dirs: Vec<PathBuf>,
    /// Settings by name, as in `--set name=value` or `server.properties`.
    pub settings: Vec<(String, String)>,
    /// The port that clients are told, if they have to come through a proxy.
    pub advertised_port: Option<u16>,
}

impl Setup {
    /// A fresh node of this program, in its defaults.
    pub fn of(program: Program) -> Self {
        Self {
            program,
            data_dir: None,
            more_data_dirs: Vec::new(),
            settings: Vec::new(),
            advertised_port: None,
        }
    }

    /// The program that the environment asks for, in its defaults.
    pub fn from_env() -> Result<Self> {
        Ok(Self::of(Program::from_env()?))
    }

    /// With this setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this directory, which stays when the node goes.
    #[must_use]
    pub fn in_dir(mut self, data_dir: &Path) -> Self {
        self.data_dir = Some(data_dir.to_owned());
        self
    }

    /// And this one, which stays as well.
    #[must_use]
    pub fn and_in_dir(mut self, data_dir: &Path) -> Self {
        self.more_data_dirs.push(data_dir.to_owned());
        self
    }
}

/// A node. See the module.
#[derive(Debug)]
pub struct Node {
    setup: Setup,
    address: SocketAddr,
    side_port: u16,
    /// None for a server that ran already.
    place: Option<Place>,
    child: Option<Child>,
    /// The status it ended with by itself.
    ended: Option<ExitStatus>,
}

#[derive(Debug)]
struct Place {
    folder: TempDir,
    data_dir: PathBuf,
    log: PathBuf,
}

impl Node {
    /// Starts it and waits until it answers.
    pub fn start(setup: Setup) -> Result<Self> {
        let here = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (address, side_port, place) = match setup.program {
            Program::Given(address) => (address, 0, None),
            Program::Cluster(_) => {
                let port = launch::free_cluster_port()?;
                (here(port), port + launch::HTTP_ABOVE, Some(Place::new(setup.data_dir.as_deref())?))
            }
            Program::Vltava(_) | Program::Kafka => {
                (here(free_port()?), free_port()?, Some(Place::new(setup.data_dir.as_deref())?))
            }
        };
        let mut node = Self { setup, address, side_port, place, child: None, ended: None };
        node.start_again()?;
        Ok(node)
    }

    /// Starts a stopped or killed node on the directory and port it had.
    pub fn start_again(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the node runs");
        if let Some(place) = &self.place {
            self.child = Some(self.spawn(place)?);
            self.ended = None;
        }
        self.wait_until_it_answers()
    }

    fn spawn(&self, place: &Place) -> Result<Child> {
        let port = self.setup.advertised_port.unwrap_or(self.address.port());
        let launch = Launch {
            data_dir: &place.data_dir,
            address: self.address,
            advertised: (self.address.ip(), port).into(),
            side_port: self.side_port,
            settings: &self.setup.settings,
        };
        let mut command = match &self.setup.program {
            Program::Vltava(binary) => launch::node(binary, &launch, &self.setup.more_data_dirs),
            Program::Cluster(binary) => launch::cluster(binary, &launch),
            Program::Kafka | Program::Given(_) => kafka::command(&launch)?,
        };
        let mut log = OpenOptions::new().create(true).append(true).open(&place.log)?;
        writeln!(log, "{STARTS}")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        while let Err(why) = self.answers() {
            if let Some(status) = self.exited()? {
                bail!("the node ended with {status}:\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("the node does not answer ({why:#}):\n{}", self.log_tail());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn answers(&self) -> Result<()> {
        if matches!(self.setup.program, Program::Cluster(_)) {
            // Each start tells of itself once all nodes are there.
            let said = self.place.as_ref().map(|place| fs::read_to_string(&place.log)).transpose()?;
            let said = said.unwrap_or_default();
            let is_ready = said.rsplit_once(STARTS).is_some_and(|(_, since)| since.contains(launch::READY));
            ensure!(is_ready, "it is not ready");
        }
        api_versions(self.address)
    }

    /// Where clients connect, as `host:port`; of each node, between commas.
    pub fn bootstrap(&self) -> String {
        if let Program::Cluster(_) = self.setup.program {
            let port = self.address.port();
            let each = (port..port + launch::NODES).map(|port| format!("{}:{port}", self.address.ip()));
            return each.collect::<Vec<_>>().join(",");
        }
        let port = self.setup.advertised_port.unwrap_or(self.address.port());
        format!("{}:{port}", self.address.ip())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where our node serves HTTP.
    pub fn http_address(&self) -> SocketAddr {
        (self.address.ip(), self.side_port).into()
    }

    /// Its data directory; None for a server that ran already.
    pub fn data_dir(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.data_dir.as_path())
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Its nodes, if it is a cluster of ours and runs.
    pub fn cluster(&self) -> Option<Cluster> {
        let Program::Cluster(binary) = &self.setup.program else { return None };
        Some(Cluster { binary: binary.clone(), pid: self.pid()?, bootstrap: self.bootstrap() })
    }

    /// The status it ended with by itself, if it did.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            self.child = None;
            self.ended = Some(status);
        }
        Ok(self.ended)
    }

    /// Sends SIGTERM and waits for its end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().ok_or_else(|| anyhow!("the node does not run"))?;
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + STOP_MAX;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                bail!("the node did not stop in {STOP_MAX:?}:\n{}", self.log_tail());
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Sends SIGKILL and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().ok_or_else(|| anyhow!("the node does not run"))?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// The end of what it logged.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 40;
        let Some(place) = &self.place else { return String::new() };
        let text = fs::read(&place.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Leaves its directory and log where they are, for someone to look at; says where.
    pub fn keep(&mut self) -> Option<PathBuf> {
        let place = self.place.as_mut()?;
        place.folder.disable_cleanup(true);
        Some(place.folder.path().to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.child.is_some() {
            // Nobody is left to hear of an error.
            let _ = self.kill();
        }
    }
}

impl Place {
    fn new(data_dir: Option<&Path>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vltava-node-").tempdir()?;
        let data_dir = data_dir.map_or_else(|| folder.path().join("data"), Path::to_owned);
        let log = folder.path().join("log.txt");
        File::create(&log)?;
        Ok(Self { data_dir, log, folder })
    }
}

/// Asks ApiVersions version 0 and reads the whole answer.
fn api_versions(address: SocketAddr) -> Result<()> {
    //  0 ..... 4 ... 6 ..... 8 ....... 12 ....... 14
    //  | size | key | version | id      | client id, null |
    const REQUEST: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    const ANSWER_BYTES_MAX: u32 = 1 << 16;
    let wait = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.write_all(&REQUEST)?;
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size);
    ensure!((6..=ANSWER_BYTES_MAX).contains(&size), "an answer of {size} bytes");
    let mut answer = vec![0; size as usize];
    stream.read_exact(&mut answer)?;
    ensure!(answer[..6] == [0, 0, 0, 1, 0, 0], "ApiVersions answers {:?}", &answer[..6]);
    Ok(())
}
