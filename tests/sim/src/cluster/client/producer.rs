//! A producer: `core/client-core`, with a clock and a network of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Effects, Offset, PartitionIndex, TopicId};
use client_core::producer::{
    Acks, AppendError, BatchId, Destination, Effect, NewRecord, Producer, ProducerSettings,
};
use client_core::{Address, Backoff, Chance, ConnectionId, LinksSettings, NetEffect, Outgoing};
use records::Scratch;
use wire::Part;

use super::{ClientAct, at, place};
use crate::cluster::net::ConnId;
use crate::cluster::truth::Truth;
use crate::random::Random;
use crate::violation::Violation;

/// A topic as a producer knows it beforehand.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) id: TopicId,
    pub(crate) partitions: i32,
}

/// How a producer is set up.
#[derive(Debug, Clone)]
pub(crate) struct ProducerOptions {
    pub(crate) client: usize,
    pub(crate) nodes: usize,
    pub(crate) acks_all: bool,
    pub(crate) send_every_us: u64,
    pub(crate) burst: u64,
    pub(crate) targets: Vec<Target>,
}

/// A record that is not done.
#[derive(Debug, Clone, Copy)]
struct Sent {
    value: u64,
    target: usize,
    partition: i32,
}

/// A record that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    pub(crate) key: (TopicId, PartitionIndex),
    pub(crate) offset: Offset,
    pub(crate) value: u64,
}

/// See the module.
pub(crate) struct ProducerClient {
    options: ProducerOptions,
    producer: Producer,
    effects: Effects<Effect>,
    open: BTreeMap<u32, Vec<Option<Sent>>>,
    /// What acks=all acknowledged, in the order in which it was.
    pub(crate) acked: Vec<Acked>,
    pub(crate) failed: u64,
    /// Whether it sends more.
    pub(crate) goes_on: bool,
    sends_at: u64,
    values: u64,
    random: Random,
    scratch: Scratch,
}

impl ProducerClient {
    pub(crate) fn new(options: ProducerOptions, seed: u64, mut random: Random) -> Self {
        let millis = Duration::from_millis;
        let settings = ProducerSettings {
            acks: if options.acks_all { Acks::All } else { Acks::Leader },
            idempotence: options.acks_all,
            batch_bytes_max: random.pick(&[512, 2_048]),
            memory_bytes_max: 32 << 10,
            request_bytes_max: 16_384,
            in_flight_max: random.pick(&[1, 5]),
            linger: millis(random.pick(&[0, 5])),
            delivery_timeout: millis(random.pick(&[5_000, 10_000])),
            acks_timeout: millis(random.pick(&[300, 1_000])),
            retry: Backoff { first: millis(20), max: millis(300) },
            metadata_age_max: millis(5_000),
            links: LinksSettings {
                request_timeout: millis(4_000),
                connect_timeout: millis(1_000),
                reconnect: Backoff { first: millis(20), max: millis(300) },
                ..LinksSettings::default()
            },
            ..ProducerSettings::default()
        };
        let bootstrap = (0..options.nodes).map(|node| Address { host: host(node).into(), port: 9092 });
        let producer = Producer::new(settings, bootstrap.collect(), Chance::new(seed));
        Self {
            // Values of all producers differ.
            values: (options.client as u64) << 40,
            options,
            producer,
            effects: Effects::new(),
            open: BTreeMap::new(),
            acked: Vec::new(),
            failed: 0,
            goes_on: true,
            sends_at: 0,
            random,
            scratch: Scratch::default(),
        }
    }

    /// How many batches are on their way.
    pub(crate) fn outstanding(&self) -> usize {
        self.producer.outstanding()
    }

    /// Sends one more record to a partition, whatever comes of it.
    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        if self.goes_on && now_us >= self.sends_at {
            self.sends_at = now_us + self.random.below(2 * self.options.send_every_us) + 1;
            for _ in 0..self.random.between(1, self.options.burst) {
                self.send(now_us, acts);
            }
        }
        self.producer.step(at(now_us), &mut self.effects);
        self.perform(now_us, acts);
    }

    fn send(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let number = self.random.index(self.options.targets.len());
        let target = &self.options.targets[number];
        let partition = self.random.below(target.partitions as u64) as i32;
        let value = self.values;
        let mut bytes = value.to_be_bytes().to_vec();
        bytes.resize(8 + self.random.index(40), 0);
        let to = Destination { topic: &target.name, partition: Some(PartitionIndex(partition)) };
        let record = NewRecord { value: Some(&bytes), ..NewRecord::default() };
        match self.producer.append(at(now_us), to, &record, &mut self.effects) {
            Ok(appended) => {
                self.values += 1;
                let sent = Sent { value, target: number, partition };
                self.open.entry(appended.batch.slot).or_default().push(Some(sent));
            }
            Err(AppendError::Full | AppendError::TopicNotKnownYet { .. }) => {}
            Err(error) => acts.push(ClientAct::Say(format!("not sent: {error}"))),
        }
    }

    pub(crate) fn on_connected(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.producer.on_connected(ConnectionId(conn.number), at(now_us), &mut self.effects);
        self.perform(now_us, acts);
    }

    pub(crate) fn on_closed(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.producer.on_closed(ConnectionId(conn.number), at(now_us), &mut self.effects);
        self.perform(now_us, acts);
    }

    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, frame: &[u8], acts: &mut Vec<ClientAct>) {
        self.producer.on_frame(ConnectionId(conn.number), frame, at(now_us), &mut self.effects);
        self.perform(now_us, acts);
    }

    fn perform(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        while !self.effects.is_empty() {
            for effect in self.effects.drain().collect::<Vec<_>>() {
                match effect {
                    Effect::Net(effect) => self.perform_net(effect, acts),
                    Effect::Compress(work) => {
                        let (work, spare) =
                            work.compress(records::Compression::None, None, &mut self.scratch);
                        self.producer.on_compressed(work, spare, at(now_us), &mut self.effects);
                    }
                    Effect::Done { batch, first, records, is_last, outcome, .. } => {
                        let base = outcome.as_ref().ok().and_then(|written| written.base_offset);
                        if let Err(error) = &outcome {
                            acts.push(ClientAct::Hum(format!("{records} records failed: {error}")));
                            self.failed += records as u64;
                        }
                        self.settle((batch, first, is_last), records, base, acts);
                    }
                    Effect::TryAgain => {}
                }
            }
        }
        let due = self.producer.deadline(at(now_us)).map(|due| due.as_micros() as u64 + 1);
        let sends = self.goes_on.then_some(self.sends_at);
        if let Some(due) = due.into_iter().chain(sends).min() {
            acts.push(ClientAct::Wake(due.max(now_us + 1)));
        }
    }

    fn perform_net(&self, effect: NetEffect, acts: &mut Vec<ClientAct>) {
        let of =
            |connection: ConnectionId| ConnId { owner: place(self.options.client), number: connection.0 };
        match effect {
            NetEffect::Connect { connection, address } => {
                let node = address.host.strip_prefix("node-").and_then(|node| node.parse().ok());
                let to = node.expect("nodes are called so");
                acts.push(ClientAct::Connect { conn: of(connection), to });
            }
            NetEffect::Send { connection, outgoing } => {
                acts.push(ClientAct::Send { conn: of(connection), frame: bytes_of(&outgoing) });
            }
            NetEffect::Close { connection } => acts.push(ClientAct::Close(of(connection))),
        }
    }

    fn settle(
        &mut self,
        (batch, first, is_last): (BatchId, usize, bool),
        records: usize,
        base: Option<Offset>,
        acts: &mut Vec<ClientAct>,
    ) {
        let open = self.open.entry(batch.slot).or_default();
        let sent: Vec<Sent> =
            (first..first + records).filter_map(|place| open.get_mut(place)?.take()).collect();
        if is_last {
            self.open.remove(&batch.slot);
        }
        let Some(base) = base.filter(|_| self.options.acks_all) else { return };
        for (delta, sent) in (0..).zip(sent) {
            let key = (self.options.targets[sent.target].id, PartitionIndex(sent.partition));
            let (offset, value) = (Offset(base.0 + delta), sent.value);
            self.acked.push(Acked { key, offset, value });
            acts.push(ClientAct::Acked { key, offset, value });
        }
    }
}

impl ProducerClient {
    /// What an idempotent producer sent is there once, in the order in which it was sent. What was deleted before it heard
    /// that it is there may come again: a replica that was made since knows nothing of it.
    pub(crate) fn check_order(&self, truth: &Truth, found: &mut Vec<Violation>) {
        if !self.options.acks_all {
            return;
        }
        for history in truth.histories.values().filter(|history| !history.is_broken) {
            let values = history.batches.iter().flat_map(|batch| &batch.values);
            let own: Vec<u64> =
                values.copied().filter(|value| value >> 40 == self.options.client as u64).collect();
            let old = history.batches.iter().take_while(|batch| batch.base < history.deletes_asked);
            let deleted: BTreeSet<u64> = old.flat_map(|batch| batch.values.iter().copied()).collect();
            let differs = |pair: &&[u64]| pair[0] >= pair[1] && !deleted.contains(&pair[1]);
            if let Some(pair) = own.windows(2).find(differs) {
                let what = format!("{}: {} comes before {}", history.name, pair[0], pair[1]);
                found.push(Violation { invariant: "I4, I5 once and in order", what });
            }
        }
    }
}

/// What a node is called.
pub(crate) fn host(node: usize) -> String {
    format!("node-{node}")
}

/// A frame that is to be sent, without its size.
pub(crate) fn bytes_of(outgoing: &Outgoing) -> Vec<u8> {
    let mut fills = outgoing.fills.iter();
    let mut bytes = Vec::new();
    for part in outgoing.frame.parts() {
        match part {
            Part::Bytes(part) => bytes.extend_from_slice(part),
            Part::Hole(_) => bytes.extend_from_slice(fills.next().expect("each hole has its batch").bytes()),
        }
    }
    bytes.split_off(4)
}
