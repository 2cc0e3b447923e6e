//! What the machine can do at all: the same bytes on the same ways as those of a benchmark, and nothing else.
//!
//! ```text
//!   disk     past the page cache, as `dd oflag=direct` · into it and flushed · a few bytes, each flushed
//!   memory   copied · appended to the page cache
//!   socket   on loopback, and nothing done with it
//!   streams  socket ─▶ checksum ─▶ file            what a leader does with a write
//!            file ─▶ socket ─▶ checksum            what a consumer gets
//!            file ─▶ socket ─▶ checksum ─▶ file    what a follower gets
//! ```
//!
//! Socket and streams run once for each pair of cores at the same time: one core sends, one takes. What a result
//! is worth is told as a share of what binds it: see [`Share`].

mod disk;
mod share;
mod stream;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::histogram::Quantiles;

pub use share::{Bound, Done, Share};
pub use stream::{Streams, streams};

/// What every note that less was measured than was asked for begins with, behind its place.
pub(crate) const SCALED: &str = "scaled: ";

/// What one machine can do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Bytes that were written to the disk each time.
    pub disk_bytes: u64,
    /// Bytes that went through each stream each time.
    pub stream_bytes: u64,
    /// Streams at once: one for each pair of cores.
    pub pairs: u64,
    /// Written in pieces of 1 MiB past the page cache; nothing where the file system knows no such way.
    pub disk_direct_bytes_per_sec: Option<f64>,
    /// Written in pieces of 1 MiB into the page cache, and flushed at the end.
    pub disk_flushed_bytes_per_sec: f64,
    /// How long a flush of 4 KiB takes that were appended: one after the other.
    pub fdatasync_ns: Quantiles,
    /// Appended to the page cache in pieces of 64 KiB, by one core.
    pub append_bytes_per_sec: f64,
    /// Copied from 64 MiB of memory to others, by one core.
    pub memory_copy_bytes_per_sec: f64,
    /// Through sockets on loopback, in pieces of 64 KiB.
    pub loopback_bytes_per_sec: f64,
    /// Through a socket and a checksum into a file.
    pub write_bytes_per_sec: f64,
    /// Out of a file through a socket and a checksum.
    pub read_bytes_per_sec: f64,
    /// Out of a file through a socket and a checksum into another file.
    pub copy_bytes_per_sec: f64,
}

/// With how many bytes that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extent {
    /// Written to the disk, each time.
    pub disk_bytes: u64,
    /// Sent through each stream, each time.
    pub stream_bytes: u64,
}

impl Default for Extent {
    /// A few seconds, to be spent once for all runs of a command.
    fn default() -> Self {
        Self { disk_bytes: 256 << 20, stream_bytes: 256 << 20 }
    }
}

/// The best of so many tries is what it can do: whatever else runs only takes away.
const TRIES: usize = 3;
/// More than this is written to the disk once: what it can do for a moment is not what it can do for long.
const DISK_BYTES_OF_SEVERAL: u64 = 1 << 30;
/// Memory that no cache holds.
const COPIED_BYTES: usize = 64 << 20;
const COPIES: usize = 16;
/// Of the disk so much is left to others: brokers take no more records a little before.
const LEFT_FREE: u64 = 4 << 30;
const LEFT_FREE_SHARE: u64 = 33;

impl Extent {
    /// No more than the disk has room for; what is less than was asked for is said.
    pub fn fitting(self, dir: &Path) -> Result<(Self, Option<String>)> {
        Ok(self.within(room_bytes(dir)?.max(64 << 20), pairs()))
    }

    fn within(self, room: u64, pairs: usize) -> (Self, Option<String>) {
        let disk_bytes = self.disk_bytes.min(room) >> 20 << 20;
        // Each pair has what it reads, and a copy.
        let of_stream = (room / (2 * pairs as u64)) >> 20 << 20;
        let stream_bytes = self.stream_bytes.min(of_stream.max(1 << 20));
        let said = |fits: u64, asked: u64, whither: &str| {
            let fits_mib = fits >> 20;
            (fits < asked).then(|| {
                format!(
                    "the disk has room for {fits_mib} MiB of the {} MiB that were to be {whither}",
                    asked >> 20
                )
            })
        };
        let notes = [
            said(disk_bytes, self.disk_bytes, "written to it"),
            said(stream_bytes, self.stream_bytes, "sent through each stream"),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        (
            Self { disk_bytes, stream_bytes },
            (!notes.is_empty()).then(|| format!("{SCALED}{}", notes.join("; "))),
        )
    }
}

/// Streams at a time, each with two ends that work.
fn pairs() -> usize {
    (std::thread::available_parallelism().map_or(1, Into::into) / 2).clamp(1, 16)
}

impl Ceilings {
    /// Measures them, with the disk of this directory; ends early, and fails, once it is told to stop.
    pub fn measure(dir: &Path, extent: Extent, stop: &AtomicBool) -> Result<Self> {
        let pairs = pairs();
        let mut streams = Streams::default();
        for _ in 0..TRIES {
            disk::go_on(stop)?;
            streams = streams.best(&stream::streams(dir, extent.stream_bytes, pairs)?);
        }
        let disk_tries = if extent.disk_bytes > DISK_BYTES_OF_SEVERAL { 1 } else { TRIES };
        let best = |tries: usize, measure: &dyn Fn() -> Result<f64>| {
            (0..tries).try_fold(0.0, |best: f64, _| Ok::<_, anyhow::Error>(best.max(measure()?)))
        };
        let direct = || disk::direct(dir, extent.disk_bytes, stop);
        let disk_direct_bytes_per_sec = match direct()? {
            Some(first) => Some(best(disk_tries - 1, &|| Ok(direct()?.unwrap_or_default()))?.max(first)),
            None => None,
        };
        let flushed = || disk::flushed(dir, extent.disk_bytes, stop);
        Ok(Self {
            disk_bytes: extent.disk_bytes,
            stream_bytes: extent.stream_bytes,
            pairs: pairs as u64,
            append_bytes_per_sec: best(TRIES, &|| disk::append(dir, extent.stream_bytes, stop))?,
            disk_direct_bytes_per_sec,
            disk_flushed_bytes_per_sec: best(disk_tries, &flushed)?,
            fdatasync_ns: disk::flushes(dir, stop)?,
            memory_copy_bytes_per_sec: memory_copy(),
            loopback_bytes_per_sec: streams.loopback_bytes_per_sec,
            write_bytes_per_sec: streams.write_bytes_per_sec,
            read_bytes_per_sec: streams.read_bytes_per_sec,
            copy_bytes_per_sec: streams.copy_bytes_per_sec,
        })
    }
}

/// Bytes that may be written to the disk of this directory.
pub(crate) fn room_bytes(dir: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    let left = LEFT_FREE.max(disk.f_blocks * disk.f_frsize / LEFT_FREE_SHARE);
    Ok((disk.f_bavail * disk.f_frsize).saturating_sub(left))
}

fn memory_copy() -> f64 {
    let from = vec![1_u8; COPIED_BYTES];
    let mut to = vec![2_u8; COPIED_BYTES];
    let since = Instant::now();
    for _ in 0..COPIES {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    (COPIED_BYTES * COPIES) as f64 / since.elapsed().as_secs_f64()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn this_machine_can_do_something() {
        let dir = tempfile::tempdir().expect("there is a place for files");
        let (stop, extent) = (AtomicBool::new(false), Extent { disk_bytes: 3 << 20, stream_bytes: 5 << 20 });
        let found = Ceilings::measure(dir.path(), extent, &stop).expect("it can be measured");
        for (what, rate) in [
            ("flushed", found.disk_flushed_bytes_per_sec),
            ("append", found.append_bytes_per_sec),
            ("copy of memory", found.memory_copy_bytes_per_sec),
            ("loopback", found.loopback_bytes_per_sec),
            ("write", found.write_bytes_per_sec),
            ("read", found.read_bytes_per_sec),
            ("copy", found.copy_bytes_per_sec),
            ("direct", found.disk_direct_bytes_per_sec.unwrap_or(1.0)),
        ] {
            assert!(rate.is_finite() && rate > 0.0, "{what}: {rate}");
        }
        assert!(found.fdatasync_ns.count > 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0, "nothing stays behind");
        stop.store(true, Ordering::Relaxed);
        let said = Ceilings::measure(dir.path(), extent, &stop).expect_err("it was to stop").to_string();
        assert_eq!(said, "it was interrupted");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let dir = tempfile::tempdir().expect("there is a place for files");
        let asked = Extent { disk_bytes: 1 << 60, stream_bytes: 1 };
        let (fitting, note) = asked.fitting(dir.path()).expect("there is a disk");
        assert!(fitting.disk_bytes < asked.disk_bytes && fitting.disk_bytes.is_multiple_of(1 << 20));
        assert!(note.is_some_and(|note| note.ends_with("MiB that were to be written to it")));
        assert_eq!(Extent::default().within(16 << 30, 16), (Extent::default(), None));
        let asked = Extent { disk_bytes: 1 << 30, stream_bytes: 8 << 30 };
        let (fitting, note) = asked.within(64 << 30, 16);
        assert_eq!(fitting, Extent { stream_bytes: 2 << 30, ..asked }, "sixteen pairs have two files each");
        let said =
            "scaled: the disk has room for 2048 MiB of the 8192 MiB that were to be sent through each stream";
        assert_eq!(note.as_deref(), Some(said));
    }
}
