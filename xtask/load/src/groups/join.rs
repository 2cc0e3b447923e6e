//! A group of one consumer: how long until it has its first record.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::consumer::{Consumer, Reset};
use serde_json::{Value, json};

use super::{Protocol, as_millis};
use crate::PATIENCE;

/// How long a consumer may take to leave.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// One group after the other; the first does not count, since for it the broker makes what it keeps all of
/// them in.
pub(super) fn run(broker: &str, topic: &str, protocol: Protocol, times: usize) -> Result<Value> {
    let mut all = Vec::new();
    for number in 0..=times {
        all.push(as_millis(once(broker, topic, protocol, number)?));
    }
    Ok(json!({ "ms": all[1..] }))
}

fn once(broker: &str, topic: &str, protocol: Protocol, number: usize) -> Result<Duration> {
    let group = format!("one-{protocol:?}-{number}");
    let builder = Consumer::builder(broker).group_id(&group).group_protocol(protocol.group_protocol());
    let mut consumer = builder.reset(Reset::Earliest).build()?;
    let since = Instant::now();
    consumer.subscribe([topic])?;
    let is_there = consumer.next_batch_within(PATIENCE)?.is_some();
    let took = since.elapsed();
    ensure!(is_there, "no record came for a minute: {:?}", consumer.trouble());
    consumer.close(CLOSE_TIME_MAX)?;
    Ok(took)
}
