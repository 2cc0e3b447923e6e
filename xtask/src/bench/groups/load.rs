//! How soon a coordinator that starts with very many offsets answers for them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{SIDES, VLTAVA, column, group, started};
use crate::bench::Bench;
use crate::bench::broker::{Broker, KAFKA};
use crate::bench::clients::number;
use crate::bench::figures::{Bound, Measure, Section};
use crate::bench::options::Part;
use crate::bench::process::{Clocks, Used, rss_mib};
use crate::bench::requests::{PATIENCE, committed, leaders};
use crate::bench::wire::Asker;

const TOPIC: &str = "loaded";
/// As many as a group of the program commits.
const PARTITIONS: u32 = 100;
/// The topic of all groups, and how many partitions it has.
const OFFSETS_TOPIC: &str = "__consumer_offsets";
const SHARDS: usize = 50;
/// How often each offset is in the log before the second start.
const TIMES_WRITTEN: usize = 3;
const LOOK_EVERY: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_secs(300);

const WRITTEN: &str = "committing them";
const METADATA: &str = "start, to the first Metadata answer";
const ANSWERED: &str = "start, until an offset is answered";
const LOADED: &str = "of that, since its partition has a leader";
const RSS: &str = "RSS when loaded";
const AGAIN: &str = "start, until an offset is answered, each written three times";

/// Measures a coordinator's way back.
pub(in crate::bench) fn load(bench: &Bench) -> Result<Vec<Section>> {
    let mut section = section(bench);
    let count = bench.options.offsets.to_string();
    bench.alternate(&SIDES, |run, side| {
        let column = column(side);
        let (mut broker, asker) = started(&bench.site, side, TOPIC, PARTITIONS)?;
        drop(asker);
        let address = broker.address.to_string();
        let said = group(&bench.site, &["offsets", &address, TOPIC, "write", &count], TIME_MAX)?;
        let last = said.get("last_group").and_then(Value::as_str).context("no group")?;
        let once = restarted(&mut broker, last)?;
        check(bench, &broker, &count)?;
        for _ in 1..TIMES_WRITTEN {
            group(&bench.site, &["offsets", &address, TOPIC, "write", &count], TIME_MAX)?;
        }
        let again = restarted(&mut broker, last)?;
        check(bench, &broker, &count)?;
        let mut add = |measure, value| section.add(column, measure, value);
        add(WRITTEN, number(&said, &["per_sec"])?);
        let (first, second) = (millis(once.answered.offset), millis(again.answered.offset));
        add(METADATA, millis(once.metadata));
        add(ANSWERED, first);
        add(LOADED, millis(once.answered.offset.saturating_sub(once.answered.leader)));
        add(RSS, once.rss);
        add(AGAIN, second);
        let (others, stolen) = (once.used.others + again.used.others, once.used.stolen + again.used.stolen);
        let used = Used { broker: 0.0, clients: 0.0, others, stolen };
        used.noise().into_iter().for_each(|(measure, value)| add(measure, value));
        let words = format!("answers after {first:.0} ms, with all written again after {second:.0} ms");
        bench.say(Part::Load, run, column, &words);
        broker.remove()
    })?;
    section.want(VLTAVA, ANSWERED, Bound::AtMost(2000.0));
    Ok(vec![section])
}

/// A broker that was stopped and started.
struct Restarted {
    /// Until the first Metadata answer.
    metadata: Duration,
    answered: Answered,
    /// MiB when it had answered.
    rss: f64,
    used: Used,
}

/// Stops a broker in good order and starts it again, until it answers for a group.
fn restarted(broker: &mut Broker<'_>, last: &str) -> Result<Restarted> {
    broker.terminate()?;
    let before = Clocks::read(&[])?;
    let (since, mut asker, metadata) = broker.start_again()?;
    let answered = answered(&mut asker, last, since)?;
    Ok(Restarted { metadata, answered, used: before.used()?, rss: rss_mib(broker.pid())? })
}

/// Everything must be there.
fn check(bench: &Bench, broker: &Broker<'_>, count: &str) -> Result<()> {
    group(&bench.site, &["offsets", &broker.address.to_string(), TOPIC, "read", count], TIME_MAX).map(drop)
}

/// How long it took since the start.
struct Answered {
    /// Until Metadata named a leader of every partition in which groups are.
    leader: Duration,
    /// Until an offset was answered.
    offset: Duration,
}

fn answered(asker: &mut Asker, group: &str, since: Instant) -> Result<Answered> {
    let mut leader = None;
    loop {
        if leader.is_none() {
            let led = leaders(asker)?.iter().filter(|(topic, _)| topic == OFFSETS_TOPIC).count();
            leader = (led >= SHARDS).then(|| since.elapsed());
        }
        let found = committed(asker, group, (TOPIC, 0))?;
        let offset = since.elapsed();
        // A coordinator that has not loaded it would say -1, and be wrong.
        ensure!(found.is_none_or(|found| found >= 0), "{group} is answered for with {found:?}");
        match (leader, found) {
            (Some(leader), Some(_)) => return Ok(Answered { leader, offset }),
            (None, Some(_)) => return Ok(Answered { leader: offset, offset }),
            (_, None) => ensure!(offset < PATIENCE, "{group} is not answered for"),
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn section(bench: &Bench) -> Section {
    let mut rows = vec![Measure::new(WRITTEN, "offsets/s", 0)];
    rows.extend([METADATA, ANSWERED, LOADED].map(|name| Measure::new(name, "ms", 0)));
    rows.push(Measure::new(RSS, "MiB", 0));
    rows.push(Measure::new(AGAIN, "ms", 0));
    rows.extend(Measure::noise());
    let count = bench.options.offsets;
    let about = format!(
        "{count} offsets, of {PARTITIONS} partitions for each group, all in one partition of `{OFFSETS_TOPIC}`, so \
         that one thread has to load them all; committed by 16 connections, {PARTITIONS} at once. Then the broker is \
         stopped in good order and started on the same data; the page cache is warm. The time is from before its \
         process is made until OffsetFetch is answered for the group that committed last; it is asked every \
         millisecond, beside Metadata until that names a leader. Then every offset is asked for, and must be what \
         was committed. That is the kindest log there is: each key is in it once. So the same offsets are committed \
         twice more, and the broker is stopped and started again, with whatever compaction it has come to; then all are \
         asked for once more. `vltava-bench-load group offsets BOOTSTRAP {TOPIC} write {count}`, and the same with `read`"
    );
    Section::new(Part::Load, ("Loading a coordinator", about), &[VLTAVA, KAFKA], rows)
}
