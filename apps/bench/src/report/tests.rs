//! What a report says of its runs.

use super::*;

fn run(records_per_sec: f64, p99_ns: u64, wrong: Option<&str>) -> RunReport {
    let quantiles = Quantiles {
        count: 1,
        min: 1,
        mean: 1.0,
        p50: p99_ns / 10,
        p75: 1,
        p90: 1,
        p95: 1,
        p99: p99_ns,
        p999: p99_ns,
        p9999: 1,
        p99999: 1,
        max: p99_ns,
    };
    let flow = FlowReport {
        records: 1_000,
        bytes: 100_000,
        seconds: 1_000.0 / records_per_sec,
        records_per_sec,
        mb_per_sec: records_per_sec / 1e4,
        mib_per_sec: records_per_sec * 100.0 / MIB,
        first_ns: None,
        response_ns: Some(quantiles),
        service_ns: None,
        service_histogram: None,
        response_histogram: None,
        wire_ns: None,
        wire_histogram: None,
        delay_ns: None,
        delay_histogram: None,
    };
    RunReport {
        written: Some(flow),
        read: None,
        send_call_ns: Some(quantiles),
        send_call_histogram: None,
        schedule: Value::Null,
        verified: Value::Null,
        wrong: wrong.map(str::to_owned),
        failed: 0,
        first_failure: None,
        settings: Map::new(),
        probes: Vec::new(),
        rate: None,
        is_rate_missed: false,
        full_speed_per_sec: None,
        warmup_tries: 0,
        warmup_speeds: Vec::new(),
        are_brokers_kept: false,
        close_ns: None,
        stamp: Stamp::default(),
        share: None,
        growth: None,
        metrics: None,
        clocks: Vec::new(),
        faults: Vec::new(),
        resources: None,
        seconds: Vec::new(),
    }
}

/// A report of one point, with these rates of each system.
pub(crate) fn report(workload: Workload, systems: &[(&str, &[f64])]) -> Report {
    let system = |(name, rates): &(&str, &[f64])| {
        let driver = Driver { name: (*name).to_owned(), ..Driver::default() };
        let runs = rates.iter().map(|rate| run(*rate, 1_000_000_000 / *rate as u64, None)).collect();
        SystemReport::of(driver, None, runs)
    };
    let point = PointReport { at: Map::new(), workload, systems: systems.iter().map(system).collect() };
    Report {
        schema: SCHEMA.to_owned(),
        version: "0.0.0".to_owned(),
        began_ms: 0,
        command: "vltava bench run a".to_owned(),
        name: "a".to_owned(),
        about: "A question.".to_owned(),
        published: None,
        is_quick: true,
        notes: Vec::new(),
        machine: Value::Null,
        load: None,
        is_interrupted: false,
        ceilings: None,
        points: vec![point],
    }
}

#[test]
fn a_run_that_loses_a_record_says_so() {
    let mut report = report(Workload::default(), &[("vltava", &[10.0])]);
    assert!(report.wrong().is_empty());
    let point = &mut report.points[0];
    point.at.insert("acks".to_owned(), "all".into());
    point.systems[0].runs.push(run(9.0, 1, Some("verification failed: records 1 lost")));
    assert_eq!(report.wrong(), ["vltava acks=all: verification failed: records 1 lost"]);
    assert!(report.table().text().contains("wrong in 1 of 2 runs"));
    assert!(report.markdown().contains("**vltava acks=all: verification failed: records 1 lost**"));
}

#[test]
fn a_system_whose_run_failed_is_neither_better_nor_worse() {
    let rates: &[f64] = &[10.0, 11.0, 12.0, 13.0];
    let faster: &[f64] = &[20.0, 21.0, 22.0, 23.0];
    let mut report = report(Workload::default(), &[("vltava", faster), ("kafka", rates)]);
    let verdict = |report: &Report| {
        let verdicts = report.verdicts();
        let row = verdicts.rows().iter().find(|row| row[0] == "written, records/s").expect("it is judged");
        row.last().cloned().expect("there is a verdict")
    };
    assert_eq!(verdict(&report), "better");
    report.points[0].systems[0].runs[2].wrong = Some("records 1 lost".to_owned());
    assert_eq!(verdict(&report), "none: a run of vltava failed");
}

#[test]
fn how_well_the_clocks_of_several_machines_are_known_is_told() {
    let mut report = report(Workload::default(), &[("vltava", &[10.0])]);
    let clock = |worker: &str, error_ns| WorkerClock {
        worker: worker.to_owned(),
        offset_ns: 5,
        drift_ns: 1,
        error_ns,
    };
    let run = &mut report.points[0].systems[0].runs[0];
    run.clocks = vec![clock("one", 30_000)];
    assert_eq!(run.clock_error_ns(), None, "it reads what it sent itself");
    run.clocks.push(clock("two", 20_000));
    let said = "Clocks of several machines: times until records were read are known to within 50.0 µs";
    assert!(report.markdown().contains(said), "{}", report.markdown());
}

/// A workload whose rate is this share of full speed.
fn overload(share: &str) -> Workload {
    Workload { rate: serde_json::from_value(share.into()).expect("it is a rate"), ..Workload::default() }
}

#[test]
fn who_refuses_records_beside_who_refuses_none_is_worse() {
    let rates: &[f64] = &[10.0, 11.0, 12.0, 13.0];
    let mut report = report(overload("150%"), &[("vltava", rates), ("kafka", rates)]);
    for (run, failed) in report.points[0].systems[0].runs.iter_mut().zip(155_000..) {
        run.failed = failed;
    }
    let verdicts = report.verdicts();
    let row = verdicts.rows().iter().find(|row| row[0] == "given up, records").expect("it is judged");
    assert_eq!(row[1..], ["vltava to kafka", "from 0", "", "worse"]);
}

#[test]
fn latencies_of_loads_that_are_not_the_same_are_not_judged() {
    let rates: &[f64] = &[10.0, 11.0, 12.0, 13.0];
    let of = |share| report(overload(share), &[("vltava", rates), ("kafka", rates)]);
    let judged = |report: &Report| report.verdicts().text();
    assert!(!judged(&of("150%")).contains("until") && !judged(&of("90%")).contains("call of send"));
    assert!(judged(&of("150%")).contains("written, records/s"));
    let rate =
        Workload { rate: serde_json::from_value(5.into()).expect("it is a rate"), ..Workload::default() };
    assert!(
        judged(&report(rate, &[("vltava", rates), ("kafka", rates)])).contains("until acknowledged, p99")
    );
}
