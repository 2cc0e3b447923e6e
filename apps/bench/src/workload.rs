//! What is done to a cluster: topics, records, who writes and reads them, how fast and for how long.
//!
//! A workload is a YAML file. A field that is a list, also within `topic`, `producer` and `consumer`, makes an
//! experiment of several points, one for each value; two lists, one for each pair:
//!
//! ```yaml
//! name: record-size
//! partitions: 6
//! record_bytes: [10, 100, 1000]
//! producer:
//!   linger.ms: [0, 5]
//! records: 1000000
//! ```
//!
//! A workload of the OpenMessaging Benchmark is read, too, and becomes one of these.

mod check;
pub mod fault;
mod openmessaging;
mod pace;
mod room;
mod sweep;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ceiling::Extent;
use crate::keys::Keys;
use crate::yaml::{self, Settings, Source};

pub use fault::Faults;
pub use pace::Pace;
pub use sweep::Axis;

/// What is done to a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// What it asks, in a sentence or two.
    pub about: String,
    /// What others measured with it.
    pub published: Option<Published>,
    /// Other values of these fields for a short run.
    pub quick: Map<String, Value>,

    /// Brokers that a driver starts which starts any.
    pub brokers: u16,
    /// Topics.
    pub topics: u32,
    /// Partitions of each topic.
    pub partitions: u32,
    /// Replicas of each partition.
    pub replication_factor: u16,
    /// Settings of each topic.
    #[serde(deserialize_with = "yaml::settings")]
    pub topic: Settings,

    /// Bytes of the value of each record, where the payload does not say it.
    pub record_bytes: usize,
    /// What the values are: `letters`, `share:0.3` for bytes of which compression leaves about that share,
    /// `file:PATH` for those of a file, `log-lines` for JSON of about a kilobyte, `lines:PATH`, or `template:TEXT`.
    pub payload: String,
    /// `none`, `round-robin:N`, `uniform:N`, `zipf:N` or `zipf:N:EXPONENT`.
    pub keys: String,
    /// What chance begins with.
    pub seed: u64,

    /// Producers, each with connections and a thread of its own. With more than one topic they share them.
    pub producers: u16,
    /// `0`, `1` or `all`.
    #[serde(deserialize_with = "yaml::text")]
    pub acks: String,
    /// Settings of each producer.
    #[serde(deserialize_with = "yaml::settings")]
    pub producer: Settings,
    /// Records a second of all producers together, `FROM:TO:SECONDS` for a rate that changes, `150%` of what is
    /// taken as fast as can be, or `max`.
    pub rate: Pace,
    /// Stop sending when the time is over, whatever was due by then and is not sent yet.
    pub stop_on_time: bool,
    /// Records that a producer gives up or does not take are counted, and no failure.
    pub may_give_up: bool,
    /// How records follow each other at a rate: `fixed` or `poisson`.
    pub arrivals: String,
    /// Send a record once the one before it was read, one at a time.
    pub one_at_a_time: bool,
    /// Search for the highest rate that is kept up with, and measure at that.
    pub search: Option<Goal>,

    /// How often all is read.
    pub subscriptions: u16,
    /// Who share each subscription; without any, nothing is read while records are written.
    pub consumers: u16,
    /// Settings of each consumer.
    #[serde(deserialize_with = "yaml::settings")]
    pub consumer: Settings,
    /// Write everything first and measure how it is read.
    pub stored: bool,

    /// What is done to brokers meanwhile, that a driver starts: `kill 2 at 20 for 5, restart 1 at 40`.
    pub faults: Faults,

    /// How long it works before it is measured.
    pub warmup_seconds: f64,
    /// How long it is measured; not if `records` is there.
    pub seconds: f64,
    /// How many records are measured, of all producers together.
    pub records: Option<u64>,
    /// No more records are sent than so many, by all producers together and with those of the warm-up: a run
    /// ends early with them.
    pub records_max: Option<u64>,

    /// Measure what the machine can do at all, with so many bytes, and no brokers.
    pub ceiling: Option<Extent>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            published: None,
            quick: Map::new(),
            brokers: 1,
            topics: 1,
            partitions: 1,
            replication_factor: 1,
            topic: Settings::new(),
            record_bytes: 100,
            payload: "letters".to_owned(),
            keys: "none".to_owned(),
            seed: 1,
            producers: 1,
            acks: "all".to_owned(),
            producer: Settings::new(),
            rate: Pace::Max,
            stop_on_time: false,
            may_give_up: false,
            arrivals: "fixed".to_owned(),
            one_at_a_time: false,
            search: None,
            subscriptions: 1,
            consumers: 0,
            consumer: Settings::new(),
            stored: false,
            faults: Faults::default(),
            warmup_seconds: 5.0,
            seconds: 60.0,
            records: None,
            records_max: None,
            ceiling: None,
        }
    }
}

/// What a rate has to meet, where the highest is searched for that does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Goal {
    /// How long each rate is tried, behind its warm-up.
    pub seconds: f64,
    /// How near to the highest rate it has to come, as a share of it.
    pub within: f64,
    /// Until 99 % of the records are read, or acknowledged where nobody reads; in milliseconds.
    pub p99_ms: f64,
}

impl Default for Goal {
    fn default() -> Self {
        Self { seconds: 15.0, within: 0.05, p99_ms: 1_000.0 }
    }
}

/// What others measured, and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Published {
    /// Who published it.
    pub source: String,
    /// What it ran on.
    pub hardware: String,
    /// What came of it, in its words and units.
    pub result: String,
    /// Of what the numbers are, where they are not of all points.
    pub numbers_of: Option<String>,
    /// Records a second.
    pub records_per_sec: Option<f64>,
    /// Of values; 1 MiB is 2²⁰ bytes.
    pub mib_per_sec: Option<f64>,
    /// Median, until a record was read.
    pub p50_ms: Option<f64>,
    /// The same, at 99 %.
    pub p99_ms: Option<f64>,
    /// The same, at 99.9 %.
    pub p999_ms: Option<f64>,
    /// How long a call of send took on average.
    pub send_mean_ms: Option<f64>,
    /// How long the longest one took.
    pub send_max_ms: Option<f64>,
}

/// A workload at every value of its lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// What it is called.
    pub name: String,
    /// What it asks.
    pub about: String,
    /// What others measured with it.
    pub published: Option<Published>,
    /// Its lists.
    pub axes: Vec<Axis>,
    /// What is measured, one after the other.
    pub points: Vec<Point>,
    /// Whether it is the short form of another, and not the size that was published.
    pub is_quick: bool,
    /// What is not as the file says.
    pub notes: Vec<String>,
}

/// One combination of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The values of the lists.
    pub at: Vec<(String, Value)>,
    /// What is done.
    pub workload: Workload,
}

/// More points would take a day.
const POINTS_MAX: usize = 256;

impl Experiment {
    /// How much of the machine itself is measured, instead of brokers.
    pub fn of_machine(&self) -> Option<Extent> {
        self.points.first().and_then(|point| point.workload.ceiling)
    }

    /// Reads a file.
    pub fn open(path: &Path, is_quick: bool) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::read(&path.display().to_string(), &text, is_quick)
    }

    /// A file as it is understood: of another harness in the words of this one, with what is done otherwise in notes.
    pub fn shown(path: &Path) -> Result<String> {
        let read = Self::open(path, false)?;
        let text = std::fs::read_to_string(path)?;
        let name = path.display().to_string();
        let source = Source { name: &name, text: &text };
        let fields = source.fields()?;
        if !openmessaging::is_one(&fields) {
            return Ok(text);
        }
        let (fields, _) = openmessaging::translated(source, &fields)?;
        let notes: String = read.notes.iter().map(|note| format!("# {note}\n")).collect();
        Ok(notes + &yaml_serde::to_string(&fields)?)
    }

    /// Reads a text; `name` is what errors call it.
    pub fn read(name: &str, text: &str, is_quick: bool) -> Result<Self> {
        let source = Source { name, text };
        let mut fields = source.fields()?;
        let mut notes = Vec::new();
        if openmessaging::is_one(&fields) {
            (fields, notes) = openmessaging::translated(source, &fields)?;
        } else {
            source.only(&fields, &yaml::names::<Workload>())?;
        }
        let quick = match fields.remove("quick") {
            Some(Value::Object(quick)) => quick,
            None => Map::new(),
            Some(_) => bail!("{name}: quick: expected fields of the workload"),
        };
        source.only(&quick, &yaml::names::<Workload>())?;
        if is_quick {
            ensure!(!quick.is_empty(), "{name} has no `quick:`: it says nothing of a short run");
            notes.push(short_form(&fields, &quick)?);
            fields.extend(quick);
        }
        let (axes, combinations) = sweep::expand(&fields, POINTS_MAX).with_context(|| name.to_owned())?;
        let point = |(at, fields)| {
            let workload: Workload = source.typed(&fields)?;
            workload.check().with_context(|| name.to_owned())?;
            Ok(Point { at, workload })
        };
        let points = combinations.into_iter().map(point).collect::<Result<Vec<_>>>()?;
        if let Some(axis) = axes.iter().find(|axis| axis.values.len() > 1) {
            ensure!(
                points.iter().all(|point| point.workload.ceiling.is_none()),
                "{name}: ceiling: the machine is measured once, and {} has {} values: say one",
                axis.field,
                axis.values.len()
            );
        }
        let first = points.first().map(|point| point.workload.clone()).unwrap_or_default();
        let Workload { name, about, published, .. } = first;
        Ok(Self { name, about, published, axes, points, is_quick, notes })
    }
}

/// In what a short form differs.
fn short_form(full: &Map<String, Value>, quick: &Map<String, Value>) -> Result<String> {
    let default = serde_json::to_value(Workload::default())?;
    let differs = |(field, short): (&String, &Value)| {
        let full = full.get(field).unwrap_or(&default[field]);
        format!("{field} {} instead of {}", yaml::Shown(short), yaml::Shown(full))
    };
    let fields: Vec<String> = quick.iter().map(differs).collect();
    Ok(format!("short form: {}", fields.join(", ")))
}

impl Point {
    /// Its values, as people read them; empty if the experiment has but one point.
    pub fn label(&self) -> String {
        let value = |(field, value): &(String, Value)| format!("{field}={}", yaml::Shown(value));
        self.at.iter().map(value).collect::<Vec<_>>().join(" ")
    }
}

impl Workload {
    /// Whether values are bytes of which some may be others, of the size that it says, and not lines of their own.
    pub fn is_filled(&self) -> bool {
        self.payload == "letters" || ["share:", "file:"].iter().any(|kind| self.payload.starts_with(kind))
    }

    /// The keys of the records.
    pub fn keys(&self) -> Result<Keys> {
        self.keys.parse().map_err(|error| anyhow::anyhow!("keys: {error}"))
    }

    /// Whether more is offered than is taken: what the client does with it is what is asked.
    pub fn is_overload(&self) -> bool {
        matches!(self.rate, Pace::OfFullSpeed(_))
    }

    /// Whether records are sent at a rate that was set: what comes through is that rate, and how long it takes is what
    /// is found out.
    pub fn is_rate_set(&self) -> bool {
        matches!(self.rate, Pace::Rate(_)) && self.search.is_none() && !self.stored
    }

    /// The same for people, in a line.
    pub fn in_words(&self) -> String {
        if self.ceiling.is_some() {
            return "no brokers: what the machine can do at all".to_owned();
        }
        let mut words = vec![
            format!("{} of {}", several(self.topics, "topic"), several(self.partitions, "partition")),
            format!("replication factor {}", self.replication_factor),
            match &*self.payload {
                "letters" => format!("records of {} B", self.record_bytes),
                payload => format!("records of {payload}"),
            },
            format!("{}, acks={}", several(self.producers, "producer"), self.acks),
            match self.rate {
                Pace::Max if let Some(goal) = &self.search => {
                    format!("the highest rate that is kept up with, 99 % of it within {} ms", goal.p99_ms)
                }
                Pace::Max => "as fast as records are taken".to_owned(),
                rate @ Pace::OfFullSpeed(_) => format!("{rate} of what is taken as fast as can be"),
                rate => format!("{rate} records/s"),
            },
        ];
        if self.consumers > 0 {
            let when = if self.stored { ", of what is stored" } else { "" };
            let consumers = several(self.consumers, "consumer");
            words.push(format!("{} × {consumers}{when}", self.subscriptions));
        }
        if !self.faults.is_empty() {
            words.push(self.faults.to_string());
        }
        words.push(match self.records {
            Some(records) => format!("{records} records"),
            None => format!("{} s", self.seconds),
        });
        words.join("; ")
    }
}

/// As many of a thing, in words.
pub(crate) fn several(count: impl Into<u64>, thing: &str) -> String {
    match count.into() {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests;
