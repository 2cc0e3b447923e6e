//! Results as the OpenMessaging Benchmark writes them (its `TestResult`): one file for each run, for scripts and
//! pages that read those.
//!
//! The names are theirs, and so are the units: latencies in milliseconds, rates in records a second. Two things
//! are not as there: a value stands for a second and not for ten, and latencies count from when a record was due
//! and not from when it was sent, so that there is no delay that is told apart.

use serde_json::{Map, Value, json};

use crate::histogram::{self, Quantiles};
use crate::load::Second;
use crate::report::{FlowReport, PointReport, Report, RunReport, SystemReport};
use crate::rows::each_run;

type Part = fn(&Quantiles) -> f64;

/// Their names for parts of a distribution; of the average and the greatest in their places.
const PARTS: [(&str, Part); 9] = [
    ("Avg", |found| found.mean),
    ("50pct", |found| found.p50 as f64),
    ("75pct", |found| found.p75 as f64),
    ("95pct", |found| found.p95 as f64),
    ("99pct", |found| found.p99 as f64),
    ("999pct", |found| found.p999 as f64),
    ("9999pct", |found| found.p9999 as f64),
    ("99999pct", |found| found.p99999 as f64),
    ("Max", |found| found.max as f64),
];

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

/// What may stand in the name of a file anywhere.
fn in_a_name(word: &str) -> String {
    let may = |letter: char| letter.is_ascii_alphanumeric() || ".=_-".contains(letter);
    word.chars().map(|letter| if may(letter) { letter } else { '_' }).collect()
}

fn result(report: &Report, point: &PointReport, system: &SystemReport, run: &RunReport) -> Value {
    let workload = &point.workload;
    let producers = u32::from(workload.producers) / workload.topics.max(1);
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put("workload", report.name.clone().into());
    put("driver", system.name.clone().into());
    put("messageSize", workload.record_bytes.into());
    put("topics", workload.topics.into());
    put("partitions", workload.partitions.into());
    put("producersPerTopic", producers.max(1).into());
    put("consumersPerTopic", workload.consumers.into());
    series(run, f64::from(workload.subscriptions), &mut put);
    let mut total = Map::new();
    latencies("publishLatency", run, |second| second.response_ns, run.written.as_ref(), &mut all, &mut total);
    latencies("endToEndLatency", run, |second| second.end_to_end_ns, run.read.as_ref(), &mut all, &mut total);
    for (name, _) in PARTS {
        all.insert(format!("publishDelayLatency{name}"), json!([]));
        total.insert(format!("aggregatedPublishDelayLatency{name}"), 0.into());
    }
    total.insert("aggregatedPublishDelayLatencyQuantiles".to_owned(), json!({}));
    all.append(&mut total);
    Value::Object(all)
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

fn latencies(
    name: &str,
    run: &RunReport,
    of: fn(&Second) -> Option<Quantiles>,
    flow: Option<&FlowReport>,
    all: &mut Map<String, Value>,
    total: &mut Map<String, Value>,
) {
    const MS: f64 = 1e6;
    let aggregated = format!("aggregated{}{}", name[..1].to_ascii_uppercase(), &name[1..]);
    let steady: Vec<Quantiles> =
        run.seconds.iter().filter(|second| !second.is_warmup).filter_map(of).collect();
    for (part, value) in PARTS {
        all.insert(format!("{name}{part}"), steady.iter().map(|found| value(found) / MS).collect());
        let found = flow.and_then(|flow| flow.response_ns);
        total.insert(format!("{aggregated}{part}"), found.map_or(0.0, |found| value(&found) / MS).into());
    }
    let mut quantiles = Map::new();
    if let Some(found) = flow.and_then(|flow| histogram::decoded(flow.response_histogram.as_deref()?)) {
        for step in found.iter_quantiles(TICKS) {
            let at = format!("{:?}", step.quantile_iterated_to() * 100.0);
            quantiles.insert(at, (step.value_iterated_to() as f64 / MS).into());
        }
    }
    total.insert(format!("{aggregated}Quantiles"), quantiles.into());
}

#[cfg(test)]
mod tests;
