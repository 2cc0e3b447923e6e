//! A run's place on this machine, and what is left of runs that could not clean up.
//!
//! ```text
//!   $TMPDIR/vltava-torture-PID/       lock: held while the run lives
//!     b1/image b1/mounted/ b1.log     a disk and a log for each broker
//!     history.jsonl
//!   /run/netns/vltava-torture-PID-b1  a namespace for each broker, client, and the switch
//! ```
//!
//! **Invariant:** nothing is killed, unmounted or removed but what carries such a name and whose run is
//! gone: its lock is free, or there is no folder and no process of that number.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::command::run;
use crate::stop::Stop;

/// What all names begin with.
const PREFIX: &str = "vltava-torture-";
const LOCK: &str = "lock";

/// A run's place. Dropped, its folder goes.
#[derive(Debug)]
pub struct Lab {
    id: String,
    folder: PathBuf,
    _lock: File,
}

impl Lab {
    /// Clears away what dead runs left, and makes a place for this one.
    pub fn new() -> Result<Self> {
        clean()?;
        let pid = process::id();
        // Tests may have several in one process.
        let id = (0..).map(|n| if n == 0 { format!("{PREFIX}{pid}") } else { format!("{PREFIX}{pid}.{n}") });
        let mut ids = id.filter(|id| !env::temp_dir().join(id).exists());
        let id = ids.next().context("no name is free")?;
        let folder = env::temp_dir().join(&id);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let lock = File::create(folder.join(LOCK))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { id, folder, _lock: lock })
    }

    /// What the names of its namespaces begin with.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves these files of it there, or in a folder beside its own; says where.
    pub fn keep(&self, names: &[String], out: Option<&Path>) -> Result<PathBuf> {
        let beside = || env::temp_dir().join(format!("{}-kept", self.id));
        let kept = out.map_or_else(beside, Path::to_owned);
        fs::create_dir_all(&kept)?;
        for name in names {
            let from = self.folder.join(name);
            if from.exists() {
                fs::copy(&from, kept.join(name)).with_context(|| format!("cannot keep {name}"))?;
            }
        }
        Ok(kept)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Nobody is left to hear of an error, and the next run tries again.
        let _ = clear(&self.id, &self.folder);
    }
}

/// Clears away what dead runs left.
pub fn clean() -> Result<()> {
    for entry in fs::read_dir(env::temp_dir())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_run(&name) || !entry.path().join(LOCK).exists() {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            eprintln!("torture: clearing away what {name} left");
            clear(&name, &entry.path())?;
        }
    }
    // A run whose folder somebody removed.
    for namespace in namespaces() {
        let Some((id, _)) = namespace.rsplit_once('-').filter(|(id, _)| is_run(id)) else { continue };
        if !env::temp_dir().join(id).exists() && !is_alive(id) {
            remove_namespace(&namespace)?;
        }
    }
    Ok(())
}

/// `vltava-torture-` and a number, perhaps with another one.
fn is_run(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|id| {
        !id.is_empty()
            && id.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn is_alive(id: &str) -> bool {
    let number = id.trim_start_matches(PREFIX).split('.').next();
    let pid = number.and_then(|number| number.parse().ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn namespaces() -> Vec<String> {
    let list = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    list.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Has disks go on that hang, ends the processes of a run, unmounts its disks, removes its namespaces and its folder.
fn clear(id: &str, folder: &Path) -> Result<()> {
    for path in mounted_below(folder)? {
        // Not every file system can hang.
        let _ = e2e::disk::thaw(&path);
    }
    for namespace in namespaces().iter().filter(|name| name.rsplit_once('-').is_some_and(|(of, _)| of == id))
    {
        remove_namespace(namespace)?;
    }
    unmount_below(folder)?;
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

fn remove_namespace(name: &str) -> Result<()> {
    const GONE_MAX: Duration = Duration::from_secs(10);
    let pids = || -> Vec<Pid> {
        let said = run(&["ip", "netns", "pids", name]).unwrap_or_default();
        said.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
    };
    // This process may have a thread in it, which is not to be ended.
    let others = || pids().into_iter().filter(|pid| pid.as_raw_nonzero().get() as u32 != process::id());
    others().for_each(|pid| {
        let _ = kill_process(pid, Signal::KILL);
    });
    Stop::default().until(GONE_MAX, || others().next().is_none());
    run(&["ip", "netns", "del", name]).map(drop)
}

/// Unmounts what is mounted below a folder.
fn unmount_below(folder: &Path) -> Result<()> {
    for path in mounted_below(folder)? {
        let path = path.to_string_lossy();
        run(&["umount", &path]).or_else(|_| run(&["umount", "--lazy", &path]))?;
    }
    Ok(())
}

/// What is mounted below a folder, the innermost first.
fn mounted_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mounted = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<_> = mounted.filter(|path| path.starts_with(folder)).collect();
    below.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_runs_are_taken_for_runs() {
        for (name, of_run) in [
            ("vltava-torture-17", true),
            ("vltava-torture-17.2", true),
            ("vltava-torture-17-kept", false),
            ("vltava-torture-", false),
            ("vltava-torture-x", false),
            ("vltava-node-17", false),
        ] {
            assert_eq!(is_run(name), of_run, "{name}");
        }
    }

    #[test]
    fn a_run_that_lives_is_left_alone() {
        let lab = Lab::new().unwrap();
        let other = Lab::new().unwrap();
        assert_ne!(lab.id(), other.id());
        clean().unwrap();
        assert!(lab.folder().exists() && other.folder().exists());
        let folder = lab.folder().to_owned();
        drop(lab);
        assert!(!folder.exists() && other.folder().exists());
    }

    #[test]
    fn what_a_dead_run_left_is_cleared_away() {
        let folder = env::temp_dir().join(format!("{PREFIX}{}.777", process::id()));
        fs::create_dir_all(folder.join("b1")).unwrap();
        File::create(folder.join(LOCK)).unwrap();
        clean().unwrap();
        assert!(!folder.exists());
    }
}
