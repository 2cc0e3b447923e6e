//! A member of a group on our client, in a process of its own, so that it can be killed: `torture member`.
//!
//! ```text
//!   standard output   lines of a history: what it is given, reads, commits and gives back
//!   standard input    ends: it leaves in order
//! ```
//!
//! It writes down what it is about to do before it does it, and what it was told after: whatever it was in the
//! middle of when it was killed is in the history. `drivers/member.py` is the same on librdkafka.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base::{Offset, TopicPartition};
use client::Scratch;
use client::consumer::{
    Committing, ConsumeError, Consumer, ConsumerBuilder, Failure, RebalanceListener, Reset, Revoked,
};

use crate::cluster::TOPIC;
use crate::history::{Away, Event, Line, Run, now_ns, since};
use crate::load::read;
use crate::stop::Stop;

/// One wait for records.
const POLL_MAX: Duration = Duration::from_millis(50);
/// Between two commits, one of which is on its way at a time.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// Between two looks at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A look that comes so much later says that the machine let this process wait, and not that it is busy: what it
/// was told lay there unread.
const STOOD_STILL_MIN: Duration = Duration::from_secs(1);
/// How long its group is waited for when it leaves.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// Is a member until its standard input ends; the settings have Kafka's names.
pub fn run(bootstrap: &str, who: u32, settings: &[(String, String)]) -> Result<()> {
    let mut builder = Consumer::builder(bootstrap)
        .client_id(&format!("torture-{who}"))
        .reset(Reset::Earliest)
        .auto_commit(None)
        .request_timeout(Duration::from_secs(5));
    for (name, value) in settings {
        builder = builder.set(name, value)?;
    }
    let leave = Stop::default();
    let told = leave.clone();
    thread::spawn(move || {
        // However it ends.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        told.set();
    });
    thread::spawn(move || watch_clock(who));
    let mut member = Member::new(builder, who)?;
    let lived = member.live(&leave);
    say(Event::Leaving { who });
    // Its group may be out of reach: then it finds out by itself.
    let left = member.consumer.close(LEAVE_MAX);
    lived.and(left.context("it leaves"))
}

/// Says when this process stood still, as long as it lives.
fn watch_clock(who: u32) {
    loop {
        let before = now_ns();
        thread::sleep(LOOK_EVERY);
        if since(before, now_ns()) > LOOK_EVERY + STOOD_STILL_MIN {
            say_at(before, Event::Away { who, why: Away::StoodStill });
            say(Event::Back { who });
        }
    }
}

fn say(event: Event) {
    say_at(now_ns(), event);
}

/// Writes a line down. Who cannot is about to be told to leave.
fn say_at(at: u64, event: Event) {
    let mut bytes = serde_json::to_vec(&Line { at, event }).unwrap_or_default();
    bytes.push(b'\n');
    let mut out = io::stdout().lock();
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
}

/// What it has, for itself and its listener.
#[derive(Debug, Default)]
struct Held {
    /// By partition: the record to be read next, once it was given one.
    next: BTreeMap<i32, Option<i64>>,
    /// By partition: what is committed.
    committed: BTreeMap<i32, i64>,
    /// Commits that it made.
    commits: u64,
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Held>>);

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Member {
    who: u32,
    consumer: Consumer,
    scratch: Scratch,
    shared: Shared,
    /// The commit that is on its way.
    pending: Option<(u64, BTreeMap<i32, i64>, Committing)>,
    commit_at: Instant,
}

impl Member {
    fn new(builder: ConsumerBuilder, who: u32) -> Result<Self> {
        let (mut consumer, shared) = (builder.build()?, Shared::default());
        consumer.set_rebalance_listener(Listener { who, shared: shared.clone() });
        consumer.subscribe([TOPIC])?;
        let (scratch, commit_at) = (Scratch::default(), Instant::now());
        Ok(Self { who, consumer, scratch, shared, pending: None, commit_at })
    }

    fn live(&mut self, leave: &Stop) -> Result<()> {
        while !leave.is_set() {
            self.read()?;
            self.hear();
            self.commit();
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let who = self.who;
        let batch = match self.consumer.next_batch_within(POLL_MAX) {
            Ok(None) => return Ok(()),
            Ok(Some(batch)) => batch,
            Err(failure) => return self.failed(&failure),
        };
        let partition = batch.partition().0;
        let (runs, corrupt) = read(&batch, &mut self.scratch);
        if let (Some(Run(first, ..)), Some(Run(last, .., count))) = (runs.first(), runs.last()) {
            let begun = self.shared.held().next.insert(partition, Some(last + i64::from(*count)));
            if !matches!(begun, Some(Some(_))) {
                say(Event::Assign { who, partition, offset: *first });
            }
            say(Event::Poll { who, partition, runs });
        }
        if let Some((offset, why)) = corrupt {
            say(Event::Corrupt { who, partition, offset, why });
        }
        Ok(())
    }

    fn failed(&self, failure: &Failure) -> Result<()> {
        let (who, partition) = (self.who, failure.partition.0);
        let offset = self.shared.held().next.get(&partition).copied().flatten().unwrap_or(-1);
        let why = failure.to_string();
        match &failure.error {
            ConsumeError::OutOfRange(_) | ConsumeError::Truncated { .. } => {
                say(Event::Refused { who, partition, offset, why });
            }
            ConsumeError::Corrupt { at, .. } => {
                say(Event::Corrupt { who, partition, offset: at.0, why });
            }
            ConsumeError::NoOffset | ConsumeError::Group(_) | ConsumeError::Refused(_) => {}
        }
        bail!("{failure}")
    }

    /// What came of the last commit.
    fn hear(&mut self) {
        let who = self.who;
        let Some((number, offsets, committing)) = &mut self.pending else { return };
        let number = *number;
        match Pin::new(committing).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return,
            Poll::Ready(Ok(())) => {
                say(Event::Committed { who, number });
                self.shared.held().committed.append(offsets);
            }
            Poll::Ready(Err(why)) => say(Event::Uncommitted { who, number, why: why.to_string() }),
        }
        self.pending = None;
    }

    fn commit(&mut self) {
        if self.pending.is_some() || self.commit_at.elapsed() < COMMIT_EVERY {
            return;
        }
        self.commit_at = Instant::now();
        let (number, offsets) = {
            let mut held = self.shared.held();
            let read = held.next.iter().filter_map(|(partition, next)| Some((*partition, (*next)?)));
            let new = read.filter(|(partition, next)| held.committed.get(partition) != Some(next));
            let offsets: BTreeMap<i32, i64> = new.collect();
            if offsets.is_empty() {
                return;
            }
            held.commits += 1;
            (held.commits, offsets)
        };
        say(Event::Commit { who: self.who, number, offsets: offsets.clone().into_iter().collect() });
        let places = offsets.iter().map(|(partition, next)| (TOPIC, *partition, Offset(*next)));
        let committing = self.consumer.commit_offsets(places);
        self.pending = Some((number, offsets, committing));
    }
}

/// Writes down what the group gives and takes.
struct Listener {
    who: u32,
    shared: Shared,
}

impl RebalanceListener for Listener {
    fn assigned(&mut self, partitions: &[TopicPartition]) {
        let mut held = self.shared.held();
        for partition in indices(partitions) {
            held.next.insert(partition, None);
            held.committed.remove(&partition);
        }
        say(Event::Assigned { who: self.who, partitions: indices(partitions).collect() });
    }

    fn revoked(&mut self, revoked: &mut Revoked<'_>) {
        let (who, mut held) = (self.who, self.shared.held());
        say(Event::Revoked { who, partitions: indices(revoked.partitions()).collect() });
        let mut offsets = Vec::new();
        for partition in indices(revoked.partitions()) {
            let next = held.next.remove(&partition).flatten();
            let is_new = next != held.committed.remove(&partition);
            offsets.extend(next.filter(|_| is_new).map(|next| (partition, next)));
        }
        if !offsets.is_empty() {
            // Nobody says what comes of it.
            held.commits += 1;
            say(Event::Commit { who, number: held.commits, offsets: offsets.clone() });
        }
        for (partition, next) in offsets {
            revoked.commit_offset(TOPIC, partition, Offset(next));
        }
    }

    fn lost(&mut self, partitions: &[TopicPartition]) {
        let mut held = self.shared.held();
        for partition in indices(partitions) {
            held.next.remove(&partition);
            held.committed.remove(&partition);
        }
        say(Event::Lost { who: self.who, partitions: indices(partitions).collect() });
    }
}

fn indices(partitions: &[TopicPartition]) -> impl Iterator<Item = i32> {
    partitions.iter().map(|of| of.partition.0)
}
