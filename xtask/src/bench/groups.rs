//! Consumer groups on our node and on Kafka's: the same members, committers and questions on both.
//!
//! ```text
//!   start on fresh data ─▶ topics ─▶ `vltava-bench-load group …` does it, and looks whether it is right ─▶ remove
//! ```

mod commits;
mod join; // start here
mod lag;
mod load;
mod members;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::broker::{Broker, KAFKA, Side, Site};
use super::clients::{self, json};
use super::load::output;
use super::requests::{await_leaders, create_topic, serves};
use super::wire::Asker;

pub(super) use commits::commits;
pub(super) use join::join;
pub(super) use lag::lag;
pub(super) use load::load;
pub(super) use members::members;

/// Our column. Topics with records have `flush.policy=os`; that of groups is always flushed.
const VLTAVA: &str = "Vltava";
const SIDES: [Side; 2] = [Side::Vltava("os"), Side::Kafka];

/// The request that KIP-848 is: ConsumerGroupHeartbeat.
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
/// In place of a value, where a broker does not say that it answers that.
const NOT_SERVED: &str = "not served";

/// By this the time limit of a load is given, as so many records a second.
const RECORDS_PER_SECOND_MIN: u64 = 5_000;

fn column(side: Side) -> &'static str {
    if side == Side::Kafka { KAFKA } else { VLTAVA }
}

/// What our program says that this came to.
fn group(site: &Site, words: &[&str], time_max: Duration) -> Result<Value> {
    let mut command = Command::new(clients::load(site)?);
    command.arg("group").args(words);
    let records = time_max.as_secs() * RECORDS_PER_SECOND_MIN;
    json(&output(site, &mut command, records).with_context(|| words.join(" "))?.out)
}

/// A broker with one topic.
fn started<'a>(site: &'a Site, side: Side, topic: &str, partitions: u32) -> Result<(Broker<'a>, Asker)> {
    let (broker, mut asker, _) = Broker::start(site, side)?;
    create_topic(&mut asker, topic, partitions)?;
    await_leaders(&mut asker, partitions as usize)?;
    Ok((broker, asker))
}

/// Whether a broker speaks the consumer protocol.
fn serves_consumer_protocol(asker: &mut Asker) -> Result<bool> {
    serves(asker, CONSUMER_GROUP_HEARTBEAT)
}
