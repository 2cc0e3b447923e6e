//! A producer of ours at half of what it can do, and with more than it can get rid of.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::broker::{Broker, Side, Site};
use super::clients::{Client, Offered, Ran, Records, json, load, number, ours, words};
use super::figures::{Bound, Measure, Section};
use super::load::output;
use super::options::Part;
use super::process::{Clocks, Used};
use super::throughput::{PARTITIONS, RECORD_BYTES, TOPIC, ensure_there, warm_records, warmed};
use super::{Bench, in_turn};

const MIB: u64 = 1024 * 1024;
const ACKS: &str = "1";
/// Records sent slowly, to see what the program needs without anything in its buffer.
const IDLE_RECORDS: u64 = 1_000;
const IDLE_RATE: f64 = 1_000.0;
/// This part of the records comes before those whose times count.
const WARM_UP_PART: u64 = 10;

/// How a producer is set and what is wanted of it: a column.
#[derive(Debug, Clone, Copy)]
struct Pressure {
    column: &'static str,
    buffer_mib: u64,
    /// Of the peak; none for as fast as it goes.
    rate: Option<f64>,
}

const PEAK: Pressure = Pressure { column: "peak: 32 MiB", buffer_mib: 32, rate: None };
const OVERLOADS: [Pressure; 3] = [
    Pressure { column: "8 MiB", buffer_mib: 8, rate: None },
    Pressure { column: "128 MiB", buffer_mib: 128, rate: None },
    Pressure { column: "32 MiB, twice the peak wanted", buffer_mib: 32, rate: Some(2.0) },
];
/// All of them, in the order of their columns.
const TURNS: [Pressure; 4] = [PEAK, OVERLOADS[0], OVERLOADS[1], OVERLOADS[2]];
const HALF: Pressure = Pressure { column: "ours on Vltava", buffer_mib: 32, rate: Some(0.5) };

const RATE: &str = "throughput";
const WANTED: &str = "wanted";
const KEPT: &str = "throughput, of what was wanted";
const RSS: &str = "RSS at most";
const IDLE_RSS: &str = "RSS at most with nothing to do";
const HELD: &str = "what it held more, of buffer.memory";
/// How `send` is told of in the tool's result.
const QUANTILES: [(&str, &str); 5] =
    [("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("p99.99", "p9999"), ("most", "max")];

/// A producer with a full buffer that is closed: row, its timeout, whether the broker is stopped meanwhile.
const CLOSES: [(&str, u64, bool); 3] = [
    ("close with a full buffer in 5 s", 5_000, false),
    ("close with a full buffer in 10 ms", 10, false),
    ("close with a full buffer in 1 s, the broker stopped", 1_000, true),
];
/// Of the first of them, which is time enough to write all that there is.
const GIVEN_UP: &str = "given up by close in 5 s";
/// What `close` may take beyond its timeout to give up what is left, in milliseconds.
const CLOSE_SLACK_MS: f64 = 100.0;

/// Measures the call of `send` and overload: both need the peak.
pub(super) fn pressure(bench: &Bench) -> Result<Vec<Section>> {
    let (mut send, mut overload) = (section_of_send(bench), section_of_overload(bench));
    let turns = if bench.options.wants(Part::Overload) { &TURNS[..] } else { &TURNS[..1] };
    // Of the run before where the turns go backwards: it is known from the first turn of all.
    let mut peak = None;
    for run in 0..bench.options.runs {
        in_turn(run, turns, |pressure| {
            let came_to = turn(bench, &mut overload, (run, pressure), peak)?;
            if pressure.column == PEAK.column {
                peak = Some(came_to);
            }
            Ok(())
        })?;
        if bench.options.wants(Part::Overload) {
            close(bench, &mut overload, run)?;
        }
        if bench.options.wants(Part::Send) {
            half(bench, &mut send, run, peak.context("the peak is one of the turns")?)?;
        }
    }
    send.want(HALF.column, &call_row("p99.99"), Bound::AtMost(1_000.0));
    // What was not offered was not measured either.
    send.want(HALF.column, KEPT, Bound::AtLeast(0.98));
    for Pressure { column, .. } in OVERLOADS {
        overload.want_ratio(RATE, (column, PEAK.column), Bound::AtLeast(0.9));
    }
    for Pressure { column, .. } in TURNS {
        overload.want(column, HELD, Bound::AtMost(1.0));
    }
    for (row, timeout, _) in CLOSES {
        overload.want(PEAK.column, row, Bound::AtMost(timeout as f64 + CLOSE_SLACK_MS));
    }
    overload.want(PEAK.column, GIVEN_UP, Bound::AtMost(0.0));
    Ok([send, overload].into_iter().filter(|section| bench.options.wants(section.part)).collect())
}

fn section_of_send(bench: &Bench) -> Section {
    let mut rows =
        vec![Measure::new(WANTED, "rec/s", 0), Measure::new(RATE, "rec/s", 0), Measure::new(KEPT, "×", 3)];
    rows.extend(QUANTILES.map(|(quantile, _)| Measure::new(&call_row(quantile), "µs", 1)));
    rows.extend(QUANTILES.map(|(quantile, _)| Measure::new(&latency_row(quantile), "µs", 0)));
    rows.extend(Measure::noise());
    let about = format!(
        "Half as many records a second as were written as fast as it goes in the same run, on a fresh node each. \
         Calls of `send` are timed, and each record from when it was due; the first {WARM_UP_PART}th of them, which \
         wait for connections, do not count. {} `--throughput` half the peak.",
        about(bench)
    );
    Section::new(Part::Send, ("send() at half the peak", about), &[HALF.column], rows)
}

fn section_of_overload(bench: &Bench) -> Section {
    let mut rows = vec![
        Measure::new(RATE, "rec/s", 0),
        Measure::new(RSS, "MiB", 1),
        Measure::new(IDLE_RSS, "MiB", 1),
        Measure::new(HELD, "×", 2),
    ];
    rows.extend(CLOSES.map(|(row, ..)| Measure::new(row, "ms", 1)));
    rows.push(Measure::new(GIVEN_UP, "records", 0));
    rows.extend(Measure::noise());
    let about = format!(
        "More is offered than the broker takes; a column is the producer's buffer.memory. What the program needs \
         with nothing to do is seen while it sends {IDLE_RECORDS} records, {IDLE_RATE} a second. A producer whose \
         buffer is full is closed with each timeout; `vltava-bench-load close` of `xtask/load`; it may take \
         {CLOSE_SLACK_MS} ms more to give up what is left. {}",
        about(bench)
    );
    let columns = TURNS.map(|pressure| pressure.column);
    let [small, large, twice] = OVERLOADS.map(|pressure| pressure.column);
    Section::new(Part::Overload, ("Overload", about), &columns, rows).compared_by(&[
        ("8 MiB ÷ peak", small, PEAK.column),
        ("128 MiB ÷ peak", large, PEAK.column),
        ("twice ÷ peak", twice, PEAK.column),
    ])
}

fn about(bench: &Bench) -> String {
    format!(
        "{PARTITIONS} partitions, one thread, a fresh node with fresh data for each turn, warmed with {} records of \
         another topic. {}, but for buffer.memory.",
        warm_records(bench.options.records),
        Client::Ours.words_of_produce(records(bench.options.records), ACKS)
    )
}

fn call_row(quantile: &str) -> String {
    format!("call of send, {quantile}")
}

fn latency_row(quantile: &str) -> String {
    format!("from when it was due until it is acknowledged, {quantile}")
}

fn records(count: u64) -> Records {
    Records { topic: TOPIC, count, bytes: RECORD_BYTES, warm_up: 0 }
}

/// What came of a pressure.
struct Pressed {
    ran: Ran,
    /// All that the tool said.
    said: Value,
    idle_rss_mib: f64,
    used: Used,
}

/// Runs ours under a pressure, on a node of its own, after it has had nothing to do.
fn press(
    bench: &Bench,
    pressure: Pressure,
    (count, warm_up): (u64, u64),
    peak: Option<f64>,
) -> Result<Pressed> {
    let (broker, warm) = warmed(bench, Side::Vltava("os"), "acks=1")?;
    let settings = settings(pressure.buffer_mib);
    let run = |count, rate, warm_up| {
        let offered = Offered { rate, hlog: None };
        ours(&bench.site, broker.address, Records { warm_up, ..records(count) }, offered, &words(&settings))
    };
    let (idle, _) = run(IDLE_RECORDS, IDLE_RATE, 0)?;
    let rate = pressure.rate.zip(peak).map_or(-1.0, |(of_peak, peak)| (of_peak * peak).round());
    let before = Clocks::read(&[broker.pid()])?;
    let (ran, said) = run(count, rate, warm_up)?;
    let used = before.used()?;
    ensure_there(&broker, warm + IDLE_RECORDS + count)?;
    broker.remove()?;
    Ok(Pressed { ran, said, idle_rss_mib: idle.rss_peak_mib, used })
}

/// Those of the other parts, but for the buffer.
fn settings(buffer_mib: u64) -> Vec<String> {
    let mut settings = Client::Ours.producer_settings(ACKS);
    settings.retain(|line| !line.starts_with("buffer.memory="));
    settings.push(format!("buffer.memory={}", buffer_mib * MIB));
    settings
}

/// One column of overload; how many records a second it came to.
fn turn(bench: &Bench, section: &mut Section, turn: (usize, Pressure), peak: Option<f64>) -> Result<f64> {
    let (run, pressure) = turn;
    let Pressed { ran, idle_rss_mib, used, .. } = press(bench, pressure, (bench.options.records, 0), peak)?;
    let held = (ran.rss_peak_mib - idle_rss_mib) / pressure.buffer_mib as f64;
    let said = format!("{:.0} rec/s, {:.1} MiB at most", ran.records_per_second, ran.rss_peak_mib);
    bench.say(Part::Overload, run, pressure.column, &said);
    let mut add = |measure, value| section.add(pressure.column, measure, value);
    add(RATE, ran.records_per_second);
    add(RSS, ran.rss_peak_mib);
    add(IDLE_RSS, idle_rss_mib);
    add(HELD, held);
    used.noise().into_iter().for_each(|(measure, value)| add(measure, value));
    Ok(ran.records_per_second)
}

fn half(bench: &Bench, section: &mut Section, run: usize, peak: f64) -> Result<()> {
    let count = bench.options.records / 2;
    let Pressed { ran, said, used, .. } = press(bench, HALF, (count, count / WARM_UP_PART), Some(peak))?;
    let mut add = |measure: &str, value| section.add(HALF.column, measure, value);
    add(WANTED, peak / 2.0);
    add(RATE, ran.records_per_second);
    add(KEPT, ran.records_per_second / (peak / 2.0));
    used.noise().into_iter().for_each(|(measure, value)| add(measure, value));
    for (quantile, name) in QUANTILES {
        add(&call_row(quantile), number(&said, &["send_call_ns", name])? / 1e3);
        add(&latency_row(quantile), number(&said, &["latency_ns", name])? / 1e3);
    }
    let call = number(&said, &["send_call_ns", "p9999"])? / 1e3;
    let said = format!("{:.0} rec/s, send p99.99 {call:.1} µs", ran.records_per_second);
    bench.say(Part::Send, run, HALF.column, &said);
    Ok(())
}

/// Closes producers that are full.
fn close(bench: &Bench, section: &mut Section, run: usize) -> Result<()> {
    let (broker, _) = warmed(bench, Side::Vltava("os"), "acks=1")?;
    for (row, timeout, is_stopped) in CLOSES {
        let (took, given_up) = closed(&bench.site, &broker, timeout, is_stopped)?;
        section.add(PEAK.column, row, took);
        if row == CLOSES[0].0 {
            section.add(PEAK.column, GIVEN_UP, given_up);
        }
        bench.say(Part::Overload, run, PEAK.column, &format!("{row}: {took:.1} ms"));
    }
    broker.remove()
}

/// How long it took, in milliseconds, and how many records it gave up.
fn closed(site: &Site, broker: &Broker<'_>, timeout_ms: u64, is_stopped: bool) -> Result<(f64, f64)> {
    let mut command = Command::new(load(site)?);
    command.args(["close", &broker.address.to_string(), TOPIC, &RECORD_BYTES.to_string()]);
    command.args([(PEAK.buffer_mib * MIB).to_string(), timeout_ms.to_string()]);
    if is_stopped {
        command.arg(broker.pid().to_string());
    }
    let said = json(&output(site, &mut command, 0)?.out)?;
    Ok((number(&said, &["close_ms"])?, number(&said, &["given_up"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_buffer_differs() {
        let (small, usual) = (settings(8), Client::Ours.producer_settings(ACKS));
        assert_eq!(small.len(), usual.len());
        assert!(small.contains(&"buffer.memory=8388608".to_owned()));
        assert_eq!(usual.iter().filter(|line| !small.contains(line)).count(), 1);
    }
}
