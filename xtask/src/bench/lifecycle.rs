//! How soon a node is there: with nothing, with very many partitions, and with much log after a crash.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Bench;
use super::broker::{ACK, Broker, KAFKA, OS, Side};
use super::figures::{Bound, Measure, Section};
use super::load::{Payload, produce};
use super::options::Part;
use super::process::{is_alive, rss_mib};
use super::requests::{
    Place, await_ends, await_last_records, await_leaders, create_topic, leaders, produce_to_each,
};
use super::wire::Asker;

/// A node is idle when nothing was asked of it for so long.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// In how many topics the many partitions are.
const PARTITIONS_OF_TOPIC: u32 = 100;
const RECOVERY_PARTITIONS: u32 = 6;
const RECOVERY_RECORD_BYTES: u64 = 10_000;
const MIB: u64 = 1024 * 1024;

const FIRST_START: &str = "first start, without data, to the first Metadata answer";
const START: &str = "start again, to the first Metadata answer";
const IDLE_RSS: &str = "idle RSS";

/// Measures a node that has nothing to do.
pub(super) fn start(bench: &Bench) -> Result<Vec<Section>> {
    let rows = [(FIRST_START, "ms"), (START, "ms"), (IDLE_RSS, "MiB")];
    let rows = rows.map(|(name, unit)| Measure::new(name, unit, 1)).into();
    let about = format!(
        "From before the process is made until it has answered ApiVersions and Metadata; a connection is tried \
         each millisecond. Idle is {} s after that. Kafka's storage is formatted before; its first start is not \
         measured, because the script that does both waits in seconds.",
        IDLE_AFTER.as_secs()
    );
    let mut section = Section::new(Part::Start, ("Start", about), &[ACK, KAFKA], rows);
    bench.alternate(&[Side::Vltava("ack"), Side::Kafka], |run, side| {
        let (mut broker, _, first) = Broker::start(&bench.site, side)?;
        broker.terminate()?;
        let (_, _, took) = broker.start_again()?;
        std::thread::sleep(IDLE_AFTER);
        let rss = rss_mib(broker.pid())?;
        let column = side.column();
        if side != Side::Kafka {
            section.add(column, FIRST_START, millis(first));
        }
        section.add(column, START, millis(took));
        section.add(column, IDLE_RSS, rss);
        bench.say(Part::Start, run, side.column(), &format!("{:.1} ms, idle {rss:.1} MiB", millis(took)));
        broker.remove()
    })?;
    section.want(ACK, FIRST_START, Bound::AtMost(100.0));
    section.want(ACK, START, Bound::AtMost(100.0));
    section.want(ACK, IDLE_RSS, Bound::AtMost(30.0));
    Ok(vec![section])
}

/// What is measured each time a node with data starts.
struct Restart {
    metadata: Duration,
    served: Duration,
    rss: f64,
}

const MADE: &str = "making the topics, one record into each partition";
const RSS_AFTER_MAKING: &str = "RSS with all of them";
const CLEAN: [&str; 3] = [
    "clean restart, to the first Metadata answer",
    "clean restart, until all serve",
    "RSS after a clean restart",
];
const KILLED: [&str; 3] = [
    "kill -9 and restart, to the first Metadata answer",
    "kill -9 and restart, until all serve",
    "RSS after kill -9",
];

/// Measures a node with very many partitions.
pub(super) fn partitions(bench: &Bench) -> Result<Vec<Section>> {
    let count = bench.options.partitions;
    let mut rows = vec![Measure::new(MADE, "s", 1), Measure::new(RSS_AFTER_MAKING, "MiB", 1)];
    for [metadata, served, rss] in [CLEAN, KILLED] {
        rows.extend([
            Measure::new(metadata, "ms", 0),
            Measure::new(served, "ms", 0),
            Measure::new(rss, "MiB", 1),
        ]);
    }
    let (mut columns, mut sides) = (vec![ACK], vec![Side::Vltava("ack")]);
    if bench.options.kafka_partitions {
        columns.push(KAFKA);
        sides.push(Side::Kafka);
    }
    let about = format!(
        "{count} partitions in topics of {PARTITIONS_OF_TOPIC}, one record in each. All serve when ListOffsets and \
         Fetch of its last record were answered for every partition; the answer to Metadata names them all. \
         Kafka, if asked for, is measured once."
    );
    let mut section = Section::new(Part::Partitions, ("Many partitions", about), &columns, rows);
    bench.alternate_with_kafka_once(&sides, |run, side| {
        let (mut broker, mut asker, _) = Broker::start(&bench.site, side)?;
        let since = Instant::now();
        let topics: Vec<String> =
            (0..count / PARTITIONS_OF_TOPIC).map(|topic| format!("topic-{topic}")).collect();
        for topic in &topics {
            create_topic(&mut asker, topic, PARTITIONS_OF_TOPIC)?;
        }
        let places = await_leaders(&mut asker, count as usize)?;
        for topic in &topics {
            produce_to_each(&mut asker, topic, PARTITIONS_OF_TOPIC)?;
        }
        let column = side.column();
        let made = since.elapsed().as_secs_f64();
        section.add(column, MADE, made);
        std::thread::sleep(IDLE_AFTER);
        section.add(column, RSS_AFTER_MAKING, rss_mib(broker.pid())?);
        bench.say(Part::Partitions, run, side.column(), &format!("made in {made:.1} s"));
        drop(asker);
        broker.terminate()?;
        note(&mut section, column, &CLEAN, &restart(&mut broker, &places, count.into())?);
        broker.kill()?;
        let killed = restart(&mut broker, &places, count.into())?;
        note(&mut section, column, &KILLED, &killed);
        bench.say(
            Part::Partitions,
            run,
            side.column(),
            &format!("serves {:.0} ms after kill -9", millis(killed.served)),
        );
        broker.remove()
    })?;
    for measure in [RSS_AFTER_MAKING, CLEAN[2], KILLED[2]] {
        section.want(ACK, measure, Bound::AtMost(256.0));
    }
    for measure in [CLEAN[1], KILLED[1]] {
        section.want(ACK, measure, Bound::AtMost(2000.0));
    }
    Ok(vec![section])
}

fn note(section: &mut Section, column: &str, names: &[&str; 3], restart: &Restart) {
    section.add(column, names[0], millis(restart.metadata));
    section.add(column, names[1], millis(restart.served));
    section.add(column, names[2], restart.rss);
}

/// Starts a broker on the data it has, waits until all of it is served, and counts it.
fn restart(broker: &mut Broker<'_>, places: &[Place], records: u64) -> Result<Restart> {
    let (since, mut asker, metadata) = broker.start_again()?;
    let served = served(&mut asker, places, records, since)?;
    drop(asker);
    std::thread::sleep(IDLE_AFTER);
    ensure!(is_alive(broker.pid()), "the broker ended after it had started");
    Ok(Restart { metadata, served, rss: rss_mib(broker.pid())? })
}

fn served(asker: &mut Asker, places: &[Place], records: u64, since: Instant) -> Result<Duration> {
    await_leaders(asker, places.len())?;
    let ends = await_ends(asker, places)?;
    await_last_records(asker, &ends)?;
    let served = since.elapsed();
    let there: i64 = ends.values().sum();
    ensure!(there == i64::try_from(records)?, "{there} records are there of {records}");
    Ok(served)
}

const WRITTEN: &str = "writing it";
const FIRST_ANSWER: &str = "kill -9 and start, to the first Metadata answer";
const SERVED: &str = "kill -9 and start, until every partition serves";
const RSS_AFTER: &str = "RSS when it serves again";

/// Measures the way back from kill -9 with much log.
pub(super) fn recovery(bench: &Bench) -> Result<Vec<Section>> {
    let records = bench.options.log_mib * MIB / RECOVERY_RECORD_BYTES;
    let rows = vec![
        Measure::new(WRITTEN, "s", 1),
        Measure::new(FIRST_ANSWER, "ms", 0),
        Measure::new(SERVED, "ms", 0),
        Measure::new(RSS_AFTER, "MiB", 1),
    ];
    let about = format!(
        "{} MiB of log in {RECOVERY_PARTITIONS} partitions, kill -9 as soon as the last record is acknowledged, \
         start again at once; the page cache is warm. Serving is a ListOffsets answer and the last record by Fetch \
         from every partition, with no record missing. Written by `$KAFKA/tool ProducerPerformance --num-records \
         {records} --payload-file FILE` with one line of {RECOVERY_RECORD_BYTES} bytes, batch.size=524288, \
         linger.ms=5, acks=all. Kafka is measured once.",
        bench.options.log_mib
    );
    let columns = [ACK, OS, KAFKA];
    let mut section = Section::new(Part::Recovery, ("Restart after kill -9", about), &columns, rows);
    let payload = bench.site.dir.join("payload");
    write_payload(&payload)?;
    bench.alternate_with_kafka_once(
        &[Side::Vltava("ack"), Side::Vltava("os"), Side::Kafka],
        |run, side| {
            let (mut broker, mut asker, _) = Broker::start(&bench.site, side)?;
            create_topic(&mut asker, "log", RECOVERY_PARTITIONS)?;
            await_leaders(&mut asker, RECOVERY_PARTITIONS as usize)?;
            let places = leaders(&mut asker)?;
            drop(asker);
            let properties = ["acks=all", "batch.size=524288", "linger.ms=5", "buffer.memory=67108864"];
            let since = Instant::now();
            produce(&bench.site, broker.address, "log", (records, 0), Payload::File(&payload), &properties)?;
            let written = since.elapsed();
            broker.kill()?;
            let restart = restart(&mut broker, &places, records)?;
            let mut add = |measure, value| section.add(side.column(), measure, value);
            add(WRITTEN, written.as_secs_f64());
            add(FIRST_ANSWER, millis(restart.metadata));
            add(SERVED, millis(restart.served));
            add(RSS_AFTER, restart.rss);
            let said = format!(
                "written in {:.1} s, serves after {:.0} ms",
                written.as_secs_f64(),
                millis(restart.served)
            );
            bench.say(Part::Recovery, run, side.column(), &said);
            broker.remove()
        },
    )?;
    section.want(ACK, SERVED, Bound::AtMost(1000.0));
    section.want(OS, SERVED, Bound::AtMost(1000.0));
    Ok(vec![section])
}

/// One line without a line end in it, letters that do not repeat soon.
fn write_payload(path: &Path) -> Result<()> {
    let mut state = 1u64;
    let letters = (0..RECOVERY_RECORD_BYTES).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'A' + (state >> 33) as u8 % 26
    });
    std::fs::write(path, letters.collect::<Vec<u8>>())?;
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
