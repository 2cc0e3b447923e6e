//! Memory that nobody uses, filled before something is measured.
//!
//! A virtual machine may have given free memory back to its host, and then each page costs several times as much when
//! it is written for the first time again: who is measured first after something big was deleted pays for it, and all
//! pay for it who write more than was in use before. On a machine that has run for a while there is no free memory to
//! speak of. So it is filled, with what the system throws away first: pages of a file that was read once.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

const STEP_BYTES: u64 = 256 << 20;
const READ_BYTES: usize = 1 << 20;

/// So much may stay unused: the system keeps some for itself.
const FREE_BYTES_MAX: u64 = 768 << 20;

/// A file that takes no room on the disk, has no name, and is gone with this.
#[derive(Debug)]
pub struct Ballast {
    file: File,
    bytes: u64,
    /// Up to where it was read; again from the beginning after its end.
    read_to: AtomicU64,
}

impl Ballast {
    /// A file in the file system of this directory.
    pub fn create(dir: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(dir);
        let file = file.with_context(|| format!("cannot make a file in {}", dir.display()))?;
        // What is read next was not read lately, so that it is not in memory.
        let bytes = 4 * memory("MemTotal:")?;
        file.set_len(bytes).context("cannot make a file larger than memory")?;
        Ok(Self { file, bytes, read_to: AtomicU64::new(0) })
    }

    /// Fills memory with the cache of the file. Takes seconds for each ten gigabytes that are free.
    pub fn fill(&self) -> Result<()> {
        let mut at = self.read_to.load(Ordering::Relaxed);
        let mut buffer = vec![0; READ_BYTES];
        for _ in 0..self.bytes / STEP_BYTES {
            if memory("MemFree:")? <= FREE_BYTES_MAX {
                break;
            }
            at = if at + STEP_BYTES > self.bytes { 0 } else { at };
            for offset in (at..at + STEP_BYTES).step_by(READ_BYTES) {
                self.file.read_exact_at(&mut buffer, offset)?;
            }
            at += STEP_BYTES;
        }
        self.read_to.store(at, Ordering::Relaxed);
        Ok(())
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("/proc/meminfo has no {name}"))? * 1024)
}
