//! What a run needs of the machine, and how busy it was.

use std::fs;
use std::process;
use std::time::Instant;

use conformance::home;
use serde::Serialize;

use crate::command::run;

/// What a machine must have, and how it is had.
const TOOLS: &[(&str, &str)] = &[("ip", "iproute2"), ("ss", "iproute2"), ("nft", "nftables")];

/// Says why nothing can be run here, if so.
pub fn unavailable() -> Option<String> {
    if let Some(why) = e2e::disk::unavailable() {
        return Some(why.to_owned());
    }
    for (tool, package) in TOOLS {
        if run(&[tool, "-V"]).is_err() {
            return Some(format!("needs {tool}: apt-get install {package}"));
        }
    }
    // Containers may forbid it to root as well.
    let probe = format!("vltava-torture-{}-probe", process::id());
    let made = run(&["ip", "netns", "add", &probe]);
    let filtered = made
        .as_ref()
        .ok()
        .map(|_| run(&["ip", "netns", "exec", &probe, "nft", "add", "table", "bridge", "probe"]));
    let _ = run(&["ip", "netns", "del", &probe]);
    if let Err(why) = made {
        return Some(format!("needs network namespaces: {why:#}"));
    }
    if let Some(Err(why)) = filtered {
        return Some(format!("needs packet filters on bridges: {why:#}"));
    }
    None
}

/// Says why librdkafka cannot be used, if so.
pub fn without_librdkafka() -> Option<String> {
    home::installed("python/bin/python").err().map(|why| format!("{why:#}"))
}

/// How busy the machine was, with this run and with whatever else it does: a limit of time that was passed on
/// one that stood still proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Busy {
    /// Of a hundred parts of the time: in so many, some process was ready and had to wait for a processor.
    pub cpu_percent: f64,
    /// In so many, some process waited for a disk.
    pub disk_percent: f64,
    /// The most that somebody who sleeps was woken too late.
    pub late_ms_max: u64,
}

/// What the kernel counts of that (pressure stall information).
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    at: Instant,
    cpu_us: u64,
    disk_us: u64,
}

impl Pressure {
    /// As it stands; zeros where the kernel does not count.
    pub fn now() -> Self {
        Self { at: Instant::now(), cpu_us: stalled_us("cpu"), disk_us: stalled_us("io") }
    }

    /// What there was of it since then.
    pub fn since(&self, late_ms_max: u64) -> Busy {
        let now = Self::now();
        let time_us = now.at.duration_since(self.at).as_micros().max(1) as f64;
        let percent = |before: u64, after: u64| after.saturating_sub(before) as f64 * 100.0 / time_us;
        Busy {
            cpu_percent: percent(self.cpu_us, now.cpu_us),
            disk_percent: percent(self.disk_us, now.disk_us),
            late_ms_max,
        }
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`: microseconds.
fn stalled_us(of: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/pressure/{of}")).unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total="));
    total.and_then(|(_, total)| total.parse().ok()).unwrap_or(0)
}
