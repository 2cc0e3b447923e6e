//! Small records in and out again: what clients get, and what it costs the broker.

use anyhow::{Result, ensure};

use super::Bench;
use super::broker::{ACK, Broker, KAFKA, OS, Side};
use super::clients::{Client, Ran};
use super::figures::{Bound, Measure, Section};
use super::load::{Payload, Produced, produce};
use super::options::Part;
use super::process::{Clocks, Used, rss_mib};
use super::requests::{PATIENCE, await_ends, await_leaders, create_topic};
use super::wire::Asker;

pub(super) const PARTITIONS: u32 = 6;
pub(super) const RECORD_BYTES: u64 = 100;
/// Both are warm before anything counts: the first millions of records of a Kafka measure its compiler.
const WARM_RECORDS: u64 = 3_000_000;
const MIB: f64 = 1024.0 * 1024.0;

pub(super) const TOPIC: &str = "measured";
pub(super) const WARM_TOPIC: &str = "warm";

const RATE: &str = "client throughput";
const BYTES: &str = "the same in values";
const CPU: &str = "broker CPU";
const RSS: &str = "broker RSS after";
const P50: &str = "client latency, median";
const P99: &str = "client latency, 99th percentile";
const CLIENT_CPU: &str = "client CPU, its start included";

/// Measures Produce, Consume or both: what is read must have been written anyway.
pub(super) fn in_and_out(bench: &Bench) -> Result<Vec<Section>> {
    let mut produced = section(bench, Part::Produce, "Produce, acks=1", &[OS, KAFKA]);
    let mut consumed = section(bench, Part::Consume, "Consume", &[OS, KAFKA]);
    bench.alternate(&[Side::Vltava("os"), Side::Kafka], |run, side| {
        let (broker, warm) = warmed(bench, side, "acks=1")?;
        let (result, used) = measured_produce(bench, &broker, warm, "acks=1")?;
        bench.say(Part::Produce, run, side.column(), &words(result.records_per_second, used));
        note_produce(&mut produced, side, result, used, rss_mib(broker.pid())?);
        if bench.options.wants(Part::Consume) {
            let (ran, used) = read(bench, &broker, Client::Java, warm)?;
            bench.say(Part::Consume, run, side.column(), &words(ran.records_per_second, used));
            note(&mut consumed, side, ran.records_per_second, used, rss_mib(broker.pid())?);
        }
        broker.remove()
    })?;
    produced.want_ratio(CPU, (OS, KAFKA), Bound::AtMost(0.35));
    produced.want_ratio(RATE, (OS, KAFKA), Bound::AtLeast(1.0));
    consumed.want_ratio(CPU, (OS, KAFKA), Bound::AtMost(0.5));
    consumed.want_ratio(RATE, (OS, KAFKA), Bound::AtLeast(1.0));
    Ok([produced, consumed].into_iter().filter(|section| bench.options.wants(section.part)).collect())
}

/// Measures what durability costs.
pub(super) fn durable(bench: &Bench) -> Result<Vec<Section>> {
    let columns = [ACK, OS, KAFKA];
    let mut section = section(bench, Part::Durable, "Produce, acks=all", &columns);
    bench.alternate(&[Side::Vltava("ack"), Side::Vltava("os"), Side::Kafka], |run, side| {
        let (broker, warm) = warmed(bench, side, "acks=all")?;
        let (result, used) = measured_produce(bench, &broker, warm, "acks=all")?;
        bench.say(Part::Durable, run, side.column(), &words(result.records_per_second, used));
        note_produce(&mut section, side, result, used, rss_mib(broker.pid())?);
        broker.remove()
    })?;
    section.want_ratio(RATE, (ACK, OS), Bound::AtLeast(0.8));
    Ok(vec![section])
}

fn section(bench: &Bench, part: Part, title: &str, columns: &[&str]) -> Section {
    let records = bench.options.records;
    let warm = warm_records(records);
    let load = match part {
        Part::Consume => format!(
            "{} on what Produce wrote, each time in a group of its own, as the reading of what warmed the node \
             was before. What it calls its fetch rate leaves out its start and the joining of the group; the \
             CPU of the broker includes them.",
            Client::Java.words_of_consume(TOPIC, records)
        ),
        _ => {
            let acks = if part == Part::Durable { "all" } else { "1" };
            format!(
                "`$KAFKA/tool ProducerPerformance --bootstrap-server BOOTSTRAP --topic measured --num-records \
                 {records} --record-size {RECORD_BYTES} --throughput -1 --command-property acks={acks}`."
            )
        }
    };
    let about = format!(
        "{records} records of {RECORD_BYTES} bytes, {PARTITIONS} partitions, a fresh node with fresh data for \
         each run, warmed with {warm} records of another topic, nothing dropped from the page cache: what is \
         consumed was written just before. {load}"
    );
    Section::new(part, (title, about), columns, rows(part))
}

fn rows(part: Part) -> Vec<Measure> {
    let mut rows = vec![Measure::new(RATE, "rec/s", 0), Measure::new(BYTES, "MiB/s", 1)];
    rows.extend([Measure::new(CPU, "s", 2), Measure::new(RSS, "MiB", 1)]);
    if part != Part::Consume {
        rows.extend([Measure::new(P50, "ms", 0), Measure::new(P99, "ms", 0)]);
    }
    rows.push(Measure::new(CLIENT_CPU, "s", 1));
    rows.extend(Measure::noise());
    rows
}

pub(super) fn warm_records(records: u64) -> u64 {
    // A short run, to try the benchmark itself, is not longer for it.
    WARM_RECORDS.min(records)
}

/// A broker that has worked already; with how many records.
pub(super) fn warmed<'a>(bench: &'a Bench, side: Side, acks: &str) -> Result<(Broker<'a>, u64)> {
    let (broker, mut asker, _) = Broker::start(&bench.site, side)?;
    let warm = warm_records(bench.options.records);
    create_topic(&mut asker, WARM_TOPIC, PARTITIONS)?;
    create_topic(&mut asker, TOPIC, PARTITIONS)?;
    await_leaders(&mut asker, 2 * PARTITIONS as usize)?;
    produce(&bench.site, broker.address, WARM_TOPIC, (warm, 0), Payload::Random(RECORD_BYTES), &[acks])?;
    Ok((broker, warm))
}

fn measured_produce(bench: &Bench, broker: &Broker<'_>, warm: u64, acks: &str) -> Result<(Produced, Used)> {
    let records = bench.options.records;
    let before = Clocks::read(&[broker.pid()])?;
    let result =
        produce(&bench.site, broker.address, TOPIC, (records, 0), Payload::Random(RECORD_BYTES), &[acks])?;
    let used = before.used()?;
    ensure_there(broker, warm + records)?;
    Ok((result, used))
}

/// Reads what warmed a broker, which does not count, and then what was written there.
pub(super) fn read(bench: &Bench, broker: &Broker<'_>, client: Client, warm: u64) -> Result<(Ran, Used)> {
    client.consume(&bench.site, broker.address, WARM_TOPIC, warm)?;
    let before = Clocks::read(&[broker.pid()])?;
    let ran = client.consume(&bench.site, broker.address, TOPIC, bench.options.records)?;
    Ok((ran, before.used()?))
}

/// Sees to it that a warmed broker has so many records, the warming included.
pub(super) fn ensure_there(broker: &Broker<'_>, records: u64) -> Result<()> {
    let mut asker = Asker::connect(broker.address, PATIENCE)?;
    let places = await_leaders(&mut asker, 2 * PARTITIONS as usize)?;
    let there: i64 = await_ends(&mut asker, &places)?.values().sum();
    ensure!(there == i64::try_from(records)?, "{there} records are there of {records}");
    Ok(())
}

fn words(rate: f64, used: Used) -> String {
    format!("{rate:.0} rec/s, broker CPU {:.2} s, others {:.1} s", used.broker, used.others)
}

fn note_produce(section: &mut Section, side: Side, result: Produced, used: Used, rss: f64) {
    note(section, side, result.records_per_second, used, rss);
    section.add(side.column(), P50, result.p50_ms);
    section.add(side.column(), P99, result.p99_ms);
}

fn note(section: &mut Section, side: Side, rate: f64, used: Used, rss: f64) {
    let mut add = |measure, value| section.add(side.column(), measure, value);
    add(RATE, rate);
    add(BYTES, rate * RECORD_BYTES as f64 / MIB);
    add(CPU, used.broker);
    add(RSS, rss);
    add(CLIENT_CPU, used.clients);
    used.noise().into_iter().for_each(|(measure, value)| add(measure, value));
}
