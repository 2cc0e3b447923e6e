//! A process that ends with this one.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Whoever takes longer to end is killed.
const END_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// So many lines of a log's end tell why a process died.
const LINES: usize = 5;

/// A broker's process.
pub(super) struct Process {
    child: Child,
    /// Its own id, which is not that of a shell that looks after it.
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts a program that sees to it itself that it ends with this one.
    pub(super) fn start(program: &Path, words: &[String], log: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        let child = command
            .args(words)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(append(log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let pid = child.id();
        Ok(Self { child, pid, log: log.to_owned() })
    }

    /// Starts a program that knows nothing of this one: a shell looks after it, which reads a pipe of this
    /// process that nobody writes to, and ends it when the pipe does.
    pub(super) fn start_kept(program: &str, words: &[String], log: &Path) -> Result<Self> {
        const KEEPER: &str = "\"$@\" </dev/null >&2 & echo $!; read -r _; kill -TERM $!; wait $!";
        let mut child = Command::new("sh")
            .args(["-c", KEEPER, "sh", program])
            .args(words)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(append(log)?)
            .spawn()
            .context("cannot start a shell")?;
        let mut pid = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut pid)?;
        }
        let pid = pid.trim().parse().with_context(|| format!("{program} was not started"))?;
        Ok(Self { child, pid, log: log.to_owned() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Fails if it ended.
    pub(super) fn must_run(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() && self.is_alive() {
            return Ok(());
        }
        bail!("a broker ended; its log, {}, ends with:\n{}", self.log.display(), self.log_end())
    }

    /// Of a process that has ended, something stays until whoever started it has looked.
    fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Has it end, in good order.
    pub(super) fn end(&mut self) {
        match self.child.stdin.take() {
            // The shell sees that the pipe ends.
            Some(pipe) => drop(pipe),
            // It is ours until it is waited for; one that ended does not mind.
            None => drop(kill_process(Pid::from_child(&self.child), Signal::TERM)),
        }
    }

    /// Waits until it has ended; one that does not in time is killed. What was measured is measured by then, and
    /// nodes that are told to end at once may wait for a majority that is gone.
    pub(super) fn wait(mut self) -> Result<()> {
        let until = Instant::now() + END_MAX;
        while Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // What does not work here there is no other way for: the process is killed, or was gone.
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn append(log: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(log);
    file.with_context(|| format!("cannot write to {}", log.display()))
}
