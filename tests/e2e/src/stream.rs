//! One producer that writes on while nodes come and go, and what it was promised.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::producer::{Acks, Delivery, Producer, Record};

use crate::wait;

/// Records on their way at a time.
const IN_FLIGHT_MAX: usize = 64;

/// How long a record that was promised may take to be written.
const DELIVERY_MAX: Duration = Duration::from_secs(60);

/// Where records are that were acknowledged, by partition and offset: the number of each.
pub type Promised = BTreeMap<(i32, i64), u64>;

/// A stream of numbered records, acknowledged by all in-sync replicas.
#[derive(Debug, Default)]
pub struct Stream {
    is_over: AtomicBool,
    acknowledged: AtomicU64,
}

impl Stream {
    /// Writes while `act` does something to the nodes; what was acknowledged.
    pub fn during(bootstrap: &str, topic: &str, act: impl FnOnce(&Self) -> Result<()>) -> Result<Promised> {
        let stream = Self::default();
        thread::scope(|scope| {
            let writing: ScopedJoinHandle<'_, Result<Promised>> =
                scope.spawn(|| stream.write(bootstrap, topic));
            let done = act(&stream);
            stream.is_over.store(true, Ordering::Relaxed);
            let promised = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done?;
            promised.context("the producer")
        })
    }

    /// Waits until more records are acknowledged than there are.
    pub fn goes_on(&self) -> Result<()> {
        let before = self.acknowledged.load(Ordering::Relaxed);
        wait::until("records are acknowledged", DELIVERY_MAX, || {
            let now = self.acknowledged.load(Ordering::Relaxed);
            Ok((now > before + IN_FLIGHT_MAX as u64).then_some(()))
        })
    }

    fn write(&self, bootstrap: &str, topic: &str) -> Result<Promised> {
        let producer = Producer::builder(bootstrap).acks(Acks::All).delivery_timeout(DELIVERY_MAX).build()?;
        let mut promised = Promised::new();
        let mut in_flight: VecDeque<(u64, Delivery)> = VecDeque::new();
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) || !in_flight.is_empty() {
            let is_full = in_flight.len() >= IN_FLIGHT_MAX || self.is_over.load(Ordering::Relaxed);
            if is_full && let Some((number, delivery)) = in_flight.pop_front() {
                let written = delivery.wait().with_context(|| format!("record {number}"))?;
                let offset = written.offset.context("it was to be acknowledged")?;
                let before = promised.insert((written.partition.0, offset.0), number);
                ensure!(before.is_none(), "{before:?} and {number} are both at {written:?}");
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let (key, value) = (number.to_string(), number.to_string());
            in_flight
                .push_back((number, producer.send_blocking(&Record::to(topic).key(&key).value(&value))?));
            number += 1;
        }
        Ok(promised)
    }
}

/// Compares what was promised with what is read, one record a line: `partition offset number`. Nothing may be
/// missing, and nothing may be there twice.
pub fn check(promised: &Promised, read: &str) -> Result<usize> {
    let mut found = Promised::new();
    let mut places: BTreeMap<u64, (i32, i64)> = BTreeMap::new();
    for line in read.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [partition, offset, number] = words[..] else { anyhow::bail!("read {line:?}") };
        let (place, number) = ((partition.parse()?, offset.parse()?), number.parse()?);
        ensure!(found.insert(place, number).is_none(), "{place:?} was read twice");
        if let Some(other) = places.insert(number, place) {
            anyhow::bail!("record {number} is at {other:?} and at {place:?}");
        }
    }
    for (place, number) in promised {
        let there = found.get(place);
        ensure!(there == Some(number), "record {number} was acknowledged at {place:?}, where {there:?} is");
    }
    Ok(found.len())
}
