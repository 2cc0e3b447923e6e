//! The fields are theirs, all of them, and what is in them is of the steady state.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::meter::{Counts, Flow, Measured};
use crate::report::tests::report;
use crate::workload::Workload;

/// Their fields with their types: whoever reads such a file there knows no others.
const FIELDS: &str = include_str!("../../testdata/openmessaging-result.txt");

/// Each of theirs, by name.
fn fields() -> BTreeMap<&'static str, &'static str> {
    let lines = FIELDS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(kind, name)| (name, kind)).collect()
}

/// Whether a value can be read as what their field is.
fn is_a(kind: &str, value: &Value) -> bool {
    match (kind, value) {
        ("String", Value::String(_)) => true,
        ("int" | "long" | "Long", value) => value.is_u64(),
        ("double" | "Double", value) => value.is_number(),
        ("List<Double>", Value::Array(values)) => values.iter().all(|value| is_a("Double", value)),
        ("List<Long>", Value::Array(values)) => values.iter().all(|value| is_a("Long", value)),
        ("Map<Double,Double>" | "Map<Double,Long>", Value::Object(values)) => {
            let of = if kind.contains("Long") { "Long" } else { "Double" };
            values.iter().all(|(key, value)| key.parse::<f64>().is_ok() && is_a(of, value))
        }
        _ => false,
    }
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
        measured.delay.saturating_record(micros * 100);
    }
    let of_second = Quantiles::of(&measured.delay);
    let flow = FlowReport::of(&Flow { measured, seconds: 2.0 });
    let mut report =
        report(Workload { consumers: 1, subscriptions: 2, ..Workload::default() }, &[("a b/c", &[10.0])]);
    let of_many = Workload { topics: 100, producers: 100, consumers: 200, ..Workload::default() };
    let of_many = &results(&self::report(of_many, &[("a", &[10.0])]))[0].1;
    assert_eq!((&of_many["producersPerTopic"], &of_many["consumersPerTopic"]), (&json!(1), &json!(2)));
    let run = &mut report.points[0].systems[0].runs[0];
    (run.written, run.read, run.failed) = (Some(flow.clone()), Some(flow), 4);
    run.seconds =
        vec![second(1.0, true, 100, 150), second(2.0, false, 600, 900), second(3.0, false, 400, 900)];
    // Nothing came through in the third.
    run.seconds[1].delay_ns = of_second;
    let results = results(&report);
    let [(name, result)] = &results[..] else { panic!("there is one run: {results:?}") };
    assert_eq!(name, "a-a_b_c-1");
    let found = result.as_object().expect("it has fields");
    let (mut names, theirs): (Vec<&str>, _) = (found.keys().map(String::as_str).collect(), fields());
    names.sort_unstable();
    assert_eq!(names, theirs.keys().copied().collect::<Vec<_>>());
    for (name, kind) in theirs {
        assert!(is_a(kind, &found[name]), "{name} is no {kind}: {}", found[name]);
    }
    assert_eq!(result["publishRate"], json!([600.0, 400.0]));
    assert_eq!(result["publishErrorRate"], json!([2.0, 2.0]));
    assert_eq!(
        result["backlog"],
        json!([350, 250]),
        "each subscription reads all of it; so does the warm-up"
    );
    assert_eq!(result["publishDelayLatency50pct"], json!([50, 0]), "in whole microseconds, for each second");
    assert_eq!(result["aggregatedPublishDelayLatencyMax"], json!(100));
    assert_eq!(result["aggregatedPublishDelayLatencyQuantiles"]["100.0"], json!(100));
    assert_eq!(result["publishLatency99pct"], json!([0.0, 0.0]), "nobody counted");
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
