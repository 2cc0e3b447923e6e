//! What a run took: of processors, memory, disk and network, for each record and each megabyte.

use serde::{Deserialize, Serialize};

use super::{Grid, PointReport, Report, RunReport, SystemReport};
use crate::histogram::in_words;
use crate::load::Second;
use crate::meter::Counts;
use crate::resources::{Usage, Used};
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
    /// The same of the brokers, where it is known.
    pub broker_cpu_ns_per_record: Option<f64>,
    /// Processor time of the clients for each million bytes, in milliseconds.
    pub client_cpu_ms_per_mb: Option<f64>,
    /// The same of the brokers, where it is known.
    pub broker_cpu_ms_per_mb: Option<f64>,
    /// What part of the machine's processors others used than clients and brokers: the system's own work for
    /// them, and whatever else ran.
    pub others_cpu_share: Option<f64>,
    /// What part of them others of the real machine had, when they were wanted here.
    pub steal_share: Option<f64>,
}

impl Resources {
    /// `None` without a whole second of the steady state.
    pub(super) fn of(seconds: &[Second]) -> Option<Self> {
        let steady = || seconds.iter().filter(|second| !second.is_warmup);
        let sum = |of: fn(&Second) -> Counts| {
            steady().map(of).fold(Counts::default(), |mut sum, counts| {
                sum.add(counts);
                sum
            })
        };
        let (written, read) = (sum(|second| second.written), sum(|second| second.read));
        let Counts { records, bytes } = if written.records > 0 { written } else { read };
        let used = steady().map(|second| second.used).reduce(|sum, used| sum.and(&used))?;
        let per_record = |usage: &Usage| usage.cpu_seconds * 1e9 / records as f64;
        let per_mb = |usage: &Usage| usage.cpu_seconds * 1e9 / bytes as f64;
        let seconds: f64 = steady().map(|second| second.to - second.from).sum();
        let cores = std::thread::available_parallelism().map_or(1, Into::into) as f64;
        (records > 0).then(|| Self {
            seconds,
            records,
            bytes,
            used,
            client_cpu_ns_per_record: per_record(&used.client),
            broker_cpu_ns_per_record: used.brokers.as_ref().map(per_record),
            client_cpu_ms_per_mb: (bytes > 0).then(|| per_mb(&used.client)),
            broker_cpu_ms_per_mb: used.brokers.as_ref().filter(|_| bytes > 0).map(per_mb),
            others_cpu_share: used.cpu_seconds_of_others().map(|used| used / (seconds * cores)),
            steal_share: used.host.map(|host| host.steal_seconds / (seconds * cores)),
        })
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

/// What is shown of it: the name of a column, what it is of a run, and how it is written.
type Column = (&'static str, fn(&RunReport) -> Option<f64>, fn(f64) -> String);

const COLUMNS: [Column; 14] = [
    ("client CPU, ns a record", |run| Some(run.resources?.client_cpu_ns_per_record), whole),
    ("broker CPU, ns a record", |run| run.resources?.broker_cpu_ns_per_record, whole),
    ("client CPU, ms a MB", |run| run.resources?.client_cpu_ms_per_mb, precise),
    ("broker CPU, ms a MB", |run| run.resources?.broker_cpu_ms_per_mb, precise),
    ("client RSS, MiB", |run| Some(mib(run.resources?.used.client.rss_bytes)), whole),
    ("broker RSS, MiB", |run| Some(mib(run.resources?.used.brokers?.rss_bytes)), whole),
    (
        "brokers to disk, a byte",
        |run| {
            let found = run.resources?;
            found.per_byte(found.used.brokers.map(|brokers| brokers.disk_written_bytes))
        },
        precise,
    ),
    (
        "loopback, a byte",
        |run| {
            let found = run.resources?;
            found.per_byte(found.used.host.map(|host| host.loopback_bytes))
        },
        precise,
    ),
    ("flushes", |run| run.metrics.as_ref()?.flushes.map(|flushes| flushes as f64), whole),
    ("mean flush", |run| mean_flush_ns(run), |nanos| in_words(nanos as u64)),
    (
        "disk busy",
        |run| {
            let found = run.resources?;
            found.used.host?.disk.map(|disk| disk.busy_seconds / found.seconds)
        },
        percent,
    ),
    ("switches a record", |run| Some(run.resources?.switches_per_record()), precise),
    ("CPU of others", |run| run.resources?.others_cpu_share, percent),
    ("stolen", |run| run.resources?.steal_share, percent),
];

fn mean_flush_ns(run: &RunReport) -> Option<f64> {
    let grown = run.metrics.as_ref()?;
    let flushes = grown.flushes.filter(|flushes| *flushes > 0)?;
    Some(grown.flush_seconds? * 1e9 / flushes as f64)
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
                COLUMNS.iter().map(|(_, of, show)| median(system, *of).map_or_else(String::new, show));
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
            used: Used { client: usage(0.5, 0), brokers: Some(usage(0.25, 2_000)), host },
            ..Second::default()
        };
        let found = Resources::of(&[second(0.0, true), second(1.0, false), second(2.0, false)]);
        let found = found.expect("there is a steady state");
        assert_eq!((found.seconds, found.records, found.bytes), (2.0, 20, 2_000));
        assert_eq!((found.client_cpu_ns_per_record, found.broker_cpu_ns_per_record), (5e7, Some(2.5e7)));
        assert_eq!((found.client_cpu_ms_per_mb, found.broker_cpu_ms_per_mb), (Some(5e5), Some(2.5e5)));
        let cores = std::thread::available_parallelism().map_or(1, Into::into) as f64;
        let near =
            |share: Option<f64>, expected: f64| share.is_some_and(|share| (share - expected).abs() < 1e-9);
        assert!(
            near(found.others_cpu_share, 0.15 / cores) && near(found.steal_share, 0.1 / cores),
            "{found:?}"
        );
        assert_eq!(Resources::of(&[second(0.0, true)]), None, "it only warmed up");

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
}
