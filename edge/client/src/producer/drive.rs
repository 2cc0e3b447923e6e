//! The producer's thread: performs what the machine decides, and tells it what happened.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;

use base::Effects;
use client_core::producer::{DeliveryError, Effect, Work, Written};
use records::Scratch;
use tokio::sync::mpsc;

use super::delivery::{DeliveryReport, Fate, Reported};
use super::{Shared, State};
use crate::wires::{Event, Spare, Wires};

/// What happened beside the connections.
enum Happened {
    Net(Event),
    Compressed(Work, Vec<u8>),
}

/// Runs until the last producer is gone.
pub(super) async fn run(shared: Arc<Shared>) {
    let (compressed_out, mut compressed) = mpsc::unbounded_channel();
    let mut wires = Wires::new(Spare::default());
    let mut effects = Effects::new();
    let mut happened = None;
    loop {
        let (deadline, is_stopping, woken) = step(&shared, happened.take(), &mut effects);
        woken.into_iter().for_each(Waker::wake);
        for effect in effects.drain() {
            match effect {
                Effect::Net(effect) => wires.perform(effect),
                Effect::Compress(work) => compress(&shared, work, compressed_out.clone()),
                Effect::Done { .. } | Effect::TryAgain => unreachable!("done under the lock"),
            }
        }
        if is_stopping {
            return;
        }
        let until = deadline.map(|deadline| shared.clock.instant(deadline));
        let sleep = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = wires.next() => happened = Some(Happened::Net(event)),
            Some((work, spare)) = compressed.recv() => happened = Some(Happened::Compressed(work, spare)),
            // Whoever wakes this thread without end must not keep it from its connections.
            () = shared.wake.notified() => tokio::task::yield_now().await,
            () = sleep => {}
        }
    }
}

/// A batch that is done.
struct Settled {
    fate: Arc<Fate>,
    reported: Vec<Reported>,
    records: usize,
    outcome: Result<Written, DeliveryError>,
}

type Step = (Option<std::time::Duration>, bool, Vec<Waker>);

/// Tells the machine what happened and takes over what it decides. Who waits is woken by the caller,
/// outside the lock.
fn step(shared: &Shared, happened: Option<Happened>, out: &mut Effects<Effect>) -> Step {
    shared.clock.set();
    let now = shared.clock.now();
    let mut state = shared.state.lock();
    let State { core, effects, .. } = &mut *state;
    match happened {
        None => core.step(now, effects),
        Some(Happened::Net(Event::Connected(connection))) => core.on_connected(connection, now, effects),
        Some(Happened::Net(Event::Closed(connection))) => core.on_closed(connection, now, effects),
        Some(Happened::Net(Event::Frame(connection, frame))) => {
            core.on_frame(connection, &frame, now, effects);
        }
        Some(Happened::Net(Event::Written(connection))) => core.on_written(connection, now, effects),
        Some(Happened::Compressed(work, spare)) => core.on_compressed(work, spare, now, effects),
    }
    let mut woken = Vec::new();
    let mut settled = Vec::new();
    let mut decided = std::mem::take(&mut state.effects);
    for effect in decided.drain() {
        match effect {
            Effect::Done { batch, records, outcome } => {
                let slot = batch.slot as usize;
                let fate = state.fates[slot].take().expect("a batch with records has a fate");
                let reported = std::mem::take(&mut state.reported[slot]);
                state.settling.push(fate.clone());
                settled.push(Settled { fate, reported, records, outcome });
            }
            Effect::TryAgain => woken.extend(state.waiting.drain(..).map(|(_, waker)| waker)),
            other => out.push(other),
        }
    }
    state.effects = decided;
    let is_stopping = state.is_stopping;
    state.waiting.retain(|(until, waker)| {
        let is_over = is_stopping || *until <= now.elapsed;
        if is_over {
            woken.push(waker.clone());
        }
        !is_over
    });
    let first = state.waiting.iter().map(|&(until, _)| until).min();
    let deadline = [first, state.core.deadline(now)].into_iter().flatten().min();
    drop(state);
    settle(shared, settled);
    (deadline, is_stopping, woken)
}

/// Tells everybody what became of batches, outside the lock.
fn settle(shared: &Shared, settled: Vec<Settled>) {
    if settled.is_empty() {
        return;
    }
    let mut spare = Vec::new();
    let mut panicked = None;
    for Settled { fate, mut reported, records, outcome } in settled {
        if let Some(on_delivery) = &shared.on_delivery {
            let (topic, partition, at) = (&*fate.topic, fate.partition, shared.clock.now().elapsed);
            let outcome = outcome.as_ref().map(|written| written.base_offset);
            let report = DeliveryReport { topic, partition, records: &reported, at, outcome };
            // All the others are to learn of their records first.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| on_delivery(&report))) {
                panicked = Some(panic);
            }
            reported.clear();
            spare.push(reported);
        }
        fate.settle(outcome, records);
    }
    {
        let mut state = shared.state.lock();
        state.reported_spare.append(&mut spare);
        state.settling.clear();
    }
    if let Some(panic) = panicked {
        resume_unwind(panic);
    }
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
            (fates, std::mem::take(&mut state.waiting))
        };
        for fate in fates {
            fate.settle(Err(DeliveryError::Closed { may_be_written: true }), 0);
        }
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// Compresses a batch on a thread that nobody waits for.
fn compress(shared: &Arc<Shared>, work: Work, done: mpsc::UnboundedSender<(Work, Vec<u8>)>) {
    let (to, level) = shared.compression;
    tokio::task::spawn_blocking(move || {
        thread_local! {
            static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
        }
        let (work, spare) = SCRATCH.with_borrow_mut(|scratch| work.compress(to, level, scratch));
        // The producer is gone: nobody wants the batch.
        let _ = done.send((work, spare));
    });
}
