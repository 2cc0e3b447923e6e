//! The machine that a result was measured on, as Linux tells of it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// What is not known is not there.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    cores: Option<usize>,
    cpu: Option<String>,
    memory_bytes: Option<u64>,
    kernel: Option<String>,
    /// Of the broker's data, if the broker is on this machine.
    file_system: Option<String>,
    mount_options: Option<String>,
    /// How the system chooses the processors' speed.
    governor: Option<String>,
    /// Processors that a container may use, where it may not use all.
    cpus_max: Option<f64>,
    /// Memory that a container may use.
    memory_bytes_max: Option<u64>,
    numa_nodes: Option<usize>,
    /// What says how fast a socket may send, unless it is asked for another.
    congestion_control: Option<String>,
    open_files_max: Option<u64>,
}

impl Machine {
    /// This one; with the file system of the first of these directories, if they are on it.
    pub fn here(log_dirs: Option<&str>) -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let mount = log_dirs.and_then(|dirs| mount(dirs, &read("/proc/self/mounts")?));
        let (file_system, mount_options) = mount.unzip();
        Self {
            cores: std::thread::available_parallelism().ok().map(Into::into),
            cpu: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            memory_bytes: read("/proc/meminfo").and_then(|text| memory_bytes(&text)),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            file_system,
            mount_options,
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .map(|text| text.trim().to_owned()),
            cpus_max: read("/sys/fs/cgroup/cpu.max").and_then(|text| cpus_max(&text)),
            memory_bytes_max: memory_bytes_max(),
            numa_nodes: numa_nodes(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control")
                .map(|text| text.trim().to_owned()),
            open_files_max: read("/proc/self/limits").and_then(|text| open_files_max(&text)),
        }
    }

    /// What says how fast a socket may send, by its name.
    pub fn congestion_control(&self) -> Option<&str> {
        self.congestion_control.as_deref()
    }

    /// Of the directories that were named, if it is known.
    pub fn file_system(&self) -> Option<&str> {
        self.file_system.as_deref()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "cores": self.cores,
            "cpu": self.cpu,
            "memory_bytes": self.memory_bytes,
            "os": std::env::consts::OS,
            "kernel": self.kernel,
            "file_system": self.file_system,
            "mount_options": self.mount_options,
            "governor": self.governor,
            "cpus_max": self.cpus_max,
            "memory_bytes_max": self.memory_bytes_max,
            "numa_nodes": self.numa_nodes,
            "congestion_control": self.congestion_control,
            "open_files_max": self.open_files_max,
        })
    }

    /// For people, on one line.
    pub fn in_words(&self) -> String {
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        format!(
            "{} cores of {}, {} of memory, {} {}, data on {}",
            or_unknown(self.cores.map(|cores| cores.to_string())),
            or_unknown(self.cpu.clone()),
            or_unknown(
                self.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)))
            ),
            std::env::consts::OS,
            or_unknown(self.kernel.clone()),
            or_unknown(self.file_system.clone()),
        )
    }
}

/// All the memory that there is for this program and brokers beside it.
pub(crate) fn memory_total_bytes() -> Option<u64> {
    let all = memory_bytes(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(memory_bytes_max().map_or(all, |of_container| all.min(of_container)))
}

/// What a container may have.
fn memory_bytes_max() -> Option<u64> {
    fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

/// Processors that the system counts time of, of which a container may have less than all.
pub(crate) fn processors() -> usize {
    let of_system = fs::read_to_string("/proc/stat").map_or(0, |stat| {
        stat.lines()
            .filter(|line| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' ')))
            .count()
    });
    of_system.max(1)
}

/// Programs that wanted to run, on average over the last minute.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Of `QUOTA PERIOD`, or `max PERIOD`.
fn cpus_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

fn numa_nodes() -> Option<usize> {
    let names = fs::read_dir("/sys/devices/system/node")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_node = |name: &String| {
        name.strip_prefix("node").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    Some(names.filter(is_node).count())
}

/// As many as a process may ask for.
fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The first `name : value` with this name.
fn field(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(found, _)| found.trim() == name).map(|(_, value)| value.trim());
    values.next().map(str::to_owned)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = field(meminfo, "MemTotal")?;
    Some(total.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The kind and the options of the file system of the first of some directories. One that does not begin at the root is somewhere below where the
/// broker was started, and nobody says where that was.
fn mount(dirs: &str, mounts: &str) -> Option<(String, String)> {
    let first = dirs.split(',').next().map(str::trim).map(Path::new).filter(|dir| dir.is_absolute())?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?, words.next()?))
    });
    // Of two that are mounted at the same place, the later one is seen.
    let of_first = mounts.filter(|(place, ..)| first.starts_with(place));
    let (_, kind, options) = of_first.max_by_key(|(place, ..)| place.components().count())?;
    Some((kind.to_owned(), options.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_is_understood() {
        assert_eq!(field("a\t: 1\nmodel name\t: A CPU\n", "model name"), Some("A CPU".to_owned()));
        assert_eq!(memory_bytes("MemTotal:       2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /data xfs rw 0 0\ntmpfs /data/fast tmpfs rw 0 0\n";
        for (dirs, expected) in [
            ("/data/kafka,/other", Some("xfs")),
            ("/database", Some("ext4")),
            ("/data/fast", Some("tmpfs")),
            ("./vltava-data", None),
        ] {
            assert_eq!(mount(dirs, mounts).map(|(kind, _)| kind).as_deref(), expected, "{dirs}");
        }
        assert_eq!(mount("/data/a", mounts).map(|(_, options)| options).as_deref(), Some("rw"));
        assert_eq!((cpus_max("150000 100000\n"), cpus_max("max 100000\n")), (Some(1.5), None));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n";
        assert_eq!(open_files_max(limits), Some(4_096));
        assert!(load().is_some() && memory_total_bytes().is_some());
        assert!(processors() >= std::thread::available_parallelism().map_or(1, Into::into));
    }
}
