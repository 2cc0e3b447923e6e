//! What came of an experiment, as a file: for programs that compare, draw, or keep it.
//!
//! The file says of itself which form it has. Fields may be added to a form, and a file without them is read as
//! well; one that is taken away or means something else makes another form.

mod deeds;
mod drift;
mod figures;
mod grid;
mod growth;
mod limits;
mod resources;
mod summary;
mod text;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ceiling::{Ceilings, Share};
use crate::driver::Driver;
use crate::fleet::worst_pair;
use crate::histogram::{self, MIB, Quantiles};
use crate::load::{Outcome, Second, WorkerClock};
use crate::meter::Flow;
use crate::metrics::Grown;
use crate::search::Probe;
use crate::stamp::Stamp;
use crate::statistics::Spread;
use crate::system::Deed;
use crate::workload::{Published, Workload};

pub use figures::{FIGURES, Figure, Unit};
pub use grid::Grid;
pub use growth::Growth;
pub use limits::limits;
pub(crate) use limits::rates;
pub use resources::Resources;
pub(crate) use resources::costs;
pub(crate) use summary::Headline;
pub use summary::Summary;
pub(crate) use text::{factor_in_words, in_words};

/// The form that this program writes and reads.
pub const SCHEMA: &str = "vltava-bench/1";

/// What came of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Of the program that measured.
    pub version: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How it was asked for.
    pub command: String,
    /// What was measured.
    pub name: String,
    /// What it asks.
    pub about: String,
    /// What others measured with it.
    pub published: Option<Published>,
    /// Whether it is the short form, and not the size that was published.
    pub is_quick: bool,
    /// Whether somebody ended it before all runs were done: those that are in it are as any.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_interrupted: bool,
    /// What is not as the files say.
    pub notes: Vec<String>,
    /// Where it ran.
    pub machine: Value,
    /// Programs that wanted to run there before and behind, on average over a minute.
    pub load: Option<(f64, f64)>,
    /// What it can do at all, if that was measured.
    pub ceilings: Option<Ceilings>,
    /// One for each combination of values.
    pub points: Vec<PointReport>,
}

/// One combination of values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointReport {
    /// The values of the lists, by field.
    pub at: Map<String, Value>,
    /// What was done.
    pub workload: Workload,
    /// What it was done to, in the order of the command.
    pub systems: Vec<SystemReport>,
}

/// What came of one system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemReport {
    /// What it is called.
    pub name: String,
    /// Which version it is, if that is known.
    pub version: Option<String>,
    /// How it was set up.
    pub driver: Driver,
    /// Each run.
    pub runs: Vec<RunReport>,
    /// What the runs come to, by the names of [`FIGURES`].
    pub figures: Map<String, Value>,
}

/// What came of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunReport {
    /// What was written, if that was measured.
    pub written: Option<FlowReport>,
    /// What was read, if that was measured.
    pub read: Option<FlowReport>,
    /// How long calls of `send` took.
    pub send_call_ns: Option<Quantiles>,
    /// All of that, as [`histogram::encoded`] writes it.
    pub send_call_histogram: Option<String>,
    /// Whether records were sent when they were due; null if nothing was due at any time.
    pub schedule: Value,
    /// What was found of the records.
    pub verified: Value,
    /// What was wrong with them; nothing if they are what was sent.
    pub wrong: Option<String>,
    /// Records that were given up, or not taken at all.
    pub failed: u64,
    /// What was wrong with the first of those.
    pub first_failure: Option<String>,
    /// Settings of the clients, by Kafka's names.
    pub settings: Map<String, Value>,
    /// Rates that were tried before; the run is at the one that was found.
    pub probes: Vec<Probe>,
    /// Records a second that were due, if that does not change; where it had to be found, what was found.
    pub rate: Option<f64>,
    /// Whether a rate had to be found, and none was kept up with for a whole run: this is the last that was run.
    pub is_rate_missed: bool,
    /// Records a second that were taken as fast as can be, where that was tried first.
    pub full_speed_per_sec: Option<f64>,
    /// How often its workload was tried before, to warm brokers up.
    pub warmup_tries: u16,
    /// How fast each of those was: records a second; at a set rate, how many would have come one after the other, each
    /// in the mean time that one took.
    pub warmup_speeds: Vec<f64>,
    /// Whether its brokers had run the point before it, too, and were warm.
    pub are_brokers_kept: bool,
    /// How long it took until a producer was closed with all that it had, of all the longest.
    pub close_ns: Option<u64>,
    /// What the cluster promised.
    pub stamp: Stamp,
    /// What part of what the machine can do at all was reached, where that is known.
    pub share: Option<Share>,
    /// The rate while all that was stored fitted in memory, and behind that, where there was more.
    pub growth: Option<Growth>,
    /// What the brokers counted in the steady state, where they were asked.
    pub metrics: Option<Grown>,
    /// The clocks of the machines that made the load, if there were others than this.
    pub clocks: Vec<WorkerClock>,
    /// What was done to the brokers meanwhile.
    pub faults: Vec<Deed>,
    /// What its steady state took: its whole seconds or, where it has none, what there is of one.
    pub resources: Option<Resources>,
    /// Each second of it.
    pub seconds: Vec<Second>,
}

/// The steady state of all senders, or of all readers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowReport {
    /// How many.
    pub records: u64,
    /// Of their values.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// What came through in it, be it due before, by that time.
    pub records_per_sec: f64,
    /// In millions of bytes.
    pub mb_per_sec: f64,
    /// In units of 2²⁰ bytes, which Kafka's tools call MB.
    pub mib_per_sec: f64,
    /// From when a client began until its first record came through, of several the longest; part of no other figure.
    #[serde(default)]
    pub first_ns: Option<u64>,
    /// From when a record was due to its acknowledgement, or until it was read.
    pub response_ns: Option<Quantiles>,
    /// From when a record was taken to its acknowledgement.
    pub service_ns: Option<Quantiles>,
    /// All of that, as [`histogram::encoded`] writes it.
    #[serde(default)]
    pub service_histogram: Option<String>,
    /// All of the first of those, as [`histogram::encoded`] writes it.
    pub response_histogram: Option<String>,
    /// From when a record left the client to its acknowledgement: the network's time and the cluster's.
    #[serde(default)]
    pub wire_ns: Option<Quantiles>,
    /// All of that, as [`histogram::encoded`] writes it.
    #[serde(default)]
    pub wire_histogram: Option<String>,
    /// From when a record was due until the client took it, where records are sent at set times; a part of the
    /// first of these.
    #[serde(default)]
    pub delay_ns: Option<Quantiles>,
    /// All of that, as [`histogram::encoded`] writes it.
    #[serde(default)]
    pub delay_histogram: Option<String>,
}

/// All of it; nothing where nothing was counted.
fn whole(of: &Histogram<u64>) -> Option<String> {
    histogram::encoded(of).filter(|_| !of.is_empty())
}

impl FlowReport {
    pub(crate) fn of(flow: &Flow) -> Self {
        let (counts, seconds) = (flow.measured.counts, flow.seconds);
        let bytes_per_sec = flow.measured.came.bytes as f64 / seconds;
        Self {
            records: counts.records,
            bytes: counts.bytes,
            seconds,
            records_per_sec: flow.records_per_sec(),
            mb_per_sec: bytes_per_sec / 1e6,
            mib_per_sec: bytes_per_sec / MIB,
            first_ns: flow.measured.first.and_then(|first| u64::try_from(first.as_nanos()).ok()),
            response_ns: Quantiles::of(&flow.measured.response),
            service_ns: Quantiles::of(&flow.measured.service),
            service_histogram: whole(&flow.measured.service),
            response_histogram: whole(&flow.measured.response),
            wire_ns: Quantiles::of(&flow.measured.wire),
            wire_histogram: whole(&flow.measured.wire),
            delay_ns: Quantiles::of(&flow.measured.delay),
            delay_histogram: whole(&flow.measured.delay),
        }
    }
}

impl RunReport {
    /// What came of it; records that were given up are wrong, too.
    pub fn of(outcome: Outcome, probes: Vec<Probe>, workload: &Workload) -> Self {
        let verified = outcome.verdict.json();
        let wrong = outcome.verdict.into_result().err().map(|error| error.to_string());
        let given_up = || {
            let why = outcome.first_failure.as_deref().unwrap_or("nobody says why");
            (outcome.failed > 0 && !workload.may_give_up)
                .then(|| format!("{} records were given up: {why}", outcome.failed))
        };
        let flow = outcome.written.as_ref().or(outcome.read.as_ref());
        let is_nothing = flow.is_some_and(|flow| flow.measured.counts.records == 0);
        let nothing = || is_nothing.then(|| "no record came through".to_owned());
        let settings =
            outcome.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into()));
        Self {
            written: outcome.written.as_ref().map(FlowReport::of),
            read: outcome.read.as_ref().map(FlowReport::of),
            send_call_ns: Quantiles::of(&outcome.send_call),
            send_call_histogram: whole(&outcome.send_call),
            schedule: outcome.punctuality.json(),
            verified,
            wrong: wrong.or_else(given_up).or_else(nothing),
            failed: outcome.failed,
            first_failure: outcome.first_failure.clone(),
            settings: settings.collect(),
            probes,
            rate: None,
            is_rate_missed: false,
            full_speed_per_sec: None,
            warmup_tries: 0,
            warmup_speeds: Vec::new(),
            are_brokers_kept: false,
            close_ns: u64::try_from(outcome.close.as_nanos()).ok(),
            stamp: outcome.stamp,
            share: None,
            growth: None,
            resources: Resources::of(&outcome.seconds, outcome.rest.as_ref(), outcome.grown.as_ref()),
            metrics: outcome.grown,
            clocks: outcome.clocks,
            faults: Vec::new(),
            seconds: outcome.seconds,
        }
    }
}

impl RunReport {
    /// Whether its records were compressed by the clients.
    pub fn is_compressed(&self) -> bool {
        self.settings.get("compression.type").is_some_and(|codec| codec != "none")
    }

    /// Whether its records were only counted: there was no room for a mark in them.
    pub fn is_counted(&self) -> bool {
        let number = |name: &str| self.verified[name].as_u64().unwrap_or(0);
        number("records") == 0 && number("unmarked") > 0
    }

    /// By how much a time from one machine to another may be wrong at most, if several made the load.
    pub fn clock_error_ns(&self) -> Option<u64> {
        (self.clocks.len() > 1).then(|| worst_pair(self.clocks.iter().map(|clock| clock.error_ns)))
    }

    /// The highest rate that was kept up with, in records a second, where that was looked for and found.
    pub fn kept_per_sec(&self) -> Option<f64> {
        self.rate.filter(|_| !self.probes.is_empty() && !self.is_rate_missed)
    }

    /// Whether it got to its end, so that something of it was measured.
    pub const fn got_through(&self) -> bool {
        self.written.is_some() || self.read.is_some()
    }
}

impl SystemReport {
    /// What its runs come to.
    pub fn of(driver: Driver, version: Option<String>, runs: Vec<RunReport>) -> Self {
        let spread = |figure: &Figure| {
            let values: Vec<f64> = runs.iter().filter_map(|run| figure.of(run)).collect();
            Some((figure.name.to_owned(), serde_json::to_value(Spread::of(&values)?).ok()?))
        };
        let figures = FIGURES.iter().filter_map(spread).collect();
        Self { name: driver.name.clone(), version, driver, runs, figures }
    }

    /// Whether a run failed: its records were wrong or given up, or nothing came of it. Then nothing is better or worse.
    pub fn has_failed(&self) -> bool {
        self.runs.iter().any(|run| run.wrong.is_some())
    }

    /// A figure of each run that has it.
    pub fn values(&self, figure: &Figure) -> Vec<f64> {
        self.runs.iter().filter_map(|run| figure.of(run)).collect()
    }
}

impl PointReport {
    /// Its values, as people read them; empty if the experiment has but one point.
    pub fn label(&self) -> String {
        let value = |(field, value): (&String, &Value)| format!("{field}={}", crate::yaml::Shown(value));
        self.at.iter().map(value).collect::<Vec<_>>().join(" ")
    }
}

impl Report {
    /// What others measured of this figure, if they say it. A rate that was set is no measurement: theirs says at
    /// which they measured the others, and ours may be another.
    pub fn published_of(&self, figure: &Figure) -> Option<f64> {
        let of = self.published.as_ref()?;
        let is_set = |point: &PointReport| point.workload.is_rate_set();
        if figure.is_rate() && !self.points.is_empty() && self.points.iter().all(is_set) {
            return None;
        }
        let systems = || self.points.iter().flat_map(|point| &point.systems);
        let has_read = systems().any(|system| system.runs.iter().any(|run| run.read.is_some()));
        // Where records are read, that is what was published.
        match (figure.name, has_read) {
            ("kept_records_per_sec", _) => of.records_per_sec,
            ("kept_mib_per_sec", _) => of.mib_per_sec,
            ("written_records_per_sec", false) | ("read_records_per_sec", true) => of.records_per_sec,
            ("written_mib_per_sec", false) | ("read_mib_per_sec", true) => of.mib_per_sec,
            ("send_call_mean_ns", _) => of.send_mean_ms.map(|ms| ms * 1e6),
            ("send_call_max_ns", _) => of.send_max_ms.map(|ms| ms * 1e6),
            ("end_to_end_p50_ns", _) => of.p50_ms.map(|ms| ms * 1e6),
            ("end_to_end_p99_ns", _) => of.p99_ms.map(|ms| ms * 1e6),
            ("end_to_end_p999_ns", _) => of.p999_ms.map(|ms| ms * 1e6),
            _ => None,
        }
    }

    /// At which rate others measured a latency, where a rate was set: ours may be another.
    pub fn published_at(&self, figure: &Figure) -> Option<f64> {
        let is_set = self.points.iter().any(|point| point.workload.is_rate_set());
        self.published.as_ref()?.records_per_sec.filter(|_| is_set && figure.is_latency())
    }

    /// Whether brokers ran, and not the machine alone.
    pub fn has_runs(&self) -> bool {
        self.points.iter().flat_map(|point| &point.systems).any(|system| !system.runs.is_empty())
    }

    /// Reads one that was written.
    pub fn open(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let value: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is no report", path.display()))?;
        let schema = value["schema"].as_str().unwrap_or("none");
        ensure!(schema == SCHEMA, "{} has the form {schema}; this program reads {SCHEMA}", path.display());
        serde_json::from_value(value).with_context(|| format!("{} is no report", path.display()))
    }

    /// What was wrong with the records of a run, of all that were.
    pub fn wrong(&self) -> Vec<String> {
        let systems =
            self.points.iter().flat_map(|point| point.systems.iter().map(move |system| (point, system)));
        let of_system = |(point, system): (&PointReport, &SystemReport)| {
            let place = format!("{} {} ", system.name, point.label());
            let wrong = system.runs.iter().filter_map(|run| run.wrong.clone());
            wrong.map(|wrong| format!("{}: {wrong}", place.trim_end())).collect::<Vec<_>>()
        };
        systems.flat_map(of_system).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
