//! The coordinator's side: it has its workers do a run together, and puts together what came of it.

use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use super::Token;
use super::brokers::Brokers;
use super::clock::{Exchange, Offset, worst_pair};
use super::frame::{self, BEAT, MESSAGE_BYTES_MAX, SILENCE_MAX, is_silence};
use super::merge::{Gathering, Merged};
use super::message::{Answer, FORM, Order};
use crate::histogram::in_words;
use crate::load::{
    Clock, Outcome, Phase, Second, Share, Shift, Show, Stage, Target, WorkerClock, steady_from,
};
use crate::schedule::wait_until;

/// Workers that are connected.
pub struct Fleet {
    links: Vec<Link>,
    heard: Mutex<Receiver<(usize, Heard)>>,
    clock: Clock,
    /// Dropped, nobody is told any more that this one lives.
    _living: Sender<()>,
}

struct Link {
    /// As it was named.
    name: String,
    /// What it says that it runs on.
    machine: Value,
    stream: Arc<Mutex<TcpStream>>,
    /// Nothing comes from it any more.
    is_lost: AtomicBool,
}

enum Heard {
    Said(Answer, Duration),
    Gone(String),
}

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Questions before a run, and behind it.
const EXCHANGES: u32 = 64;
/// A worker that is asked says something by then.
const READY_MAX: Duration = Duration::from_secs(90);
/// From when all are ready until they begin: for the word to arrive everywhere, and for clients to be made.
const LEAD: Duration = Duration::from_secs(1);
/// From one look at whether it was interrupted to the next.
const LOOK: Duration = Duration::from_millis(200);
/// Messages that wait here; whoever sends more waits.
const HEARD_MAX: usize = 16;

impl Fleet {
    /// Connects to workers at `host:port`, each.
    pub fn connect(addresses: &[String], token: &Token) -> Result<Self> {
        ensure!(!addresses.is_empty(), "there is no worker");
        let (say, heard) = mpsc::sync_channel(HEARD_MAX);
        let clock = Clock::start();
        let mut links: Vec<Link> = Vec::new();
        for name in addresses {
            ensure!(links.iter().all(|link| link.name != *name), "worker {name} is there twice");
            let (stream, machine) = connect(name, token).with_context(|| format!("worker {name}"))?;
            let mut from = stream.try_clone()?;
            let (say, at) = (say.clone(), links.len());
            thread::spawn(move || listen(&mut from, at, clock, &say));
            let (name, stream) = (name.clone(), Arc::new(Mutex::new(stream)));
            links.push(Link { name, machine, stream, is_lost: AtomicBool::new(false) });
        }
        let (living, gone) = mpsc::channel::<()>();
        let streams: Vec<_> = links.iter().map(|link| link.stream.clone()).collect();
        thread::spawn(move || {
            while gone.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                // Who does not hear it is missed by whoever listens to it.
                streams.iter().for_each(|stream| drop(say_to(stream, &Order::Alive)));
            }
        });
        Ok(Self { links, heard: Mutex::new(heard), clock, _living: living })
    }

    /// How many there are.
    pub const fn workers(&self) -> usize {
        self.links.len()
    }

    /// What each says that it runs on, by its name.
    pub fn machines(&self) -> Map<String, Value> {
        self.links.iter().map(|link| (link.name.clone(), link.machine.clone())).collect()
    }

    /// Has them run a workload once, together.
    pub fn run(&self, target: Target<'_>, show: &mut Show<'_>) -> Result<Outcome> {
        ensure!(
            !target.workload.one_at_a_time,
            "one_at_a_time: one thread sends and reads, so several machines have nothing to share: run it on one"
        );
        Stage::open(target, Share::ALL)?.close(|stage| {
            let done = self.run_on(stage, target, show);
            if done.is_err() && !target.stop.load(Ordering::Relaxed) {
                self.abandon();
            }
            done
        })
    }

    fn run_on(&self, stage: &Stage<'_>, target: Target<'_>, show: &mut Show<'_>) -> Result<Outcome> {
        let before = self.offsets()?;
        if target.workload.stored {
            let (filled, _) = self.phase(stage, target, Phase::Fill, &before, &mut |_| {})?;
            target.sources.settle(target.stop)?;
            let ends = stage.ends(&filled.sent)?;
            let until = Instant::now() + target.read_for;
            let (drained, began) = loop {
                let drain = Phase::Drain(ends.clone());
                let (drained, began) = self.phase(stage, target, drain, &before, show)?;
                drained.readers.must_be_all(&filled.sent, target.stop)?;
                if Instant::now() >= until {
                    break (drained, began);
                }
            };
            let clocks = self.clocks(&before)?;
            let verdict = stage.read_back(&filled.sent)?;
            let flows = (None, Some(drained.read));
            let outcome = stage.outcome(began, flows, filled.sent, drained.watched, verdict);
            return Ok(Outcome { clocks, ..outcome });
        }
        let (both, began) = self.phase(stage, target, Phase::Both, &before, show)?;
        let clocks = self.clocks(&before)?;
        let Merged { sent, readers, written, read, watched } = both;
        let is_read = target.workload.consumers > 0;
        let verdict =
            if is_read { readers.verdict(&sent, target.workload)? } else { stage.read_back(&sent)? };
        let from = steady_from(target.workload, began);
        let outcome = stage.outcome(from, (Some(written), is_read.then_some(read)), sent, watched, verdict);
        Ok(told_as_known(Outcome { clocks, ..outcome }))
    }

    /// Has them end what they do, so that the next run hears nothing of this one. Those to which this does not come are
    /// lost, and it fails on them.
    fn abandon(&self) {
        let is_told = |at: &usize| self.order(*at, &Order::Abandon).is_ok();
        let mut waited_for: Vec<usize> = (0..self.links.len()).filter(is_told).collect();
        let until = Instant::now() + READY_MAX;
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        while !waited_for.is_empty() {
            match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((_, Heard::Said(said, _))) if !matches!(said, Answer::Abandoned) => {}
                Ok((of, heard)) => {
                    let is_lost = matches!(heard, Heard::Gone(_));
                    self.links[of].is_lost.fetch_or(is_lost, Ordering::Relaxed);
                    waited_for.retain(|at| *at != of);
                }
                Err(_) => return,
            }
        }
    }

    /// Has them all do their shares of it; what came of that, and when it began by our clock.
    fn phase(
        &self,
        stage: &Stage<'_>,
        target: Target<'_>,
        phase: Phase,
        offsets: &[Offset],
        show: &mut Show<'_>,
    ) -> Result<(Merged, Duration)> {
        let among = u32::try_from(self.links.len())?;
        let job = |at: usize| stage.job(Share { of: at as u32, among }, phase.clone());
        self.order_all(|at| Order::Prepare(Box::new(job(at))))?;
        self.await_all_ready()?;
        // To look at their pages takes a while.
        let mut brokers = Brokers::new(target, &phase);
        let began = self.start_all(offsets)?;
        let gathering = Gathering::new(self.links.len(), job(0).run, target.workload);
        wait_until(began, || self.clock.now());
        brokers.begin();
        let merged = self.gather((gathering, brokers), stage, target, &phase, show)?;
        Ok((merged, began))
    }

    /// Has them all begin at one moment, by our clock; each is told it by its own.
    pub(super) fn start_all(&self, offsets: &[Offset]) -> Result<Duration> {
        let began = self.clock.soon(LEAD);
        self.order_all(|at| {
            let shift = Shift::of(offsets[at].nanos.saturating_neg());
            Order::Start { at: shift.here(began), shift_ns: shift.nanos() }
        })?;
        Ok(began)
    }

    pub(super) fn await_all_ready(&self) -> Result<()> {
        let mut waited_for: Vec<usize> = (0..self.links.len()).collect();
        let until = Instant::now() + READY_MAX;
        while let Some(first) = waited_for.first() {
            let Some((at, answer, _)) = self.hear(until.saturating_duration_since(Instant::now()))? else {
                bail!("worker {} is not ready after {READY_MAX:?}", self.links[*first].name)
            };
            ensure!(matches!(answer, Answer::Ready), "worker {} said something else", self.links[at].name);
            waited_for.retain(|waited_for| *waited_for != at);
        }
        Ok(())
    }

    fn gather(
        &self,
        (mut gathering, mut brokers): (Gathering, Brokers<'_>),
        stage: &Stage<'_>,
        target: Target<'_>,
        phase: &Phase,
        show: &mut Show<'_>,
    ) -> Result<Merged> {
        let mut is_stopped = false;
        loop {
            if target.stop.load(Ordering::Relaxed) && !is_stopped {
                is_stopped = true;
                self.order_all(|_| Order::Stop)?;
            }
            let Some((at, answer, _)) = self.hear(LOOK)? else { continue };
            let of_worker = || format!("worker {}", self.links[at].name);
            match answer {
                Answer::Second(tick) => {
                    for tick in gathering.on_tick(at, *tick).with_context(of_worker)? {
                        let tick = brokers.look(tick);
                        show(&tick.window());
                        gathering.keep(tick.second);
                    }
                }
                Answer::Sent(sent) => {
                    let are_all = gathering.on_sent(at, *sent).with_context(of_worker)?;
                    if are_all && *phase == Phase::Both {
                        let ends = stage.ends(gathering.sent())?;
                        self.order_all(|_| Order::End { ends: ends.clone() })?;
                    }
                }
                Answer::Seen { subscription, records, piece } => {
                    gathering.on_seen(subscription, records, *piece).with_context(of_worker)?;
                }
                Answer::Done { written, read } => {
                    if gathering.on_done(at, &written, &read).with_context(of_worker)? {
                        break;
                    }
                }
                Answer::Welcome { .. }
                | Answer::Refused { .. }
                | Answer::Pong { .. }
                | Answer::Alive
                | Answer::Ready
                | Answer::Abandoned
                | Answer::Failed { .. } => bail!("{} said something that nobody asked for", of_worker()),
            }
        }
        if let Some(rest) = gathering.take_rest() {
            let rest = brokers.look(rest);
            show(&rest.window());
            gathering.keep_rest(rest.second);
        }
        let mut merged = gathering.into_merged();
        brokers.end(&mut merged.watched);
        Ok(merged)
    }

    /// What is known of their clocks, each.
    pub(super) fn offsets(&self) -> Result<Vec<Offset>> {
        (0..self.links.len()).map(|at| self.offset(at)).collect()
    }

    fn offset(&self, at: usize) -> Result<Offset> {
        let mut exchanges = Vec::new();
        for number in 0..EXCHANGES {
            let asked = self.clock.now();
            self.order(at, &Order::Ping { number })?;
            match self.hear(SILENCE_MAX)? {
                Some((from, Answer::Pong { number: of, at: said }, heard)) if from == at && of == number => {
                    exchanges.push(Exchange { asked, said, heard });
                }
                _ => bail!("worker {} does not say what its clock says", self.links[at].name),
            }
        }
        Offset::estimate(&exchanges).context("it was asked")
    }

    /// Asks again, behind the run.
    fn clocks(&self, before: &[Offset]) -> Result<Vec<WorkerClock>> {
        let behind = self.offsets()?;
        let clock = |(link, (before, behind)): (&Link, (&Offset, Offset))| {
            let (drift_ns, error_ns) = before.until(behind);
            WorkerClock { worker: link.name.clone(), offset_ns: before.nanos, drift_ns, error_ns }
        };
        Ok(self.links.iter().zip(before.iter().zip(behind)).map(clock).collect())
    }

    /// What a worker says next, and when that was heard.
    fn hear(&self, timeout: Duration) -> Result<Option<(usize, Answer, Duration)>> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(timeout);
        match heard {
            Ok((at, Heard::Said(Answer::Failed { why }, _))) => {
                bail!("worker {}: {why}", self.links[at].name)
            }
            Ok((at, Heard::Said(answer, when))) => Ok(Some((at, answer, when))),
            Ok((at, Heard::Gone(why))) => {
                self.links[at].is_lost.store(true, Ordering::Relaxed);
                bail!("worker {} is lost: {why}", self.links[at].name)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("all workers are lost"),
        }
    }

    fn order(&self, at: usize, order: &Order) -> Result<()> {
        let Link { name, stream, is_lost, .. } = &self.links[at];
        ensure!(!is_lost.load(Ordering::Relaxed), "worker {name} is lost");
        say_to(stream, order).with_context(|| format!("worker {name} is lost"))
    }

    fn order_all(&self, order: impl Fn(usize) -> Order) -> Result<()> {
        (0..self.links.len()).try_for_each(|at| self.order(at, &order(at)))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for link in &self.links {
            let stream = link.stream.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever is gone needs not be told.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn say_to(stream: &Mutex<TcpStream>, order: &Order) -> Result<()> {
    frame::write(&mut *stream.lock().unwrap_or_else(PoisonError::into_inner), order)
}

/// A worker that listens to this one, and what it says that it runs on.
fn connect(name: &str, token: &Token) -> Result<(TcpStream, Value)> {
    let mut addresses = name.to_socket_addrs().context("its address is not known")?;
    let address = addresses.next().context("it has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_MAX).context("cannot connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let token = token.is_set().then(|| token.0.clone());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    frame::write(&mut stream, &Order::Hello { form: FORM, version, token })?;
    match frame::read(&mut stream, MESSAGE_BYTES_MAX).context("it does not answer as a worker does")? {
        Some(Answer::Welcome { machine, .. }) => Ok((stream, machine)),
        Some(Answer::Refused { why }) => bail!("it refuses: {why}"),
        _ => bail!("it does not answer as a worker does"),
    }
}

/// Hands over what a worker says, until it is gone or nobody listens any more.
fn listen(from: &mut TcpStream, at: usize, clock: Clock, say: &SyncSender<(usize, Heard)>) {
    loop {
        let heard = match frame::read(from, MESSAGE_BYTES_MAX) {
            Ok(Some(Answer::Alive)) => continue,
            Ok(Some(answer)) => Heard::Said(answer, clock.now()),
            Ok(None) => Heard::Gone("it closed the connection".to_owned()),
            Err(error) if is_silence(&error) => {
                Heard::Gone(format!("it said nothing for {} s", SILENCE_MAX.as_secs()))
            }
            Err(error) => Heard::Gone(format!("{error:#}")),
        };
        let is_last = matches!(heard, Heard::Gone(_));
        if say.send((at, heard)).is_err() || is_last {
            return;
        }
    }
}

/// Takes away what clocks are not known well enough for.
fn told_as_known(mut outcome: Outcome) -> Outcome {
    let error_ns = worst_pair(outcome.clocks.iter().map(|clock| clock.error_ns));
    let Some(read) = &mut outcome.read else { return outcome };
    let response = &mut read.measured.response;
    if response.is_empty() || error_ns <= response.value_at_quantile(0.5) {
        return outcome;
    }
    outcome.befell.push(format!(
        "the times until records were read are not told: their median is {}, and the clocks of the workers are \
         known to {}",
        in_words(response.value_at_quantile(0.5)),
        in_words(error_ns)
    ));
    response.reset();
    for Second { end_to_end_ns, .. } in &mut outcome.seconds {
        *end_to_end_ns = None;
    }
    outcome
}
