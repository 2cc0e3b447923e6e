//! Offsets in: committers that commit again as soon as they were answered.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::{SIDES, group, started};
use crate::bench::Bench;
use crate::bench::broker::{Cluster, NODES, Side};
use crate::bench::clients::number;
use crate::bench::figures::{Bound, Measure, Section};
use crate::bench::options::Part;
use crate::bench::process::{Clocks, Used};
use crate::bench::requests::{await_leaders, create_replicated};

const TOPIC: &str = "committed";
const COMMITTERS: u32 = 100;
/// What is measured first meets a Java that has compiled nothing yet.
const WARM_MS: u64 = 15_000;
const TIME_MS: u64 = 5_000;
const TIME_MAX: Duration = Duration::from_secs(60);

const ONE: &str = "Vltava, one node, flushed";
const ONE_KAFKA: &str = "Kafka, one node, no fsync";
const THREE: &str = "Vltava, three nodes, flushed";
const THREE_KAFKA: &str = "Kafka, three nodes, no fsync";

/// Whose group: word and the beginning of the rows.
const WAYS: [(&str, &str); 2] = [("apart", "a group each"), ("together", "one group")];
const RATE: &str = "commits";
const CPU: &str = "CPU of the brokers of a commit";
const TIMES: [(&str, &str); 3] = [("p50", "p50_ms"), ("p99", "p99_ms"), ("most", "max_ms")];

/// Measures commits to one node and to three.
pub(in crate::bench) fn commits(bench: &Bench) -> Result<Vec<Section>> {
    let mut section = section();
    bench.alternate(&SIDES, |run, side| {
        let (broker, _asker) = started(&bench.site, side, TOPIC, COMMITTERS)?;
        let column = if side == Side::Kafka { ONE_KAFKA } else { ONE };
        measure(bench, &mut section, (run, column), &broker.address.to_string(), &[broker.pid()])?;
        broker.remove()?;

        let cluster = Cluster::start(&bench.site, side)?;
        let mut askers = cluster.askers()?;
        create_replicated(&mut askers[0], TOPIC, (COMMITTERS, NODES), &[])?;
        for asker in &mut askers {
            await_leaders(asker, COMMITTERS as usize)?;
        }
        let column = if side == Side::Kafka { THREE_KAFKA } else { THREE };
        measure(bench, &mut section, (run, column), &cluster.address().to_string(), &cluster.pids())?;
        cluster.remove()
    })?;
    for (_, way) in WAYS {
        for ratio in [(ONE, ONE_KAFKA), (THREE, THREE_KAFKA)] {
            section.want_ratio(&row(way, RATE), ratio, Bound::AtLeast(3.0));
        }
    }
    Ok(vec![section])
}

fn row(way: &str, what: &str) -> String {
    format!("{way}: {what}")
}

fn measure(
    bench: &Bench,
    section: &mut Section,
    (run, column): (usize, &str),
    address: &str,
    pids: &[u32],
) -> Result<()> {
    let (committers, warm, time) = (COMMITTERS.to_string(), WARM_MS.to_string(), TIME_MS.to_string());
    let mut others = (0.0, 0.0);
    for (word, way) in WAYS {
        let before = Clocks::read(pids)?;
        let words = ["commit", address, TOPIC, word, &committers, &warm, &time];
        let said = group(&bench.site, &words, TIME_MAX)?;
        let used = before.used()?;
        others = (others.0 + used.others, others.1 + used.stolen);
        note(section, column, way, &said, used)?;
        let of = |name| number(&said, &[name]);
        let words = format!("{way}: {:.0} commits/s, p99 {:.1} ms", of("commits_per_sec")?, of("p99_ms")?);
        bench.say(Part::Commits, run, column, &words);
    }
    let used = Used { broker: 0.0, clients: 0.0, others: others.0, stolen: others.1 };
    used.noise().into_iter().for_each(|(measure, value)| section.add(column, measure, value));
    Ok(())
}

fn note(section: &mut Section, column: &str, way: &str, said: &Value, used: Used) -> Result<()> {
    section.add(column, &row(way, RATE), number(said, &["commits_per_sec"])?);
    for (time, name) in TIMES {
        section.add(column, &row(way, time), number(said, &[name])?);
    }
    section.add(column, &row(way, CPU), used.broker * 1e6 / number(said, &["all_commits"])?.max(1.0));
    Ok(())
}

fn section() -> Section {
    let mut rows = Vec::new();
    for (_, way) in WAYS {
        rows.push(Measure::new(&row(way, RATE), "commits/s", 0));
        rows.extend(TIMES.map(|(time, _)| Measure::new(&row(way, time), "ms", 2)));
        rows.push(Measure::new(&row(way, CPU), "µs", 1));
    }
    rows.extend(Measure::noise());
    let about = format!(
        "{COMMITTERS} committers, each with a connection of its own to its coordinator, on one thread of one process. \
         Each commits the offset of one partition, for a group without members, and commits the next as soon as that \
         was answered: once each for a group of its own, whose coordinators are all over `__consumer_offsets`, and \
         once all for one group. {} s count, after {} s that do not. On three nodes `__consumer_offsets` has three \
         replicas, and a commit is answered when all in sync have it: Vltava has it on their media then, Kafka in \
         their page caches. In the end what is committed must be what was answered last, for each of them. \
         `vltava-bench-load group commit BOOTSTRAP {TOPIC} apart|together {COMMITTERS} {WARM_MS} {TIME_MS}`",
        TIME_MS / 1_000,
        WARM_MS / 1_000
    );
    let columns = [ONE, ONE_KAFKA, THREE, THREE_KAFKA];
    Section::new(Part::Commits, ("Commits", about), &columns, rows).compared_by(&[
        ("one node: Vltava ÷ Kafka", ONE, ONE_KAFKA),
        ("three nodes: Vltava ÷ Kafka", THREE, THREE_KAFKA),
    ])
}
