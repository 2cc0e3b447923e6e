//! A large group: all of it joins at once; then the process of one member is killed, and one that has nothing to do
//! with that is looked at.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::{NOT_SERVED, SIDES, VLTAVA, column, group, serves_consumer_protocol, started};
use crate::bench::Bench;
use crate::bench::broker::KAFKA;
use crate::bench::clients::number;
use crate::bench::figures::{Bound, Measure, Section};
use crate::bench::options::Part;
use crate::bench::process::Clocks;

const TOPIC: &str = "shared";
/// `session.timeout.ms` in the classic protocol: the default of Kafka and of its clients.
const SESSION_MS: &str = "45000";
const TIME_MAX: Duration = Duration::from_secs(300);

/// How members agree: as our program calls it, and as the page does.
const PROTOCOLS: [(&str, &str); 3] =
    [("range", "classic, range"), ("cooperative", "classic, cooperative-sticky"), ("consumer", "KIP-848")];

/// What is measured of each: row and name.
const JOIN: (&str, &str) = ("all join, until each has one partition", "join_ms");
const SETTLED: (&str, &str) = ("process killed, until each partition has an owner", "settled_ms");
const AFTER: (&str, &str) = ("of that, since the coordinator dropped it", "settled_after_ms");
const QUIET: (&str, &str) = ("longest pause of a reader while nothing happens", "quiet_pause_ms");
const PAUSE: (&str, &str) = ("longest pause of an unaffected reader over the kill", "pause_ms");
const ALL: [(&str, &str); 5] = [JOIN, SETTLED, AFTER, QUIET, PAUSE];

/// Who never stops reading has no longer pause than this, on two cores that it shares with hundreds.
const PAUSE_MS_MAX: f64 = 100.0;

/// Measures a large group in each protocol.
pub(in crate::bench) fn members(bench: &Bench) -> Result<Vec<Section>> {
    let mut section = section(bench);
    let count = bench.options.members.to_string();
    bench.alternate(&SIDES, |run, side| {
        let column = column(side);
        let (broker, mut asker) = started(&bench.site, side, TOPIC, bench.options.members)?;
        let serves_consumer = serves_consumer_protocol(&mut asker)?;
        let address = broker.address.to_string();
        let words = |name| ["members", &address, TOPIC, name, name, &count, SESSION_MS];
        // The first group of all would pay for what the broker makes and compiles.
        let warm = ["members", &address, TOPIC, "warm", "range", &count, SESSION_MS, "join-only"];
        group(&bench.site, &warm, TIME_MAX)?;
        let before = Clocks::read(&[broker.pid()])?;
        for (name, protocol) in PROTOCOLS {
            if name == "consumer" && !serves_consumer {
                ALL.iter().for_each(|(what, _)| section.lack(column, &row(protocol, what), NOT_SERVED));
                continue;
            }
            let said = group(&bench.site, &words(name), TIME_MAX)?;
            note(&mut section, column, protocol, &said)?;
            let of = |(_, name)| number(&said, &[name]);
            let what = format!(
                "{protocol}: joined in {:.0} ms, settled in {:.0} ms, a pause of {:.0} ms",
                of(JOIN)?,
                of(SETTLED)?,
                of(PAUSE)?
            );
            bench.say(Part::Members, run, column, &what);
        }
        for (measure, value) in before.used()?.noise() {
            section.add(column, measure, value);
        }
        broker.remove()
    })?;
    for (_, protocol) in PROTOCOLS {
        for (what, _) in [JOIN, SETTLED] {
            section.want_ratio(&row(protocol, what), (VLTAVA, KAFKA), Bound::AtMost(0.333));
        }
    }
    section.want(VLTAVA, &row(PROTOCOLS[2].1, PAUSE.0), Bound::AtMost(PAUSE_MS_MAX));
    Ok(vec![section])
}

fn row(protocol: &str, what: &str) -> String {
    format!("{protocol}: {what}")
}

fn note(section: &mut Section, column: &str, protocol: &str, said: &Value) -> Result<()> {
    for (what, name) in ALL {
        // That it was dropped may not have been seen.
        if said.get(name).is_some_and(|value| !value.is_null()) {
            section.add(column, &row(protocol, what), number(said, &[name])?);
        }
    }
    Ok(())
}

fn section(bench: &Bench) -> Section {
    let count = bench.options.members;
    let mut rows = Vec::new();
    for (_, protocol) in PROTOCOLS {
        for (what, _) in ALL {
            let name = row(protocol, what);
            rows.push(if what == QUIET.0 {
                Measure::of_noise(&name, "ms", 0)
            } else {
                Measure::new(&name, "ms", 0)
            });
        }
    }
    rows.extend(Measure::noise());
    let about = format!(
        "{count} members, {count} partitions, one broker. All but one of the members are those that our \
         consumers are, stepped on one thread in one process, each with its own connections from an address \
         of its own, as brokers limit how many one address has and opens in a second; the last is a whole consumer of ours. They subscribe at once. Then records come every \
         2 ms into the partition of the last; it reads while nothing happens for the time of four \
         heartbeats, in which those of all members are spread evenly over one, as if they had not joined at \
         once; then another is gone with its connections and says nothing, as a process that is killed: its \
         machine hangs up for it. Vltava ends the session of who hung up after two heartbeats and a second, \
         Kafka waits for the end of it. A crash that nobody tells of, as when a machine loses power, takes the \
         whole session on both sides, and is not measured. A pause is the longest time without a record, \
         from the kill until a second after all has settled. The coordinator has dropped \
         the member when ListGroups says that the group is not stable any more; it is asked every 5 ms. \
         Classic members have `session.timeout.ms={SESSION_MS}` and `heartbeat.interval.ms=3000`; those of \
         KIP-848 what the broker says, 45 s and 5 s: the defaults. Members hear of a change with the answer \
         to a heartbeat, so that much of the time is the wait for the next heartbeat of those who are to do \
         something. No partition may ever have two owners, and each must have one in the end. Before, a \
         group of as many has joined and left. `vltava-bench-load group members BOOTSTRAP {TOPIC} GROUP \
         PROTOCOL {count} {SESSION_MS}`"
    );
    Section::new(Part::Members, ("A large group", about), &[VLTAVA, KAFKA], rows)
}
