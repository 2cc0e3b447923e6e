//! What the device under a directory did, whoever wanted it: Linux counts that in `/proc/diskstats`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{major, minor, stat};

/// What a device counted since its machine was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Read from it.
    pub read_bytes: u64,
    /// Written to it.
    pub written_bytes: u64,
    /// How long it had something to do.
    pub busy: Duration,
    /// How often it was told what is free again; 0 on Linux before 4.18, and where nobody tells it (mount without
    /// `discard`).
    pub discards: u64,
    /// How often it was told to flush; 0 on Linux before 5.5.
    pub flushes: u64,
    /// How long those took, together.
    pub flush_time: Duration,
}

/// The counts are in these, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// A device of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    /// The one that a directory is on; `None` if that is no device of this machine's own, such as a network or memory.
    pub fn under(dir: &Path) -> Option<Self> {
        let number = stat(dir).ok()?.st_dev;
        let device = Self { major: major(number), minor: minor(number) };
        device.counts().map(|_| device)
    }

    /// What it counted until now, which does not wait for it; `None` once it is gone.
    pub fn counts(self) -> Option<DeviceCounts> {
        of_diskstats(&fs::read_to_string("/proc/diskstats").ok()?, self.major, self.minor)
    }
}

fn of_diskstats(text: &str, major: u32, minor: u32) -> Option<DeviceCounts> {
    /// Behind the numbers and the name: sectors read and written, milliseconds of work, discards, flushes and their
    /// milliseconds.
    const PLACES: [usize; 6] = [2, 6, 9, 11, 15, 16];
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (major, minor) = (major.to_string(), minor.to_string());
    let mut found = words.filter(|words| words.len() > 3 && words[0] == major && words[1] == minor);
    let counts = found.next()?.split_off(3);
    let number = |at: usize| counts.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
    let [read, written, busy_ms, discards, flushes, flush_ms] = PLACES.map(number);
    Some(DeviceCounts {
        read_bytes: read * SECTOR_BYTES,
        written_bytes: written * SECTOR_BYTES,
        busy: Duration::from_millis(busy_ms),
        discards,
        flushes,
        flush_time: Duration::from_millis(flush_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_is_understood() {
        let stats = "   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n \
                     254 0 vda 10 1 200 9 30 4 600 8 0 1500 70 5 1 8 9 11 250\n 254 1 vda1 1 1 1 1 1 1 1 1 1 1 1\n";
        let device = of_diskstats(stats, 254, 0).expect("it is there");
        assert_eq!((device.read_bytes, device.written_bytes), (102_400, 307_200));
        assert_eq!((device.discards, device.flushes), (5, 11));
        assert_eq!([device.busy, device.flush_time].map(|time| time.as_millis()), [1_500, 250]);
        assert_eq!(of_diskstats(stats, 254, 1).map(|device| device.flushes), Some(0), "an older system");
        assert_eq!(of_diskstats(stats, 8, 0), None);
    }
}
