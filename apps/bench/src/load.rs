//! One run of a workload on a cluster: topics made, records sent and read, all of them checked.
//!
//! ```text
//!   together   senders ─────────▶ cluster ─────────▶ readers, who check        then the rest is read and checked
//!   stored     senders ─▶ cluster, not measured;     then readers, measured;   then all is read and checked
//!   in turn    send, wait until it is read, send the next
//! ```
//!
//! Every sender and every reader is a client of `edge/client` with connections of its own. Times are those of
//! one clock, which all clients of a process share.

mod clients; // whom with
mod clock;
mod in_turn;
mod read;
mod send;
mod tag;
mod topics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use client::Admin;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::driver::Driver;
use crate::histogram::Quantiles;
use crate::meter::{Counts, Measured, Meter};
use crate::metrics::{Grown, Scraped};
use crate::resources::{Sources, Used};
use crate::schedule::Punctuality;
use crate::stamp::Stamp;
use crate::verify::Verdict;
use crate::workload::Workload;

use clients::Clients;
use clock::Clock;
use read::{Readers, Reading};
use send::Sending;
use topics::{Ends, Topics};

/// What a run needs.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Where the cluster is.
    pub servers: &'a str,
    /// Where to see what it uses.
    pub sources: Sources<'a>,
    /// What it is.
    pub driver: &'a Driver,
    /// What is done to it.
    pub workload: &'a Workload,
    /// Set by whoever wants it to end early.
    pub stop: &'a AtomicBool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was written, if that was measured.
    pub written: Option<Flow>,
    /// What was read, if that was measured.
    pub read: Option<Flow>,
    /// How long calls of `send` took, in the steady state.
    pub send_call: Histogram<u64>,
    /// Whether records were sent when they were due.
    pub punctuality: Punctuality,
    /// Each second of it.
    pub seconds: Vec<Second>,
    /// Whether what was read is what was written.
    pub verdict: Verdict,
    /// How often all was read.
    pub subscriptions: u16,
    /// Records that were given up, or not taken at all.
    pub failed: u64,
    /// What was wrong with the first of them.
    pub first_failure: Option<String>,
    /// How long it took until a producer was closed, of all the longest.
    pub close: Duration,
    /// What the brokers counted in the steady state, where they were asked.
    pub grown: Option<Grown>,
    /// What the cluster promised.
    pub stamp: Stamp,
    /// Settings of the clients, by Kafka's names.
    pub settings: Vec<(&'static str, String)>,
    /// What is not as the files say.
    pub notes: Vec<String>,
}

/// The steady state of all senders, or of all readers.
#[derive(Debug)]
pub struct Flow {
    /// What was measured.
    pub measured: Measured,
    /// How long it took.
    pub seconds: f64,
}

/// One second of a run, of all senders and readers together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// After the start.
    pub from: f64,
    /// After the start.
    pub to: f64,
    /// Whether it counts for nothing.
    pub is_warmup: bool,
    /// What was acknowledged.
    pub written: Counts,
    /// What was read.
    pub read: Counts,
    /// From when a record was due to its acknowledgement.
    pub response_ns: Option<Quantiles>,
    /// From when a record was due until it was read.
    pub end_to_end_ns: Option<Quantiles>,
    /// What it took.
    pub used: Used,
}

/// When things are to happen, by the clock of the clients.
#[derive(Debug, Clone, Copy)]
struct Timing {
    started: Duration,
    steady_from: Duration,
    /// Until when records are due; `None` if they are counted.
    until: Option<Duration>,
    /// How many are due in the steady state.
    records: Option<u64>,
}

/// From one window to the next.
const WINDOW: Duration = Duration::from_secs(1);

/// Runs a workload once. `show` is told of each second when it is over.
pub fn run(target: Target<'_>, show: &mut dyn FnMut(&Second)) -> Result<Outcome> {
    let admin = Admin::builder(target.servers).timeout(Duration::from_secs(60)).build()?;
    let id = run_id();
    let topics = Topics::create(&admin, target.driver, target.workload, id)?;
    let clients = Clients::new(target);
    let (stamp, unknown) = stamp(&admin, &clients, &topics);
    let done = Run { target, topics: &topics, id, clients, clock: Clock::start() }.run(show);
    // A topic that stays is in nobody's way as much as an error that hides another.
    let deleted = topics.delete(&admin);
    let mut outcome = done?;
    deleted?;
    outcome.stamp = stamp;
    outcome.notes.extend(unknown);
    Ok(outcome)
}

/// What the cluster promises, and what it does not say.
fn stamp(admin: &Admin, clients: &Clients<'_>, topics: &Topics) -> (Stamp, Option<String>) {
    let mut stamp = Stamp {
        acks: clients.target().workload.acks.clone(),
        replication_factor: clients.target().replicas(),
        client_settings: clients.changed(),
        ..Stamp::default()
    };
    let unknown = topics.names().first().and_then(|topic| stamp.ask(admin, topic));
    (stamp, unknown)
}

impl Target<'_> {
    /// Of each partition.
    pub fn replicas(&self) -> u16 {
        self.driver.replication_factor.unwrap_or(self.workload.replication_factor)
    }
}

/// A number that no other run has.
fn run_id() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Chance::new(now.as_nanos() as u64, std::process::id().into()).draw()
}

/// A run with what all of it needs.
struct Run<'a> {
    target: Target<'a>,
    topics: &'a Topics,
    id: u64,
    clients: Clients<'a>,
    clock: Clock,
}

impl Run<'_> {
    fn run(&self, show: &mut dyn FnMut(&Second)) -> Result<Outcome> {
        let workload = self.target.workload;
        if workload.one_at_a_time {
            return in_turn::run(self, show);
        }
        if workload.stored { self.stored(show) } else { self.together(show) }
    }

    fn timing(&self) -> Timing {
        let Workload { warmup_seconds, seconds, records, .. } = *self.target.workload;
        let started = self.clock.now();
        let steady_from = tag::exact(started + Duration::from_secs_f64(warmup_seconds));
        let until = records.is_none().then(|| steady_from + Duration::from_secs_f64(seconds));
        Timing { started, steady_from, until, records }
    }

    /// Senders, and readers beside them if there are any.
    fn together(&self, show: &mut dyn FnMut(&Second)) -> Result<Outcome> {
        let timing = self.timing();
        let sending = Sending::prepare(self, timing)?;
        let reading = Reading::prepare(self, timing.steady_from, true)?;
        let mut watch = Watch::new(self, timing, sending.meters(), reading.meters());
        let (sent, readers) = thread::scope(|scope| {
            let (sender, senders_done) = mpsc::channel::<()>();
            let (reader, readers_done) = mpsc::channel::<()>();
            let readers = reading.start(scope, reader);
            let senders = sending.start(scope, sender);
            watch.until(&senders_done, &self.clock, show);
            let sent = send::join(senders);
            let ends = match &sent {
                Ok(sent) => self.topics.ends(&self.clients, sent.acknowledged()),
                Err(_) => Ok(Ends::new()),
            };
            // Readers are told in any case, or they would wait for ever.
            reading.end_at(ends.as_ref().cloned().unwrap_or_default());
            watch.until(&readers_done, &self.clock, show);
            let readers = read::join(readers);
            ends.and(Ok((sent?, readers?)))
        })?;
        let grown = watch.end();
        let read = reading.measured();
        let is_read = self.target.workload.consumers > 0;
        let verdict = if is_read { readers.verdict(&sent)? } else { self.read_back(&sent)? };
        let written = flow(sending.measured(), timing.steady_from);
        let read = is_read.then(|| flow(read, timing.steady_from));
        Ok(self.outcome((Some(written), read), sent, watch.seconds, grown, verdict))
    }

    /// All is written, and then readers are measured.
    fn stored(&self, show: &mut dyn FnMut(&Second)) -> Result<Outcome> {
        let started = self.clock.now();
        let records = self.target.workload.records;
        let filling = Timing { started, steady_from: started, until: None, records };
        let sending = Sending::prepare(self, filling)?;
        let mut unseen = Watch::new(self, filling, sending.meters(), Vec::new());
        let sent = thread::scope(|scope| {
            let (working, done) = mpsc::channel::<()>();
            let senders = sending.start(scope, working);
            unseen.until(&done, &self.clock, &mut |_| {});
            send::join(senders)
        })?;
        let ends = self.topics.ends(&self.clients, sent.acknowledged())?;
        let began = self.clock.now();
        let timing = Timing { started: began, steady_from: began, until: None, records };
        let reading = Reading::prepare(self, began, false)?;
        reading.end_at(ends);
        let mut watch = Watch::new(self, timing, Vec::new(), reading.meters());
        let readers = thread::scope(|scope| {
            let (working, done) = mpsc::channel::<()>();
            let readers = reading.start(scope, working);
            watch.until(&done, &self.clock, show);
            read::join(readers)
        })?;
        let grown = watch.end();
        let measured = reading.measured();
        let expected = sent.acknowledged() * u64::from(self.target.workload.subscriptions);
        let is_stopped = self.target.stop.load(Ordering::Relaxed);
        ensure!(
            is_stopped || measured.counts.records >= expected,
            "{} of {expected} records were read",
            measured.counts.records
        );
        drop(readers);
        let verdict = self.read_back(&sent)?;
        Ok(self.outcome((None, Some(flow(measured, began))), sent, watch.seconds, grown, verdict))
    }

    /// Reads all that was written, unmeasured, and checks it.
    fn read_back(&self, sent: &send::Sent) -> Result<Verdict> {
        let ends = self.topics.ends(&self.clients, sent.acknowledged())?;
        let reading = Reading::of_all(self)?;
        reading.end_at(ends);
        let readers: Readers = thread::scope(|scope| {
            let (working, _done) = mpsc::channel::<()>();
            read::join(reading.start(scope, working))
        })?;
        readers.verdict(sent)
    }

    fn outcome(
        &self,
        (written, read): (Option<Flow>, Option<Flow>),
        sent: send::Sent,
        seconds: Vec<Second>,
        (grown, fault): (Option<Grown>, Option<String>),
        verdict: Verdict,
    ) -> Outcome {
        let mut notes = self.clients.notes();
        notes.extend(fault);
        let failed = sent.failed();
        Outcome {
            written,
            read,
            send_call: sent.call,
            punctuality: sent.punctuality,
            seconds,
            verdict,
            subscriptions: self.target.workload.subscriptions,
            failed,
            first_failure: sent.first_failure,
            close: sent.close,
            grown,
            stamp: Stamp::default(),
            settings: self.clients.properties(),
            notes,
        }
    }
}

fn flow(measured: Measured, from: Duration) -> Flow {
    // Less than a millisecond is no time to have a rate.
    let seconds = measured.last.saturating_sub(from).as_secs_f64().max(0.001);
    Flow { measured, seconds }
}

/// Looks at the meters every second.
struct Watch<'a> {
    timing: Timing,
    sources: Sources<'a>,
    used: Used,
    scraped: Scraped<'a>,
    of_senders: Vec<Arc<Meter>>,
    of_readers: Vec<Arc<Meter>>,
    last: Duration,
    seconds: Vec<Second>,
}

impl<'a> Watch<'a> {
    fn new(run: &Run<'a>, timing: Timing, of_senders: Vec<Arc<Meter>>, of_readers: Vec<Arc<Meter>>) -> Self {
        let sources = run.target.sources;
        let (used, scraped) = (Used::now(sources), Scraped::of(sources.metrics));
        let last = timing.started;
        let mut watch =
            Self { timing, sources, used, scraped, of_senders, of_readers, last, seconds: Vec::new() };
        watch.scrape_if_steady();
        watch
    }

    fn scrape_if_steady(&mut self) {
        if self.last >= self.timing.steady_from {
            self.scraped.begin();
        }
    }

    /// What the brokers counted from the first look in the steady state until now, and what could not be read.
    fn end(&mut self) -> (Option<Grown>, Option<String>) {
        std::mem::take(&mut self.scraped).end()
    }

    /// Looks until nobody holds the other end of `working` any more: nothing is sent there.
    fn until(&mut self, working: &mpsc::Receiver<()>, clock: &Clock, show: &mut dyn FnMut(&Second)) {
        loop {
            let left = (self.last + WINDOW).saturating_sub(clock.now());
            let is_done = !matches!(working.recv_timeout(left), Err(RecvTimeoutError::Timeout));
            if is_done {
                return;
            }
            self.look(clock.now(), show);
        }
    }

    /// Looks if a second has gone by.
    fn look_if_due(&mut self, now: Duration, show: &mut dyn FnMut(&Second)) {
        if now >= self.last + WINDOW {
            self.look(now, show);
        }
    }

    fn look(&mut self, now: Duration, show: &mut dyn FnMut(&Second)) {
        let sum = |meters: &[Arc<Meter>]| {
            let mut sum = Measured::default();
            meters.iter().for_each(|meter| meter.lock().take_window(&mut sum));
            sum
        };
        let (written, read) = (sum(&self.of_senders), sum(&self.of_readers));
        let used = Used::now(self.sources);
        let after_start = |time: Duration| time.saturating_sub(self.timing.started).as_secs_f64();
        let second = Second {
            from: after_start(self.last),
            to: after_start(now),
            is_warmup: self.last < self.timing.steady_from,
            written: written.counts,
            read: read.counts,
            response_ns: Quantiles::of(&written.response),
            end_to_end_ns: Quantiles::of(&read.response),
            used: used.since(&self.used),
        };
        self.used = used;
        show(&second);
        self.seconds.push(second);
        self.last = now;
        self.scrape_if_steady();
    }
}
