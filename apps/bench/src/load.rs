//! One run of a workload on a cluster: topics made, records sent and read, all of them checked.
//!
//! ```text
//!   together   senders ─────────▶ cluster ─────────▶ readers, who check        then the rest is read and checked
//!   stored     senders ─▶ cluster, not measured;     then readers, measured;   then all is read and checked
//!   in turn    send, wait until it is read, send the next
//! ```
//!
//! Every sender and every reader is a client of `edge/client` with connections of its own. Times are those of
//! one clock, which all clients of a process share. `part` is what one of several machines does of it.

mod clients; // whom with
mod clock;
mod in_turn;
mod part;
mod read;
mod seconds;
mod send;
pub(crate) mod tag;
mod timing;
mod topics;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use client::Admin;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::driver::Driver;
use crate::histogram::Quantiles;
use crate::meter::{Counts, Flow, Measured, Meter};
use crate::metrics::{Grown, Scraped};
use crate::resources::{Sources, Used};
use crate::schedule::{Punctuality, wait_until};
use crate::stamp::Stamp;
use crate::verify::Verdict;
use crate::workload::Workload;

use clients::Clients;
use read::Reading;
use seconds::Watch;
use send::Sending;
use timing::Timing;
use topics::Topics;

pub use seconds::{Show, Window};

pub(crate) use clock::{Clock, Shift};
pub(crate) use part::{Done, Job, Phase, Progress, Share, Start, Told};
pub(crate) use read::Readers;
pub(crate) use seconds::Watched;
pub(crate) use send::Sent;
pub(crate) use timing::steady_from;
pub(crate) use topics::Ends;

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
    /// For so long what is stored is read again and again; the last time counts.
    pub read_for: Duration,
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
    /// What was left behind the last whole one.
    pub rest: Option<Second>,
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
    /// What befell this run, and may not befall another.
    pub befell: Vec<String>,
    /// The clocks of the machines that did it, if there were others than this.
    pub clocks: Vec<WorkerClock>,
    /// What a record takes in a log on average, one copy of it, where records are compressed and the cluster says
    /// how large its logs are.
    pub log_bytes_per_record: Option<f64>,
}

/// What is known of another machine's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerClock {
    /// Whose it is.
    pub worker: String,
    /// Its time less ours before the run, in nanoseconds.
    pub offset_ns: i64,
    /// How much it grew against ours from before the run to behind it, in nanoseconds.
    pub drift_ns: i64,
    /// By how much what is made of its times may be wrong at most: half the shortest way there and back, and
    /// the drift.
    pub error_ns: u64,
}

/// One second of a run, of all senders and readers together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    /// From when a record left the client to its acknowledgement.
    #[serde(default)]
    pub wire_ns: Option<Quantiles>,
    /// From when a record was due until the client took it, where records are sent at set times.
    #[serde(default)]
    pub delay_ns: Option<Quantiles>,
    /// From when a record was due until it was read.
    pub end_to_end_ns: Option<Quantiles>,
    /// What it took.
    pub used: Used,
}

/// Runs a workload once. `show` is told of each second when it is over.
pub fn run(target: Target<'_>, show: &mut Show<'_>) -> Result<Outcome> {
    Stage::open(target, Share::ALL)?.close(|stage| {
        let run = stage.run();
        match target.workload {
            Workload { one_at_a_time: true, .. } => in_turn::run(&run, show),
            Workload { stored: true, .. } => run.stored(show),
            _ => run.together(show),
        }
    })
}

/// Where a run takes place: its topics, and the clients that reach them.
pub(crate) struct Stage<'a> {
    target: Target<'a>,
    share: Share,
    shift: Shift,
    topics: Topics,
    id: u64,
    clients: Clients<'a>,
    clock: Clock,
}

impl<'a> Stage<'a> {
    /// Makes the topics of a new run, once the disk is done with those before.
    pub(crate) fn open(target: Target<'a>, share: Share) -> Result<Self> {
        target.sources.await_gone(topics::NAMED, target.stop)?;
        let admin = admin(target.servers)?;
        let id = run_id();
        let topics = Topics::create(&admin, target.driver, target.workload, id)?;
        Ok(Self::of(target, share, topics, id))
    }

    fn of(target: Target<'a>, share: Share, topics: Topics, id: u64) -> Self {
        let (clients, clock, shift) = (Clients::new(target), Clock::start(), Shift::default());
        Self { target, share, shift, topics, id, clients, clock }
    }

    /// Does what is to be done there, and deletes the topics. What the cluster promises is asked before.
    pub(crate) fn close(self, act: impl FnOnce(&Self) -> Result<Outcome>) -> Result<Outcome> {
        let (stamp, unknown) = self.stamp();
        let done = act(&self);
        let log_bytes_per_record = self.topics.log_bytes_per_record(&self.clients);
        // A topic that stays is in nobody's way as much as an error that hides another.
        let deleted = admin(self.target.servers).and_then(|admin| self.topics.delete(&admin));
        let mut outcome = done?;
        deleted?;
        outcome.stamp = stamp;
        outcome.log_bytes_per_record = log_bytes_per_record;
        outcome.befell.extend(unknown);
        Ok(outcome)
    }

    /// What the cluster promises, and what it does not say.
    fn stamp(&self) -> (Stamp, Option<String>) {
        // The settings of a driver or a workload may say something else than its own word for it.
        let settled = self.clients.properties().into_iter().find(|(name, _)| *name == "acks");
        let mut stamp = Stamp {
            acks: settled.map_or_else(|| self.target.workload.acks.clone(), |(_, acks)| acks),
            replication_factor: self.target.replicas(),
            client_settings: self.clients.changed(),
            ..Stamp::default()
        };
        let unknown = match admin(self.target.servers) {
            Ok(admin) => self.topics.names().first().and_then(|topic| stamp.ask(&admin, topic)),
            Err(error) => Some(format!("the cluster is not asked for its settings: {error:#}")),
        };
        (stamp, unknown)
    }

    fn run(&self) -> Run<'_> {
        let Self { target, share, shift, topics, id, clients, clock } = self;
        Run { target: *target, share: *share, shift: *shift, topics, id: *id, clients, clock: *clock }
    }

    /// What another machine does of it.
    pub(crate) fn job(&self, share: Share, phase: Phase) -> Job {
        let Target { servers, driver, workload, .. } = self.target;
        Job {
            run: self.id,
            servers: servers.to_owned(),
            driver: driver.clone(),
            workload: workload.clone(),
            topics: self.topics.names().to_vec(),
            share,
            phase,
        }
    }

    /// Where everything ends.
    pub(crate) fn ends(&self, sent: &Sent) -> Result<Ends> {
        self.topics.ends(&self.clients, sent.acknowledged())
    }

    /// Reads all that was written, unmeasured, and checks it.
    pub(crate) fn read_back(&self, sent: &Sent) -> Result<Verdict> {
        self.run().read_back(sent)
    }

    /// What came of it, from what all that took part counted; times are those of the clock by which it began.
    pub(crate) fn outcome(
        &self,
        began: Duration,
        (written, read): (Option<Measured>, Option<Measured>),
        sent: Sent,
        watched: Watched,
        verdict: Verdict,
    ) -> Outcome {
        let flow = |measured| Flow::from(measured, began);
        self.run().outcome((written.map(flow), read.map(flow)), sent, watched, verdict)
    }
}

impl Target<'_> {
    /// Of each partition.
    pub fn replicas(&self) -> u16 {
        self.driver.replication_factor.unwrap_or(self.workload.replication_factor)
    }
}

fn admin(servers: &str) -> Result<Admin> {
    Ok(Admin::builder(servers).timeout(Duration::from_secs(60)).build()?)
}

/// A number that no other run has.
fn run_id() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Chance::new(now.as_nanos() as u64, std::process::id().into()).draw()
}

/// A run with what all of it needs.
struct Run<'a> {
    target: Target<'a>,
    share: Share,
    shift: Shift,
    topics: &'a Topics,
    id: u64,
    clients: &'a Clients<'a>,
    clock: Clock,
}

/// What came of senders, and of readers beside them.
struct Both {
    sent: Sent,
    readers: Readers,
    written: Measured,
    read: Measured,
    watched: Watched,
}

/// Most senders and readers are ready by then: making them is no part of what is measured.
const READY: Duration = Duration::from_millis(300);

impl<'a> Run<'a> {
    /// When it is to start, and what the brokers had counted before, if it is measured from its start.
    fn timing(&self) -> (Timing, Scraped<'a>) {
        let scraped = self.counters(self.target.workload.warmup_seconds == 0.0);
        (Timing::of(self.target.workload, self.clock.soon(READY)), scraped)
    }

    /// What the brokers count. To look at their pages takes a while.
    fn counters(&self, looks: bool) -> Scraped<'a> {
        let mut scraped = Scraped::of(self.target.sources.metrics);
        if looks {
            scraped.begin();
        }
        scraped
    }

    /// Looks from the start on: what is used until then is not of the run.
    fn watch(
        &self,
        (timing, scraped): (Timing, Scraped<'a>),
        meters: (Vec<Arc<Meter>>, Vec<Arc<Meter>>),
    ) -> Watch<'a> {
        wait_until(timing.started, || self.clock.now());
        Watch::new(self, (timing, scraped), meters)
    }

    /// Senders, and readers beside them if there are any.
    fn together(&self, show: &mut Show<'_>) -> Result<Outcome> {
        let (timing, scraped) = self.timing();
        let both = self.both((timing, scraped), show, &mut |sent, _, _| self.ends(sent))?;
        let Both { sent, readers, written, read, watched } = both;
        let is_read = self.target.workload.consumers > 0;
        let verdict =
            if is_read { readers.verdict(&sent, self.target.workload)? } else { self.read_back(&sent)? };
        let written = Flow::from(written, timing.steady_from);
        let read = is_read.then(|| Flow::from(read, timing.steady_from));
        Ok(self.outcome((Some(written), read), sent, watched, verdict))
    }

    /// Those that are this machine's. Whoever knows where everything ends is asked once all is sent, and may
    /// watch meanwhile.
    fn both(
        &self,
        (timing, scraped): (Timing, Scraped<'a>),
        show: &mut Show<'_>,
        find_ends: &mut dyn FnMut(&Sent, &mut Watch<'_>, &mut Show<'_>) -> Result<Ends>,
    ) -> Result<Both> {
        let sending = Sending::prepare(self, timing)?;
        let reading = Reading::prepare(self, (timing.started, timing.steady_from), true)?;
        let (mut watch, sent, readers) = thread::scope(|scope| {
            let (sender, senders_done) = mpsc::channel::<()>();
            let (reader, readers_done) = mpsc::channel::<()>();
            let readers = reading.start(scope, reader);
            let senders = sending.start(scope, sender);
            let mut watch = self.watch((timing, scraped), (sending.meters(), reading.meters()));
            watch.until(&senders_done, &self.clock, show);
            let sent = send::join(senders, self.target.workload);
            let ends = match &sent {
                Ok(sent) => find_ends(sent, &mut watch, show),
                Err(_) => Ok(Ends::new()),
            };
            // Readers are told in any case, or they would wait for ever.
            reading.end_at(ends.as_ref().cloned().unwrap_or_default());
            watch.until(&readers_done, &self.clock, show);
            let readers = reading.join(readers);
            ends.and(Ok((watch, sent?, readers?)))
        })?;
        watch.rest(self.clock.now(), show);
        let watched = watch.end();
        let (written, read) = (sending.measured(), reading.measured());
        Ok(Both { sent, readers, written, read, watched })
    }

    /// All is written, and then readers are measured.
    fn stored(&self, show: &mut Show<'_>) -> Result<Outcome> {
        let sent = self.fill(self.clock.now())?;
        self.target.sources.settle(self.target.stop)?;
        let ends = self.ends(&sent)?;
        let until = self.clock.now() + self.target.read_for;
        loop {
            let (flow, watched) = self.read_stored(&sent, ends.clone(), show)?;
            if self.clock.now() >= until {
                let verdict = self.read_back(&sent)?;
                return Ok(self.outcome((None, Some(flow)), sent, watched, verdict));
            }
        }
    }

    /// Reads all that is stored once, and measures that.
    fn read_stored(&self, sent: &Sent, ends: Ends, show: &mut Show<'_>) -> Result<(Flow, Watched)> {
        // Whatever is read counts: how long it takes to make consumers does not.
        let reading = Reading::prepare(self, (Duration::ZERO, Duration::ZERO), false)?;
        let scraped = self.counters(true);
        let began = self.clock.soon(READY);
        let (readers, watched) = self.drain(&reading, ends, (began, scraped), show)?;
        readers.must_be_all(sent, self.target.stop)?;
        Ok((Flow::from(reading.measured(), began), watched))
    }

    /// Writes all, unmeasured.
    fn fill(&self, started: Duration) -> Result<Sent> {
        let records = self.target.workload.records;
        let timing = Timing { started, steady_from: started, until: None, records };
        let sending = Sending::prepare(self, timing)?;
        thread::scope(|scope| {
            let (working, _done) = mpsc::channel::<()>();
            send::join(sending.start(scope, working), self.target.workload)
        })
    }

    /// Reads all, and measures that; what readers counted.
    fn drain(
        &self,
        reading: &Reading<'_>,
        ends: Ends,
        (began, scraped): (Duration, Scraped<'a>),
        show: &mut Show<'_>,
    ) -> Result<(Readers, Watched)> {
        let records = self.target.workload.records;
        let timing = Timing { started: began, steady_from: began, until: None, records };
        reading.end_at(ends);
        let mut watch = self.watch((timing, scraped), (Vec::new(), reading.meters()));
        let readers = thread::scope(|scope| {
            let (working, done) = mpsc::channel::<()>();
            let readers = reading.start(scope, working);
            watch.until(&done, &self.clock, show);
            reading.join(readers)
        })?;
        watch.rest(self.clock.now(), show);
        Ok((readers, watch.end()))
    }

    fn ends(&self, sent: &Sent) -> Result<Ends> {
        self.topics.ends(self.clients, sent.acknowledged())
    }

    /// Reads all that was written, unmeasured, and checks it.
    fn read_back(&self, sent: &Sent) -> Result<Verdict> {
        let reading = Reading::of_all(self)?;
        reading.end_at(self.ends(sent)?);
        let readers: Readers = thread::scope(|scope| {
            let (working, _done) = mpsc::channel::<()>();
            reading.join(reading.start(scope, working))
        })?;
        readers.verdict(sent, self.target.workload)
    }

    fn outcome(
        &self,
        (written, read): (Option<Flow>, Option<Flow>),
        sent: Sent,
        watched: Watched,
        verdict: Verdict,
    ) -> Outcome {
        let Watched { seconds, rest, grown, fault } = watched;
        let failed = sent.failed();
        let ended = sent.ended(self.target.workload);
        Outcome {
            written,
            read,
            send_call: sent.call,
            punctuality: sent.punctuality,
            seconds,
            rest,
            verdict,
            subscriptions: self.target.workload.subscriptions,
            failed,
            first_failure: sent.first_failure,
            close: sent.close,
            grown,
            stamp: Stamp::default(),
            settings: self.clients.properties(),
            notes: self.clients.notes(),
            befell: fault.into_iter().chain(ended).collect(),
            clocks: Vec::new(),
            log_bytes_per_record: None,
        }
    }
}
