//! A member that reads, and is looked at meanwhile: a whole consumer of ours on a thread of its own, and records
//! for it, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use base::TopicPartition;
use client::Connection;
use client::consumer::{Consumer, RebalanceListener, Reset, Revoked};
use client::producer::{Acks, Producer, Record};
use wire::messages::list_groups::ListGroupsRequest;

use super::owners::{MemberId, Owners};
use super::setup::{Setup, Shared, shared};
use super::{LOOK_EVERY, as_millis, connect};

/// How long it waits for a record before it looks whether it is to end.
const POLL: Duration = Duration::from_millis(20);
/// From one record of a partition to the next.
const RECORD_EVERY: Duration = Duration::from_millis(2);
/// How long a consumer may take to leave.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// A state of a group in which all have what they are to have.
const STABLE: &str = "Stable";

/// When it read.
#[derive(Debug)]
struct Reads {
    batches: u64,
    last: Instant,
    longest: Duration,
}

/// The consumer before it subscribes.
pub(super) struct Waiting {
    consumer: Consumer,
    topic: String,
}

/// The consumer on its thread.
pub(super) struct Watched {
    reads: Shared<Reads>,
    thread: Worker,
}

/// A thread that goes on until it is told to end.
struct Worker {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Worker {
    fn start(work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        Self { is_over, thread: Some(thread::spawn(move || work(&told))) }
    }

    fn end(mut self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it was ended before")?;
        thread.join().map_err(|_| anyhow!("it panicked"))?
    }
}

/// Keeps the book of who owns what.
struct Bookkeeper {
    member: MemberId,
    owners: Shared<Owners>,
}

impl RebalanceListener for Bookkeeper {
    fn assigned(&mut self, partitions: &[TopicPartition]) {
        self.owners.lock().take(self.member, partitions.iter());
    }

    fn revoked(&mut self, revoked: &mut Revoked<'_>) {
        self.owners.lock().give(self.member, revoked.partitions().iter());
    }

    fn lost(&mut self, partitions: &[TopicPartition]) {
        self.owners.lock().give(self.member, partitions.iter());
    }
}

impl Waiting {
    /// Makes it, as the member of this place.
    pub(super) fn new(setup: &Setup<'_>, member: MemberId, owners: Shared<Owners>) -> Result<Self> {
        let builder = Consumer::builder(setup.broker).group_id(setup.group).reset(Reset::Latest);
        let builder = builder.group_protocol(setup.protocol.group_protocol());
        let builder = builder.assignors(setup.protocol.assignors()).session_timeout(setup.session);
        let mut consumer = builder.heartbeat_interval(setup.heartbeat_interval()).build()?;
        consumer.set_rebalance_listener(Bookkeeper { member, owners });
        Ok(Self { consumer, topic: setup.topic.to_owned() })
    }

    /// It subscribes, and reads from then on.
    pub(super) fn subscribe(mut self) -> Watched {
        let reads = shared(Reads { batches: 0, last: Instant::now(), longest: Duration::ZERO });
        let read = reads.clone();
        let thread = Worker::start(move |is_over| {
            self.consumer.subscribe([self.topic.as_str()])?;
            while !is_over.load(Ordering::Relaxed) {
                if self.consumer.next_batch_within(POLL)?.is_some() {
                    read.lock().note();
                }
            }
            self.consumer.close(CLOSE_TIME_MAX)?;
            Ok(())
        });
        Watched { reads, thread }
    }
}

impl Reads {
    fn note(&mut self) {
        self.longest = self.longest.max(self.last.elapsed());
        self.last = Instant::now();
        self.batches += 1;
    }
}

impl Watched {
    /// Whether it has read anything.
    pub(super) fn has_read(&self) -> bool {
        self.reads.lock().batches > 0
    }

    /// What counts begins.
    pub(super) fn begin(&self) {
        let mut reads = self.reads.lock();
        reads.longest = Duration::ZERO;
        reads.last = Instant::now();
    }

    /// The longest time since then without a record.
    pub(super) fn longest_pause_ms(&self) -> f64 {
        let reads = self.reads.lock();
        as_millis(reads.longest.max(reads.last.elapsed()))
    }

    /// It leaves, and whatever went wrong is said.
    pub(super) fn end(self) -> Result<()> {
        self.thread.end().context("the consumer that is watched")
    }
}

/// Records for some partitions, at a pace.
pub(super) struct Steady(Worker);

impl Steady {
    pub(super) fn start(broker: &str, topic: &str, partitions: Vec<i32>) -> Result<Self> {
        let producer = Producer::builder(broker).acks(Acks::Leader).linger(Duration::ZERO).build()?;
        let topic = topic.to_owned();
        Ok(Self(Worker::start(move |is_over| {
            let mut next = Instant::now();
            while !is_over.load(Ordering::Relaxed) {
                for &partition in &partitions {
                    drop(producer.send_blocking(&Record::to(&topic).partition(partition).value("steady"))?);
                }
                next += RECORD_EVERY;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            producer.close_blocking(CLOSE_TIME_MAX);
            Ok(())
        })))
    }

    pub(super) fn end(self) -> Result<()> {
        self.0.end().context("the steady load")
    }
}

/// Looks at a group's state, as its coordinator tells it.
pub(super) struct Looking {
    thread: Worker,
    moved: Shared<Option<Instant>>,
}

impl Looking {
    /// From now on, until it is not stable any more.
    pub(super) fn start(broker: &str, group: &str) -> Self {
        let (broker, group) = (broker.to_owned(), group.to_owned());
        let moved = shared(None);
        let told = moved.clone();
        let thread = Worker::start(move |is_over| {
            let mut connection = connect(&broker)?;
            while !is_over.load(Ordering::Relaxed) {
                if !is_stable(&mut connection, &group)? {
                    *told.lock() = Some(Instant::now());
                    break;
                }
                thread::sleep(LOOK_EVERY);
            }
            Ok(())
        });
        Self { thread, moved }
    }

    /// When it was; `None` if it was not seen by now.
    pub(super) fn end(self) -> Result<Option<Instant>> {
        self.thread.end().context("looking at the group's state")?;
        let moved = *self.moved.lock();
        Ok(moved)
    }
}

/// Whether a group says that all have what they are to have.
pub(super) fn is_stable(connection: &mut Connection, group: &str) -> Result<bool> {
    let answer = connection.ask(&ListGroupsRequest::default())?;
    let said = answer.read()?;
    Ok(said.groups.iter().any(|found| found.group_id == group && found.group_state == STABLE))
}
