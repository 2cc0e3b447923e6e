//! What is done to consumer groups, on any broker that speaks Kafka's protocol.
//!
//! ```text
//!   join BROKER TOPIC classic|consumer TIMES             groups of one consumer of ours, one after the other, each
//!                                                        from `subscribe` to its first record
//!   members BROKER TOPIC GROUP range|cooperative|consumer MEMBERS SESSION_MS [join-only]
//!                                                        as many members as partitions join; then one hangs
//!                                                        up and says nothing, as if its process were killed
//!   commit BROKER TOPIC apart|together COMMITTERS WARM_MS TIME_MS
//!                                                        each commits again as soon as it was answered
//!   offsets BROKER TOPIC write|read OFFSETS              commits that many, or finds them again
//!   lag BROKER GROUP TOPICS PARTITIONS TIMES             commits once for topics `lag-0`, `lag-1`, …, and asks for
//!                                                        the lag of all
//! ```
//!
//! Each says in the end, as JSON, what it came to; what is wrong with what a broker did ends it with an error.

mod crowd;
mod join; // one member
mod members; // many
mod owners;
mod setup;
mod watched;

mod commit; // what they leave behind
mod lag;
mod offsets;

mod dialogue; // on what these stand
mod wires;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{ConnectOptions, Connection};
use client_core::group::{Assignor, GroupProtocol};
use serde_json::Value;
use wire::messages::find_coordinator::FindCoordinatorRequest;
use wire::{ApiKey, Message, decode_response_header};

use crate::{PATIENCE, USAGE};

/// Between two looks at something that others bring about.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// From here on many groups are asked for at once.
const FIND_COORDINATOR_VERSION: i16 = 4;
/// The last in which topics are called by their names.
const OFFSET_COMMIT_VERSION: i16 = 9;
/// The same.
const OFFSET_FETCH_VERSION: i16 = 9;

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;

/// How members agree on who reads what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// The classic one: all give up everything, and one of them assigns.
    Range,
    /// The classic one: they give up only what moves.
    Cooperative,
    /// KIP-848, with the assignor that the coordinator likes best.
    Consumer,
}

impl Protocol {
    fn named(word: &str) -> Result<Self> {
        match word {
            "range" | "classic" => Ok(Self::Range),
            "cooperative" => Ok(Self::Cooperative),
            "consumer" => Ok(Self::Consumer),
            _ => bail!("there is no protocol {word}\n{USAGE}"),
        }
    }

    const fn group_protocol(self) -> GroupProtocol {
        match self {
            Self::Range | Self::Cooperative => GroupProtocol::Classic,
            Self::Consumer => GroupProtocol::Consumer,
        }
    }

    fn assignors(self) -> Vec<Assignor> {
        match self {
            Self::Range | Self::Consumer => vec![Assignor::Range],
            Self::Cooperative => vec![Assignor::CooperativeSticky],
        }
    }
}

/// Does what the words say.
pub(crate) fn run(words: &[&str]) -> Result<Value> {
    match *words {
        ["join", broker, topic, protocol, times] => {
            join::run(broker, topic, Protocol::named(protocol)?, times.parse()?)
        }
        ["members", broker, topic, group, protocol, members, session, ref only @ ..] => {
            members::run(&setup::Setup {
                broker,
                topic,
                group,
                protocol: Protocol::named(protocol)?,
                members: members.parse()?,
                session: millis(session)?,
                only_joins: *only == ["join-only"],
            })
        }
        ["commit", broker, topic, way @ ("apart" | "together"), committers, warm, time] => {
            let times = (millis(warm)?, millis(time)?);
            commit::run(broker, topic, (way == "together", committers.parse()?), times)
        }
        ["offsets", broker, topic, "write", count] => offsets::write(broker, topic, count.parse()?),
        ["offsets", broker, topic, "read", count] => offsets::read(broker, topic, count.parse()?),
        ["lag", broker, group, topics, partitions, times] => {
            lag::run(broker, group, (topics.parse()?, partitions.parse()?), times.parse()?)
        }
        _ => bail!("{USAGE}"),
    }
}

fn millis(word: &str) -> Result<Duration> {
    Ok(Duration::from_millis(word.parse()?))
}

fn as_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A place among sorted values, from 0 to 1; 0 if there are none.
fn quantile(sorted: &[f64], place: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * place).round() as usize).copied().unwrap_or(0.0)
}

fn connect(broker: &str) -> Result<Connection> {
    let options = ConnectOptions { timeout: PATIENCE, ..ConnectOptions::default() };
    Ok(Connection::connect(broker, options)?)
}

/// Where the coordinator of each of these groups is, as soon as all have one.
fn coordinators(broker: &str, groups: &[String]) -> Result<Vec<SocketAddr>> {
    let mut connection = connect(broker)?;
    let deadline = Instant::now() + PATIENCE;
    let distinct: BTreeSet<&str> = groups.iter().map(String::as_str).collect();
    let distinct: Vec<&str> = distinct.into_iter().collect();
    loop {
        let request = FindCoordinatorRequest {
            coordinator_keys: distinct.clone(),
            ..FindCoordinatorRequest::default()
        };
        let answer = connection.call(&request, FIND_COORDINATOR_VERSION)?;
        let said = answer.read()?;
        ensure!(said.coordinators.len() == distinct.len(), "not every group was answered for: {said:?}");
        let refused = said.coordinators.iter().find(|found| found.error_code != 0);
        let Some(refused) = refused else {
            let mut places = BTreeMap::new();
            for found in &said.coordinators {
                places.insert(found.key, resolve(found.host, u16::try_from(found.port)?)?);
            }
            let place =
                |group: &String| places.get(group.as_str()).copied().context("a group without an answer");
            return groups.iter().map(place).collect();
        };
        let is_coming = refused.error_code == COORDINATOR_NOT_AVAILABLE && Instant::now() < deadline;
        ensure!(is_coming, "a group has no coordinator: {refused:?}");
        thread::sleep(LOOK_EVERY);
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().with_context(|| format!("{host} has no address"))
}

/// Reads an answer.
fn read<'f, M: Message<'f>>(frame: &'f [u8], key: ApiKey, version: i16) -> Result<M> {
    let (_, mut body) = decode_response_header(frame, key, version)?;
    Ok(M::decode(&mut body, version)?)
}
