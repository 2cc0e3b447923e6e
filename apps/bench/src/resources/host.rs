//! What the machine did, whoever wanted it: what processes alone do not tell.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{major, minor, stat};
use serde::{Deserialize, Serialize};

/// What a machine counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Processor time of all programs and of the system.
    pub cpu_seconds: f64,
    /// Time that the processors wanted to run and others of the real machine had them.
    pub steal_seconds: f64,
    /// From one thread to another.
    pub context_switches: u64,
    /// Through loopback, where one machine speaks with itself.
    pub loopback_bytes: u64,
    /// From other machines.
    pub network_in_bytes: u64,
    /// To other machines.
    pub network_out_bytes: u64,
    /// Of the disk that brokers' data is on, where that is known.
    pub disk: Option<Disk>,
}

/// What a disk did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// From it.
    pub read_bytes: u64,
    /// To it.
    pub written_bytes: u64,
    /// Time in which it had something to do.
    pub busy_seconds: f64,
    /// How often it was told to flush.
    pub flushes: u64,
    /// How long those took, together.
    pub flush_seconds: f64,
}

/// `/proc/diskstats` counts in these, whatever the disk has.
const SECTOR_BYTES: u64 = 512;

impl Host {
    /// What it counted until now, with the disk that this directory is on.
    pub fn now(dir: Option<&Path>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let tick = Duration::from_secs(1).as_secs_f64() / rustix::param::clock_ticks_per_second() as f64;
        let mut host =
            Self { disk: dir.and_then(|dir| disk_of(dir, &read("/proc/diskstats"))), ..Self::default() };
        host.count_processors(&read("/proc/stat"), tick);
        host.count_network(&read("/proc/net/dev"));
        host
    }

    fn count_processors(&mut self, stat: &str, tick: f64) {
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("cpu") => {
                    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
                    let [user, nice, system, _idle, _waiting, interrupts, soft, steal, ..] = ticks[..] else {
                        continue;
                    };
                    self.cpu_seconds = (user + nice + system + interrupts + soft) as f64 * tick;
                    self.steal_seconds = steal as f64 * tick;
                }
                Some("ctxt") => self.context_switches = number(words.next()),
                _ => {}
            }
        }
    }

    fn count_network(&mut self, dev: &str) {
        /// Behind the name: where the bytes are that came, and those that left.
        const PLACES: [usize; 2] = [0, 8];
        for (name, counts) in dev.lines().filter_map(|line| line.split_once(':')) {
            let counts: Vec<&str> = counts.split_whitespace().collect();
            let [came, left] = PLACES.map(|at| number(counts.get(at).copied()));
            if name.trim() == "lo" {
                self.loopback_bytes += came;
            } else {
                self.network_in_bytes += came;
                self.network_out_bytes += left;
            }
        }
    }

    /// What it counted since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_seconds: (self.cpu_seconds - before.cpu_seconds).max(0.0),
            steal_seconds: (self.steal_seconds - before.steal_seconds).max(0.0),
            context_switches: self.context_switches.saturating_sub(before.context_switches),
            loopback_bytes: self.loopback_bytes.saturating_sub(before.loopback_bytes),
            network_in_bytes: self.network_in_bytes.saturating_sub(before.network_in_bytes),
            network_out_bytes: self.network_out_bytes.saturating_sub(before.network_out_bytes),
            disk: self.disk.zip(before.disk).map(|(now, before)| now.since(&before)),
        }
    }

    /// What it counted in two times, one behind the other.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            steal_seconds: self.steal_seconds + other.steal_seconds,
            context_switches: self.context_switches + other.context_switches,
            loopback_bytes: self.loopback_bytes + other.loopback_bytes,
            network_in_bytes: self.network_in_bytes + other.network_in_bytes,
            network_out_bytes: self.network_out_bytes + other.network_out_bytes,
            disk: super::either(self.disk, other.disk, |one, other| one.and(&other)),
        }
    }
}

impl Disk {
    fn since(&self, before: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            busy_seconds: (self.busy_seconds - before.busy_seconds).max(0.0),
            flushes: self.flushes.saturating_sub(before.flushes),
            flush_seconds: (self.flush_seconds - before.flush_seconds).max(0.0),
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            busy_seconds: self.busy_seconds + other.busy_seconds,
            flushes: self.flushes + other.flushes,
            flush_seconds: self.flush_seconds + other.flush_seconds,
        }
    }
}

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// `None` of a directory that is on no disk of this machine's own, such as a network's or memory's.
fn disk_of(dir: &Path, diskstats: &str) -> Option<Disk> {
    let device = stat(dir).ok()?.st_dev;
    of_diskstats(diskstats, major(device), minor(device))
}

fn of_diskstats(text: &str, major: u32, minor: u32) -> Option<Disk> {
    /// Behind the numbers and the name: sectors read and written, milliseconds of work, flushes and their
    /// milliseconds, which older systems do not tell.
    const PLACES: [usize; 5] = [2, 6, 9, 15, 16];
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (major, minor) = (major.to_string(), minor.to_string());
    let mut found = words.filter(|words| words.len() > 3 && words[0] == major && words[1] == minor);
    let counts = found.next()?.split_off(3);
    let [read, written, busy_ms, flushes, flush_ms] = PLACES.map(|at| number(counts.get(at).copied()));
    Some(Disk {
        read_bytes: read * SECTOR_BYTES,
        written_bytes: written * SECTOR_BYTES,
        busy_seconds: busy_ms as f64 / 1e3,
        flushes,
        flush_seconds: flush_ms as f64 / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_is_understood() {
        let mut host = Host::default();
        host.count_processors("cpu  100 10 50 900 5 1 9 30 0 0\ncpu0 1 1 1 1\nintr 5\nctxt 777\n", 0.01);
        host.count_network(
            "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n    lo: 300 2 0 0 0 0 0 0 300 2 0 0 0 0 0 0\n\
             \x20 eth0: 40 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  eth1:2 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
        );
        assert!((host.cpu_seconds - 1.7).abs() < 1e-9 && (host.steal_seconds - 0.3).abs() < 1e-9);
        assert_eq!((host.context_switches, host.loopback_bytes), (777, 300));
        assert_eq!((host.network_in_bytes, host.network_out_bytes), (42, 6));
        let stats = "   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n \
                     254 0 vda 10 1 200 9 30 4 600 8 0 1500 70 1 1 8 9 11 250\n 254 1 vda1 1 1 1 1 1 1 1 1 1 1 1\n";
        let disk = of_diskstats(stats, 254, 0).expect("it is there");
        assert_eq!((disk.read_bytes, disk.written_bytes, disk.flushes), (102_400, 307_200, 11));
        assert!((disk.busy_seconds - 1.5).abs() < 1e-9 && (disk.flush_seconds - 0.25).abs() < 1e-9);
        assert_eq!(of_diskstats(stats, 254, 1).map(|disk| disk.flushes), Some(0), "an older system");
        assert_eq!(of_diskstats(stats, 8, 0), None);
    }

    #[test]
    fn times_are_added_and_differences_are_told() {
        let disk = |flushes| Some(Disk { flushes, ..Disk::default() });
        let at = |cpu_seconds, flushes| Host { cpu_seconds, disk: disk(flushes), ..Host::default() };
        let (first, second) = (at(3.0, 5).since(&at(1.0, 4)), at(4.5, 9).since(&at(3.0, 5)));
        assert_eq!(first.and(&second), at(3.5, 5));
        assert!(Host::now(None).cpu_seconds > 0.0);
    }
}
