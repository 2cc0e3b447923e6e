//! How long an operator waits to hear how far a group is behind.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{RECORDS_PER_SECOND_MIN, SIDES, VLTAVA, column, group};
use crate::bench::Bench;
use crate::bench::broker::{Broker, KAFKA, Side};
use crate::bench::clients::number;
use crate::bench::figures::{Bound, Measure, Section, Spread};
use crate::bench::load::output;
use crate::bench::options::Part;
use crate::bench::process::Clocks;
use crate::bench::requests::{await_leaders, create_topic, produce_to_each};

const GROUP: &str = "behind";
/// In how many partitions each topic is.
const PARTITIONS_OF_TOPIC: u32 = 100;
/// How often it is asked for in a run.
const TIMES: usize = 21;
const TIME_MAX: Duration = Duration::from_secs(120);

/// Row and name.
const FIRST: (&str, &str) = ("lag of all, asked for the first time", "first_ms");
const MEDIAN: (&str, &str) = ("lag of all, median", "median_ms");
const OFFSETS: (&str, &str) = ("of that, what was committed", "offsets_ms");
const ENDS: (&str, &str) = ("of that, where partitions end", "ends_ms");
const ALL: [(&str, &str); 4] = [FIRST, MEDIAN, OFFSETS, ENDS];

/// What is typed: row, and what is added to `vltava group describe behind --json`.
const TYPED: [(&str, &[&str]); 2] = [
    ("vltava group describe behind --json --no-time", &["--no-time"]),
    ("vltava group describe behind --json", &[]),
];
/// How often each is typed in a run.
const TYPED_TIMES: usize = 5;

/// Measures the answer for very many partitions.
pub(in crate::bench) fn lag(bench: &Bench) -> Result<Vec<Section>> {
    let mut section = section(bench);
    let topics = bench.options.partitions / PARTITIONS_OF_TOPIC;
    bench.alternate_with_kafka_once(&SIDES, |run, side| {
        let column = column(side);
        let (broker, mut asker, _) = Broker::start(&bench.site, side)?;
        let names: Vec<String> = (0..topics).map(|topic| format!("lag-{topic}")).collect();
        for name in &names {
            create_topic(&mut asker, name, PARTITIONS_OF_TOPIC)?;
        }
        await_leaders(&mut asker, bench.options.partitions as usize)?;
        for name in &names {
            produce_to_each(&mut asker, name, PARTITIONS_OF_TOPIC)?;
        }
        let before = Clocks::read(&[broker.pid()])?;
        let (lagging, address) = (topics * PARTITIONS_OF_TOPIC, broker.address.to_string());
        let (topics, times) = (topics.to_string(), TIMES.to_string());
        let words = ["lag", &address, GROUP, &topics, &PARTITIONS_OF_TOPIC.to_string(), &times];
        let said = group(&bench.site, &words, TIME_MAX)?;
        for (row, name) in ALL {
            section.add(column, row, number(&said, &[name])?);
        }
        for (row, more) in TYPED {
            if side == Side::Kafka {
                section.lack(column, row, "not asked");
            } else {
                section.add(column, row, described(bench, broker.address, more, lagging)?);
            }
        }
        for (measure, value) in before.used()?.noise() {
            section.add(column, measure, value);
        }
        let (first, median) = (number(&said, &[FIRST.1])?, number(&said, &[MEDIAN.1])?);
        bench.say(Part::Lag, run, column, &format!("first {first:.0} ms, median {median:.0} ms"));
        broker.remove()
    })?;
    section.want(VLTAVA, FIRST.0, Bound::AtMost(100.0));
    section.want(VLTAVA, MEDIAN.0, Bound::AtMost(100.0));
    Ok(vec![section])
}

/// Milliseconds of the command in the middle, from before its process is made until it said all; the lag that it
/// tells must be one record for each partition.
fn described(bench: &Bench, address: SocketAddr, more: &[&str], lagging: u32) -> Result<f64> {
    let mut times = Vec::with_capacity(TYPED_TIMES);
    for _ in 0..TYPED_TIMES {
        let mut command = Command::new(&bench.site.vltava);
        command.args(["group", "describe", GROUP, "--json"]).args(more);
        command.args(["--bootstrap-server", &address.to_string()]);
        let since = Instant::now();
        let said = output(&bench.site, &mut command, TIME_MAX.as_secs() * RECORDS_PER_SECOND_MIN)?;
        times.push((said.ended - since).as_secs_f64() * 1000.0);
        let groups: Value = serde_json::from_str(&said.out)?;
        let lag = number(groups.get(0).context("no group")?, &["lag", "records"])?;
        ensure!(lag == f64::from(lagging), "a lag of {lag}, and {lagging} records are to be read");
    }
    Ok(Spread::of(&times).context("it was typed")?.median)
}

fn section(bench: &Bench) -> Section {
    let partitions = bench.options.partitions;
    let mut rows: Vec<Measure> = ALL.map(|(row, _)| Measure::new(row, "ms", 1)).into();
    rows.extend(TYPED.map(|(row, _)| Measure::new(row, "ms", 1)));
    rows.extend(Measure::noise());
    let about = format!(
        "A group that has committed an offset of each of {partitions} partitions, in topics of \
         {PARTITIONS_OF_TOPIC}, with one record to be read in each. The admin of `vltava-client` asks for all that the \
         group has committed and then for the ends of all those partitions, {TIMES} times in a run; the first time it \
         connects and finds its coordinator and all leaders, too. Every offset must be there, and the lag must be one \
         for each. Kafka is measured once. What an operator types is timed on Vltava as a process, from its start to \
         its last line, the median of {TYPED_TIMES}: it asks who is in the group, where logs begin and how large they \
         are, too, and without `--no-time` reads a batch of each partition that lags, for how long ago that was \
         written. `vltava-bench-load group lag BOOTSTRAP {GROUP} {} {PARTITIONS_OF_TOPIC} \
         {TIMES}`",
        partitions / PARTITIONS_OF_TOPIC
    );
    Section::new(Part::Lag, ("Lag", about), &[VLTAVA, KAFKA], rows)
}
