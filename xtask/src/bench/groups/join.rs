//! A group of one: from its consumer's `subscribe` to its first record.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{NOT_SERVED, SIDES, group, serves_consumer_protocol, started};
use crate::bench::Bench;
use crate::bench::broker::Side;
use crate::bench::clients::{JAVA, OURS, OURS_ON_KAFKA, json};
use crate::bench::figures::{Bound, Measure, Section, Spread};
use crate::bench::load::Consumer;
use crate::bench::options::Part;
use crate::bench::process::Clocks;
use crate::bench::requests::produce_to_each;

const TOPIC: &str = "joined";
const JAVA_ON_VLTAVA: &str = "Java on Vltava";
/// Groups whose middle is the value of one run, besides the first, which does not count.
const TIMES: usize = 3;
const TIME_MAX: Duration = Duration::from_secs(120);
const JAVA_CLASS: &str = "GroupJoin";

/// Word and row.
const PROTOCOLS: [(&str, &str); 2] =
    [("classic", "classic: until its first record"), ("consumer", "KIP-848: until its first record")];

/// Measures the joining of one.
pub(in crate::bench) fn join(bench: &Bench) -> Result<Vec<Section>> {
    let mut section = section();
    let java = Consumer::compile(&bench.site, &bench.root, JAVA_CLASS)?;
    bench.alternate(&SIDES, |run, side| {
        let (broker, mut asker) = started(&bench.site, side, TOPIC, 1)?;
        produce_to_each(&mut asker, TOPIC, 1)?;
        let (ours, javas) = columns(side);
        let serves_consumer = serves_consumer_protocol(&mut asker)?;
        let address = broker.address.to_string();
        let before = Clocks::read(&[broker.pid()])?;
        for (protocol, row) in PROTOCOLS {
            if protocol == "consumer" && !serves_consumer {
                section.lack(ours, row, NOT_SERVED);
                section.lack(javas, row, NOT_SERVED);
                continue;
            }
            let times = TIMES.to_string();
            let said = group(&bench.site, &["join", &address, TOPIC, protocol, &times], TIME_MAX)?;
            let of_ours = middle(&said)?;
            let words = [&*address, TOPIC, protocol, &times];
            let said = json(&java.run(&bench.site, &words, 0)?)?;
            let of_java = middle(&said)?;
            section.add(ours, row, of_ours);
            section.add(javas, row, of_java);
            bench.say(Part::Join, run, ours, &format!("{protocol}: {of_ours:.0} ms, Java {of_java:.0} ms"));
        }
        for (measure, value) in before.used()?.noise() {
            section.add(ours, measure, value);
        }
        broker.remove()
    })?;
    let classic = PROTOCOLS[0].1;
    for ratio in [(OURS, OURS_ON_KAFKA), (JAVA_ON_VLTAVA, JAVA), (OURS, JAVA)] {
        section.want_ratio(classic, ratio, Bound::AtMost(0.2));
    }
    Ok(vec![section])
}

/// The columns of ours and of Java.
fn columns(side: Side) -> (&'static str, &'static str) {
    if side == Side::Kafka { (OURS_ON_KAFKA, JAVA) } else { (OURS, JAVA_ON_VLTAVA) }
}

/// The middle of what was said, in milliseconds.
fn middle(said: &Value) -> Result<f64> {
    let all = said.get("ms").and_then(Value::as_array).context("no times")?;
    let all: Vec<f64> = all.iter().filter_map(Value::as_f64).collect();
    ensure!(all.len() == TIMES, "{} of {TIMES} times: {said}", all.len());
    Ok(Spread::of(&all).context("no times")?.median)
}

fn section() -> Section {
    let mut rows: Vec<Measure> = PROTOCOLS.map(|(_, row)| Measure::new(row, "ms", 1)).into();
    rows.extend(Measure::noise());
    let about = format!(
        "A consumer is made; then the time runs from its `subscribe` to a topic of one partition, in which one record \
         lies, until it has that record: it connects, finds its coordinator, joins, asks for what was committed, and \
         fetches. Each value is the middle of {TIMES} groups, one after the other in one process, after one that does \
         not count. Settings are the defaults, on Kafka with the `group.initial.rebalance.delay.ms` of 3 s that \
         classic groups wait for more members. `vltava-bench-load group join BOOTSTRAP {TOPIC} PROTOCOL {TIMES}`, and \
         `java -cp 'libs/*' xtask/src/bench/java/{JAVA_CLASS}.java BOOTSTRAP {TOPIC} PROTOCOL {TIMES}`. CPU of all \
         else is over both clients."
    );
    let columns = [OURS, JAVA_ON_VLTAVA, OURS_ON_KAFKA, JAVA];
    Section::new(Part::Join, ("A group of one", about), &columns, rows).compared_by(&[
        ("ours: Vltava ÷ Kafka", OURS, OURS_ON_KAFKA),
        ("Java: Vltava ÷ Kafka", JAVA_ON_VLTAVA, JAVA),
        ("ours on Vltava ÷ Java on Kafka", OURS, JAVA),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_of_all_groups_that_count() {
        assert_eq!(middle(&json("{\"ms\":[3.0,1,2.5]}").unwrap()).unwrap(), 2.5);
        assert!(middle(&json("{\"ms\":[3.0,1]}").unwrap()).is_err());
    }
}
