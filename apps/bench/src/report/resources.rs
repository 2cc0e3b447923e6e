//! What a run took: of processors, memory, disk and network, for each record and each megabyte.

use serde::{Deserialize, Serialize};

use super::{Grid, PointReport, Report, RunReport, SystemReport};
use crate::histogram::in_words;
use crate::load::Second;
use crate::machine;
use crate::meter::Counts;
use crate::metrics::Grown;
use crate::resources::{Disk, Host, Usage, Used};
use crate::statistics::Spread;

/// What some seconds took, and for how many records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// How long.
    pub seconds: f64,
    /// Acknowledged records, or those that were read if only reading was measured.
    pub records: u64,
    /// Of their values.
    pub bytes: u64,
    /// What it took.
    pub used: Used,
    /// Processor time of the clients for each record, in nanoseconds.
    pub client_cpu_ns_per_record: f64,
    /// The same of the brokers, where it is known: of those that the run started, or by what their pages say.
    pub broker_cpu_ns_per_record: Option<f64>,
    /// Processor time of the clients for each million bytes, in milliseconds.
    pub client_cpu_ms_per_mb: Option<f64>,
    /// The same of the brokers, where it is known.
    pub broker_cpu_ms_per_mb: Option<f64>,
    /// Memory of brokers that the run did not start, by what their pages say.
    pub broker_rss_bytes: Option<u64>,
    /// What part of the machine's processors others used than clients and brokers: the system's own work for
    /// them, and whatever else ran.
    pub others_cpu_share: Option<f64>,
    /// What part of them others of the real machine had, when they were wanted here; or of a load machine, if it was more
    /// there.
    pub steal_share: Option<f64>,
}

/// Processor time is told in hundredths of a second: of less than this it says nothing.
const REST_SECONDS_MIN: f64 = 0.1;

impl Resources {
    /// Of the whole seconds of the steady state or, where there are none since all was done within one, of the
    /// `rest` behind them. What the brokers `told` of themselves, from the first of those seconds to the end of the
    /// rest, is taken where the run did not start them.
    pub(super) fn of(seconds: &[Second], rest: Option<&Second>, told: Option<&Grown>) -> Option<Self> {
        let is_steady = |second: &&Second| !second.is_warmup;
        let (mut steady, rest) =
            (seconds.iter().filter(is_steady).collect::<Vec<_>>(), rest.filter(is_steady));
        let is_told = steady.iter().copied().chain(rest).all(|second| second.used.brokers.is_none());
        let told = told.filter(|_| is_told);
        let cpu_seconds_told = told.and_then(|told| told.cpu_seconds);
        let is_long = rest.is_some_and(|rest| rest.to - rest.from >= REST_SECONDS_MIN);
        if if steady.is_empty() { is_long } else { cpu_seconds_told.is_some() } {
            steady.extend(rest);
        }
        let sum = |of: fn(&Second) -> Counts| {
            steady.iter().fold(Counts::default(), |mut sum, second| {
                sum.add(of(second));
                sum
            })
        };
        let (written, read) = (sum(|second| second.written), sum(|second| second.read));
        let Counts { records, bytes } = if written.records > 0 { written } else { read };
        let used = steady.iter().map(|second| second.used).reduce(|sum, used| sum.and(&used))?;
        let of_brokers = used.brokers.map(|brokers| brokers.cpu_seconds).or(cpu_seconds_told);
        let per_record = |cpu_seconds: f64| cpu_seconds * 1e9 / records as f64;
        let per_mb = |cpu_seconds: f64| (bytes > 0).then(|| cpu_seconds * 1e9 / bytes as f64);
        let seconds: f64 = steady.iter().map(|second| second.to - second.from).sum();
        let cores = machine::processors() as f64;
        (records > 0).then(|| Self {
            seconds,
            records,
            bytes,
            used,
            client_cpu_ns_per_record: per_record(used.client.cpu_seconds),
            broker_cpu_ns_per_record: of_brokers.map(per_record),
            client_cpu_ms_per_mb: per_mb(used.client.cpu_seconds),
            broker_cpu_ms_per_mb: of_brokers.and_then(per_mb),
            broker_rss_bytes: told.and_then(|told| told.rss_bytes),
            others_cpu_share: used.cpu_seconds_of_others().map(|used| used / (seconds * cores)),
            steal_share: [
                used.host.map(|host| host.steal_seconds / (seconds * cores)),
                used.load_steal_seconds.map(|stolen| stolen / seconds),
            ]
            .into_iter()
            .flatten()
            .reduce(f64::max),
        })
    }

    /// The most memory that the brokers had, whoever says it.
    pub(super) fn rss_bytes_of_brokers(&self) -> Option<u64> {
        self.used.brokers.map(|brokers| brokers.rss_bytes).or(self.broker_rss_bytes)
    }

    /// What the disk with the brokers' data did.
    fn disk(&self) -> Option<Disk> {
        self.used.host?.disk
    }

    /// How much of something there was for each byte of a value.
    fn per_byte(&self, bytes: Option<u64>) -> Option<f64> {
        (self.bytes > 0).then_some(bytes? as f64 / self.bytes as f64)
    }

    /// How often threads of the clients and the brokers gave way to others, for each record.
    fn switches_per_record(&self) -> f64 {
        let of = |usage: &Usage| (usage.voluntary_switches + usage.involuntary_switches) as f64;
        (of(&self.used.client) + self.used.brokers.as_ref().map_or(0.0, of)) / self.records as f64
    }
}

/// What is shown of it: the title of a column, what it is of a run, how it is written, and how files call it; nothing
/// where they have it among the figures.
type Column = (&'static str, fn(&RunReport) -> Option<f64>, fn(f64) -> String, &'static str);

const COLUMNS: [Column; 18] = [
    ("client CPU, ns a record", |run| Some(run.resources?.client_cpu_ns_per_record), whole, ""),
    ("broker CPU, ns a record", |run| run.resources?.broker_cpu_ns_per_record, whole, ""),
    ("client CPU, ms a MB", |run| run.resources?.client_cpu_ms_per_mb, precise, "client_cpu_ms_per_mb"),
    ("broker CPU, ms a MB", |run| run.resources?.broker_cpu_ms_per_mb, precise, "broker_cpu_ms_per_mb"),
    ("client RSS, MiB", |run| Some(mib(run.resources?.used.client.rss_bytes)), whole, ""),
    ("broker RSS, MiB", |run| run.resources?.rss_bytes_of_brokers().map(mib), whole, ""),
    (
        "brokers to disk, a byte",
        |run| {
            let found = run.resources?;
            found.per_byte(found.used.brokers.map(|brokers| brokers.disk_written_bytes))
        },
        precise,
        "broker_disk_bytes_per_byte",
    ),
    (
        "loopback, a byte",
        |run| {
            let found = run.resources?;
            found.per_byte(found.used.host.map(|host| host.loopback_bytes))
        },
        precise,
        "loopback_bytes_per_byte",
    ),
    (
        "network in, a byte",
        |run| of_network(run, |host| host.network_in_bytes),
        precise,
        "network_in_bytes_per_byte",
    ),
    (
        "network out, a byte",
        |run| of_network(run, |host| host.network_out_bytes),
        precise,
        "network_out_bytes_per_byte",
    ),
    ("log flushes", |run| run.metrics.as_ref()?.flushes.map(|flushes| flushes as f64), whole, "log_flushes"),
    ("mean log flush", |run| mean_log_flush_ns(run), time, "mean_log_flush_ns"),
    ("disk flushes", |run| run.resources?.disk().map(|disk| disk.flushes as f64), whole, "disk_flushes"),
    ("mean disk flush", |run| mean_disk_flush_ns(&run.resources?.disk()?), time, "mean_disk_flush_ns"),
    (
        "disk busy",
        |run| {
            let found = run.resources?;
            found.disk().map(|disk| disk.busy_seconds / found.seconds)
        },
        percent,
        "disk_busy_share",
    ),
    ("switches a record", |run| Some(run.resources?.switches_per_record()), precise, "switches_per_record"),
    ("CPU of others", |run| run.resources?.others_cpu_share, percent, "others_cpu_share"),
    ("stolen", |run| run.resources?.steal_share, percent, "steal_share"),
];

/// Other than loopback; nothing where next to nothing went there.
fn of_network(run: &RunReport, of: fn(&Host) -> u64) -> Option<f64> {
    let found = run.resources?;
    found.per_byte(found.used.host.as_ref().map(of)).filter(|share| *share >= 0.01)
}

/// Of the brokers' logs, by what they say.
fn mean_log_flush_ns(run: &RunReport) -> Option<f64> {
    let grown = run.metrics.as_ref()?;
    let flushes = grown.flushes.filter(|flushes| *flushes > 0)?;
    Some(grown.flush_seconds? * 1e9 / flushes as f64)
}

/// Of the disk, by what the system says: whoever had it flushed.
fn mean_disk_flush_ns(disk: &Disk) -> Option<f64> {
    (disk.flushes > 0).then(|| disk.flush_seconds * 1e9 / disk.flushes as f64)
}

fn time(nanos: f64) -> String {
    in_words(nanos as u64)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / crate::histogram::MIB
}

fn whole(value: f64) -> String {
    super::figures::thousands(value)
}

fn precise(value: f64) -> String {
    if value >= 100.0 { whole(value) } else { format!("{value:.2}") }
}

/// A share, for people.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What a run took beside what its figures say, by the names that files have for it.
pub(crate) fn costs() -> impl Iterator<Item = (&'static str, fn(&RunReport) -> Option<f64>)> {
    COLUMNS.iter().filter(|(.., name)| !name.is_empty()).map(|(_, of, _, name)| (*name, *of))
}

impl Report {
    /// What the runs took: a row for each system at each point, with medians.
    pub fn resources(&self) -> Grid {
        let titles = COLUMNS.iter().map(|(title, ..)| *title);
        let mut grid = Grid::new(["", "system"].into_iter().chain(titles));
        let systems =
            self.points.iter().flat_map(|point| point.systems.iter().map(move |system| (point, system)));
        for (point, system) in
            systems.filter(|(_, system)| system.runs.iter().any(|run| run.resources.is_some()))
        {
            let cells =
                COLUMNS.iter().map(|(_, of, show, _)| median(system, *of).map_or_else(String::new, show));
            grid.row([point.label(), system.name.clone()].into_iter().chain(cells));
        }
        grid.compact()
    }

    /// What the clusters promised, and how the machine was: lines for people.
    pub fn stamps(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |line: String| {
            if !lines.contains(&line) {
                lines.push(line);
            }
        };
        for system in self.points.iter().flat_map(|point: &PointReport| &point.systems) {
            for stamp in system.runs.iter().map(|run| &run.stamp).filter(|stamp| !stamp.acks.is_empty()) {
                add(format!("{}: {}", system.name, stamp.in_words()));
                let differ = |what: &str, settings: &std::collections::BTreeMap<String, String>| {
                    let pairs: Vec<String> =
                        settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    (!pairs.is_empty())
                        .then(|| format!("{}, not as {what} by default: {}", system.name, pairs.join(" ")))
                };
                differ("brokers are", &stamp.broker_settings).into_iter().for_each(&mut add);
                differ("topics are", &stamp.topic_settings).into_iter().for_each(&mut add);
                differ("clients are", &stamp.client_settings).into_iter().for_each(&mut add);
            }
        }
        let runs = self.points.iter().flat_map(|point| &point.systems).flat_map(|system| &system.runs);
        if let Some(error_ns) = runs.filter_map(RunReport::clock_error_ns).max() {
            add(format!(
                "Clocks of several machines: times until records were read are known to within {}",
                in_words(error_ns)
            ));
        }
        if let Some((before, behind)) = self.load {
            add(format!("Load of the machine over a minute: {before:.2} before, {behind:.2} behind"));
        }
        lines
    }
}

/// The median of the runs that have it.
pub(super) fn median(system: &SystemReport, of: fn(&RunReport) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = system.runs.iter().filter_map(of).collect();
    Spread::of(&values).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Host;
    use crate::workload::Workload;

    #[test]
    fn costs_are_of_the_steady_state_and_for_what_came_of_it() {
        let usage =
            |cpu_seconds, disk_written_bytes| Usage { cpu_seconds, disk_written_bytes, ..Usage::default() };
        let host =
            Some(Host { cpu_seconds: 0.9, steal_seconds: 0.1, loopback_bytes: 3_000, ..Host::default() });
        let second = |from: f64, is_warmup| Second {
            from,
            to: from + 1.0,
            is_warmup,
            written: Counts { records: 10, bytes: 1_000 },
            used: Used {
                client: usage(0.5, 0),
                brokers: Some(usage(0.25, 2_000)),
                host,
                load_steal_seconds: None,
            },
            ..Second::default()
        };
        let found = Resources::of(&[second(0.0, true), second(1.0, false), second(2.0, false)], None, None);
        let found = found.expect("there is a steady state");
        assert_eq!((found.seconds, found.records, found.bytes), (2.0, 20, 2_000));
        assert_eq!((found.client_cpu_ns_per_record, found.broker_cpu_ns_per_record), (5e7, Some(2.5e7)));
        assert_eq!((found.client_cpu_ms_per_mb, found.broker_cpu_ms_per_mb), (Some(5e5), Some(2.5e5)));
        let cores = machine::processors() as f64;
        let near =
            |share: Option<f64>, expected: f64| share.is_some_and(|share| (share - expected).abs() < 1e-9);
        assert!(
            near(found.others_cpu_share, 0.15 / cores) && near(found.steal_share, 0.1 / cores),
            "{found:?}"
        );
        assert_eq!(Resources::of(&[second(0.0, true)], None, None), None, "it only warmed up");

        let mut report = crate::report::tests::report(Workload::default(), &[("vltava", &[10.0])]);
        assert!(report.resources().is_empty(), "nothing is known");
        let run = &mut report.points[0].systems[0].runs[0];
        run.resources = Some(found);
        run.stamp.acks = "all".to_owned();
        run.stamp.flush = Some("flushed when the system does".to_owned());
        let text = report.resources().text();
        assert!(text.contains("brokers to disk, a byte") && text.contains("2.00"), "{text}");
        assert_eq!(report.stamps(), ["vltava: acks=all, 0 replicas, flushed when the system does"]);
    }

    /// Some time, with so many records and so much of a processor for the clients.
    fn part(from: f64, to: f64, records: u64, cpu_seconds: f64) -> Second {
        let client = Usage { cpu_seconds, ..Usage::default() };
        let read = Counts { records, bytes: records * 100 };
        Second { from, to, read, used: Used { client, ..Used::default() }, ..Second::default() }
    }

    #[test]
    fn what_is_done_within_a_second_takes_something_too() {
        let rest = |to| part(1.0, to, 1_000, 0.5);
        let found = Resources::of(&[], Some(&rest(1.8)), None).expect("it is long enough");
        assert_eq!((found.records, found.client_cpu_ns_per_record), (1_000, 5e5));
        assert!((found.seconds - 0.8).abs() < 1e-9, "{}", found.seconds);
        assert_eq!(Resources::of(&[], Some(&rest(1.05)), None), None, "clocks of processors are coarser");
        let warming = Second { is_warmup: true, ..rest(1.8) };
        assert_eq!(Resources::of(&[], Some(&warming), None), None);
        // Behind whole seconds, others may have ended before.
        let found = Resources::of(&[part(0.0, 1.0, 500, 1.0)], Some(&rest(1.8)), None);
        assert_eq!(found.map(|found| (found.records, found.seconds)), Some((500, 1.0)));
    }

    #[test]
    fn brokers_that_the_run_did_not_start_are_known_by_what_they_say() {
        let told =
            Grown { cpu_seconds: Some(0.3), rss_bytes: Some(64 << 20), flushes: None, ..Grown::default() };
        let (whole, rest) = (part(1.0, 2.0, 1_000, 0.5), part(2.0, 2.5, 500, 0.25));
        let found =
            Resources::of(std::slice::from_ref(&whole), Some(&rest), Some(&told)).expect("there is a second");
        // What they say is of the rest, too.
        assert_eq!((found.records, found.seconds), (1_500, 1.5));
        assert_eq!((found.broker_cpu_ns_per_record, found.broker_cpu_ms_per_mb), (Some(2e5), Some(2e3)));
        assert_eq!((found.used.brokers, found.rss_bytes_of_brokers()), (None, Some(64 << 20)));
        // Of those that it started, the system says it.
        let usage = Usage { cpu_seconds: 0.1, rss_bytes: 5, ..Usage::default() };
        let started = Second { used: Used { brokers: Some(usage), ..whole.used }, ..whole };
        let found = Resources::of(&[started], Some(&rest), Some(&told)).expect("there is a second");
        assert_eq!((found.records, found.broker_cpu_ns_per_record), (1_000, Some(1e5)));
        assert_eq!((found.broker_rss_bytes, found.rss_bytes_of_brokers()), (None, Some(5)));
    }

    #[test]
    fn flushes_of_the_disk_are_told_of_every_system() {
        let disk = |flushes, flush_seconds| Disk { flushes, flush_seconds, ..Disk::default() };
        let mut report = crate::report::tests::report(
            Workload::default(),
            &[("vltava", &[10.0]), ("kafka", &[10.0]), ("elsewhere", &[10.0])],
        );
        let disks = [Some(disk(1_200, 0.6)), Some(disk(0, 0.0)), None];
        for (system, disk) in report.points[0].systems.iter_mut().zip(disks) {
            let host = Some(Host { disk, ..Host::default() });
            let used = Used { host, ..Used::default() };
            system.runs[0].resources =
                Some(Resources { seconds: 2.0, records: 1, used, ..Resources::default() });
        }
        let grid = report.resources();
        let column = |name: &str| {
            let at = grid.head().iter().position(|title| title == name).expect(name);
            grid.rows().iter().map(|row| row[at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(column("disk flushes"), ["1 200", "0", ""]);
        assert_eq!(column("mean disk flush"), ["500 µs", "", ""]);
        assert!(!grid.head().contains(&"log flushes".to_owned()), "no broker said so");
    }
}
