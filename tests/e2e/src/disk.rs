//! A disk of its own that can lose power: ext4 in a file, mounted through a loop device.
//!
//! `FS_IOC_SHUTDOWN` makes the file system forget at once what it has not written, and fail everything
//! from then on; mounted again, it has what a real disk would have after its plug was pulled. `FIFREEZE` has everybody
//! who writes wait, as for a disk that hangs, until `FITHAW`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Setter};
use tempfile::TempDir;

use crate::chance::Chance;
use crate::wait;

/// `_IOR('X', 125, u32)`.
const FS_IOC_SHUTDOWN: Opcode = 0x8004_587d;

/// `_IOWR('X', 119, int)`.
const FIFREEZE: Opcode = 0xc004_5877;

/// `_IOWR('X', 120, int)`.
const FITHAW: Opcode = 0xc004_5878;

/// What the cut leaves of the file system's journal.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Nothing more is written.
    Now = 2,
    /// The journal is written first, so names and sizes are newer than contents may be.
    AfterJournal = 1,
}

/// The disk, mounted.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    mounted: bool,
    /// The folder, if nobody else sees to it.
    _own: Option<TempDir>,
}

/// Says why such a disk cannot be had here, if so.
pub fn unavailable() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root to mount a disk and to cut its power");
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("needs loop devices (/dev/loop-control)");
    }
    if Command::new("mkfs.ext4").arg("-V").output().is_err() {
        return Some("needs mkfs.ext4");
    }
    None
}

impl Disk {
    /// A fresh one. Its file is sparse.
    pub fn new(bytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vltava-disk-").tempdir()?;
        let mut disk = Self::in_folder(folder.path(), bytes)?;
        disk._own = Some(folder);
        Ok(disk)
    }

    /// A fresh one in a folder that is there and stays.
    pub fn in_folder(folder: &Path, bytes: u64) -> Result<Self> {
        let mut disk = Self { folder: folder.to_owned(), mounted: false, _own: None };
        File::create(disk.image())?.set_len(bytes)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.image()))?;
        fs::create_dir(disk.path())?;
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder.join("mounted")
    }

    fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    fn mount(&mut self) -> Result<()> {
        run(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(self.image()).arg(self.path()))?;
        self.mounted = true;
        Ok(())
    }

    /// Pulls the plug.
    pub fn cut(&self, cut: Cut) -> Result<()> {
        let root = File::open(self.path())?;
        // SAFETY: the request reads one u32, its flags, and writes nothing back.
        let pulled = unsafe { ioctl::ioctl(&root, Setter::<FS_IOC_SHUTDOWN, u32>::new(cut as u32)) };
        pulled.context("FS_IOC_SHUTDOWN")
    }

    /// Has it hang: who writes waits, and cannot be killed meanwhile.
    pub fn hang(&self) -> Result<()> {
        let root = File::open(self.path())?;
        // SAFETY: the request takes an int that it does not look at, and writes nothing back.
        let frozen = unsafe { ioctl::ioctl(&root, Setter::<FIFREEZE, u32>::new(0)) };
        frozen.context("FIFREEZE")
    }

    /// Has it go on, if it hangs.
    pub fn go_on(&self) -> Result<()> {
        thaw(&self.path())
    }

    /// Plugs it in again. Nobody may have a file of it open.
    pub fn restore(&mut self) -> Result<()> {
        // A process that had all mounts copied for itself, as `ip netns exec` has, keeps the file system that
        // failed, and with it the failure, until it ends.
        wait::until("the disk works again", Duration::from_secs(10), || {
            self.unmount()?;
            self.mount()?;
            Ok((!self.is_failed()).then_some(()))
        })
    }

    fn is_failed(&self) -> bool {
        let probe = self.path().join("probe");
        let made = File::create(&probe).and_then(|_| fs::remove_file(&probe));
        made.is_err_and(|why| why.raw_os_error() == Some(Errno::IO.raw_os_error()))
    }

    /// Plugs it in again and mends its file system first, which has seen writes fail.
    pub fn repair(&mut self) -> Result<()> {
        self.unmount()?;
        // It answers 1 if it mended something.
        let _ = Command::new("e2fsck").args(["-f", "-y"]).arg(self.image()).output().context("e2fsck")?;
        self.mount()
    }

    fn unmount(&mut self) -> Result<()> {
        wait::until("the disk is not in use", Duration::from_secs(10), || {
            Ok(run(Command::new("umount").arg(self.path())).ok())
        })?;
        self.mounted = false;
        Ok(())
    }
}

/// Has a file system go on that was frozen, if it was.
pub fn thaw(mounted: &Path) -> Result<()> {
    let root = File::open(mounted)?;
    // SAFETY: the request takes an int that it does not look at, and writes nothing back.
    match unsafe { ioctl::ioctl(&root, Setter::<FITHAW, u32>::new(0)) } {
        // It was not.
        Err(Errno::INVAL) => Ok(()),
        thawed => thawed.context("FITHAW"),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !self.mounted {
            return;
        }
        // Nothing could end that waits for it.
        let _ = self.go_on();
        if self.unmount().is_err() {
            // Then it goes when its last file is closed; nobody is left to hear of an error.
            let _ = run(Command::new("umount").arg("--lazy").arg(self.path()));
        }
    }
}

/// Writes some of the files below a folder, and not the others: a disk is free to.
///
/// What is renamed or removed meanwhile is passed over. It ends early if it takes long.
pub fn write_back_some(folder: &Path, chance: &mut Chance) {
    const TIME_MAX: Duration = Duration::from_millis(500);
    write_back_until(folder, chance, Instant::now() + TIME_MAX);
}

fn write_back_until(folder: &Path, chance: &mut Chance, end: Instant) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if Instant::now() > end {
            return;
        }
        if entry.file_type().is_ok_and(|of| of.is_dir()) {
            write_back_until(&entry.path(), chance, end);
        } else if chance.one_in(2) {
            let _ = File::open(entry.path()).and_then(|file| file.sync_data());
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
