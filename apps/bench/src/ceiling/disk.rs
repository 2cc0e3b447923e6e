//! What the disk can do: files that nobody sees, which are gone whatever ends this process.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;

use crate::chance::Chance;
use crate::histogram::{Quantiles, histogram};

/// What `dd bs=1M` writes at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Where the memory of a direct write has to begin: no disk wants more.
const ALIGNED: usize = 4096;
/// What a broker appends at once.
const APPEND_BYTES: usize = 64 << 10;
/// What is flushed at a time.
const FLUSHED_BYTES: usize = 4096;
const FLUSHES: usize = 1_000;
const FLUSHING_MAX: Duration = Duration::from_secs(1);

/// Fails once it is told to stop.
pub(super) fn go_on(stop: &AtomicBool) -> Result<()> {
    ensure!(!stop.load(Ordering::Relaxed), "it was interrupted");
    Ok(())
}

/// A file without a name.
pub(super) fn unnamed(dir: &Path, flags: OFlags) -> std::io::Result<File> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("ceiling-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = dir.join(name);
    let mut options = File::options();
    let opened = options.read(true).write(true).create_new(true).custom_flags(flags.bits().cast_signed());
    // Where a flag is not known, the file may have been made all the same.
    let file = opened.open(&path);
    let removed = std::fs::remove_file(&path);
    let file = file?;
    removed.map(|()| file)
}

/// Past the page cache; `None` where there is no such way.
pub(super) fn direct(dir: &Path, bytes: u64, stop: &AtomicBool) -> Result<Option<f64>> {
    let Ok(mut file) = unnamed(dir, OFlags::DIRECT) else { return Ok(None) };
    let memory = noise(BLOCK_BYTES + ALIGNED);
    let from = memory.as_ptr().align_offset(ALIGNED);
    let block = &memory[from..from + BLOCK_BYTES];
    if file.write_all(block).is_err() {
        return Ok(None);
    }
    write(&mut file, block, bytes, stop).map(Some)
}

/// Into the page cache, and flushed at the end.
pub(super) fn flushed(dir: &Path, bytes: u64, stop: &AtomicBool) -> Result<f64> {
    let (mut file, block) = (open(dir)?, noise(BLOCK_BYTES));
    let since = Instant::now();
    write(&mut file, &block, bytes, stop)?;
    file.sync_data()?;
    Ok(written(bytes, BLOCK_BYTES) as f64 / since.elapsed().as_secs_f64())
}

/// Into the page cache, in pieces as brokers get them.
pub(super) fn append(dir: &Path, bytes: u64, stop: &AtomicBool) -> Result<f64> {
    write(&mut open(dir)?, &noise(APPEND_BYTES), bytes, stop)
}

/// How long flushes of a few bytes take, one after the other.
pub(super) fn flushes(dir: &Path, stop: &AtomicBool) -> Result<Quantiles> {
    let (mut file, piece, mut found) = (open(dir)?, noise(FLUSHED_BYTES), histogram());
    let began = Instant::now();
    while found.len() < FLUSHES as u64 && began.elapsed() < FLUSHING_MAX {
        go_on(stop)?;
        let since = Instant::now();
        file.write_all(&piece)?;
        file.sync_data()?;
        found.saturating_record(since.elapsed().as_nanos() as u64);
    }
    Quantiles::of(&found).context("nothing was flushed")
}

fn open(dir: &Path) -> Result<File> {
    unnamed(dir, OFlags::empty()).with_context(|| format!("cannot write to {}", dir.display()))
}

/// Bytes a second.
fn write(file: &mut File, block: &[u8], bytes: u64, stop: &AtomicBool) -> Result<f64> {
    let since = Instant::now();
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        go_on(stop)?;
        file.write_all(block)?;
    }
    Ok(written(bytes, block.len()) as f64 / since.elapsed().as_secs_f64())
}

/// What whole pieces come to.
const fn written(bytes: u64, piece: usize) -> u64 {
    bytes.div_ceil(piece as u64) * piece as u64
}

/// Bytes that no disk makes smaller, as it might zeroes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut chance = Chance::new(1, 0);
    (0..bytes.div_ceil(8)).flat_map(|_| chance.draw().to_le_bytes()).take(bytes).collect()
}
