//! From the producer to the consumer: one record in flight, by our tool, on both brokers.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use super::Bench;
use super::broker::{ACK, KAFKA, OS, Side, Site};
use super::clients::{json, number};
use super::figures::{Bound, Measure, Section};
use super::load::output;
use super::options::Part;
use super::process::Clocks;
use super::requests::{PATIENCE, await_leaders, create_topic};
use super::throughput::{PARTITIONS, RECORD_BYTES, warm_records, warmed};
use super::wire::Asker;

/// Records sent one by one before those that count, by another run of the tool.
const WARM_LATENCY_RECORDS: u64 = 5_000;
const ACKS: [&str; 2] = ["1", "all"];
/// Of the columns: name, how it is called in the tool's result.
const QUANTILES: [(&str, &str); 4] = [("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("most", "max")];

/// Measures how long until a record is read.
pub(super) fn latency(bench: &Bench) -> Result<Vec<Section>> {
    let mut section = section(bench);
    let sides = [Side::Vltava("os"), Side::Vltava("ack"), Side::Kafka];
    bench.alternate(&sides, |run, side| {
        let (broker, _) = warmed(bench, side, "acks=1")?;
        let mut asker = Asker::connect(broker.address, PATIENCE)?;
        for acks in ACKS {
            create_topic(&mut asker, &topic(acks), 1)?;
        }
        await_leaders(&mut asker, 2 * PARTITIONS as usize + ACKS.len())?;
        for acks in ACKS {
            measure(&bench.site, broker.address, acks, WARM_LATENCY_RECORDS)?;
        }
        let before = Clocks::read(&[broker.pid()])?;
        let mut said = String::new();
        for acks in ACKS {
            let result = measure(&bench.site, broker.address, acks, bench.options.latency_records)?;
            note(&mut section, side.column(), acks, &result)?;
            let p50 = number(&result, &["latency_ns", "p50"])? / 1e3;
            said.push_str(&format!(" acks={acks} {p50:.0} µs"));
        }
        let used = before.used()?;
        used.noise().into_iter().for_each(|(measure, value)| section.add(side.column(), measure, value));
        bench.say(Part::Latency, run, side.column(), &format!("p50{said}"));
        broker.remove()
    })?;
    for (column, p50, rest) in [(OS, 0.5, 0.3), (ACK, 1.0, 0.5)] {
        for acks in ACKS {
            for (quantile, bound) in [("p50", p50), ("p99", rest), ("p99.9", rest)] {
                section.want_ratio(&read_row(acks, quantile), (column, KAFKA), Bound::AtMost(bound));
            }
        }
    }
    Ok(vec![section])
}

/// Each has its own, so that what one leaves open is not what the other writes to.
fn topic(acks: &str) -> String {
    format!("latency-{acks}")
}

fn read_row(acks: &str, quantile: &str) -> String {
    format!("acks={acks}, until it is read, {quantile}")
}

fn acknowledged_row(acks: &str, quantile: &str) -> String {
    format!("acks={acks}, until it is acknowledged, {quantile}")
}

fn section(bench: &Bench) -> Section {
    let records = bench.options.latency_records;
    let mut rows = Vec::new();
    for acks in ACKS {
        let name = |row: fn(&str, &str) -> String| {
            QUANTILES.map(|(quantile, _)| Measure::new(&row(acks, quantile), "µs", 0))
        };
        rows.extend(name(read_row));
        rows.extend(name(acknowledged_row));
    }
    rows.extend(Measure::noise());
    let about = format!(
        "One record of {RECORD_BYTES} bytes after the other through one partition, {records} of them: from before \
         it is sent until the consumer, which waits for it, has read it. A fresh node for each run, warmed with \
         {} records by Kafka's ProducerPerformance and then with {WARM_LATENCY_RECORDS} of these. `vltava perf \
         e2e-latency --bootstrap-server BOOTSTRAP --topic TOPIC --num-records {records} --record-size \
         {RECORD_BYTES} --producer-acks ACKS` on both brokers.",
        warm_records(bench.options.records)
    );
    Section::new(Part::Latency, ("End to end, one in flight", about), &[OS, ACK, KAFKA], rows)
}

fn measure(site: &Site, to: SocketAddr, acks: &str, records: u64) -> Result<Value> {
    let mut command = Command::new(&site.vltava);
    command.args(["perf", "e2e-latency", "--bootstrap-server", &to.to_string(), "--topic", &topic(acks)]);
    command.args(["--num-records", &records.to_string(), "--record-size", &RECORD_BYTES.to_string()]);
    command.args(["--producer-acks", acks, "--json"]);
    json(&output(site, &mut command, records)?.out)
}

fn note(section: &mut Section, column: &str, acks: &str, result: &Value) -> Result<()> {
    for (quantile, name) in QUANTILES {
        section.add(column, &read_row(acks, quantile), number(result, &["latency_ns", name])? / 1e3);
        let acknowledged = number(result, &["send_to_ack_ns", name])? / 1e3;
        section.add(column, &acknowledged_row(acks, quantile), acknowledged);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Spread;

    #[test]
    fn the_tools_quantiles_are_noted_in_microseconds() {
        let said = r#"{"records":2,"latency_ns":{"p50":150000,"p99":2,"p999":3,"max":4},
            "send_to_ack_ns":{"p50":70000,"p99":2,"p999":3,"max":4}}"#;
        let rows = QUANTILES.iter().flat_map(|(quantile, _)| {
            [read_row("1", quantile), acknowledged_row("1", quantile)]
                .map(|name| Measure::new(&name, "µs", 0))
        });
        let mut section = Section::new(Part::Latency, ("", String::new()), &[OS], rows.collect());
        note(&mut section, OS, "1", &json(&said.replace('\n', "")).unwrap()).unwrap();
        let of = |name: &str| {
            let measure = section.measures.iter().find(|measure| measure.name == name).unwrap();
            Spread::of(&measure.runs[OS]).unwrap().median
        };
        assert_eq!(of(&read_row("1", "p50")), 150.0);
        assert_eq!(of(&acknowledged_row("1", "p50")), 70.0);
        assert!(note(&mut section, OS, "1", &Value::Null).is_err());
    }
}
