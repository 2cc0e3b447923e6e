//! The producer's machine, as the driver drives it: what it decides, and who is told.

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use client_core::producer::{DeliveryError, Effect, Work, Written};
use parking_lot::Mutex;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use records::Scratch;

use super::delivery::{DeliveryReport, Fate, Reported};
use super::{Shared, State};
use crate::clock::Clock;
use crate::driver::{By, Machine};
use crate::wires::{Event, Wires};

/// A batch that is done, or a part of it.
pub(super) struct Settled {
    fate: Arc<Fate>,
    reported: Vec<Reported>,
    /// Which of the batch.
    records: Range<usize>,
    is_last: bool,
    left_at: Option<Duration>,
    outcome: Result<Written, DeliveryError>,
}

/// Who is to learn what.
#[derive(Default)]
pub(super) struct Told {
    settled: Vec<Settled>,
    woken: Vec<Waker>,
}

/// What happened beside the connections.
enum Happened {
    Nothing,
    Net(Event),
    Compressed(Work, Vec<u8>),
}

impl Machine for Shared {
    type Told = Told;

    fn step(&self, happened: Option<Event>, wires: &mut Wires, told: &mut Told) -> Option<Duration> {
        if happened.is_none() {
            let compressed = std::mem::take(&mut *self.compressed.lock());
            for (work, spare) in compressed {
                self.step_once(Happened::Compressed(work, spare), wires, told);
            }
        }
        self.step_once(happened.map_or(Happened::Nothing, Happened::Net), wires, told)
    }

    fn tell(&self, told: Told, by: By) {
        told.woken.into_iter().for_each(Waker::wake);
        self.settle(told.settled);
        if self.on_delivery.is_none() {
            return;
        }
        match by {
            By::Itself => {
                let unreported = std::mem::take(&mut self.state.lock().unreported);
                self.settle(unreported);
            }
            // Reports run on the producer's own thread.
            By::Caller if !self.state.lock().unreported.is_empty() => self.driver.ring(),
            By::Caller => {}
        }
    }

    fn is_stopping(&self) -> bool {
        self.state.lock().is_stopping
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Shared {
    /// Tells the core what happened and performs what it decides.
    fn step_once(&self, happened: Happened, wires: &mut Wires, told: &mut Told) -> Option<Duration> {
        self.clock.set();
        let now = self.clock.now();
        let mut state = self.state.lock();
        let State { core, effects, .. } = &mut *state;
        match happened {
            Happened::Nothing => core.step(now, effects),
            Happened::Net(Event::Connected(connection)) => core.on_connected(connection, now, effects),
            Happened::Net(Event::Closed(connection, why)) => {
                core.on_trouble(connection, &why, now);
                core.on_closed(connection, now, effects);
            }
            Happened::Net(Event::Frame(connection, frame)) => {
                core.on_frame(connection, &frame, now, effects);
            }
            Happened::Net(Event::Written(connection)) => core.on_written(connection, now, effects),
            Happened::Compressed(work, spare) => core.on_compressed(work, spare, now, effects),
        }
        let mut decided = std::mem::take(&mut state.effects);
        let mut net = Vec::new();
        for effect in decided.drain() {
            match effect {
                Effect::Done { batch, first, records, is_last, left_at, outcome } => {
                    let records = first..first + records;
                    let (fate, reported) = state.take_done(batch.slot as usize, records.clone(), is_last);
                    let settled = Settled { fate, reported, records, is_last, left_at, outcome };
                    match self.on_delivery {
                        Some(_) => state.unreported.push(settled),
                        None => told.settled.push(settled),
                    }
                }
                Effect::TryAgain => state.waiting.try_again(&mut told.woken),
                Effect::Compress(work) => self.compress(work),
                Effect::Net(effect) => net.push(effect),
            }
        }
        state.effects = decided;
        match state.is_stopping {
            true => state.waiting.end(&mut told.woken),
            false => state.waiting.expire(now.elapsed, &mut told.woken),
        }
        let deadline = [state.waiting.deadline(), state.core.deadline(now)].into_iter().flatten().min();
        drop(state);
        // Writing takes its time, in which records go on coming.
        net.into_iter().for_each(|effect| wires.perform(effect));
        deadline
    }

    /// Tells everybody what became of batches.
    fn settle(&self, settled: Vec<Settled>) {
        if settled.is_empty() {
            return;
        }
        let mut spare = Vec::new();
        let mut panicked = None;
        let mut done = Vec::with_capacity(settled.len());
        for Settled { fate, mut reported, records, is_last, left_at, outcome } in settled {
            if let Some(on_delivery) = &self.on_delivery {
                let (topic, partition, at) = (&*fate.topic, fate.partition, self.clock.now().elapsed);
                let outcome = outcome.as_ref().map(|written| written.base_offset);
                let report = DeliveryReport { topic, partition, records: &reported, left_at, at, outcome };
                // All the others are to learn of their records first.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| on_delivery(&report))) {
                    panicked = Some(panic);
                }
                // One for each batch, in however many parts it went.
                if is_last {
                    reported.clear();
                    spare.push(reported);
                }
            }
            fate.settle(records, outcome, is_last);
            if is_last {
                done.push(fate);
            }
        }
        {
            let mut state = self.state.lock();
            state.reported_spare.append(&mut spare);
            state.settling.retain(|settling| !done.iter().any(|done| Arc::ptr_eq(done, settling)));
        }
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    /// Compresses a batch on a thread that nobody waits for.
    fn compress(&self, work: Work) {
        let (to, level) = self.compression;
        let shared = self.itself.clone();
        let compressors = self.compressors.expect("there are some where something is to be compressed");
        compressors.spawn(move || {
            thread_local! {
                static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
            }
            let done = SCRATCH.with_borrow_mut(|scratch| work.compress(to, level, scratch));
            // The producer may be gone: nobody wants the batch.
            if let Some(shared) = shared.upgrade() {
                shared.compressed.lock().push(done);
                shared.driver.ring();
            }
        });
    }
}

impl State {
    /// Whom to tell about records of a batch, and what to report of them.
    fn take_done(&mut self, slot: usize, done: Range<usize>, is_last: bool) -> (Arc<Fate>, Vec<Reported>) {
        let reported = &mut self.reported[slot];
        let reported = match is_last && (reported.is_empty() || reported.len() == done.len()) {
            true => std::mem::take(reported),
            // Of a part: the others are still to be reported.
            false => reported.get(done).unwrap_or_default().to_vec(),
        };
        if !is_last {
            return (self.fates[slot].clone().expect("a batch with records has a fate"), reported);
        }
        let fate = self.fates[slot].take().expect("a batch with records has a fate");
        self.settling.push(fate.clone());
        (fate, reported)
    }
}

/// The threads that compress, for all producers of the process: not rayon's own, where those who wait for
/// a producer may be the ones that it waits for.
pub(super) fn compressors() -> io::Result<&'static ThreadPool> {
    static POOL: Mutex<Option<&'static ThreadPool>> = Mutex::new(None);
    let mut pool = POOL.lock();
    if let Some(pool) = *pool {
        return Ok(pool);
    }
    let named = ThreadPoolBuilder::new().thread_name(|number| format!("compress {number}"));
    // It lives as long as the process, as its threads would anyway.
    let made: &'static ThreadPool = Box::leak(Box::new(named.build().map_err(io::Error::other)?));
    *pool = Some(made);
    Ok(made)
}

/// The end of the thread, whatever it was: nobody is left waiting.
pub(super) struct End(pub(super) Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        let (fates, waiting) = {
            let mut state = self.0.state.lock();
            state.core.close();
            state.is_stopping = true;
            let settling = std::mem::take(&mut state.settling);
            let fates: Vec<_> = state.fates.iter_mut().filter_map(Option::take).chain(settling).collect();
            let mut waiting = Vec::new();
            state.waiting.end(&mut waiting);
            (fates, waiting)
        };
        for fate in fates {
            fate.settle_rest(DeliveryError::Closed { may_be_written: true });
        }
        waiting.into_iter().for_each(Waker::wake);
        // A caller may sit in the seat.
        self.0.driver.ring();
    }
}
