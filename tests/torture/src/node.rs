//! A broker: a process in a namespace of its own, on a disk of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::disk::{Cut, Disk};
use e2e::wait;
use rustix::fs::statvfs;
use rustix::process::{Pid, Signal, kill_process};

use crate::command::run;
use crate::net::{Net, Place};
use crate::system::Launch;

/// A controlled shutdown moves leaders first, and Java takes its time.
const STOP_MAX: Duration = Duration::from_secs(60);

/// A broker.
#[derive(Debug)]
pub struct Node {
    /// Its number.
    pub id: i32,
    folder: PathBuf,
    child: Option<Child>,
    /// The process, for who watches it; 0 while there is none.
    pid: Arc<AtomicU32>,
    paused: bool,
    /// Whether its disk fails, and has to be mended.
    disk_fails: bool,
    /// Whether its disk does not answer.
    disk_hangs: bool,
    /// Whether it is to be forgiven if it ends by itself: its disk is full, or fails.
    pub may_end: bool,
    // Unmounted when the process is gone.
    disk: Disk,
}

impl Node {
    /// One that does not run yet. `lab` is the folder of the run.
    pub fn new(id: i32, lab: &Path, disk_bytes: u64) -> Result<Self> {
        let folder = lab.join(format!("b{id}"));
        fs::create_dir_all(&folder)?;
        let disk = Disk::in_folder(&folder, disk_bytes)?;
        Ok(Self {
            id,
            folder,
            child: None,
            pid: Arc::default(),
            paused: false,
            disk_fails: false,
            disk_hangs: false,
            may_end: false,
            disk,
        })
    }

    /// One whose disk says that it has so much room, and has less: an image on a file system of memory.
    pub fn with_small_disk(id: i32, lab: &Path, disk_bytes: u64, real_bytes: u64) -> Result<Self> {
        let folder = lab.join(format!("b{id}"));
        fs::create_dir_all(&folder)?;
        let size = format!("size={real_bytes}");
        run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs", &folder.to_string_lossy()])?;
        Self::new(id, lab, disk_bytes)
    }

    /// What its small disk really has left.
    pub fn small_disk_room(&self) -> Result<u64> {
        let room = statvfs(&self.folder)?;
        Ok(room.f_bavail * room.f_frsize)
    }

    /// Gives its small disk this much.
    pub fn give_small_disk(&self, bytes: u64) -> Result<()> {
        let options = format!("remount,size={bytes}");
        run(&["mount", "-o", &options, &self.folder.to_string_lossy()]).map(drop)
    }

    /// Where it is in the network.
    pub fn place(&self) -> Place {
        Place::Node(self.id)
    }

    /// Its disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Its process, for who watches it; 0 while there is none.
    pub fn pid(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.pid)
    }

    /// Where it logs.
    pub fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    /// Whether it was started and not ended.
    pub fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// Whether its disk fails.
    pub fn has_failing_disk(&self) -> bool {
        self.disk_fails
    }

    /// Whether it runs and answers, as far as we know.
    pub fn is_well(&self) -> bool {
        self.is_up() && !self.paused && !self.disk_fails && !self.disk_hangs
    }

    /// Starts it, unless it runs. Waits for nothing.
    pub fn start(&mut self, net: &Net, launch: &Launch) -> Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let mut command = launch.command(self.id, &self.disk.path().join("data"), &self.folder)?;
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        command.stdout(log.try_clone()?).stderr(log);
        let child = net.within(self.place(), || Ok(command.spawn()?));
        let child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
        self.pid.store(child.id(), Ordering::Relaxed);
        self.child = Some(child);
        Ok(())
    }

    /// SIGKILL, and waits for its end. It may be paused, or gone, or wait for its disk, which goes on then.
    pub fn kill(&mut self) -> Result<()> {
        self.paused = false;
        self.pid.store(0, Ordering::Relaxed);
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            // Who waits for it ends no sooner.
            self.let_disk_go_on()?;
            child.wait()?;
        }
        self.let_disk_go_on()
    }

    /// SIGTERM, and waits for its end; SIGKILL if it does not come. Whether it came.
    pub fn stop(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else { return Ok(true) };
        kill_process(Pid::from_child(child), Signal::TERM)?;
        let ended = wait::until("the node ends", STOP_MAX, || Ok(child.try_wait()?)).is_ok();
        self.kill()?;
        Ok(ended)
    }

    /// SIGSTOP: it holds its sockets and does nothing.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        self.paused = self.child.is_some();
        Ok(())
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> Result<()> {
        self.paused = false;
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match &self.child {
            Some(child) => Ok(kill_process(Pid::from_child(child), signal)?),
            None => Ok(()),
        }
    }

    /// The status it ended with by itself, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        if status.is_some() {
            self.kill()?;
        }
        Ok(status)
    }

    /// It stands still, and its disk forgets what was not flushed. To be killed before the disk comes back. If it went
    /// on it could acknowledge what is lost: ext4 may say of a flush that was under way that it went well.
    pub fn cut_power(&mut self, cut: Cut) -> Result<()> {
        if let Some(child) = &self.child {
            e2e::process::halt(child.id())?;
        }
        self.fail_disk(cut)
    }

    /// Its disk does not answer who writes any more.
    pub fn hang_disk(&mut self) -> Result<()> {
        self.disk_hangs = true;
        self.disk.hang()
    }

    /// It does again, if it did not.
    pub fn let_disk_go_on(&mut self) -> Result<()> {
        if std::mem::take(&mut self.disk_hangs) { self.disk.go_on() } else { Ok(()) }
    }

    /// Its disk forgets what was not flushed, and takes nothing more.
    pub fn fail_disk(&mut self, cut: Cut) -> Result<()> {
        (self.disk_fails, self.may_end) = (true, true);
        self.disk.cut(cut)
    }

    /// The disk of a node that was killed comes back as the cut left it.
    pub fn restore_disk(&mut self) -> Result<()> {
        self.disk.restore()?;
        (self.disk_fails, self.may_end) = (false, false);
        Ok(())
    }

    /// The same for a disk that saw writes fail.
    pub fn repair_disk(&mut self) -> Result<()> {
        self.disk.repair()?;
        (self.disk_fails, self.may_end) = (false, false);
        Ok(())
    }

    /// Lines of its log that say that it panicked.
    pub fn panics(&self) -> Vec<String> {
        let Ok(file) = File::open(self.log()) else { return Vec::new() };
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.filter(|line| line.contains("panicked at") || line.contains("assertion")).take(5).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Nobody is left to hear of an error.
        let _ = self.kill();
    }
}
