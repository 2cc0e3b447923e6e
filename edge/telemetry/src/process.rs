//! Numbers about this process, from `/proc`. What cannot be read is left out.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// What the kernel knows about this process.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) descriptors: Option<u64>,
    pub(crate) descriptors_max: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) cpu: Option<Duration>,
}

impl Process {
    pub(crate) fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let stat = stat.as_deref().and_then(Stat::parse);
        Self {
            resident_bytes: stat.as_ref().map(|stat| stat.resident_pages * rustix::param::page_size() as u64),
            // The listing itself takes one.
            descriptors: fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1)),
            descriptors_max: getrlimit(Resource::Nofile).current,
            threads: stat.as_ref().map(|stat| stat.threads),
            cpu: stat.map(|stat| {
                Duration::from_millis(stat.cpu_ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
            }),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

impl Stat {
    /// `pid (name) state …`: the name may hold spaces and brackets, so fields are counted from its end.
    fn parse(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        // proc_pid_stat(5) counts from 1 and has three fields up to the state.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, threads: field(20)?, resident_pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_have_any_name() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 25 5 0 0 20 0 9 0 1234 500000 3000 18446744073709551615";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_ticks: 30, threads: 9, resident_pages: 3_000 }));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn this_process_is_there() {
        let process = Process::read();
        assert!(process.resident_bytes.unwrap() > 100_000);
        assert!(process.descriptors.unwrap() >= 3);
        assert!(process.threads.unwrap() >= 1);
        assert!(process.cpu.is_some());
    }
}
