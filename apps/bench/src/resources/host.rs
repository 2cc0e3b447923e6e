//! What the machine did, whoever wanted it: what processes alone do not tell.

use std::fs;
use std::path::Path;
use std::time::Duration;

use disk::{Device, DeviceCounts};
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

impl Host {
    /// What it counted until now, with the disk that this directory is on.
    pub fn now(dir: Option<&Path>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let tick = Duration::from_secs(1).as_secs_f64() / rustix::param::clock_ticks_per_second() as f64;
        let mut host = Self {
            disk: dir.and_then(Device::under).and_then(Device::counts).map(Disk::from),
            ..Self::default()
        };
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

impl From<DeviceCounts> for Disk {
    fn from(counts: DeviceCounts) -> Self {
        Self {
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            busy_seconds: counts.busy.as_secs_f64(),
            flushes: counts.flushes,
            flush_seconds: counts.flush_time.as_secs_f64(),
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
