//! The `vltava` process: started so that it must fail, killed while it starts, looked at from outside.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use conformance::{Node, Program, Setup, home};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// A thread stops when it is next given a processor.
const HALT_MAX: Duration = Duration::from_secs(10);

/// A node that is about to be started: the binary of this build, whatever the environment says of others.
pub fn setup() -> Result<Setup> {
    Ok(Setup::of(Program::Vltava(home::vltava()?)))
}

/// Tells a story with a node; if it fails, says what the node logged and leaves its files.
pub fn with_node(mut node: Node, story: impl FnOnce(&mut Node) -> Result<()>) -> Result<()> {
    let told = story(&mut node);
    if told.is_ok() {
        return told;
    }
    let kept = node.keep().unwrap_or_default();
    told.with_context(|| {
        format!("the node's files are left in {}; it logged:\n{}", kept.display(), node.log_tail())
    })
}

/// `vltava server` on a directory and two addresses.
#[derive(Debug, Clone)]
pub struct Server {
    /// `--data-dir`.
    pub data_dir: PathBuf,
    /// `--listen`.
    pub listen: SocketAddr,
    /// `--http-listen`.
    pub http_listen: SocketAddr,
    /// `--set`, each.
    pub set: Vec<String>,
}

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// Both outputs.
    pub said: String,
}

impl Server {
    /// On free ports.
    pub fn on(data_dir: &Path) -> Result<Self> {
        let address = || Ok::<_, anyhow::Error>((Ipv4Addr::LOCALHOST, conformance::free_port()?).into());
        Ok(Self {
            data_dir: data_dir.to_owned(),
            listen: address()?,
            http_listen: address()?,
            set: Vec::new(),
        })
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(home::vltava()?);
        command.arg("server").arg("--data-dir").arg(&self.data_dir);
        command.args(["--listen", &self.listen.to_string(), "--http-listen", &self.http_listen.to_string()]);
        for setting in &self.set {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Starts it and does not wait for anything.
    pub fn spawn(&self) -> Result<Child> {
        let mut command = self.command()?;
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start the node")
    }

    /// Starts it and waits for it to end by itself.
    pub fn run_to_end(&self) -> Result<Ended> {
        const TIME_MAX: Duration = Duration::from_secs(10);
        let mut output = tempfile::tempfile()?;
        let mut command = self.command()?;
        let mut child = command.stdout(output.try_clone()?).stderr(output.try_clone()?).spawn()?;
        let status = wait::until("the server ends", TIME_MAX, || Ok(child.try_wait()?));
        if status.is_err() {
            child.kill()?;
            child.wait()?;
        }
        let said = read_all(&mut output)?;
        match status {
            Ok(status) => Ok(Ended { status, said }),
            Err(why) => bail!("{why:#}; it said:\n{said}"),
        }
    }
}

fn read_all(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// What a process takes.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Resident memory now, bytes.
    pub resident: u64,
    /// The most it ever was, bytes.
    pub resident_max: u64,
    /// Open files, of any kind but the next.
    pub files: usize,
    /// Open sockets.
    pub sockets: usize,
}

/// Has a process stand still, as a machine does that loses its power: with SIGSTOP, and until each of its threads is
/// stopped, or in the kernel and will be before it comes back from there. It may be waiting for its disk.
pub fn halt(pid: u32) -> Result<()> {
    halt_while(pid, |state| matches!(state, 'R' | 'S'))
}

/// The same, for a process that will [go on](go_on): waits for its disk, too, so that nothing it asked of one is under
/// way, to be answered when it goes on.
pub fn halt_between_writes(pid: u32) -> Result<()> {
    halt_while(pid, |state| !matches!(state, 'T' | 'Z' | 'X'))
}

fn halt_while(pid: u32, is_under_way: impl Fn(char) -> bool) -> Result<()> {
    signal(pid, Signal::STOP)?;
    let deadline = Instant::now() + HALT_MAX;
    while threads(pid)?.into_iter().any(&is_under_way) {
        ensure!(Instant::now() < deadline, "process {pid} does not stop");
        thread::yield_now();
    }
    Ok(())
}

/// Lets a process that stands still go on.
pub fn go_on(pid: u32) -> Result<()> {
    signal(pid, Signal::CONT)
}

fn signal(pid: u32, signal: Signal) -> Result<()> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process")?;
    Ok(kill_process(process, signal)?)
}

/// What each thread of a process does, as proc(5) has it.
fn threads(pid: u32) -> Result<Vec<char>> {
    let mut states = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("the node is gone")? {
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
        states.extend(stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()));
    }
    Ok(states)
}

/// Looks at a process that runs.
pub fn taken(pid: u32) -> Result<Taken> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the node is gone")?;
    let number = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value =
            line.and_then(|line| line.split_whitespace().next()).with_context(|| format!("no {name}"))?;
        Ok(value.parse()?)
    };
    let (mut files, mut sockets) = (0, 0);
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // It may be closed meanwhile.
        let Ok(of) = fs::read_link(descriptor?.path()) else { continue };
        let is_socket = of.to_string_lossy().starts_with("socket:");
        if is_socket { sockets += 1 } else { files += 1 }
    }
    Ok(Taken { resident: number("VmRSS")? << 10, resident_max: number("VmHWM")? << 10, files, sockets })
}
