//! What the system says about a process and about the machine.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// The row of what ran beside broker and load.
pub(super) const OTHERS: &str = "CPU of all else on the machine";
/// The row of what other machines had.
pub(super) const STOLEN: &str = "CPU taken by the host";

/// CPU times of one moment, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Clocks {
    /// Whose the brokers' are.
    brokers: Vec<u32>,
    broker: f64,
    clients: f64,
    machine: f64,
    stolen: f64,
}

/// CPU seconds between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Used {
    /// By the broker, or all of them.
    pub(super) broker: f64,
    /// By the programs that loaded it, and have ended.
    pub(super) clients: f64,
    /// By everything else on the machine, the kernel's writing back included.
    pub(super) others: f64,
    /// What the host gave to other machines.
    pub(super) stolen: f64,
}

impl Used {
    /// What tells how far the rest can be believed: rows and values.
    pub(super) fn noise(self) -> [(&'static str, f64); 2] {
        [(OTHERS, self.others), (STOLEN, self.stolen)]
    }
}

impl Clocks {
    /// The times of now, with those of the brokers by their process ids.
    pub(super) fn read(brokers: &[u32]) -> Result<Self> {
        let own = stat("/proc/self/stat")?;
        let (machine, stolen) = machine(&std::fs::read_to_string("/proc/stat")?)?;
        Ok(Self {
            brokers: brokers.to_vec(),
            broker: brokers.iter().map(|pid| cpu_seconds(*pid)).sum::<Result<f64>>()?,
            clients: ticks(&own, 13)? + ticks(&own, 14)?,
            machine,
            stolen,
        })
    }

    /// What was used since then.
    pub(super) fn used(self) -> Result<Used> {
        let now = Self::read(&self.brokers)?;
        let (broker, clients) = (now.broker - self.broker, now.clients - self.clients);
        let others = (now.machine - self.machine - broker - clients).max(0.0);
        Ok(Used { broker, clients, others, stolen: now.stolen - self.stolen })
    }
}

/// User and system time of a process with all its threads.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let fields = stat(&format!("/proc/{pid}/stat"))?;
    Ok(ticks(&fields, 11)? + ticks(&fields, 12)?)
}

/// Resident memory of a process.
pub(super) fn rss_mib(pid: u32) -> Result<f64> {
    mib(pid, "VmRSS:")
}

/// The most resident memory that a process has had.
pub(super) fn rss_peak_mib(pid: u32) -> Result<f64> {
    mib(pid, "VmHWM:")
}

fn mib(pid: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("no {field}"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// Whether a process is there and not merely waiting to be collected.
pub(super) fn is_alive(pid: u32) -> bool {
    stat(&format!("/proc/{pid}/stat")).is_ok_and(|fields| fields.first().is_some_and(|state| state != "Z"))
}

/// The words a process was started with.
pub(super) fn arguments(pid: u32) -> Result<Vec<String>> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The fields from the state on: the name before it may hold blanks and parentheses.
fn stat(path: &str) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{} is gone", Path::new(path).display()))?;
    let (_, fields) = text.rsplit_once(')').context("no name in it")?;
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}

fn ticks(fields: &[String], at: usize) -> Result<f64> {
    let ticks: f64 = fields.get(at).context("too few fields")?.parse()?;
    Ok(ticks / ticks_per_second())
}

fn ticks_per_second() -> f64 {
    static TICKS: OnceLock<f64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let asked = Command::new("getconf").arg("CLK_TCK").output().ok();
        let said = asked.and_then(|output| String::from_utf8(output.stdout).ok());
        said.and_then(|text| text.trim().parse().ok()).unwrap_or(100.0)
    })
}

/// Busy and stolen seconds of all cores, from the first line of /proc/stat.
fn machine(text: &str) -> Result<(f64, f64)> {
    let line =
        text.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("no line of all cores")?;
    let times: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = times.as_slice() else {
        anyhow::bail!("too few times of all cores");
    };
    let per_second = ticks_per_second();
    Ok(((user + nice + system + irq + softirq) / per_second, steal / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_has_used_something() {
        let own = std::process::id();
        let resident = rss_mib(own).unwrap();
        assert!(is_alive(own) && resident > 0.5);
        // Read after: what is resident may grow between the two. The kernel's sums are rounded, too.
        assert!(rss_peak_mib(own).unwrap() >= resident * 0.9);
        let before = Clocks::read(&[own]).unwrap();
        assert!(before.used().unwrap().broker >= 0.0);
        assert!(!arguments(own).unwrap().is_empty());
    }

    #[test]
    fn times_of_all_cores_are_summed_without_idleness() {
        let per_second = ticks_per_second();
        let (busy, stolen) = machine("cpu  1 2 3 400 500 6 7 8 0 0\ncpu0 1").unwrap();
        assert_eq!((busy * per_second, stolen * per_second), (19.0, 8.0));
    }
}
