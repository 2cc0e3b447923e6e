//! Results as the OpenMessaging Benchmark writes them (its `TestResult`): one file for each run, for scripts and
//! pages that read those.
//!
//! The names are theirs, and no others: what reads those files there refuses a field that it does not know. So are
//! the units: latencies in milliseconds, publish delays in whole microseconds, rates in records a second. Two things
//! are not as there: a value stands for a second and not for ten, and latencies count from when a record was due
//! and not from when it was sent, so that its publish delay is a part of its latency.

use serde_json::{Map, Value, json};

use crate::histogram::{self, Quantiles};
use crate::load::Second;
use crate::name::in_a_name;
use crate::report::{FlowReport, PointReport, Report, RunReport, SystemReport};
use crate::rows::each_run;
use crate::workload::Workload;

type Part = fn(&Quantiles) -> f64;

/// Their names for parts of a distribution; of the average and the greatest in their places.
const PARTS: [(&str, Part); 8] = [
    ("Avg", |found| found.mean),
    ("50pct", |found| found.p50 as f64),
    ("75pct", |found| found.p75 as f64),
    ("95pct", |found| found.p95 as f64),
    ("99pct", |found| found.p99 as f64),
    ("999pct", |found| found.p999 as f64),
    ("9999pct", |found| found.p9999 as f64),
    ("Max", |found| found.max as f64),
];

/// What takes time: its name, of which second and which whole it is, and how its values are written.
struct Times<'a> {
    name: &'a str,
    of_second: fn(&Second) -> Option<Quantiles>,
    whole: Option<Quantiles>,
    histogram: Option<&'a str>,
    /// From nanoseconds.
    show: fn(f64) -> Value,
    /// The average has a fraction where nothing else has one.
    show_mean: fn(f64) -> Value,
}

/// Values to each halving of what is left of a distribution, as there.
const TICKS: u32 = 100;

/// Each run, with a name for its file.
pub fn results(report: &Report) -> Vec<(String, Value)> {
    let result = |(point, system, number, run): (&PointReport, &SystemReport, usize, &RunReport)| {
        let words = [report.name.clone(), point.label(), system.name.clone(), number.to_string()];
        let words: Vec<String> =
            words.iter().filter(|word| !word.is_empty()).map(|word| in_a_name(word)).collect();
        (words.join("-"), result(report, point, system, run))
    };
    each_run(report).map(result).collect()
}

fn result(report: &Report, point: &PointReport, system: &SystemReport, run: &RunReport) -> Value {
    let workload = &point.workload;
    let per_topic = |all: u32| (all / workload.topics.max(1)).max(1);
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put("workload", report.name.clone().into());
    put("driver", system.name.clone().into());
    put("messageSize", message_bytes(workload, run).into());
    put("topics", workload.topics.into());
    put("partitions", workload.partitions.into());
    put("producersPerTopic", per_topic(workload.producers.into()).into());
    put("consumersPerTopic", per_topic(workload.consumers.into()).into());
    series(run, f64::from(workload.subscriptions), &mut put);
    for times in [
        latency("publishLatency", |second| second.response_ns, run.written.as_ref()),
        delay(run.written.as_ref()),
        latency("endToEndLatency", |second| second.end_to_end_ns, run.read.as_ref()),
    ] {
        times.put(run, &mut all);
    }
    Value::Object(all)
}

/// Of a value on average, where the payload says it and not the workload.
fn message_bytes(workload: &Workload, run: &RunReport) -> u64 {
    let flow = run.written.as_ref().or(run.read.as_ref()).filter(|flow| flow.records > 0);
    match flow {
        Some(flow) if !workload.is_filled() => flow.bytes / flow.records,
        _ => workload.record_bytes as u64,
    }
}

fn latency<'a>(
    name: &'a str,
    of_second: fn(&Second) -> Option<Quantiles>,
    flow: Option<&'a FlowReport>,
) -> Times<'a> {
    let show: fn(f64) -> Value = |nanos| (nanos / 1e6).into();
    Times {
        name,
        of_second,
        whole: flow.and_then(|flow| flow.response_ns),
        histogram: flow.and_then(|flow| flow.response_histogram.as_deref()),
        show,
        show_mean: show,
    }
}

/// From when a record was due until it was taken; nothing where records are sent as fast as can be.
fn delay(flow: Option<&FlowReport>) -> Times<'_> {
    Times {
        name: "publishDelayLatency",
        of_second: |second| second.delay_ns,
        whole: flow.and_then(|flow| flow.delay_ns),
        histogram: flow.and_then(|flow| flow.delay_histogram.as_deref()),
        show: |nanos| ((nanos / 1e3).round() as u64).into(),
        show_mean: |nanos| (nanos / 1e3).into(),
    }
}

/// What came through in each second of the steady state.
fn series(run: &RunReport, subscriptions: f64, put: &mut impl FnMut(&str, Value) -> Option<Value>) {
    let (mut publish, mut consume, mut backlog, mut waiting) = (Vec::new(), Vec::new(), Vec::new(), 0.0_f64);
    for second in &run.seconds {
        let seconds = (second.to - second.from).max(1e-3);
        waiting += second.written.records as f64 * subscriptions - second.read.records as f64;
        if second.is_warmup {
            continue;
        }
        publish.push(second.written.records as f64 / seconds);
        consume.push(second.read.records as f64 / seconds);
        // Where nobody reads, nothing waits to be read.
        backlog.push(if run.read.is_some() { waiting.max(0.0) as u64 } else { 0 });
    }
    // In which second a record was given up is not known.
    let seconds = run.written.as_ref().map_or(1.0, |flow| flow.seconds.max(1e-3));
    let errors = vec![run.failed as f64 / seconds; publish.len()];
    put("publishRate", json!(publish));
    put("publishErrorRate", json!(errors));
    put("consumeRate", json!(consume));
    put("backlog", json!(backlog));
}

impl Times<'_> {
    /// Adds its fields: of each second of the steady state, of all of it, and all steps of its distribution. Where
    /// nothing was counted there are zeros, as there.
    fn put(&self, run: &RunReport, all: &mut Map<String, Value>) {
        let name = self.name;
        let aggregated = format!("aggregated{}{}", name[..1].to_ascii_uppercase(), &name[1..]);
        let steady: Vec<Option<Quantiles>> =
            run.seconds.iter().filter(|second| !second.is_warmup).map(self.of_second).collect();
        for (part, value) in PARTS {
            let show = if part == "Avg" { self.show_mean } else { self.show };
            let shown = |found: &Option<Quantiles>| show(found.as_ref().map_or(0.0, value));
            all.insert(format!("{name}{part}"), steady.iter().map(shown).collect());
            all.insert(format!("{aggregated}{part}"), shown(&self.whole));
        }
        let mut quantiles = Map::new();
        if let Some(found) = self.histogram.and_then(histogram::decoded) {
            for step in found.iter_quantiles(TICKS) {
                let at = format!("{:?}", step.quantile_iterated_to() * 100.0);
                quantiles.insert(at, (self.show)(step.value_iterated_to() as f64));
            }
        }
        all.insert(format!("{aggregated}Quantiles"), quantiles.into());
    }
}

#[cfg(test)]
mod tests;
