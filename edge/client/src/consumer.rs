//! The consumer: partitions in, batches out, lent without a copy.
//!
//! ```text
//!   brokers ──▶ connections ── chunks, prefetched up to a bound ──▶ next_batch: CRC, records
//!                  ▲                                                    │
//!                  └────────────── asked for again as they are read ────┘
//! ```
//!
//! Whoever blocks for the next batch waits for the connections itself; while nobody does, a thread of the
//! consumer's own sees to them.
//!
//! ```
//! use std::time::Duration;
//!
//! use vltava_client::Scratch;
//! use vltava_client::consumer::{Consumer, Start};
//!
//! # use vltava_client::producer::{Producer, Record};
//! # let Ok(bootstrap) = std::env::var("VLTAVA_BOOTSTRAP") else { return Ok(()) };
//! # Producer::new(&bootstrap)?.send_blocking(&Record::to("apples").value("three"))?.wait()?;
//! let mut consumer = Consumer::builder(&bootstrap).build()?; // "127.0.0.1:9092", say
//! consumer.assign([("apples", 0, Start::Earliest)]);
//! let (mut scratch, mut count) = (Scratch::default(), 0);
//! while let Some(batch) = consumer.next_batch_within(Duration::from_millis(500))? {
//!     for record in batch.records(&mut scratch)? {
//!         println!("{:?}", record?.value);
//!         count += 1;
//!     }
//! }
//! assert!(count > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Who wants to keep records, or to pass them on, takes [`OwnedRecord`]s instead: a consumer is a
//! [`Stream`](futures_core::Stream) of them, and [`Consumer::records_blocking`] an iterator.
//!
//! ```no_run
//! use vltava_client::consumer::{Consumer, Start};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut consumer = Consumer::builder("127.0.0.1:9092").build()?;
//! consumer.assign([("orders", 0, Start::Earliest)]);
//! loop {
//!     let record = consumer.next_record().await?;
//!     println!("{} [{}] {}: {:?}", record.topic, record.partition, record.offset, record.value);
//! }
//! # }
//! ```

mod arrived;
mod builder;
mod drive; // the machines
mod group; // of whom it is a member
mod outcome;
mod owned; // record by record
mod place; // where it reads
mod rebalance; // what it is told there

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::wires::Spare;
use base::{Effects, Offset, PartitionIndex, TopicName, TopicPartition};
use client_core::consumer::{self as core, Chunk, Effect, LentRecords};
use parking_lot::Mutex;
use records::{BatchError, BatchHeader, Scratch};

pub use arrived::Failure;
pub use builder::ConsumerBuilder;
pub use client_core::consumer::{ConsumeError, Isolation, Reset, Start};
pub use client_core::group::{Assignor, GroupError, GroupProtocol, OffsetAndMetadata, PatternError};
pub use group::{GroupMetadata, SubscribeError};
pub use outcome::{Committing, FetchingCommitted};
pub use owned::{OwnedHeader, OwnedRecord, RecordsBlocking};
pub use rebalance::{RebalanceListener, Revoked};

use arrived::Arrived;
use group::Group;
use owned::Rest;

/// Reads partitions. What it lends is valid until it is asked for more.
pub struct Consumer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    current: Option<Chunk>,
    /// Bytes that were read since the connections were last looked at on the way.
    unglanced_bytes: usize,
    /// Of the batch that `current` is at, if it is read record by record.
    rest: Option<Rest>,
    scratch: Scratch,
    /// Who is told what the group gives and takes.
    listener: Option<Box<dyn RebalanceListener>>,
    /// It took leave of its group, or had the time to.
    is_closed: bool,
    /// It is dropped: nobody says that what was lent last is done with.
    is_dropped: bool,
}

/// After so many bytes of records what came meanwhile is taken in: less than a socket holds.
const GLANCE_BYTES: usize = 512 << 10;

struct Shared {
    state: Mutex<State>,
    driver: Driver,
    clock: Clock,
    spare: Spare,
    /// The group gave or took something that the reader was not told yet.
    has_rebalances: AtomicBool,
    /// How often the reader asked for something; it alone counts.
    asked: AtomicU64,
}

struct State {
    core: core::Consumer,
    effects: Effects<Effect>,
    group: Option<Group>,
    // Bounded by the prefetch setting and one answer of each broker.
    arrived: VecDeque<Arrived>,
    reader: Option<Waker>,
    is_stopping: bool,
    /// The consumer's thread is gone, though the consumer is not: it has panicked, and said so.
    has_ended: bool,
}

/// A batch of one partition, lent.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    of: &'a TopicPartition,
    high_watermark: Offset,
    lent: core::LentBatch<'a>,
}

impl<'a> Batch<'a> {
    /// The topic.
    pub fn topic(&self) -> &'a str {
        self.of.topic.as_str()
    }

    /// The partition.
    pub const fn partition(&self) -> PartitionIndex {
        self.of.partition
    }

    /// Where the partition ended for consumers when this was sent.
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Its header: offsets, times, who wrote it.
    pub const fn header(&self) -> &BatchHeader {
        self.lent.header()
    }

    /// Its records, from the first that was asked for on; those of a compressed batch lie in `scratch`
    /// meanwhile.
    pub fn records<'s>(&self, scratch: &'s mut Scratch) -> Result<LentRecords<'s>, BatchError>
    where
        'a: 's,
    {
        self.lent.records(scratch)
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("current", &self.current).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Consumer {
    /// A consumer whose settings are still to be chosen.
    pub fn builder(bootstrap_servers: &str) -> ConsumerBuilder {
        ConsumerBuilder::new(bootstrap_servers)
    }

    /// Reads exactly these partitions from now on; one that it reads already goes on where it is, unless it
    /// failed. Of a partition that is named twice, the first counts. With a group and `enable.auto.commit`, what
    /// was read is committed first.
    pub fn assign<'a>(&mut self, partitions: impl IntoIterator<Item = (&'a str, i32, Start)>) {
        let (mut wanted, mut misnamed) = (Vec::new(), VecDeque::new());
        for (topic, index, start) in partitions {
            match of(topic, index) {
                Some(of) => wanted.push((of, start)),
                None => misnamed.push_back(Arrived::Other(Failure::misnamed(topic, index))),
            }
        }
        if !self.leave_group() {
            self.commit_by_hand(self.shared.clock.now().elapsed + group::CALL_MAX);
        }
        {
            let mut state = self.shared.state.lock();
            if let Some(group) = &mut state.group {
                group.membership.read_others();
            }
            state.core.assign(wanted);
            state.arrived.retain(|arrived| !matches!(arrived, Arrived::Other(_)));
            state.arrived.append(&mut misnamed);
        }
        self.after_change();
    }

    /// Why nothing comes, for people: why a broker cannot be reached, or what the cluster says of a topic or
    /// of the group. `None` if nothing is known to be in the way.
    pub fn trouble(&self) -> Option<String> {
        let state = self.shared.state.lock();
        let of_group = state.group.as_ref().and_then(|group| group.membership.trouble());
        of_group.or_else(|| state.core.trouble())
    }

    /// Waits for the next batch. An error is about one partition; the others go on.
    pub async fn next_batch(&mut self) -> Result<Batch<'_>, Failure> {
        poll_fn(|context| self.poll_advance(context)).await?;
        Ok(self.lent())
    }

    /// [`Consumer::next_batch`] for a thread that may block.
    pub fn next_batch_blocking(&mut self) -> Result<Batch<'_>, Failure> {
        while !self.try_advance()? {
            self.shared.drive(None);
        }
        Ok(self.lent())
    }

    /// [`Consumer::next_batch`] for a thread that may block so long; `None` if none came.
    pub fn next_batch_within(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, Failure> {
        if self.try_advance()? {
            return Ok(Some(self.lent()));
        }
        // A time that no clock can say never comes.
        let until = self.shared.clock.now().elapsed.checked_add(timeout);
        loop {
            self.shared.drive(until);
            if self.try_advance()? {
                return Ok(Some(self.lent()));
            }
            if until.is_some_and(|until| self.shared.clock.now().elapsed >= until) {
                self.stop_waiting();
                return Ok(None);
            }
        }
    }

    /// The next batch if it has come already.
    pub fn try_next_batch(&mut self) -> Result<Option<Batch<'_>>, Failure> {
        if self.try_advance()? {
            return Ok(Some(self.lent()));
        }
        self.stop_waiting();
        Ok(None)
    }

    fn try_advance(&mut self) -> Result<bool, Failure> {
        match self.poll_advance(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    fn lent(&self) -> Batch<'_> {
        batch_of(self.current.as_ref().expect("it went to a batch"))
    }

    /// Goes to the next batch of the chunk at hand. Whether there is one.
    #[inline]
    fn advance_current(&mut self) -> Result<bool, Failure> {
        let Some(chunk) = &mut self.current else { return Ok(false) };
        if let Some(next) = self.rest.take().and_then(|rest| rest.next_offset()) {
            // Begun record by record: the others of the same batch come first.
            chunk.begin_at(next);
            return Ok(true);
        }
        match chunk.advance() {
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => Err(self.fail_current(error)),
            None => Ok(false),
        }
    }

    /// The chunk at hand cannot be read on: what follows it in its partition is not lent either.
    #[cold]
    fn fail_current(&mut self, error: ConsumeError) -> Failure {
        let chunk = self.current.as_ref().expect("it is at hand");
        let failure = failure(chunk.of(), error);
        self.shared.state.lock().core.fail(chunk);
        self.after_change();
        failure
    }

    fn poll_advance(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.on_asked();
        loop {
            if self.shared.has_rebalances.load(Ordering::Acquire) {
                self.rebalance();
            }
            if self.advance_current()? {
                return Poll::Ready(Ok(()));
            }
            let done = self.current.take();
            let mut state = self.shared.state.lock();
            if let Some(chunk) = &done {
                state.core.on_read(chunk.bytes());
                state.on_chunk_read(chunk);
            }
            let arrived = state.arrived.pop_front();
            assert!(arrived.is_some() || !state.has_ended, "the consumer's thread has panicked");
            // What was told since this was looked at is looked at first.
            let is_rebalancing = arrived.is_none() && self.shared.has_rebalances.load(Ordering::Acquire);
            let is_back = arrived.is_none() && !is_rebalancing && {
                state.reader = Some(context.waker().clone());
                state.on_waiting(&self.shared.clock)
            };
            let is_current = arrived.as_ref().is_some_and(|arrived| arrived.is_current(&state.core));
            drop(state);
            if let Some(chunk) = done {
                self.glance_after(chunk.bytes());
                // There is room again.
                self.shared.driver.ring();
                self.give_back(chunk);
            }
            if is_back {
                self.shared.driver.ring();
            }
            match arrived {
                // Of before a seek: read as if nobody had asked for it.
                Some(Arrived::Chunk(chunk)) if !is_current => {
                    self.shared.state.lock().core.on_read(chunk.bytes());
                    self.shared.driver.ring();
                    self.give_back(chunk);
                }
                Some(Arrived::Failed { .. }) if !is_current => {}
                Some(Arrived::Chunk(chunk)) => self.current = Some(chunk),
                Some(Arrived::Failed { of, error, .. }) => return Poll::Ready(Err(failure(&of, error))),
                Some(Arrived::Other(failure)) => return Poll::Ready(Err(failure)),
                None if is_rebalancing => {}
                None => return Poll::Pending,
            }
        }
    }

    /// While much is read at once, the broker is not to wait until all of it was.
    fn glance_after(&mut self, bytes: usize) {
        self.unglanced_bytes += bytes;
        if self.unglanced_bytes >= GLANCE_BYTES {
            self.unglanced_bytes = 0;
            self.shared.driver.glance(&*self.shared);
        }
    }

    fn give_back(&self, chunk: Chunk) {
        if let Some(frame) = chunk.into_frame() {
            self.shared.spare.give_back(frame);
        }
    }
}

impl Shared {
    /// Waits for something to arrive, or until that time.
    fn drive(&self, until: Option<Duration>) {
        let is_told = || self.has_rebalances.load(Ordering::Acquire);
        self.driver.drive(self, until, || is_told() || !self.state.lock().arrived.is_empty());
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.say_goodbye();
        self.shared.state.lock().is_stopping = true;
        self.shared.driver.stop(self.thread.take());
    }
}

/// The batch that a chunk went to.
fn batch_of(chunk: &Chunk) -> Batch<'_> {
    Batch { of: chunk.of(), high_watermark: chunk.high_watermark(), lent: chunk.batch() }
}

/// `None` if no topic can be called so.
fn of(topic: &str, partition: i32) -> Option<TopicPartition> {
    let topic = TopicName::new(topic).ok()?;
    Some(TopicPartition { topic, partition: PartitionIndex(partition) })
}

fn failure(of: &TopicPartition, error: ConsumeError) -> Failure {
    Failure { topic: of.topic.as_str().into(), partition: of.partition, error }
}
