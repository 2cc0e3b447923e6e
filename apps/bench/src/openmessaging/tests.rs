//! The fields are theirs, all of them, and what is in them is of the steady state.

use std::time::Duration;

use super::*;
use crate::load::Flow;
use crate::meter::{Counts, Measured};
use crate::report::tests::report;
use crate::workload::Workload;

/// Their names, from `TestResult` of the framework.
const FIELDS: [&str; 11] = [
    "workload",
    "driver",
    "messageSize",
    "topics",
    "partitions",
    "producersPerTopic",
    "consumersPerTopic",
    "publishRate",
    "publishErrorRate",
    "consumeRate",
    "backlog",
];

fn fields() -> Vec<String> {
    let mut fields: Vec<String> = FIELDS.map(str::to_owned).to_vec();
    for what in ["publishLatency", "publishDelayLatency", "endToEndLatency"] {
        let aggregated = format!("aggregated{}{}", what[..1].to_ascii_uppercase(), &what[1..]);
        let parts = ["Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "99999pct", "Max"];
        fields.extend(parts.iter().flat_map(|part| [format!("{what}{part}"), format!("{aggregated}{part}")]));
        fields.push(format!("{aggregated}Quantiles"));
    }
    fields.sort();
    fields
}

fn second(to: f64, is_warmup: bool, written: u64, read: u64) -> Second {
    let counts = |records| Counts { records, bytes: records * 100 };
    Second {
        from: to - 1.0,
        to,
        is_warmup,
        written: counts(written),
        read: counts(read),
        ..Second::default()
    }
}

#[test]
fn a_result_is_one_of_theirs() {
    let mut measured = Measured { last: Duration::from_secs(2), ..Measured::default() };
    measured.counts = Counts { records: 1_000, bytes: 100_000 };
    for micros in 1..=1_000 {
        measured.response.saturating_record(micros * 1_000);
    }
    let flow = FlowReport::of(&Flow { measured, seconds: 2.0 });
    let mut report =
        report(Workload { consumers: 1, subscriptions: 2, ..Workload::default() }, &[("a b/c", &[10.0])]);
    let run = &mut report.points[0].systems[0].runs[0];
    (run.written, run.read, run.failed) = (Some(flow.clone()), Some(flow), 4);
    run.seconds =
        vec![second(1.0, true, 100, 150), second(2.0, false, 600, 900), second(3.0, false, 400, 900)];
    let results = results(&report);
    let [(name, result)] = &results[..] else { panic!("there is one run: {results:?}") };
    assert_eq!(name, "a-a_b_c-1");
    let mut names: Vec<String> = result.as_object().expect("it has fields").keys().cloned().collect();
    names.sort();
    assert_eq!(names, fields());
    assert_eq!(result["publishRate"], json!([600.0, 400.0]));
    assert_eq!(result["publishErrorRate"], json!([2.0, 2.0]));
    assert_eq!(
        result["backlog"],
        json!([350, 250]),
        "each subscription reads all of it; so does the warm-up"
    );
    let p50 = result["aggregatedPublishLatency50pct"].as_f64().expect("it is a number");
    assert!((p50 - 0.5).abs() < 0.001, "{p50} ms");
    let quantiles = result["aggregatedEndToEndLatencyQuantiles"].as_object().expect("it has fields");
    let share = |at: &String| at.parse::<f64>().expect("they are percent");
    // The steps of these shares are added up, and half is one of them but for what is rounded.
    let half = quantiles.iter().find(|(at, _)| (share(at) - 50.0).abs() < 0.5);
    let half = half.and_then(|(_, value)| value.as_f64()).expect("half is there");
    let all = quantiles.get("100.0").and_then(Value::as_f64).expect("all is there");
    assert!((half - 0.5).abs() < 0.01 && (all - 1.0).abs() < 0.001, "{quantiles:?}");
}
