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
}

impl Machine {
    /// This one; with the file system of the first of these directories, if they are on it.
    pub fn here(log_dirs: Option<&str>) -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        Self {
            cores: std::thread::available_parallelism().ok().map(Into::into),
            cpu: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            memory_bytes: read("/proc/meminfo").and_then(|text| memory_bytes(&text)),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            file_system: log_dirs.and_then(|dirs| file_system(dirs, &read("/proc/self/mounts")?)),
        }
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

/// Of the first of some directories. One that does not begin at the root is somewhere below where the
/// broker was started, and nobody says where that was.
fn file_system(dirs: &str, mounts: &str) -> Option<String> {
    let first = dirs.split(',').next().map(str::trim).map(Path::new).filter(|dir| dir.is_absolute())?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    // Of two that are mounted at the same place, the later one is seen.
    let of_first = mounts.filter(|(place, _)| first.starts_with(place));
    of_first.max_by_key(|(place, _)| place.components().count()).map(|(_, kind)| kind.to_owned())
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
            assert_eq!(file_system(dirs, mounts).as_deref(), expected, "{dirs}");
        }
    }
}
