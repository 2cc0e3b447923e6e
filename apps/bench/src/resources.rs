//! What processes use, as Linux tells of them: the load's own and, where they run here, the brokers'; and what
//! the machine did meanwhile.

mod host;
mod settle; // when the disk is done with what was before
mod tally; // of a broker, whichever process it is

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use host::{Disk, Host};
pub use tally::Tally;

/// Where to look while something is measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The brokers that run here.
    pub brokers: &'a [Tally],
    /// Where they have their data, each in a directory of its own.
    pub dir: Option<&'a Path>,
    /// Addresses of their metrics, as Prometheus reads them.
    pub metrics: &'a [String],
}

/// What some processes used, together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Processor time, in their code and in the system's for them.
    pub cpu_seconds: f64,
    /// Memory that they have, now.
    pub rss_bytes: u64,
    /// Bytes that they had written to a disk, or that will be.
    pub disk_written_bytes: u64,
    /// Bytes that had to be read from a disk for them.
    pub disk_read_bytes: u64,
    /// Their threads waited for something so often.
    pub voluntary_switches: u64,
    /// Their threads had to let others run so often.
    pub involuntary_switches: u64,
}

/// What was used in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// By the clients, which are this process.
    pub client: Usage,
    /// By the brokers that the run started. Of others it is known in all what their pages for Prometheus say of
    /// their processors and memory, and not of each second.
    pub brokers: Option<Usage>,
    /// By the whole machine that the clients are on, which others use, too.
    pub host: Option<Host>,
    /// How long the processors of a load machine wanted to run, each of them on average, while others of its real
    /// machine had them; of several the one that it was worst for. Where load machines are not this one.
    pub load_steal_seconds: Option<f64>,
}

impl Usage {
    /// Of this process; one that is gone has used nothing.
    pub fn of(pid: u32) -> Self {
        let tick = Duration::from_secs(1).as_secs_f64() / rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as u64;
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let (ticks, pages) = of_stat(&read("stat")).unwrap_or_default();
        let (disk_read_bytes, disk_written_bytes) = of_io(&read("io"));
        let (voluntary_switches, involuntary_switches) = switches(pid);
        Self {
            cpu_seconds: ticks as f64 * tick,
            rss_bytes: pages * page,
            disk_written_bytes,
            disk_read_bytes,
            voluntary_switches,
            involuntary_switches,
        }
    }

    /// Of two at the same time, who have their memory both.
    fn beside(self, other: Self) -> Self {
        Self { rss_bytes: self.rss_bytes + other.rss_bytes, ..self.and(&other) }
    }

    /// What was used since; memory is what there is now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_seconds: (self.cpu_seconds - before.cpu_seconds).max(0.0),
            rss_bytes: self.rss_bytes,
            disk_written_bytes: self.disk_written_bytes.saturating_sub(before.disk_written_bytes),
            disk_read_bytes: self.disk_read_bytes.saturating_sub(before.disk_read_bytes),
            // Of a thread that has ended nothing is told any more.
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }

    /// What was used in two times, one behind the other; of memory the most.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            rss_bytes: self.rss_bytes.max(other.rss_bytes),
            disk_written_bytes: self.disk_written_bytes + other.disk_written_bytes,
            disk_read_bytes: self.disk_read_bytes + other.disk_read_bytes,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

impl Used {
    /// What was used until now.
    pub fn now(sources: Sources<'_>) -> Self {
        let brokers = sources.brokers.iter().map(Tally::look).reduce(Usage::beside);
        let host = Some(Host::now(sources.dir));
        Self { client: Usage::of(std::process::id()), brokers, host, load_steal_seconds: None }
    }

    /// What was used since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let brokers = self.brokers.zip(before.brokers).map(|(now, before)| now.since(&before));
        let host = self.host.zip(before.host).map(|(now, before)| now.since(&before));
        Self { client: self.client.since(&before.client), brokers, host, load_steal_seconds: None }
    }

    /// What was used in two times, one behind the other.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            client: self.client.and(&other.client),
            brokers: either(self.brokers, other.brokers, |one, other| one.and(&other)),
            host: either(self.host, other.host, |one, other| one.and(&other)),
            load_steal_seconds: either(self.load_steal_seconds, other.load_steal_seconds, |one, other| {
                one + other
            }),
        }
    }

    /// The same as the coordinator of several load machines is told it: that machine is not its own.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        let cores = crate::machine::processors() as f64;
        Self { host: None, load_steal_seconds: self.host.map(|host| host.steal_seconds / cores), ..self }
    }

    /// What two load machines used at the same time.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self {
            client: self.client.beside(other.client),
            brokers: None,
            host: None,
            load_steal_seconds: either(self.load_steal_seconds, other.load_steal_seconds, f64::max),
        }
    }

    /// Processor time that neither the clients nor the brokers used: the system's own work for them, and whatever
    /// else ran. Not known where brokers are that nobody started here: they may be part of it.
    pub fn cpu_seconds_of_others(&self) -> Option<f64> {
        let of_brokers = self.brokers?.cpu_seconds;
        Some((self.host?.cpu_seconds - self.client.cpu_seconds - of_brokers).max(0.0))
    }
}

/// Both together, or the one that is known.
fn either<T>(one: Option<T>, other: Option<T>, together: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(together(one, other)),
        (one, other) => one.or(other),
    }
}

/// How often the threads of a process waited, and how often they had to.
fn switches(pid: u32) -> (u64, u64) {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let each = threads.map(|thread| fs::read_to_string(thread.path().join("status")).unwrap_or_default());
    each.fold((0, 0), |(voluntary, involuntary), status| {
        let of = |name| field(&status, name);
        (voluntary + of("voluntary_ctxt_switches:"), involuntary + of("nonvoluntary_ctxt_switches:"))
    })
}

/// Ticks of processor time and pages of memory, from `/proc/PID/stat`. The name of the program, which comes
/// first, may have anything in it.
fn of_stat(text: &str) -> Option<(u64, u64)> {
    /// Behind the name: where the times in user and system mode are, and the pages.
    const PLACES: [usize; 3] = [11, 12, 21];
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let [user, system, pages] = PLACES.map(|at| fields.get(at).and_then(|field| field.parse::<u64>().ok()));
    Some((user? + system?, pages?))
}

/// Bytes read from and written to disks, from `/proc/PID/io`.
fn of_io(text: &str) -> (u64, u64) {
    (field(text, "read_bytes:"), field(text, "write_bytes:"))
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> u64 {
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
    values.next().and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_is_understood() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 900 0 0 0 130 45 0 0 20 0 8 0 777 90000 2500 18446744073709551615";
        assert_eq!(of_stat(stat), Some((175, 2_500)));
        assert_eq!(of_stat("42 (a) S 1"), None);
        let io = "rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 12288\ncancelled_write_bytes: 1\n";
        assert_eq!(of_io(io), (4_096, 12_288));
        let own = Usage::of(std::process::id());
        assert!(own.rss_bytes > 0 && own.voluntary_switches + own.involuntary_switches > 0);
        assert_eq!(Usage::of(u32::MAX), Usage::default(), "nobody has that number");
    }

    #[test]
    fn a_broker_that_is_gone_hides_nothing_of_the_others() {
        let burn = |seconds: f64| {
            let until = Usage::of(std::process::id()).cpu_seconds + seconds;
            while Usage::of(std::process::id()).cpu_seconds < until {}
        };
        burn(0.05);
        let brokers = [(); 2].map(|()| Tally::of(std::process::id()));
        let sources = Sources { brokers: &brokers, ..Sources::default() };
        let before = Used::now(sources);
        brokers[1].moved_to(u32::MAX);
        burn(0.03);
        let used = Used::now(sources).since(&before).brokers.expect("there are brokers");
        assert!(used.cpu_seconds >= 0.025, "{used:?}");
    }

    #[test]
    fn times_are_added_and_memory_is_not() {
        let usage = |cpu_seconds, rss_bytes| Usage { cpu_seconds, rss_bytes, ..Usage::default() };
        let first = usage(3.0, 500).since(&usage(1.0, 900));
        assert_eq!(first, usage(2.0, 500));
        assert_eq!(first.and(&usage(0.5, 400)), usage(2.5, 500));
        let host = Some(Host { cpu_seconds: 7.0, ..Host::default() });
        let known = Used { client: first, brokers: Some(first), host, load_steal_seconds: None };
        let unknown = Used { client: first, brokers: None, host: None, load_steal_seconds: None };
        assert_eq!(known.and(&unknown).brokers, Some(first));
        assert_eq!(known.since(&unknown).brokers, None);
        assert_eq!((known.cpu_seconds_of_others(), unknown.cpu_seconds_of_others()), (Some(3.0), None));
        let stolen = |steal_seconds| {
            let host = Some(Host { steal_seconds, ..Host::default() });
            Used { client: usage(1.0, 100), host, ..Used::default() }.elsewhere()
        };
        let cores = crate::machine::processors() as f64;
        let both = stolen(0.2).beside(stolen(0.4));
        assert_eq!((both.client, both.host), (usage(2.0, 200), None), "two machines have their memory both");
        assert_eq!(both.load_steal_seconds, Some(0.4 / cores), "the worse of two at the same time");
        assert_eq!(both.and(&both).load_steal_seconds, Some(0.8 / cores), "and more in more time");
    }
}
