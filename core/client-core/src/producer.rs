//! The producer: records in, batches out, and what became of each.
//!
//! ```text
//!   append ──▶ open batch ──full, or the connection is free──▶ waiting ──▶ in flight ──▶ done
//!              of its partition                                   ▲             │
//!                                                                 └── again ────┘
//! ```
//!
//! A record is encoded once, into the open batch of its partition. That batch leaves when it is full, or
//! when nothing is in flight on the connection to its leader: what is sent while a request is on its way
//! gathers for the next one, so that batches grow with the load and a lone record waits for nothing.
//!
//! With idempotence the order of a partition is the broker's to keep: it refuses a batch whose
//! predecessor it does not have, and what it refused is sent again, in order, as what it was. Without it
//! a partition has one batch in flight at a time. A batch that is too large for the broker goes as two.
//!
//! **Invariant:** every record that was taken is done exactly once, and none is reported as written
//! that no broker acknowledged. Buffers never occupy more than the settings allow.

mod answer; // what came back
mod append; // start here
mod batch;
mod memory;
mod partitioner;
mod send; // what leaves, and when
mod silence;
mod split;
mod upkeep; // metadata, the producer's id, time that ran out

mod error;
mod settings;
mod topics;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, ErrorCode, Now, Offset, ProducerEpoch, ProducerId, TimestampMs, Uuid};
use records::{ClosedBatch, Compression, Scratch};

use crate::chance::Chance;
use crate::cluster::{Address, Cluster};
use crate::inquiry::Inquiry;
use crate::links::{ConnectionId, Links, NetEffect, Peer};

pub use append::{Appended, Destination, NewRecord};
pub use batch::BatchId;
pub use error::{AppendError, DeliveryError};
pub use partitioner::{murmur2, partition_for_key};
pub use settings::{Acks, ProducerSettings};

use memory::Memory;
use topics::Topics;

/// What became of a batch that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The offset of its first record; `None` if the broker was not asked ([`Acks::None`]), or had the
    /// batch already and does not remember where.
    pub base_offset: Option<Offset>,
    /// The timestamp that the broker gave all its records, if the topic has it so.
    pub append_time: Option<TimestampMs>,
}

/// What a producer did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Produce requests, repeated ones among them.
    pub requests: u64,
    /// Batches, each as often as it was sent.
    pub batches: u64,
    /// Bytes of those batches.
    pub batch_bytes: u64,
    /// Records of those batches.
    pub records: u64,
    /// Records that had to be sent again.
    pub retries: u64,
}

/// What the producer needs done.
#[derive(Debug)]
pub enum Effect {
    /// Something with a connection.
    Net(NetEffect),
    /// Compress or halve this batch, and say so with [`Producer::on_compressed`].
    Compress(Work),
    /// The last word about records of a batch: all of them, unless it was too large for the broker and was
    /// sent in parts.
    Done {
        /// Which.
        batch: BatchId,
        /// The first of them, by its place in the batch.
        first: usize,
        /// How many there are.
        records: usize,
        /// Whether all of the batch is done.
        is_last: bool,
        /// When they first left for a broker; nothing if they never did.
        left_at: Option<Duration>,
        /// What became of them.
        outcome: Result<Written, DeliveryError>,
    },
    /// Whoever was told that there is no room, or that a topic is not known yet, may try again.
    TryAgain,
}

/// A batch to be compressed, or one that was too large, to be halved.
#[derive(Debug)]
pub struct Work {
    place: Place,
    id: BatchId,
    first: usize,
    task: Task,
}

/// What is to be done with a batch, or was.
#[derive(Debug)]
enum Task {
    Compress(ClosedBatch),
    Halve(Arc<ClosedBatch>),
    Halved([ClosedBatch; 2]),
}

impl Work {
    /// Does it; a buffer that it does not need any more comes back.
    pub fn compress(self, to: Compression, level: Option<i32>, scratch: &mut Scratch) -> (Self, Vec<u8>) {
        let (task, spare) = match self.task {
            Task::Compress(batch) => {
                let (batch, spare) = batch.compressed(to, level, scratch, Vec::new());
                (Task::Compress(batch), spare)
            }
            Task::Halve(batch) => {
                let halves = batch.halves(scratch).expect("it was sealed and has several records");
                let halves = halves.map(|half| half.compressed(to, level, scratch, Vec::new()).0);
                (Task::Halved(halves), Vec::new())
            }
            done @ Task::Halved(_) => (done, Vec::new()),
        };
        (Self { task, ..self }, spare)
    }
}

/// A partition that records go to, by its numbers in [`Topics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    topic: u32,
    partition: u32,
}

/// What a request was about.
#[derive(Debug)]
enum Asked {
    /// The topics that are known.
    Metadata,
    /// Topics that somebody waits for.
    Topics,
    ProducerId,
    Produce(Produced),
}

/// What a Produce request carries.
#[derive(Debug)]
struct Produced {
    peer: Peer,
    parts: Vec<(Place, BatchId)>,
    /// The topics by number, with the ids that they were sent under.
    ids: Vec<(u32, Uuid)>,
}

/// The batches there are, by slot.
#[derive(Debug, Default)]
struct Slots {
    /// Each with the parts that are not done of whoever has it; 0 if nobody has.
    serials: Vec<(u32, u32)>,
    free: Vec<u32>,
}

/// Who the broker knows this producer as.
#[derive(Debug, Clone, Copy)]
struct Identity {
    id: ProducerId,
    epoch: ProducerEpoch,
}

/// Writes records to the partitions of a cluster.
#[derive(Debug)]
pub struct Producer {
    settings: ProducerSettings,
    links: Links<Asked>,
    net: Effects<NetEffect>,
    cluster: Cluster,
    chance: Chance,
    topics: Topics,
    memory: Memory,
    slots: Slots,
    /// Batches in the order of their creation, done ones among them.
    by_age: VecDeque<(Duration, Place, BatchId)>,
    /// Partitions with something to send.
    listed: Vec<Place>,
    /// Until when nothing that is not full leaves for a broker.
    rests: BTreeMap<BrokerId, Duration>,
    /// When something of them may be sent that may not be yet.
    send_at: Option<Duration>,
    metadata: Inquiry,
    /// About topics that somebody waits for. Only in it the brokers are let create them, so that one that was
    /// deleted stays so; and one that is misspelt holds up no other.
    awaited: Inquiry,
    /// When the cluster last said anything of topics.
    told_at: Duration,
    identity: Option<Identity>,
    identity_inquiry: Inquiry,
    /// Requests to brokers that are elsewhere now.
    moved: Vec<Asked>,
    counters: Counters,
    failed: Option<ErrorCode>,
    is_closed: bool,
    /// How many wait for all of it: nothing lingers meanwhile.
    flushing: usize,
    /// Somebody found no room since the last batch was done.
    is_full: bool,
    /// Something changed that only a step can act on.
    needs_step: bool,
    /// Somebody was told to try again later.
    somebody_waits: bool,
    /// The caller of the last append was told to step the producer, and did not yet.
    is_woken: bool,
}

impl Producer {
    /// A producer that knows nobody yet but these addresses.
    ///
    /// # Panics
    ///
    /// If idempotence is asked for without [`Acks::All`].
    pub fn new(settings: ProducerSettings, bootstrap: Vec<Address>, mut chance: Chance) -> Self {
        assert!(!settings.idempotence || settings.acks == Acks::All, "idempotence needs acks=all");
        let links = Links::new(settings.links.clone(), bootstrap, Chance::new(chance.next_u64()));
        Self {
            memory: Memory::new(settings.memory_bytes_max, settings.batch_bytes_max),
            settings,
            links,
            net: Effects::new(),
            cluster: Cluster::default(),
            chance,
            topics: Topics::default(),
            slots: Slots::default(),
            by_age: VecDeque::new(),
            listed: Vec::new(),
            rests: BTreeMap::new(),
            send_at: None,
            metadata: Inquiry::default(),
            awaited: Inquiry::default(),
            told_at: Duration::ZERO,
            identity: None,
            identity_inquiry: Inquiry::default(),
            moved: Vec::new(),
            counters: Counters::default(),
            failed: None,
            is_closed: false,
            flushing: 0,
            is_full: false,
            needs_step: false,
            somebody_waits: false,
            is_woken: false,
        }
    }

    /// Does what can be done now: after records were appended, and when [`Producer::deadline`] is over.
    pub fn step(&mut self, now: Now, effects: &mut Effects<Effect>) {
        self.is_woken = false;
        for connection in self.links.late(now) {
            self.links.on_late(connection, now);
            self.close_connection(connection, now, effects);
        }
        self.leave_the_silent(now, effects);
        let moved = std::mem::take(&mut self.moved);
        self.on_unanswered(moved, now, effects);
        self.keep_identity(now);
        self.expire(now, effects);
        self.send_ready(now, effects);
        self.keep_cluster_known(now);
        for effect in self.net.drain() {
            effects.push(Effect::Net(effect));
        }
    }

    /// When to step it although nothing happens.
    pub fn deadline(&self, now: Now) -> Option<Duration> {
        let oldest = self.by_age.front().map(|&(created, ..)| created + self.settings.delivery_timeout);
        let inquiries =
            [&self.metadata, &self.awaited, &self.identity_inquiry].map(|inquiry| inquiry.deadline(now));
        let links = [self.links.deadline(now), self.silence_deadline(now)];
        let all = [oldest, self.send_at].into_iter().chain(links).chain(inquiries);
        all.flatten().min()
    }

    /// A connection stands.
    pub fn on_connected(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        self.links.on_connected(connection, now, &mut self.net);
        self.step(now, effects);
    }

    /// Why a connection ended, or could not be opened; for people. [`Producer::on_closed`] follows.
    pub fn on_trouble(&mut self, connection: ConnectionId, why: &str, now: Now) {
        self.links.on_trouble(connection, why, now);
    }

    /// A connection ended, or could not be opened.
    pub fn on_closed(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        self.on_connection_lost(connection);
        let unanswered = self.links.on_closed(connection, now);
        self.on_unanswered(unanswered, now, effects);
        self.step(now, effects);
    }

    /// A frame came, without its size.
    pub fn on_frame(
        &mut self,
        connection: ConnectionId,
        frame: &[u8],
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        match self.links.on_frame(connection, frame, &mut self.net) {
            Ok(None) => {}
            Ok(Some((peer, answer))) => self.on_answer((connection, peer), answer, now, effects),
            Err(error) => {
                self.links.on_trouble(connection, &format!("an answer cannot be understood: {error}"), now);
                self.close_connection(connection, now, effects);
            }
        }
        self.step(now, effects);
    }

    /// All of the oldest request without an answer went out.
    pub fn on_written(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        if let Some(Asked::Produce(asked)) = self.links.on_written(connection) {
            for (place, id) in asked.parts {
                if let Some(batch) = self.topics.partition(place).take_in_flight(id) {
                    self.done(batch, Ok(Written { base_offset: None, append_time: None }), effects);
                }
            }
        }
        self.step(now, effects);
    }

    /// A batch was compressed; `spare` is the buffer it does not need any more.
    pub fn on_compressed(&mut self, work: Work, spare: Vec<u8>, now: Now, effects: &mut Effects<Effect>) {
        drop(spare);
        let waiting = &mut self.topics.partition(work.place).waiting;
        let index = waiting.iter().position(|waiting| (waiting.id, waiting.first) == (work.id, work.first));
        // It may have been given up meanwhile.
        if let Some(index) = index {
            match work.task {
                Task::Compress(batch) => waiting[index].body = Some(Arc::new(batch)),
                // Nobody did it.
                Task::Halve(batch) => {
                    effects.push(Effect::Compress(Work { task: Task::Halve(batch), ..work }))
                }
                Task::Halved(halves) => {
                    if let Some(whole) = waiting.remove(index) {
                        self.put_halves(work.place, whole, halves);
                    }
                }
            }
        }
        self.step(now, effects);
    }

    /// Somebody waits until all batches are done: until [`Producer::end_flush`] none of them lingers.
    pub const fn begin_flush(&mut self) {
        self.flushing += 1;
    }

    /// Whoever waited does not any more.
    pub const fn end_flush(&mut self) {
        self.flushing = self.flushing.saturating_sub(1);
    }

    const fn is_flushing(&self) -> bool {
        self.flushing > 0 || self.is_closed
    }

    /// Takes no more records; those it has go on their way.
    pub const fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether an append that failed left something to do for [`Producer::step`]; says so once.
    pub const fn take_needs_step(&mut self) -> bool {
        std::mem::replace(&mut self.needs_step, false)
    }

    /// Gives up what is not done.
    pub fn abort(&mut self, effects: &mut Effects<Effect>) {
        self.close();
        for place in self.topics.places() {
            let partition = self.topics.partition(place);
            // It is not compressed any more: nobody will send it.
            partition.close_open();
            let in_flight = std::mem::take(&mut partition.in_flight);
            let waiting = std::mem::take(&mut partition.waiting);
            for batch in in_flight {
                self.done(batch, Err(DeliveryError::Closed { may_be_written: true }), effects);
            }
            for batch in waiting {
                let may_be_written = batch.is_in_doubt;
                self.done(batch, Err(DeliveryError::Closed { may_be_written }), effects);
            }
        }
        self.let_try_again(effects);
    }

    /// What it did so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// How many batches are not done.
    pub fn outstanding(&self) -> usize {
        self.slots.serials.len() - self.slots.free.len()
    }

    /// What records that are not done occupy, in bytes, with what is kept for each.
    pub fn memory_used_bytes(&self) -> usize {
        self.memory.used_bytes()
    }

    fn close_connection(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        self.on_connection_lost(connection);
        let unanswered = self.links.close(connection, now, &mut self.net);
        self.on_unanswered(unanswered, now, effects);
    }

    /// Whoever cannot be reached may not lead any more, whether or not anything was asked of it.
    fn on_connection_lost(&mut self, connection: ConnectionId) {
        self.metadata.is_wanted |=
            self.links.peer(connection).is_some() && self.topics.known().next().is_some();
    }

    /// The last word about a batch.
    fn done(
        &mut self,
        batch: batch::Closed,
        outcome: Result<Written, DeliveryError>,
        effects: &mut Effects<Effect>,
    ) {
        // The connection may hold it still, if it is late to learn that the answer came.
        let buffer = batch.body.and_then(Arc::into_inner).map(ClosedBatch::into_buffer).unwrap_or_default();
        self.memory.give_back(batch.counted_bytes, buffer);
        self.memory.shrink(batch.records * self.settings.kept_bytes_per_record);
        self.is_full = false;
        let is_last = self.slots.release(batch.id);
        let batch::Closed { id, first, records, left_at, .. } = batch;
        effects.push(Effect::Done { batch: id, first, records, is_last, left_at, outcome });
        self.let_try_again(effects);
    }

    fn let_try_again(&mut self, effects: &mut Effects<Effect>) {
        if std::mem::take(&mut self.somebody_waits) {
            effects.push(Effect::TryAgain);
        }
    }
}

impl Slots {
    fn take(&mut self) -> BatchId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.serials.push((0, 0));
            u32::try_from(self.serials.len() - 1).expect("memory ends long before")
        });
        let (serial, parts) = &mut self.serials[slot as usize];
        *parts = 1;
        BatchId { slot, serial: *serial }
    }

    /// A batch goes in one part more.
    fn share(&mut self, id: BatchId) {
        assert!(self.is_live(id), "a batch is done once: {id:?}");
        self.serials[id.slot as usize].1 += 1;
    }

    /// A part of a batch is done. Whether it was the last.
    fn release(&mut self, id: BatchId) -> bool {
        assert!(self.is_live(id), "a batch is done once: {id:?}");
        let (serial, parts) = &mut self.serials[id.slot as usize];
        *parts -= 1;
        let is_last = *parts == 0;
        if is_last {
            *serial = serial.wrapping_add(1);
            self.free.push(id.slot);
        }
        is_last
    }

    fn is_live(&self, id: BatchId) -> bool {
        let (serial, parts) = self.serials[id.slot as usize];
        serial == id.serial && parts > 0
    }
}
