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
    start: Start,
    child: Child,
    /// Its own id, which is not that of a shell that looks after it.
    pid: u32,
    /// Whether it was told to end, and not started again since.
    is_to_end: bool,
}

/// How it is started.
struct Start {
    program: PathBuf,
    words: Vec<String>,
    log: PathBuf,
    /// Whether a shell looks after it.
    is_kept: bool,
}

impl Process {
    /// Starts a program that sees to it itself that it ends with the thread that started it.
    pub(super) fn start(program: &Path, words: Vec<String>, log: &Path) -> Result<Self> {
        Self::of(Start { program: program.to_owned(), words, log: log.to_owned(), is_kept: false })
    }

    /// Starts a program that knows nothing of this one: a shell looks after it, which reads a pipe of this
    /// process that nobody writes to, and ends it when the pipe does.
    pub(super) fn start_kept(program: &str, words: Vec<String>, log: &Path) -> Result<Self> {
        Self::of(Start { program: program.into(), words, log: log.to_owned(), is_kept: true })
    }

    fn of(start: Start) -> Result<Self> {
        let (child, pid) = if start.is_kept { start.kept()? } else { start.alone()? };
        Ok(Self { start, child, pid, is_to_end: false })
    }

    /// Starts it again, where it has ended.
    pub(super) fn start_again(&mut self) -> Result<()> {
        // A shell that looked after it sees that the pipe ends.
        drop(self.child.stdin.take());
        self.child.wait()?;
        (self.child, self.pid) = if self.start.is_kept { self.start.kept()? } else { self.start.alone()? };
        self.is_to_end = false;
        Ok(())
    }

    /// kill -9. Who is gone does not mind; nobody else has its number before it is waited for.
    pub(super) fn kill(&mut self) {
        self.is_to_end = true;
        self.signal(Signal::KILL);
    }

    /// It does nothing more until it may go on.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// It may go on.
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // A broker that has ended is found out elsewhere.
            let _ = kill_process(pid, signal);
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Fails if it ended by itself.
    pub(super) fn must_run(&mut self) -> Result<()> {
        if self.is_to_end || self.child.try_wait()?.is_none() && self.is_alive() {
            return Ok(());
        }
        bail!("a broker ended; its log, {}, ends with:\n{}", self.start.log.display(), self.log_end())
    }

    /// Of a process that has ended, something stays until whoever started it has looked.
    fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.start.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Has it end, in good order.
    pub(super) fn end(&mut self) {
        self.is_to_end = true;
        match self.child.stdin.take() {
            // The shell sees that the pipe ends.
            Some(pipe) => drop(pipe),
            // It is ours until it is waited for; one that ended does not mind.
            None => drop(kill_process(Pid::from_child(&self.child), Signal::TERM)),
        }
    }

    /// Waits until it has ended; one that does not in time is killed. What was measured is measured by then, and
    /// nodes that are told to end at once may wait for a majority that is gone.
    pub(super) fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + END_MAX;
        while Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        self.kill();
        Ok(())
    }
}

impl Start {
    fn alone(&self) -> Result<(Child, u32)> {
        let child = Command::new(&self.program)
            .args(&self.words)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(append(&self.log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let pid = child.id();
        Ok((child, pid))
    }

    fn kept(&self) -> Result<(Child, u32)> {
        const KEEPER: &str = "\"$@\" </dev/null >&2 & echo $!; read -r _; kill -TERM $!; wait $!";
        let mut child = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&self.program)
            .args(&self.words)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(append(&self.log)?)
            .spawn()
            .context("cannot start a shell")?;
        let mut pid = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut pid)?;
        }
        let pid =
            pid.trim().parse().with_context(|| format!("{} was not started", self.program.display()))?;
        Ok((child, pid))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // What does not work here there is no other way for: the process is killed, or was gone.
        self.kill();
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn append(log: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(log);
    file.with_context(|| format!("cannot write to {}", log.display()))
}
