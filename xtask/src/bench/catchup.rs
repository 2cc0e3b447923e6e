//! How a follower makes up for what it has missed, and what producers feel of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};

use super::Bench;
use super::broker::{ACK, Cluster, KAFKA, NODES, OS, Side};
use super::clients::{Client, Limits, Offered, Records, limits, ours, words};
use super::figures::{Bound, Measure, Section};
use super::hlog::{self, Interval};
use super::options::Part;
use super::process::Clocks;
use super::replicated::{await_replicated, settle, warmed};
use super::requests::{PATIENCE, in_sync};
use super::throughput::PARTITIONS;
use super::wire::Asker;
use crate::room;

const TOPIC: &str = "missed";
const RECORD_BYTES: u64 = 1_000;
const ACKS: &str = "all";
const MIB: f64 = 1024.0 * 1024.0;

/// Of the broker that is killed; clients begin with the first.
const KILLED: usize = 2;
/// One of so many records of the throughput parts is written to see how fast it goes.
const PEAK_PART: u64 = 10;
/// Of that.
const LOAD: f64 = 0.25;
/// The steady load is one process after the other, each for so long; the first part of each, in which it
/// connects, does not count.
const TURN: Duration = Duration::from_secs(5);
const TURN_WARM_UP: Duration = Duration::from_millis(500);
/// Turns before the broker is killed, and while it is away.
const TURNS_BEFORE: usize = 4;
const TURNS_AWAY: usize = 1;
/// From one interval whose times are told apart to the next.
const INTERVAL_MS: u64 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Of what a follower misses there are three copies, beside what is written before and behind it, and what nodes keep
/// free.
const ROOM_FACTOR: u64 = 7;

const MISSED: &str = "missed when it starts";
const COPIED: &str = "copied until it is in sync";
const SERVES: &str = "from its start until it answers";
const IN_SYNC: &str = "from its start until all is in sync";
const RATE: &str = "copied a second";
const SHARE: &str = "share of what the machine can do";
const PEAK: &str = "producer as fast as it goes";
const STEADY: &str = "steady load";
const BEFORE: &str = "p99 with all three in sync";
const AWAY: &str = "p99 while it is away";
const DURING: &str = "p99 while it catches up";
const RAISED: &str = "p99 while it catches up, of that with all in sync";

const SIDES: [Side; 3] = [Side::Vltava("os"), Side::Vltava("ack"), Side::Kafka];

/// Measures a follower that was away.
pub(super) fn catch_up(bench: &Bench) -> Result<Vec<Section>> {
    let wanted = ROOM_FACTOR * (bench.options.missed_mib << 20);
    room::enough(&bench.site.dir, wanted, "catch-up", "give a folder on a larger disk with --dir")?;
    let mut section = section(bench);
    for run in 0..bench.options.runs {
        let limit = limits(&bench.site, bench.options.missed_mib << 20)?;
        super::in_turn(run, &SIDES, |side| turn(bench, &mut section, (run, side), limit))?;
    }
    for column in [OS, ACK] {
        section.want(column, RAISED, Bound::AtMost(2.0));
    }
    Ok(vec![section])
}

fn turn(bench: &Bench, section: &mut Section, (run, side): (usize, Side), limit: Limits) -> Result<()> {
    let mut cluster = warmed(bench, side, &[TOPIC])?;
    let mut asker = cluster.askers()?.swap_remove(0);
    let count = (bench.options.records / PEAK_PART).max(1000);
    let peak = produce(bench, &cluster, count)?;
    // Else the kernel still writes back what the peak left, and that counts as what a whole cluster is like.
    settle(bench)?;
    let steady = Steady { bench, to: cluster.address(), rate: peak * LOAD };
    let before = p99_ms(&steady.turns(TURNS_BEFORE)?)?;

    let at_kill = cluster.brokers[KILLED].log_bytes()?;
    cluster.brokers[KILLED].kill()?;
    await_in_sync(&mut asker, usize::from(NODES) - 1)?;
    let missed = (bench.options.missed_mib << 20) / RECORD_BYTES;
    produce(bench, &cluster, missed)?;
    settle(bench)?;
    let clocks = Clocks::read(&[])?;
    let away = steady.turns(TURNS_AWAY)?;
    let at_start = cluster.brokers[0].log_bytes()?;
    let (back, during) = steady.until(|| Back::watched(&mut cluster, &mut asker))?;
    let noise = clocks.used()?.noise();
    let turns = TURNS_BEFORE + TURNS_AWAY + during.len();
    let written = count + missed + turns as u64 * steady.records_of_turn();
    await_replicated(&mut cluster.askers()?, TOPIC, written)?;

    let during = p99_ms(&back.cut(during))?;
    let copied = back.log_bytes.saturating_sub(at_kill) as f64;
    let seconds = back.in_sync.as_secs_f64();
    let mut add = |measure, value| section.add(side.column(), measure, value);
    add(MISSED, at_start.saturating_sub(at_kill) as f64 / MIB);
    add(COPIED, copied / MIB);
    add(SERVES, back.serves.as_secs_f64());
    add(IN_SYNC, seconds);
    add(RATE, copied / MIB / seconds);
    add(SHARE, 100.0 * copied / seconds / limit.copied);
    add(PEAK, peak);
    add(STEADY, steady.rate);
    add(BEFORE, before);
    add(AWAY, p99_ms(&away)?);
    add(DURING, during);
    add(RAISED, during / before);
    noise.into_iter().for_each(|(measure, value)| add(measure, value));
    let rate = copied / MIB / seconds;
    let said =
        format!("{rate:.0} MiB/s, in sync after {seconds:.1} s, p99 {before:.1} ms before, {during:.1} then");
    bench.say(Part::CatchUp, run, side.column(), &said);
    cluster.remove()
}

/// Writes as fast as it goes; how many records a second that were.
fn produce(bench: &Bench, cluster: &Cluster<'_>, count: u64) -> Result<f64> {
    let ran = Client::Ours.produce(&bench.site, cluster.address(), records(count), ACKS)?;
    Ok(ran.records_per_second)
}

fn records(count: u64) -> Records {
    Records { topic: TOPIC, count, bytes: RECORD_BYTES, warm_up: 0 }
}

/// Waits until so many replicas of each partition are in sync.
fn await_in_sync(asker: &mut Asker, replicas: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = in_sync(asker, TOPIC)?;
        if found.len() == PARTITIONS as usize && found.values().all(|in_sync| *in_sync == replicas) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{replicas} replicas are to be in sync; it is {found:?}");
        thread::sleep(LOOK_EVERY);
    }
}

/// A producer of ours at a rate that does not wait for answers, one process after the other.
struct Steady<'a> {
    bench: &'a Bench,
    to: SocketAddr,
    rate: f64,
}

impl Steady<'_> {
    fn records_of_turn(&self) -> u64 {
        (self.rate * TURN.as_secs_f64()) as u64
    }

    /// What the intervals of one process saw, all of whose records are acknowledged.
    fn turn(&self) -> Result<Vec<Interval>> {
        let (site, count) = (&self.bench.site, self.records_of_turn());
        let warm_up = (self.rate * TURN_WARM_UP.as_secs_f64()) as u64;
        let settings = Client::Ours.producer_settings(ACKS);
        let hlog = site.dir.join("steady.hlog");
        let offered = Offered { rate: self.rate, hlog: Some((&hlog, INTERVAL_MS)) };
        ours(site, self.to, Records { warm_up, ..records(count) }, offered, &words(&settings))?;
        hlog::read(&hlog)
    }

    /// So many of them.
    fn turns(&self, count: usize) -> Result<Vec<Interval>> {
        Ok((0..count).map(|_| self.turn()).collect::<Result<Vec<_>>>()?.concat())
    }

    /// As many as it takes until something else is done.
    fn until<T>(&self, other: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Vec<Interval>>)> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let loaded = scope.spawn(|| {
                let mut turns = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    turns.push(self.turn()?);
                }
                Ok(turns)
            });
            let other = other();
            done.store(true, Ordering::Relaxed);
            let turns: Result<_> = loaded.join().map_err(|_| anyhow!("it panicked"))?;
            other.and_then(|other| Ok((other, turns?)))
        })
    }
}

/// The way back of the broker that was killed.
struct Back {
    /// Seconds since 1970.
    started: f64,
    serves: Duration,
    in_sync: Duration,
    /// Its log when it was in sync.
    log_bytes: u64,
}

impl Back {
    fn watched(cluster: &mut Cluster<'_>, asker: &mut Asker) -> Result<Self> {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let (since, _, serves) = cluster.brokers[KILLED].start_again()?;
        await_in_sync(asker, NODES.into())?;
        let in_sync = since.elapsed();
        Ok(Self { started, serves, in_sync, log_bytes: cluster.brokers[KILLED].log_bytes()? })
    }

    /// What was seen while it was on its way.
    fn cut(&self, turns: Vec<Vec<Interval>>) -> Vec<Interval> {
        let ended = self.started + self.in_sync.as_secs_f64();
        hlog::within(turns.concat(), self.started, ended)
    }
}

fn p99_ms(intervals: &[Interval]) -> Result<f64> {
    let p99 = hlog::percentile(intervals, 99.0).context("no record was acknowledged meanwhile")?;
    Ok(p99 as f64 / 1e6)
}

fn section(bench: &Bench) -> Section {
    let mib = [MISSED, COPIED].map(|name| Measure::of_noise(name, "MiB", 0));
    let mut rows = mib.to_vec();
    rows.extend([SERVES, IN_SYNC].map(|name| Measure::new(name, "s", 1)));
    rows.push(Measure::new(RATE, "MiB/s", 0));
    rows.push(Measure::of_noise(SHARE, "%", 0));
    rows.extend([PEAK, STEADY].map(|name| Measure::new(name, "rec/s", 0)));
    rows.extend([BEFORE, AWAY, DURING].map(|name| Measure::new(name, "ms", 1)));
    rows.push(Measure::new(RAISED, "×", 2));
    rows.extend(Measure::noise());
    let about = format!(
        "{PARTITIONS} partitions of {NODES} replicas, records of {RECORD_BYTES} bytes, all written by `vltava perf \
         producer --command-property {}` on both brokers. A broker is killed with kill -9; {} MiB are written as \
         fast as it goes; it is started again. Meanwhile records are sent at a quarter of what is written as fast \
         as it goes to a cluster that is whole, whether or not answers come, by one process of {} s after the \
         other; a p99 is from when a record was due until it is acknowledged by all in sync, over all records \
         after each process's first {} ms. All is in sync when Metadata says so of each partition; what was copied \
         until then is what the files of its log have grown by. What the machine can do is measured in each run, \
         too: the same bytes out of a file through `sendfile`, a socket and a checksum into another file, and \
         nothing else. The clusters are warmed as those of Produce are.",
        Client::Ours.producer_settings(ACKS).join(" "),
        bench.options.missed_mib,
        TURN.as_secs(),
        TURN_WARM_UP.as_millis()
    );
    Section::new(Part::CatchUp, ("Catch-up", about), &[OS, ACK, KAFKA], rows)
}
