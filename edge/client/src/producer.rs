//! The producer: records in, acknowledgements out.
//!
//! ```text
//!   your thread ── send: encodes into the open batch ──┐
//!                                                      ├── one lock ── client_core::producer
//!   its thread ─── connections, timers ────────────────┘
//!   your future ◀── Delivery: offset and time, or what went wrong
//! ```
//!
//! A producer has one thread of its own, so that its futures run on any executor, or on none. While nothing
//! is in flight, a record leaves on the thread that sends it; whoever blocks for its acknowledgement alone
//! waits for the connection itself.

mod builder;
mod delivery;
mod drive; // the machine and who is told
mod partitioner;
mod properties;
mod waiting; // for room, in turn

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Effects, PartitionIndex, TimestampMs};
use client_core::producer::{self as core, Destination, Effect, NewRecord, Work};
use parking_lot::{Mutex, MutexGuard};
use records::{Compression, Header};

use crate::clock::{Clock, Reading};
use crate::driver::Driver;

pub use builder::{BuildError, ProducerBuilder};
pub use client_core::producer::{Acks, AppendError as SendError, Counters, DeliveryError, partition_for_key};
pub use delivery::{Delivery, DeliveryReport, Reported, Written};
pub use partitioner::Unplaced;
pub use properties::PropertyError;

use delivery::{Fate, OnDelivery};
use drive::Settled;
use partitioner::Partitioner;
use waiting::{Left, Ticket, Waiting, Wanted};

/// A record to be sent. Nothing of it is kept by reference: it is encoded before `send` returns.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    topic: &'a str,
    partition: Option<PartitionIndex>,
    tag: u64,
    fields: NewRecord<'a>,
}

impl<'a> Record<'a> {
    /// A record for a topic, without key, value or headers.
    pub fn to(topic: &'a str) -> Self {
        Self { topic, partition: None, tag: 0, fields: NewRecord::default() }
    }

    /// What it is about. Records with the same key go to the same partition, the one that Java's client
    /// chooses for it.
    #[must_use]
    pub fn key(mut self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.fields.key = Some(key.as_ref());
        self
    }

    /// What it says. Without a value it deletes its key in a compacted topic.
    #[must_use]
    pub fn value(mut self, value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.fields.value = Some(value.as_ref());
        self
    }

    /// Its headers.
    #[must_use]
    pub fn headers(mut self, headers: &'a [Header<'a>]) -> Self {
        self.fields.headers = headers;
        self
    }

    /// The partition, whatever the key is.
    #[must_use]
    pub fn partition(mut self, index: i32) -> Self {
        self.partition = Some(PartitionIndex(index));
        self
    }

    /// When it was made, in milliseconds since 1970; otherwise when it is sent.
    #[must_use]
    pub fn timestamp_ms(mut self, timestamp: i64) -> Self {
        self.fields.timestamp = Some(TimestampMs(timestamp));
        self
    }

    fn reported(&self, taken: Duration) -> Reported {
        let value_bytes = self.fields.value.map_or(0, <[u8]>::len);
        Reported {
            tag: self.tag,
            taken_ns: taken.as_nanos() as u64,
            value_bytes: u32::try_from(value_bytes).unwrap_or(u32::MAX),
        }
    }

    /// A number of yours that the [`DeliveryReport`] of its batch has.
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }
}

/// Sends records. Cloning is cheap, and all clones are one producer. Dropping the last one gives up what is
/// not acknowledged: [`Producer::close`] waits for it.
#[derive(Debug, Clone)]
pub struct Producer {
    shared: Arc<Shared>,
    // Ends the producer's thread when the last clone is gone.
    _lease: Arc<Lease>,
}

#[derive(Debug)]
struct Lease {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    driver: Driver,
    /// Batches that were compressed, and buffers that are not needed any more.
    compressed: Mutex<Vec<(Work, Vec<u8>)>>,
    itself: Weak<Shared>,
    clock: Clock,
    block_max: Duration,
    compression: (Compression, Option<i32>),
    /// Who compresses, if anybody has to.
    compressors: Option<&'static rayon_core::ThreadPool>,
    on_delivery: Option<OnDelivery>,
    partitioner: Option<Partitioner>,
}

struct State {
    core: core::Producer,
    effects: Effects<Effect>,
    /// By the slots of batches.
    fates: Vec<Option<Arc<Fate>>>,
    /// The records of each batch, if somebody wants reports.
    reported: Vec<Vec<Reported>>,
    /// Batches that are done, of which the producer's own thread is to report, in that order.
    unreported: Vec<Settled>,
    /// Batches that are done, while their reports run.
    settling: Vec<Arc<Fate>>,
    /// Lists of batches that are done, for the next ones.
    reported_spare: Vec<Vec<Reported>>,
    reading: Reading,
    waiting: Waiting,
    is_stopping: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("block_max", &self.block_max).finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer for the cluster behind these addresses (`host:port`, between commas), with defaults:
    /// `acks=all`, idempotent, no compression.
    pub fn new(bootstrap_servers: &str) -> Result<Self, BuildError> {
        Self::builder(bootstrap_servers).build()
    }

    /// A producer whose settings are still to be chosen.
    pub fn builder(bootstrap_servers: &str) -> ProducerBuilder {
        ProducerBuilder::new(bootstrap_servers)
    }

    /// Takes a record at once or not at all: [`SendError::Full`] if there is no room, or others wait for it,
    /// [`SendError::TopicNotKnownYet`] before the first answer about its topic.
    pub fn try_send(&self, record: &Record<'_>) -> Result<Delivery, SendError> {
        self.append(record, &mut None, None)
    }

    /// Takes a record, once there is room for it and its topic is known: within `max.block.ms`. Room goes
    /// to whoever waits the longest.
    ///
    /// The future is done when the record is encoded; the [`Delivery`] it gives, when the record is
    /// acknowledged. The delivery may be dropped: the record is sent all the same, as long as there is a
    /// producer to send it. [`Producer::close`] or [`Producer::flush`] before the last clone is dropped.
    pub fn send<'a>(&'a self, record: Record<'a>) -> Send<'a> {
        Send { producer: self, record, until: None, ticket: None }
    }

    /// [`Producer::send`] for a thread that may block.
    pub fn send_blocking(&self, record: &Record<'_>) -> Result<Delivery, SendError> {
        match self.append(record, &mut None, None) {
            Err(error) if error.is_retriable() => crate::block::on(self.send(*record)),
            sent => sent,
        }
    }

    #[inline]
    fn append(
        &self,
        record: &Record<'_>,
        ticket: &mut Option<Ticket>,
        waits: Option<(Duration, &Waker)>,
    ) -> Result<Delivery, SendError> {
        let mut to = Destination { topic: record.topic, partition: record.partition };
        let mut state = self.shared.state.lock();
        if !state.waiting.is_turn(*ticket) {
            return Err(self.not_taken(state, SendError::Full, ticket, waits));
        }
        if let Some(partitioner) = &self.shared.partitioner {
            to.partition = partitioner::choose(partitioner, &mut state, record);
        }
        let State { core, effects, reading, .. } = &mut *state;
        if core.outstanding() == 0 {
            // It may have been long since anybody looked, and the machine may have slept meanwhile.
            self.shared.clock.set();
        }
        let now = self.shared.clock.now_cached(reading);
        let appended = match core.append(now, to, &record.fields, effects) {
            Ok(appended) => appended,
            Err(error) => return Err(self.not_taken(state, error, ticket, waits)),
        };
        let slot = appended.batch.slot as usize;
        if appended.is_first {
            state.put_fate(slot, record.topic, appended.partition, &self.shared.itself);
        }
        if self.shared.on_delivery.is_some() {
            state.reported[slot].push(record.reported(now.elapsed));
        }
        let fate = state.fates[slot].clone().expect("a batch with records has a fate");
        let has_work = appended.wakes || !state.effects.is_empty();
        // The first of all leaves at once: nothing else is to be done meanwhile.
        let is_alone = appended.is_first && state.core.outstanding() == 1;
        let left = state.waiting.leave(ticket);
        drop(state);
        left.into_iter().for_each(Left::wake_next);
        if has_work && !(is_alone && self.shared.driver.try_turn(&*self.shared)) {
            self.shared.driver.ring();
        }
        Ok(Delivery::new(fate, appended.offset_delta, appended.timestamp))
    }

    /// A record has to wait, or is refused.
    #[cold]
    fn not_taken(
        &self,
        mut state: MutexGuard<'_, State>,
        error: SendError,
        ticket: &mut Option<Ticket>,
        waits: Option<(Duration, &Waker)>,
    ) -> SendError {
        // Whoever tries again and again must not keep the producer's thread from its work.
        let has_work = state.core.take_needs_step() || !state.effects.is_empty();
        let waits = waits.filter(|_| error.is_retriable());
        let wanted = if error == SendError::Full { Wanted::Room } else { Wanted::Other };
        let left = match waits {
            Some(waits) => state.waiting.wait(ticket, wanted, waits),
            None => state.waiting.leave(ticket),
        };
        drop(state);
        left.into_iter().for_each(Left::wake_next);
        // Its thread is to know until when somebody waits.
        if has_work || waits.is_some() {
            self.shared.driver.ring();
        }
        error
    }

    /// Waits until all records sent before are acknowledged or given up, and reported.
    pub async fn flush(&self) {
        let flushing = Flushing::begin(&self.shared);
        for fate in &flushing.fates {
            fate.known().await;
        }
    }

    /// [`Producer::flush`] for a thread that may block.
    pub fn flush_blocking(&self) {
        crate::block::on(self.flush());
    }

    /// Takes no more records, and waits so long for those it has; what is not acknowledged then is given
    /// up. How many records that were.
    pub async fn close(self, timeout: Duration) -> usize {
        let until = self.shared.clock.now().elapsed + timeout.min(LONGEST);
        self.shared.state.lock().core.close();
        let flushing = Flushing::begin(&self.shared);
        let mut given_up = 0;
        for fate in &flushing.fates {
            Until { shared: &self.shared, until, future: fate.known(), ticket: None }.await;
        }
        {
            let mut state = self.shared.state.lock();
            let State { core, effects, .. } = &mut *state;
            core.abort(effects);
            state.is_stopping = true;
        }
        self.shared.driver.stop(None);
        for fate in &flushing.fates {
            given_up += fate.known().await.unacknowledged();
        }
        given_up
    }

    /// [`Producer::close`] for a thread that may block.
    pub fn close_blocking(self, timeout: Duration) -> usize {
        crate::block::on(self.close(timeout))
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.shared.state.lock().core.counters()
    }

    /// The clock of its reports, which all producers of a process share.
    pub fn elapsed(&self) -> Duration {
        self.shared.clock.now().elapsed
    }

    /// What records that are not acknowledged occupy, in bytes: never more than `buffer.memory`.
    pub fn memory_used_bytes(&self) -> usize {
        self.shared.state.lock().core.memory_used_bytes()
    }
}

impl Shared {
    /// Whether a caller may wait for the connections: nobody else waits for what comes, and no report has
    /// to run on another thread.
    fn may_be_driven(&self) -> bool {
        self.on_delivery.is_none() && self.state.lock().core.outstanding() == 1
    }
}

impl Shared {
    /// Somebody does not wait any more.
    fn leave(&self, ticket: &mut Option<Ticket>) {
        if ticket.is_some() {
            let left = self.state.lock().waiting.leave(ticket);
            left.into_iter().for_each(Left::wake_next);
        }
    }
}

impl State {
    #[cold]
    fn put_fate(&mut self, slot: usize, topic: &str, partition: PartitionIndex, of: &Weak<Shared>) {
        if self.fates.len() <= slot {
            self.fates.resize(slot + 1, None);
            self.reported.resize(slot + 1, Vec::new());
        }
        self.fates[slot] = Some(Arc::new(Fate::new(topic, partition, of.clone())));
        self.reported[slot] = self.reported_spare.pop().unwrap_or_default();
    }
}

/// Somebody waits for all that was sent: while this lives, nothing lingers.
struct Flushing<'a> {
    shared: &'a Shared,
    fates: Vec<Arc<Fate>>,
}

impl<'a> Flushing<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let fates = {
            let mut state = shared.state.lock();
            state.core.begin_flush();
            state.fates.iter().flatten().chain(&state.settling).cloned().collect()
        };
        shared.driver.ring();
        Self { shared, fates }
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.shared.state.lock().core.end_flush();
    }
}

/// Longer than anybody waits, and short enough to be added to any time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Drop for Lease {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            let State { core, effects, .. } = &mut *state;
            core.abort(effects);
            state.is_stopping = true;
        }
        self.shared.driver.stop(self.thread.lock().take());
    }
}

/// A record on its way into the producer.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Send<'a> {
    producer: &'a Producer,
    record: Record<'a>,
    until: Option<Duration>,
    ticket: Option<Ticket>,
}

impl Drop for Send<'_> {
    fn drop(&mut self) {
        self.producer.shared.leave(&mut self.ticket);
    }
}

impl Future for Send<'_> {
    type Output = Result<Delivery, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.producer.shared;
        let now = shared.clock.now().elapsed;
        let until = self.until.unwrap_or(now + shared.block_max.min(LONGEST));
        let waits = (now < until).then(|| (until, context.waker()));
        let Self { producer, record, ticket, .. } = &mut *self;
        match producer.append(record, ticket, waits) {
            Err(error) if error.is_retriable() && waits.is_some() => {
                self.until = Some(until);
                Poll::Pending
            }
            sent => Poll::Ready(sent),
        }
    }
}

/// A future, or the end of a wait: whatever comes first.
struct Until<'a, F> {
    shared: &'a Shared,
    until: Duration,
    future: F,
    ticket: Option<Ticket>,
}

impl<F> Drop for Until<'_, F> {
    fn drop(&mut self) {
        self.shared.leave(&mut self.ticket);
    }
}

impl<F: Future + Unpin> Future for Until<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = Pin::new(&mut self.future).poll(context) {
            return Poll::Ready(Some(output));
        }
        if self.shared.clock.now().elapsed >= self.until {
            return Poll::Ready(None);
        }
        let waits = (self.until, context.waker());
        let Self { shared, ticket, .. } = &mut *self;
        let left = shared.state.lock().waiting.wait(ticket, Wanted::Other, waits);
        left.into_iter().for_each(Left::wake_next);
        self.shared.driver.ring();
        Poll::Pending
    }
}
