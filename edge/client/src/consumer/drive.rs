//! The consumer's thread: performs what the machine decides, and tells it what happened.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use base::Effects;
use client_core::consumer::Effect;

use super::{Arrived, Shared, State};
use crate::wires::{Event, Wires};

/// Runs until the consumer is gone.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut wires = Wires::new(shared.spare.clone());
    let mut effects = Effects::new();
    let mut happened = None;
    loop {
        let (deadline, is_stopping, reader) = step(&shared, happened.take(), &mut effects);
        reader.into_iter().for_each(Waker::wake);
        for effect in effects.drain() {
            match effect {
                Effect::Net(effect) => wires.perform(effect),
                Effect::Chunk(_) | Effect::Failed { .. } => unreachable!("handed out under the lock"),
            }
        }
        if is_stopping {
            return;
        }
        let sleep = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(shared.clock.instant(deadline)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = wires.next() => happened = Some(event),
            () = shared.wake.notified() => {}
            () = sleep => {}
        }
    }
}

/// Tells the machine what happened and takes over what it decides.
fn step(
    shared: &Shared,
    happened: Option<Event>,
    out: &mut Effects<Effect>,
) -> (Option<Duration>, bool, Option<Waker>) {
    let now = shared.clock.now();
    let mut state = shared.state.lock();
    let State { core, effects, .. } = &mut *state;
    match happened {
        None => core.step(now, effects),
        Some(Event::Connected(connection)) => core.on_connected(connection, now, effects),
        Some(Event::Closed(connection)) => core.on_closed(connection, now, effects),
        Some(Event::Frame(connection, frame)) => core.on_frame(connection, &Arc::new(frame), now, effects),
        Some(Event::Written(_)) => {}
    }
    let mut decided = std::mem::take(&mut state.effects);
    let mut has_arrived = false;
    for effect in decided.drain() {
        match effect {
            Effect::Chunk(chunk) => state.arrived.push_back(Arrived::Chunk(chunk)),
            Effect::Failed { of, generation, error } => {
                state.arrived.push_back(Arrived::Failed { of, generation, error });
            }
            effect @ Effect::Net(_) => {
                out.push(effect);
                continue;
            }
        }
        has_arrived = true;
    }
    state.effects = decided;
    let reader = if has_arrived { state.reader.take() } else { None };
    (state.core.deadline(now), state.is_stopping, reader)
}
