//! One run: a clock, a producer, its records, and what must be true of them.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Effects, Now, PartitionIndex};
use client_core::producer::{
    Acks, AppendError, BatchId, DeliveryError, Destination, Effect, NewRecord, Producer, ProducerSettings,
    Written,
};
use client_core::{Address, Backoff, Chance, LinksSettings, NetEffect};
use records::Scratch;

use super::broker::{Brokers, TOPICS};
use super::invariants::i30_hostile_bytes::{self, Did};
use super::invariants::{i04_no_duplicate, i05_order};
use super::network::{Network, Travelling, Wire, bytes_of};
use super::{ClientPlant, EPOCH, Options};
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;

/// A record on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    value: u64,
    topic: usize,
    partition: i32,
}

/// What became of a record.
#[derive(Debug, Clone)]
struct Known {
    sent: Sent,
    outcome: Result<Option<i64>, DeliveryError>,
}

/// A run.
pub struct World {
    options: Options,
    plant: Option<ClientPlant>,
    random: Random,
    trace: Trace,
    now_us: u64,
    producer: Producer,
    effects: Effects<Effect>,
    network: Network,
    brokers: Brokers,
    /// The records of each batch that is not done.
    open: BTreeMap<BatchIdKey, Vec<Option<Sent>>>,
    /// In the order in which they were sent.
    known: Vec<Known>,
    next_value: u64,
    found: Vec<Violation>,
    scratch: Scratch,
}

/// Slots are ordered; one slot is one batch's at a time.
type BatchIdKey = u32;

/// How long a run may take, and how long everybody is well at its end, in microseconds.
const TIME_MAX_US: u64 = 60_000_000;
/// So far does time go at once.
const STEP_MAX_US: u64 = 1_000_000;
const HEALED_US: u64 = 400_000_000;

impl World {
    /// The world of a seed.
    pub fn new(seed: u64, options: Options, plant: Option<ClientPlant>, trace: Trace) -> Self {
        let millis = Duration::from_millis;
        let settings = ProducerSettings {
            acks: match (options.idempotence, options.is_unanswered) {
                (true, _) => Acks::All,
                (false, true) => Acks::None,
                (false, false) => Acks::Leader,
            },
            idempotence: options.idempotence,
            batch_bytes_max: options.batch_bytes,
            memory_bytes_max: options.memory_bytes,
            request_bytes_max: 16_384,
            in_flight_max: options.in_flight_max,
            linger: millis(options.linger_ms),
            compression: options.compression,
            delivery_timeout: millis(options.delivery_timeout_ms),
            retry: Backoff { first: millis(20), max: millis(200) },
            metadata_age_max: millis(300_000),
            links: LinksSettings {
                request_timeout: millis(1_000),
                connect_timeout: millis(1_000),
                reconnect: Backoff { first: millis(10), max: millis(100) },
                ..LinksSettings::default()
            },
            ..ProducerSettings::default()
        };
        let bootstrap =
            (0..options.brokers).map(|id| Address { host: format!("broker-{id}").into(), port: 9092 });
        let producer = Producer::new(settings, bootstrap.collect(), Chance::new(seed));
        Self {
            random: Random::stream(seed, "client workload"),
            brokers: Brokers::new(seed, &options, plant),
            options,
            plant,
            trace,
            now_us: 0,
            producer,
            effects: Effects::new(),
            network: Network::default(),
            open: BTreeMap::new(),
            known: Vec::new(),
            next_value: 0,
            found: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Plays to the end; what was wrong.
    pub fn play(mut self) -> Vec<Violation> {
        while self.next_value < self.options.records && self.now_us < TIME_MAX_US && self.found.is_empty() {
            self.step(false);
        }
        // Everybody is well again: whatever is still on its way has to arrive, or to be given up in time.
        self.brokers.is_healed = true;
        self.producer.close();
        let end_us = self.now_us + HEALED_US;
        while self.producer.outstanding() > 0 && self.now_us < end_us && self.found.is_empty() {
            self.step(true);
        }
        if self.producer.outstanding() > 0 {
            self.violation("every batch is done", format!("{} are not", self.producer.outstanding()));
        }
        if self.producer.memory_used_bytes() > 0 && self.found.is_empty() {
            self.violation(
                "memory comes back",
                format!("{} bytes are out", self.producer.memory_used_bytes()),
            );
        }
        self.settle_ghosts();
        self.check();
        self.found
    }

    fn violation(&mut self, invariant: &'static str, what: String) {
        self.found.push(Violation { invariant, what });
    }

    fn now(&self) -> Now {
        let elapsed = Duration::from_micros(self.now_us);
        Now::new(elapsed, EPOCH.saturating_add(elapsed))
    }

    fn step(&mut self, is_healed: bool) {
        let choice = if is_healed { 1 } else { self.random.below(3) };
        match choice {
            0 => self.send(),
            _ => self.pass_time(),
        }
        if !is_healed {
            self.trouble();
        }
        self.perform();
    }

    fn send(&mut self) {
        for _ in 0..self.random.between(1, 10) {
            let topic = self.random.index(TOPICS.len());
            let value = self.next_value;
            let mut bytes = value.to_be_bytes().to_vec();
            bytes.resize(8 + self.random.index(60), 0);
            let key = self.random.chance(300).then(|| self.random.bits().to_be_bytes());
            let partition =
                self.random.chance(200).then(|| self.random.below(self.options.partitions as u64) as i32);
            let to = Destination { topic: TOPICS[topic], partition: partition.map(PartitionIndex) };
            let record = NewRecord {
                key: key.as_ref().map(|key| &key[..]),
                value: Some(&bytes),
                ..NewRecord::default()
            };
            match self.producer.append(self.now(), to, &record, &mut self.effects) {
                Ok(appended) => {
                    self.next_value += 1;
                    let sent = Sent { value, topic, partition: appended.partition.0 };
                    let batch = self.open.entry(appended.batch.slot).or_default();
                    if appended.is_first != batch.is_empty() || appended.offset_delta as usize != batch.len()
                    {
                        let what = format!("{appended:?} after {} records", batch.len());
                        self.found.push(Violation { invariant: "a record has its place", what });
                    }
                    self.open.entry(appended.batch.slot).or_default().push(Some(sent));
                    self.trace.event(format!("{value} to {topic}-{}", appended.partition));
                    if appended.wakes {
                        let now = self.now();
                        self.producer.step(now, &mut self.effects);
                    }
                }
                Err(AppendError::Full | AppendError::TopicNotKnownYet { .. }) => {
                    let now = self.now();
                    self.producer.step(now, &mut self.effects);
                }
                Err(error) => self.violation("records are taken", error.to_string()),
            }
            if self.producer.memory_used_bytes() > self.options.memory_bytes {
                self.violation("memory is bounded", format!("{} bytes", self.producer.memory_used_bytes()));
            }
            self.perform();
        }
    }

    /// Something happens by itself: the next thing there is.
    fn pass_time(&mut self) {
        let deadline = self.producer.deadline(self.now()).map(|at| at.as_micros() as u64 + 1);
        let next = [deadline, self.network.next_us()].into_iter().flatten().min();
        // Its user does not wait for it to have something to do.
        let next = next.unwrap_or(self.now_us + 1_000).min(self.now_us + STEP_MAX_US);
        self.now_us = next.max(self.now_us);
        if deadline.is_some_and(|at| at <= self.now_us) {
            let now = self.now();
            self.producer.step(now, &mut self.effects);
        }
        self.arrive();
    }

    /// What the network has for now.
    fn arrive(&mut self) {
        let due = |at: u64| at <= self.now_us;
        if let Some(place) = self.network.ghosts.iter().position(|(_, ghost)| due(ghost.at_us)) {
            let (broker, ghost) = self.network.ghosts.remove(place);
            self.haunt(broker, &ghost.frame);
        }
        let ids: Vec<_> = self.network.wires.keys().copied().collect();
        for id in ids {
            let Some(wire) = self.network.wires.get_mut(&id) else { continue };
            let now_us = self.now_us;
            if wire.breaks_us.is_some_and(|at| at <= now_us) {
                self.trace.event(format!("{id:?} breaks"));
                self.network.break_wire(id, self.options.ghost_per_thousand, &mut self.random);
                let now = self.now();
                self.producer.on_closed(id, now, &mut self.effects);
            } else if !wire.is_open && wire.opens_us <= now_us {
                wire.is_open = true;
                let now = self.now();
                self.producer.on_connected(id, now, &mut self.effects);
            } else if let Some(request) = wire.requests.pop_front_if(|frame| frame.at_us <= now_us) {
                let broker = wire.broker;
                if request.is_unanswered {
                    let now = self.now();
                    self.producer.on_written(id, now, &mut self.effects);
                }
                self.serve(id, broker, &request.frame);
            } else if let Some(answer) = wire.answers.pop_front_if(|frame| frame.at_us <= now_us) {
                let now = self.now();
                self.producer.on_frame(id, &answer.frame, now, &mut self.effects);
                if answer.is_malformed {
                    let did = self.effects.iter().map(|effect| match effect {
                        Effect::Net(effect) => Did::Net(effect),
                        Effect::Done { outcome: Ok(_), .. } => Did::Believed,
                        Effect::Done { .. } | Effect::Compress(_) | Effect::TryAgain => Did::Other,
                    });
                    i30_hostile_bytes::check(id, did, &mut self.found);
                }
            }
            self.perform();
        }
    }

    fn serve(&mut self, id: client_core::ConnectionId, broker: i32, frame: &[u8]) {
        let Some((what, mut answer)) = self.brokers.answer(broker, frame) else { return };
        self.trace.event(format!("{:>9} broker {broker} on {id:?}: {what}", self.now_us));
        let rubbish = if self.brokers.is_healed { 0 } else { self.options.rubbish_per_thousand };
        let mut is_malformed = false;
        if self.random.chance(rubbish) {
            let whole = answer.clone();
            is_malformed = i30_hostile_bytes::spoil(&what, &mut answer, &mut self.random);
            if self.plant == Some(ClientPlant::RubbishIsHeard) {
                answer = whole;
            }
            self.trace.event("rubbish".to_owned());
        }
        let delay = self.random.below(self.options.delay_us);
        if let Some(wire) = self.network.wires.get_mut(&id) {
            Network::push(
                &mut wire.answers,
                self.now_us,
                delay,
                Travelling { frame: answer, is_malformed, ..Travelling::default() },
            );
        }
    }

    /// A request of a connection that is no more arrives; nobody hears the answer.
    fn haunt(&mut self, broker: i32, frame: &[u8]) {
        if let Some((what, _)) = self.brokers.answer(broker, frame) {
            self.trace.event(format!("{:>9} broker {broker}, late: {what}", self.now_us));
        }
    }

    fn settle_ghosts(&mut self) {
        for (broker, ghost) in std::mem::take(&mut self.network.ghosts) {
            self.haunt(broker, &ghost.frame);
        }
    }

    fn trouble(&mut self) {
        if self.random.chance(self.options.move_per_thousand) {
            let what = self.brokers.move_leader();
            self.trace.event(what);
        }
        if self.random.chance(self.options.grow_per_thousand) {
            let what = self.brokers.grow();
            self.trace.event(what);
        }
        if self.random.chance(self.options.break_per_thousand) && !self.network.wires.is_empty() {
            let place = self.random.index(self.network.wires.len());
            let at = self.now_us + self.random.below(self.options.delay_us);
            let wire = self.network.wires.values_mut().nth(place).expect("it was counted");
            wire.breaks_us.get_or_insert(at);
        }
    }

    /// Does what the producer decided.
    fn perform(&mut self) {
        while !self.effects.is_empty() {
            let effects: Vec<Effect> = self.effects.drain().collect();
            for effect in effects {
                match effect {
                    Effect::Net(effect) => self.perform_net(effect),
                    Effect::Compress(work) => {
                        let (work, spare) = work.compress(self.options.compression, None, &mut self.scratch);
                        let now = self.now();
                        self.producer.on_compressed(work, spare, now, &mut self.effects);
                    }
                    Effect::Done { batch, first, records, is_last, outcome, .. } => {
                        self.settle((batch, first, is_last), records, &outcome);
                    }
                    Effect::TryAgain => {}
                }
            }
        }
    }

    fn perform_net(&mut self, effect: NetEffect) {
        let delay = self.random.below(self.options.delay_us);
        match effect {
            NetEffect::Connect { connection, address } => {
                let broker = address.host.strip_prefix("broker-").and_then(|id| id.parse().ok());
                let wire = Wire {
                    broker: broker.expect("brokers are called so"),
                    opens_us: self.now_us + delay,
                    is_open: false,
                    requests: Default::default(),
                    answers: Default::default(),
                    breaks_us: None,
                };
                self.network.wires.insert(connection, wire);
            }
            NetEffect::Send { connection, outgoing } => {
                if let Some(wire) = self.network.wires.get_mut(&connection) {
                    let is_unanswered = outgoing.is_unanswered;
                    Network::push(
                        &mut wire.requests,
                        self.now_us,
                        delay,
                        Travelling { frame: bytes_of(&outgoing), is_unanswered, ..Travelling::default() },
                    );
                }
            }
            NetEffect::Close { connection } => {
                self.trace.event(format!("{connection:?} is closed"));
                self.network.break_wire(connection, self.options.ghost_per_thousand, &mut self.random);
            }
        }
    }

    fn settle(
        &mut self,
        (batch, first, is_last): (BatchId, usize, bool),
        records: usize,
        outcome: &Result<Written, DeliveryError>,
    ) {
        let open = self.open.entry(batch.slot).or_default();
        let done = first..first + records;
        let mut sent: Vec<Sent> = Vec::new();
        for place in done.clone() {
            // Done ones leave a gap, and the last word is about the last of them.
            sent.extend(open.get_mut(place).and_then(Option::take));
        }
        let left = open.iter().flatten().count();
        if is_last {
            self.open.remove(&batch.slot);
        }
        self.trace.event(format!("{:>9} records {done:?}: {outcome:?}", self.now_us));
        if sent.len() != records || is_last != (left == 0) {
            let what = format!("{records} records are done, {} were not, {left} are left", sent.len());
            self.violation("every record is done once", what);
        }
        for (delta, sent) in sent.into_iter().enumerate() {
            let outcome = match outcome {
                Ok(written) => Ok(written.base_offset.map(|base| base.0 + delta as i64)),
                Err(error) => Err(error.clone()),
            };
            self.known.push(Known { sent, outcome });
        }
    }

    /// What must be true at the end.
    fn check(&mut self) {
        let mut found = Vec::new();
        let known = std::mem::take(&mut self.known);
        if known.len() as u64 != self.next_value && self.found.is_empty() {
            let what = format!("{} of {} records have a last word", known.len(), self.next_value);
            found.push(Violation { invariant: "every record is done once", what });
        }
        for record in &known {
            let log = &self.brokers.partitions[&(record.sent.topic, record.sent.partition)].log;
            let times = log.iter().filter(|&&value| value == record.sent.value).count();
            if let Some(violation) = check_record(record, log, times, &self.options) {
                found.push(violation);
            }
        }
        if self.options.idempotence {
            i04_no_duplicate::check(&self.brokers.partitions, &mut found);
            i05_order::check(&self.brokers.partitions, &mut found);
        }
        self.found.extend(found);
    }
}

fn check_record(record: &Known, log: &[u64], times: usize, options: &Options) -> Option<Violation> {
    let Sent { value, topic, partition } = record.sent;
    let violation = |invariant, what: &str| {
        Some(Violation {
            invariant,
            what: format!("{value} in {topic}-{partition} {what}: {:?}", record.outcome),
        })
    };
    match &record.outcome {
        Ok(Some(offset)) if log.get(*offset as usize) != Some(&value) => {
            violation("acknowledged is kept", "is not where the broker said")
        }
        Ok(None) if times == 0 && !options.is_unanswered => violation("acknowledged is kept", "is not there"),
        Err(error) if !error.may_be_written() && times > 0 => {
            violation("a refusal is true", "is there although it was not written")
        }
        _ => None,
    }
}
