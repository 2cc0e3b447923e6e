//! Memory that nobody uses. A virtual machine may have given it back to its host, and then each page costs
//! several times as much when it is written for the first time again: what is measured first after something
//! big was deleted would pay for it. So it is filled before, as on a machine that has run for a while, with
//! what the system throws away first: pages of a file that was read once.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

const STEP_BYTES: u64 = 256 << 20;
const READ_BYTES: usize = 1 << 20;

/// So much may stay unused: the system keeps some for itself.
const FREE_BYTES_MAX: u64 = 768 << 20;

/// The file, which takes no room on the disk.
#[derive(Debug, Default)]
pub(super) struct Ballast {
    /// Up to where it was read; again from the beginning after its end.
    read_to: AtomicU64,
}

impl Ballast {
    /// Fills memory with the cache of a file in a directory.
    pub(super) fn fill(&self, dir: &Path) -> Result<()> {
        let path = dir.join("ballast");
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        // What is read was not read lately, so that it is not in memory.
        let bytes = 4 * memory("MemTotal:")?;
        file.set_len(bytes)?;
        let mut at = self.read_to.load(Ordering::Relaxed);
        let mut buffer = vec![0; READ_BYTES];
        for _ in 0..bytes / STEP_BYTES {
            if memory("MemFree:")? <= FREE_BYTES_MAX {
                break;
            }
            at = if at + STEP_BYTES > bytes { 0 } else { at };
            read(&file, at, &mut buffer)?;
            at += STEP_BYTES;
        }
        self.read_to.store(at, Ordering::Relaxed);
        Ok(())
    }
}

fn read(file: &File, at: u64, buffer: &mut [u8]) -> Result<()> {
    for offset in (at..at + STEP_BYTES).step_by(READ_BYTES) {
        file.read_exact_at(buffer, offset)?;
    }
    Ok(())
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("/proc/meminfo has no {name}"))? * 1024)
}
