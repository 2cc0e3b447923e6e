//! How fast clients write and read, and what it costs them and the broker.

use anyhow::Result;

use super::broker::Side;
use super::clients::{Client, JAVA, LIBRDKAFKA, OURS, PAIRS, Pair, RATIOS, Ran, Records, fill, limits};
use super::figures::{Bound, Measure, Section};
use super::options::Part;
use super::process::{Clocks, Used};
use super::throughput::{PARTITIONS, RECORD_BYTES, TOPIC, ensure_there, read, warm_records, warmed};
use super::{Bench, in_turn};

/// What a record of 100 bytes takes in a full batch.
pub(super) const RECORD_LOG_BYTES: f64 = 108.0;
const MIB: f64 = 1024.0 * 1024.0;

pub(super) const RATE: &str = "throughput";
pub(super) const BYTES: &str = "the same in values";
pub(super) const CLIENT_CPU: &str = "client CPU of a record, its start included";
const BROKER_CPU: &str = "broker CPU of a record";
pub(super) const RSS: &str = "client RSS at most";
pub(super) const SHARE: &str = "share of what the machine can do";

/// Measures writing, acknowledged by the leader.
pub(super) fn produce(bench: &Bench) -> Result<Vec<Section>> {
    written(bench, Part::Produce, "1")
}

/// Measures writing, acknowledged by all in-sync replicas.
pub(super) fn durable(bench: &Bench) -> Result<Vec<Section>> {
    written(bench, Part::Durable, "all")
}

fn written(bench: &Bench, part: Part, acks: &str) -> Result<Vec<Section>> {
    let records = records(bench);
    let title = format!("Produce, acks={acks}");
    let commands = PAIRS.map(|pair| command(pair.column, &pair.client.words_of_produce(records, acks)));
    let mut section = section(bench, part, &title, format!("\n{}", commands.concat()));
    for run in 0..bench.options.runs {
        let limit = limits(&bench.site, bytes(bench))?.written;
        in_turn(run, &PAIRS, |pair: Pair| {
            let (broker, warm) = warmed(bench, pair.side, &format!("acks={acks}"))?;
            let before = Clocks::read(&[broker.pid()])?;
            let ran = pair.client.produce(&bench.site, broker.address, records, acks)?;
            let used = before.used()?;
            ensure_there(&broker, warm + records.count)?;
            note(bench, &mut section, (run, pair), (ran, used), limit);
            broker.remove()
        })?;
    }
    if part == Part::Produce {
        section.want_ratio(RATE, (OURS, JAVA), Bound::AtLeast(5.0));
        section.want_ratio(RATE, (OURS, LIBRDKAFKA), Bound::AtLeast(3.0));
    }
    Ok(vec![section])
}

/// Measures reading what was written just before.
pub(super) fn consume(bench: &Bench) -> Result<Vec<Section>> {
    let records = records(bench);
    let commands =
        PAIRS.map(|pair| command(pair.column, &pair.client.words_of_consume(TOPIC, records.count)));
    let about = format!(
        " Both brokers are filled by {}, so that all read the same batches; the clients of one broker read \
         from the same node, one after the other, each after it has read the records of warming. What \
         ConsumerPerformance calls its fetch rate leaves out its start and the joining of its group.\n{}",
        Client::Ours.words_of_produce(records, "1"),
        commands.concat()
    );
    let mut section = section(bench, Part::Consume, "Consume", about);
    for run in 0..bench.options.runs {
        let limit = limits(&bench.site, bytes(bench))?.read;
        in_turn(run, &[Side::Vltava("os"), Side::Kafka], |side| {
            let (broker, warm) = warmed(bench, side, "acks=1")?;
            fill(&bench.site, broker.address, records)?;
            ensure_there(&broker, warm + records.count)?;
            let pairs: Vec<Pair> = PAIRS.into_iter().filter(|pair| pair.side == side).collect();
            in_turn(run, &pairs, |pair| {
                let (ran, used) = read(bench, &broker, pair.client, warm)?;
                note(bench, &mut section, (run, pair), (ran, used), limit);
                Ok(())
            })?;
            broker.remove()
        })?;
    }
    section.want_ratio(RATE, (OURS, JAVA), Bound::AtLeast(4.0));
    section.want_ratio(RATE, (OURS, LIBRDKAFKA), Bound::AtLeast(3.0));
    Ok(vec![section])
}

fn records(bench: &Bench) -> Records {
    Records { topic: TOPIC, count: bench.options.records, bytes: RECORD_BYTES, warm_up: 0 }
}

/// What the records are on the medium.
fn bytes(bench: &Bench) -> u64 {
    (bench.options.records as f64 * RECORD_LOG_BYTES) as u64
}

fn command(column: &str, words: &str) -> String {
    format!("\n- {column}: {words}")
}

fn section(bench: &Bench, part: Part, title: &str, more: String) -> Section {
    let records = bench.options.records;
    let warm = warm_records(records);
    let way = if part == Part::Consume {
        "from the page cache through `sendfile` and a socket to a checksum"
    } else {
        "through a socket and a checksum to the page cache"
    };
    let about = format!(
        "{records} records of {RECORD_BYTES} bytes, {PARTITIONS} partitions, one thread that calls the client, \
         a fresh node with fresh data for each turn, warmed with {warm} records of another topic by Kafka's \
         ProducerPerformance, nothing dropped from the page cache. What the machine can do is measured in \
         each run, too: {RECORD_LOG_BYTES} bytes a record {way}, and nothing else.{more}"
    );
    let mut rows = vec![
        Measure::new(RATE, "rec/s", 0),
        Measure::new(BYTES, "MiB/s", 1),
        Measure::of_noise(SHARE, "%", 0),
        Measure::new(CLIENT_CPU, "ns", 0),
        Measure::new(BROKER_CPU, "ns", 0),
        Measure::new(RSS, "MiB", 1),
    ];
    rows.extend(Measure::noise());
    let columns = PAIRS.map(|pair| pair.column);
    Section::new(part, (title, about), &columns, rows).compared_by(&RATIOS)
}

fn note(bench: &Bench, section: &mut Section, turn: (usize, Pair), came: (Ran, Used), limit: f64) {
    let ((run, pair), (ran, used)) = (turn, came);
    let rate = ran.records_per_second;
    let of_record = |seconds: f64| seconds * 1e9 / bench.options.records as f64;
    let (client, broker) = (of_record(used.clients), of_record(used.broker));
    let said = format!("{rate:.0} rec/s, client {client:.0} ns, broker {broker:.0} ns a record");
    bench.say(section.part, run, pair.column, &said);
    let mut add = |measure, value| section.add(pair.column, measure, value);
    add(RATE, rate);
    add(BYTES, rate * RECORD_BYTES as f64 / MIB);
    add(SHARE, 100.0 * rate * RECORD_LOG_BYTES / limit);
    add(CLIENT_CPU, client);
    add(BROKER_CPU, broker);
    add(RSS, ran.rss_peak_mib);
    used.noise().into_iter().for_each(|(measure, value)| add(measure, value));
}
