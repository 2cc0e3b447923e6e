//! Three brokers, ours or Kafka's, each with its own clients: records that are written to all three, and
//! read again.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::broker::{Cluster, NODES, Side};
use super::clients::{Client, Limits, Ran, Records, fill, limits};
use super::figures::{Bound, Measure, Section};
use super::load::{Payload, produce};
use super::options::Part;
use super::process::{Clocks, Used, rss_mib};
use super::requests::{Place, await_leaders, create_replicated, in_sync, readable};
use super::speed::{BYTES, CLIENT_CPU, RATE, RECORD_LOG_BYTES, RSS, SHARE};
use super::throughput::{PARTITIONS, RECORD_BYTES, WARM_TOPIC};
use super::wire::Asker;
use super::{Bench, in_turn};

const MIN_IN_SYNC: &str = "2";
const READ_TOPIC: &str = "read";
const MIB: f64 = 1024.0 * 1024.0;

/// What was acknowledged must be on all three within that time.
const REPLICATED_TIME_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A producer, whose broker it writes to, and when a record is acknowledged: a column.
#[derive(Debug, Clone, Copy)]
struct Way {
    client: Client,
    side: Side,
    acks: &'static str,
    topic: &'static str,
    column: &'static str,
}

const VLTAVA: Side = Side::Vltava("os");
const SIDES: [Side; 2] = [VLTAVA, Side::Kafka];

/// The topic that has flush.policy=ack.
const DURABLE_TOPIC: &str = "durable";
const TOPICS: [&str; 4] = ["one", "all", DURABLE_TOPIC, READ_TOPIC];

const OURS_ONE: &str = "ours on Vltava, acks=1";
const OURS_ALL: &str = "ours on Vltava, acks=all";
const OURS_DURABLE: &str = "ours on Vltava, acks=all, flush.policy=ack";
const JAVA_ONE: &str = "Java on Kafka, acks=1";
const JAVA_ALL: &str = "Java on Kafka, acks=all";

const WAYS: [Way; 5] = [
    Way { client: Client::Ours, side: VLTAVA, acks: "1", topic: TOPICS[0], column: OURS_ONE },
    Way { client: Client::Ours, side: VLTAVA, acks: "all", topic: TOPICS[1], column: OURS_ALL },
    Way { client: Client::Ours, side: VLTAVA, acks: "all", topic: DURABLE_TOPIC, column: OURS_DURABLE },
    Way { client: Client::Java, side: Side::Kafka, acks: "1", topic: TOPICS[0], column: JAVA_ONE },
    Way { client: Client::Java, side: Side::Kafka, acks: "all", topic: TOPICS[1], column: JAVA_ALL },
];

const RATIOS: [(&str, &str, &str); 3] = [
    ("acks=1: ours ÷ Java on Kafka", OURS_ONE, JAVA_ONE),
    ("acks=all: ours ÷ Java on Kafka", OURS_ALL, JAVA_ALL),
    ("acks=all: flush.policy=ack ÷ os", OURS_DURABLE, OURS_ALL),
];

const OURS: &str = "ours on Vltava";
const OURS_THREE: &str = "three of ours on Vltava";
const JAVA: &str = "Java on Kafka";
const JAVA_THREE: &str = "three of Java on Kafka";

const REPLICATED: &str = "after the last acknowledgement, until all three have everything";
const BROKER_CPU: &str = "CPU of all three brokers of a record";
const BROKER_RSS: &str = "RSS of all three brokers after";

/// Measures Produce by one producer, Consume, or both.
pub(super) fn in_and_out(bench: &Bench) -> Result<Vec<Section>> {
    let mut produced = section_of_produce(bench, Part::Produce);
    let mut consumed = section_of_consume(bench);
    for run in 0..bench.options.runs {
        let Limits { written, read, .. } = limits(&bench.site, bytes(bench.options.records))?;
        in_turn(run, &SIDES, |side| {
            let cluster = warmed(bench, side, &TOPICS)?;
            if bench.options.wants(Part::Produce) {
                write_all(bench, &cluster, &mut produced, (run, side), written)?;
            }
            if bench.options.wants(Part::Consume) {
                read_all(bench, &cluster, &mut consumed, (run, side), read)?;
            }
            cluster.remove()
        })?;
    }
    want_of_produce(&mut produced);
    consumed.want_ratio(RATE, (OURS, JAVA), Bound::AtLeast(4.0));
    consumed.want_ratio(RATE, (OURS_THREE, JAVA_THREE), Bound::AtLeast(4.0));
    Ok([produced, consumed].into_iter().filter(|section| bench.options.wants(section.part)).collect())
}

/// Measures Produce by three processes at once.
pub(super) fn three_producers(bench: &Bench) -> Result<Vec<Section>> {
    let mut produced = section_of_produce(bench, Part::ThreeProducers);
    for run in 0..bench.options.runs {
        let written = limits(&bench.site, bytes(bench.options.records))?.written;
        in_turn(run, &SIDES, |side| {
            let cluster = warmed(bench, side, &TOPICS)?;
            write_all(bench, &cluster, &mut produced, (run, side), written)?;
            cluster.remove()
        })?;
    }
    want_of_produce(&mut produced);
    Ok(vec![produced])
}

fn want_of_produce(section: &mut Section) {
    section.want_ratio(RATE, (OURS_ONE, JAVA_ONE), Bound::AtLeast(5.0));
    section.want_ratio(RATE, (OURS_ALL, JAVA_ALL), Bound::AtLeast(5.0));
    section.want_ratio(RATE, (OURS_DURABLE, OURS_ALL), Bound::AtLeast(0.7));
}

/// How many producers there are, and what each of them writes.
fn amount(bench: &Bench, part: Part, way: Way) -> (u64, Records) {
    let records = bench.options.records;
    let (producers, count) = match (part, way.side) {
        (Part::ThreeProducers, Side::Kafka) => (3, records / 4),
        (Part::ThreeProducers, _) => (3, records / 2),
        // It takes five times as long for each.
        (_, Side::Kafka) => (1, records / 5 * 3),
        _ => (1, records),
    };
    (producers, Records { topic: way.topic, count, bytes: RECORD_BYTES, warm_up: count / 4 })
}

/// More than is written otherwise: a Java consumer becomes quicker for seconds, too.
fn records_to_read(bench: &Bench) -> Records {
    Records { topic: READ_TOPIC, count: bench.options.records / 2 * 3, bytes: RECORD_BYTES, warm_up: 0 }
}

/// What so many records are on one medium.
fn bytes(records: u64) -> u64 {
    (records as f64 * RECORD_LOG_BYTES) as u64
}

/// Kafka's brokers become quicker until each has compiled what it needs, which takes three of them that
/// share a machine much longer than one.
fn warm_records(bench: &Bench) -> u64 {
    const WARM_RECORDS: u64 = 8_000_000;
    WARM_RECORDS.min(bench.options.records)
}

/// A cluster that has worked already, with these topics.
pub(super) fn warmed<'a>(bench: &'a Bench, side: Side, topics: &[&str]) -> Result<Cluster<'a>> {
    let cluster = Cluster::start(&bench.site, side)?;
    let mut askers = cluster.askers()?;
    for topic in [&[WARM_TOPIC], topics].concat() {
        let mut settings = vec![("min.insync.replicas", MIN_IN_SYNC)];
        if topic == DURABLE_TOPIC && side != Side::Kafka {
            settings.push(("flush.policy", "ack"));
        }
        create_replicated(&mut askers[0], topic, (PARTITIONS, NODES), &settings)?;
    }
    for asker in &mut askers {
        await_leaders(asker, (1 + topics.len()) * PARTITIONS as usize)?;
    }
    let half = warm_records(bench) / 2;
    for acks in ["acks=1", "acks=all"] {
        let payload = Payload::Random(RECORD_BYTES);
        produce(&bench.site, cluster.address(), WARM_TOPIC, (half, 0), payload, &[acks])?;
    }
    await_replicated(&mut askers, WARM_TOPIC, 2 * half)?;
    Ok(cluster)
}

/// Waits until all replicas of a topic are in sync and have so many records; an error if there are others.
pub(super) fn await_replicated(askers: &mut [Asker], topic: &str, records: u64) -> Result<()> {
    let places: Vec<Place> = (0..PARTITIONS.cast_signed()).map(|index| (topic.to_owned(), index)).collect();
    let deadline = Instant::now() + REPLICATED_TIME_MAX;
    loop {
        let there = readable(askers, &places)?;
        let in_sync = in_sync(&mut askers[0], topic)?;
        let is_whole = places.iter().all(|place| in_sync.get(place) == Some(&NODES.into()));
        let wanted = i64::try_from(records)?;
        if is_whole && there == Some(wanted) {
            return Ok(());
        }
        let is_possible = there.is_none_or(|there| there <= wanted) && Instant::now() < deadline;
        ensure!(is_possible, "{topic}: {there:?} records are there of {records}; in sync are {in_sync:?}");
        thread::sleep(LOOK_EVERY);
    }
}

/// Brings what was written to the disk, and memory that is free into use, so that who comes next pays for neither.
pub(super) fn settle(bench: &Bench) -> Result<()> {
    let done = Command::new("sync").arg("--file-system").arg(&bench.site.dir).status()?;
    ensure!(done.success(), "sync failed");
    bench.ballast.fill()
}

/// One side's columns of Produce.
fn write_all(
    bench: &Bench,
    cluster: &Cluster<'_>,
    section: &mut Section,
    (run, side): (usize, Side),
    limit: f64,
) -> Result<()> {
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| way.side == side).collect();
    in_turn(run, &ways, |way| {
        let (producers, records) = amount(bench, section.part, way);
        let count = producers * records.count;
        let mut askers = cluster.askers()?;
        settle(bench)?;
        let before = Clocks::read(&cluster.pids())?;
        let write = || way.client.produce(&bench.site, cluster.address(), records, way.acks);
        let ran = at_once(producers, records.count - records.warm_up, write)?;
        await_replicated(&mut askers, way.topic, count)?;
        let replicated = ran.ended.elapsed();
        let used = before.used()?;
        section.add(way.column, REPLICATED, replicated.as_secs_f64());
        // Each byte is received, checked and written once by each node.
        let share = 100.0 * ran.records_per_second * RECORD_LOG_BYTES * f64::from(NODES) / limit;
        let column = (run, way.column);
        note(bench, section, column, (ran, used, count), share)?;
        section.add(way.column, BROKER_RSS, rss_of_brokers(cluster)?);
        Ok(())
    })
}

/// Some processes of the same kind: from when the first began to when the last had its last record or
/// acknowledgement, by what each says it took.
fn at_once(processes: u64, records: u64, one: impl Fn() -> Result<Ran> + Sync) -> Result<Ran> {
    let ran = thread::scope(|scope| {
        let started: Vec<_> = (0..processes).map(|_| scope.spawn(&one)).collect();
        let joined = started.into_iter().map(|one| one.join().map_err(|_| anyhow!("it panicked"))?);
        joined.collect::<Result<Vec<Ran>>>()
    })?;
    together(&ran, records).context("somebody runs")
}

/// What processes that wrote or read so many records each came to together.
fn together(ran: &[Ran], records: u64) -> Option<Ran> {
    if let [one] = ran {
        return Some(*one);
    }
    let began = |ran: &Ran| ran.ended - Duration::from_secs_f64(records as f64 / ran.records_per_second);
    let began = ran.iter().map(began).min()?;
    let ended = ran.iter().map(|ran| ran.ended).max()?;
    let records_per_second = (ran.len() as u64 * records) as f64 / (ended - began).as_secs_f64();
    let rss_peak_mib = ran.iter().map(|ran| ran.rss_peak_mib).fold(0.0, f64::max);
    Some(Ran { records_per_second, rss_peak_mib, ended })
}

/// One side's columns of Consume.
fn read_all(
    bench: &Bench,
    cluster: &Cluster<'_>,
    section: &mut Section,
    (run, side): (usize, Side),
    limit: f64,
) -> Result<()> {
    let (client, columns) = if side == Side::Kafka {
        (Client::Java, [(JAVA, 1), (JAVA_THREE, 3)])
    } else {
        (Client::Ours, [(OURS, 1), (OURS_THREE, 3)])
    };
    let records = records_to_read(bench);
    fill(&bench.site, cluster.address(), records)?;
    await_replicated(&mut cluster.askers()?, READ_TOPIC, records.count)?;
    settle(bench)?;
    let read = |topic, count| client.consume(&bench.site, cluster.address(), topic, count);
    read(WARM_TOPIC, warm_records(bench) / 2 * 2)?;
    in_turn(run, &columns, |(column, consumers)| {
        let each = if consumers == 1 { records.count } else { records_of_three(bench) };
        let before = Clocks::read(&cluster.pids())?;
        let ran = at_once(consumers, each, || read(READ_TOPIC, each))?;
        let used = before.used()?;
        let share = 100.0 * ran.records_per_second * RECORD_LOG_BYTES / limit;
        note(bench, section, (run, column), (ran, used, consumers * each), share)
    })
}

/// What each of three consumers reads.
fn records_of_three(bench: &Bench) -> u64 {
    bench.options.records / 2
}

fn rss_of_brokers(cluster: &Cluster<'_>) -> Result<f64> {
    cluster.pids().into_iter().map(rss_mib).sum()
}

fn note(
    bench: &Bench,
    section: &mut Section,
    (run, column): (usize, &str),
    (ran, used, count): (Ran, Used, u64),
    share: f64,
) -> Result<()> {
    let rate = ran.records_per_second;
    let of_record = |seconds: f64| seconds * 1e9 / count as f64;
    let (client, brokers) = (of_record(used.clients), of_record(used.broker));
    let said = format!("{rate:.0} rec/s, client {client:.0} ns, brokers {brokers:.0} ns a record");
    bench.say(section.part, run, column, &said);
    let mut add = |measure, value| section.add(column, measure, value);
    add(RATE, rate);
    add(BYTES, rate * RECORD_BYTES as f64 / MIB);
    add(SHARE, share);
    add(CLIENT_CPU, client);
    add(BROKER_CPU, brokers);
    add(RSS, ran.rss_peak_mib);
    used.noise().into_iter().for_each(|(measure, value)| add(measure, value));
    Ok(())
}

fn rows() -> Vec<Measure> {
    vec![
        Measure::new(RATE, "rec/s", 0),
        Measure::new(BYTES, "MiB/s", 1),
        Measure::of_noise(SHARE, "%", 0),
        Measure::new(CLIENT_CPU, "ns", 0),
        Measure::new(BROKER_CPU, "ns", 0),
        Measure::new(RSS, "MiB", 1),
    ]
}

fn section_of_produce(bench: &Bench, part: Part) -> Section {
    let title = if part == Part::Produce { "Produce" } else { "Produce, three producers" };
    let commands = WAYS.map(|way| {
        let (_, records) = amount(bench, part, way);
        format!("\n- {}: {}", way.column, way.client.words_of_produce(records, way.acks))
    });
    let who = if part == Part::Produce {
        "One producer. Java on Kafka writes fewer records, since it takes several times as long for each."
    } else {
        "Three producers, each a process: all records by the time from when the first began to when the last had \
         its last acknowledgement, by what each of them says it took; the start of a process is not in it. Java on \
         Kafka writes fewer records, since it takes several times as long for each."
    };
    let about = format!(
        "{who} The first quarter of a process's records is not in its rate. {} What the machine can do is measured in each run, too: {RECORD_LOG_BYTES} bytes a record through \
         a socket and a checksum to the page cache, once for each of the {NODES} nodes, and nothing else. CPU of \
         the brokers is counted until all three have everything. What is printed counts only if every record is \
         acknowledged, there once, and on all three.\n{}",
        about_cluster(bench),
        commands.concat()
    );
    let mut rows = rows();
    rows.extend([Measure::new(REPLICATED, "s", 2), Measure::new(BROKER_RSS, "MiB", 0)]);
    rows.extend(Measure::noise());
    Section::new(part, (title, about), &WAYS.map(|way| way.column), rows).compared_by(&RATIOS)
}

fn section_of_consume(bench: &Bench) -> Section {
    let records = records_to_read(bench);
    let about = format!(
        "One consumer, and three at once, each a process that reads {} records, counted as three producers are. {} \
         The topic was written just before by {} on both sides, so that both read the same batches; \
         the first reads the records of warming before. What ConsumerPerformance calls its fetch rate leaves out its start \
         and the joining of its group. What the machine can do: {RECORD_LOG_BYTES} bytes a record from the page \
         cache through `sendfile` and a socket to a checksum, and nothing else.\n\n- {OURS}: {}\n- {JAVA}: {}",
        records_of_three(bench),
        about_cluster(bench),
        Client::Ours.words_of_produce(records, "1"),
        Client::Ours.words_of_consume(READ_TOPIC, records.count),
        Client::Java.words_of_consume(READ_TOPIC, records.count)
    );
    let mut rows = rows();
    rows.extend(Measure::noise());
    Section::new(Part::Consume, ("Consume", about), &[OURS, JAVA, OURS_THREE, JAVA_THREE], rows).compared_by(
        &[("one: ours ÷ Java on Kafka", OURS, JAVA), ("three: ours ÷ Java on Kafka", OURS_THREE, JAVA_THREE)],
    )
}

fn about_cluster(bench: &Bench) -> String {
    format!(
        "{RECORD_BYTES} bytes a record; {NODES} brokers, each a controller too; {PARTITIONS} partitions, replication \
         factor {NODES}, min.insync.replicas={MIN_IN_SYNC}. A fresh cluster with fresh data for each side's turn, \
         warmed with {} records of another topic by Kafka's ProducerPerformance, half of them with acks=all; then \
         what is a column has a topic of its own, and their order turns around, too. Before each, what was written \
         is brought to the disk, and free memory is filled with the cache of a file that was read once, as on a \
         machine that has run for a while: here a page that the host has to give costs several times as much.",
        warm_records(bench)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted_from_the_first_beginning_to_the_last_end() {
        let now = Instant::now();
        let ran = |records_per_second, ended_ms| Ran {
            records_per_second,
            rss_peak_mib: records_per_second,
            ended: now + Duration::from_millis(ended_ms),
        };
        // Of 100 records each: from 0 to 1 s, from 0.5 to 2.5 s, from 1 to 2 s.
        let all = together(&[ran(100.0, 11_000), ran(50.0, 12_500), ran(100.0, 12_000)], 100).unwrap();
        assert!((all.records_per_second - 120.0).abs() < 1e-6, "{all:?}");
        assert_eq!((all.rss_peak_mib, all.ended), (100.0, now + Duration::from_millis(12_500)));
        assert_eq!(together(&[ran(7.0, 1)], 100).unwrap().records_per_second, 7.0);
        assert!(together(&[], 100).is_none());
    }
}
