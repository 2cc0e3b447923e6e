//! One node's process: started, started again when it dies, stopped.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::plan::Setup;

/// What dies at once is not started again at once.
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// Who ran so long was well.
const WELL: Duration = Duration::from_secs(10);
/// A node on this machine that takes longer is not well.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// So much of a log's end tells why a node died.
const LOG_END: u64 = 4096;
const LINES: usize = 3;

pub(super) struct Node {
    pub(super) setup: Setup,
    child: Option<Child>,
    since: Instant,
    wait: Duration,
    again_at: Option<Instant>,
}

impl Node {
    pub(super) fn new(setup: Setup) -> Self {
        Self { setup, child: None, since: Instant::now(), wait: AGAIN_MIN, again_at: None }
    }

    /// 0 of one that does not run.
    pub(super) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub(super) fn start(&mut self) -> Result<()> {
        let Setup { address, http_address, data_dir, log, settings, .. } = &self.setup;
        let written = File::options().create(true).append(true).open(log);
        let written = written.with_context(|| format!("cannot write to {}", log.display()))?;
        let program = std::env::current_exe().context("cannot find this program again")?;
        let mut command = Command::new(program);
        command.args(["server", "--end-with-parent", &process::id().to_string()]);
        command.args(["--listen", address, "--http-listen", http_address]);
        command.arg("--data-dir").arg(data_dir);
        for (name, value) in settings {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        // Ctrl-C is for whoever starts the nodes, which then stops them.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(written);
        self.child = Some(command.spawn().context("cannot start a node")?);
        (self.since, self.again_at) = (Instant::now(), None);
        Ok(())
    }

    /// How it ended, if it did.
    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait().context("cannot look after a node")?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// Whether it serves clients, as it says itself.
    pub(super) fn is_ready(&self) -> bool {
        self.asked_whether_ready().unwrap_or(false)
    }

    fn asked_whether_ready(&self) -> io::Result<bool> {
        const READY: &[u8] = b"HTTP/1.1 200 ";
        let mut stream = TcpStream::connect(&self.setup.http_address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        write!(stream, "GET /health/ready HTTP/1.1\r\nhost: {}\r\n\r\n", self.setup.http_address)?;
        let mut status = [0; READY.len()];
        stream.read_exact(&mut status)?;
        Ok(status == READY)
    }

    /// Fails if it ended: it never was of use.
    pub(super) fn must_run(&mut self) -> Result<()> {
        let Some(status) = self.ended()? else { return Ok(()) };
        let (id, log) = (self.setup.id, self.setup.log.display());
        bail!(
            "node {id} did not start ({}); its log, {log}, ends with:\n{}",
            in_words(status),
            self.log_end()
        )
    }

    /// Starts it again if it ended.
    pub(super) fn keep_up(&mut self) -> Result<()> {
        if let Some(status) = self.ended()? {
            if self.since.elapsed() >= WELL {
                self.wait = AGAIN_MIN;
            }
            eprintln!("node {} ended ({}); it is started again", self.setup.id, in_words(status));
            if status.code().is_some_and(|code| code != 0) {
                eprintln!("{}", self.log_end());
            }
            self.again_at = Some(Instant::now() + self.wait);
            self.wait = (self.wait * 2).min(AGAIN_MAX);
        }
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            self.start()?;
            eprintln!("node {} runs again, pid {}", self.setup.id, self.pid());
        }
        Ok(())
    }

    /// The last lines of its log, indented; nothing if it cannot be read.
    fn log_end(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut log = File::open(&self.setup.log)?;
            let start = fs::metadata(&self.setup.log)?.len().saturating_sub(LOG_END);
            log.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            log.take(LOG_END).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].iter().map(|line| format!("  {line}\n")).collect()
    }

    pub(super) fn stop(&self) {
        if let Some(child) = &self.child {
            // It is ours until it is waited for; one that ended does not mind.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }

    /// Waits for its end, and brings it about if it takes too long.
    pub(super) fn wait_until(&mut self, until: Instant) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let process = process.context("cannot wait for a node")?;
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("cannot wait for so long")?;
        // It is readable once the process has ended.
        let ended = retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)));
        if ended.context("cannot wait for a node")? == 0 {
            eprintln!("node {} does not end; it is killed", self.setup.id);
            child.kill().context("cannot kill a node")?;
        }
        child.wait().context("cannot wait for a node").map(drop)
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
