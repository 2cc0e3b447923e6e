//! Nothing stays behind: neither processes nor data, whatever becomes of the benchmark.
//!
//! ```text
//!   bench ── pipe: "group 17", "ended 17", "dir D", … ──▶ leftovers
//!     │ done, failed, Ctrl-C, kill -9                     │
//!     ▼                                                   ▼
//!   the pipe closes ────────────────▶ kills groups, has torture clean up, removes directories
//! ```
//!
//! A second process holds the list, because the first may not live to clean up. Every process that the
//! benchmark starts leads a process group of its own, so Ctrl-C reaches the benchmark alone and those
//! that a script starts in the background are still known by the id of the script.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long the killed may take to be gone.
const DEATH_TIME_MAX: Duration = Duration::from_secs(10);

/// The list of what to clean up, in the hands of another process.
pub(super) struct Leftovers {
    keeper: Mutex<Child>,
    list: Mutex<Option<ChildStdin>>,
}

impl Leftovers {
    /// Starts the other process.
    pub(super) fn keeper() -> Result<Self> {
        let mut keeper = Command::new(std::env::current_exe()?)
            .args(["bench", "leftovers"])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start what cleans up")?;
        let list = keeper.stdin.take();
        Ok(Self { keeper: Mutex::new(keeper), list: Mutex::new(list) })
    }

    /// Makes a directory that will be removed.
    pub(super) fn directory(&self, path: &Path) -> Result<()> {
        self.note(&format!("dir {}", path.display()))?;
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
    }

    /// Starts a process that will be killed with all of its group.
    pub(super) fn spawn(&self, command: &mut Command) -> Result<Child> {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        self.note(&format!("group {}", child.id()))?;
        Ok(child)
    }

    /// Says that a group needs no killing any more.
    pub(super) fn ended(&self, group: u32) -> Result<()> {
        self.note(&format!("ended {group}"))
    }

    /// Has a program clean up what it could not if it is killed.
    pub(super) fn cleaned_by(&self, torture: &Path) -> Result<()> {
        self.note(&format!("torture {}", torture.display()))
    }

    fn note(&self, line: &str) -> Result<()> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = list.as_mut().context("the list is closed")?;
        writeln!(pipe, "{line}").context("what cleans up has ended")
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(list.take());
        // The keeper says itself what it could not clean up.
        let _ = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

/// The other process: keeps the list until it is complete, then cleans up.
pub(super) fn keep() -> Result<()> {
    let mut groups = BTreeSet::new();
    let mut dirs = Vec::new();
    let mut torture = None;
    for line in std::io::stdin().lock().lines() {
        match line?.split_once(' ') {
            Some(("group", id)) => drop(groups.insert(id.parse::<u32>()?)),
            Some(("ended", id)) => drop(groups.remove(&id.parse::<u32>()?)),
            Some(("dir", path)) => dirs.push(PathBuf::from(path)),
            Some(("torture", path)) => torture = Some(PathBuf::from(path)),
            _ => {}
        }
    }
    for group in groups {
        kill_group(group);
    }
    if let Some(torture) = torture {
        let cleaned = Command::new(&torture).arg("clean").status();
        let cleaned = cleaned.with_context(|| format!("cannot start {}", torture.display()))?;
        ensure!(cleaned.success(), "what torture left could not be cleared away");
    }
    for dir in dirs.iter().filter(|dir| dir.exists()) {
        std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}

/// Kills a process and those it started, and waits until they are gone.
pub(super) fn kill_group(group: u32) {
    let deadline = Instant::now() + DEATH_TIME_MAX;
    while signal("KILL", &format!("-{group}")) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process, or to a group if there is a minus before its id; false if there is none.
pub(super) fn signal(name: &str, to: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, "--", to]).stdout(Stdio::null()).stderr(Stdio::null());
    kill.status().is_ok_and(|status| status.success())
}
