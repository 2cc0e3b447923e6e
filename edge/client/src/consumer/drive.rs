//! The consumer's machine, as the driver drives it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use client_core::consumer::Effect;

use super::{Arrived, Shared, State};
use crate::clock::Clock;
use crate::driver::{By, Machine};
use crate::wires::{Event, Wires};

impl Machine for Shared {
    /// Who waits for what arrived.
    type Told = Option<Waker>;

    fn step(&self, happened: Option<Event>, wires: &mut Wires, told: &mut Self::Told) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let State { core, effects, .. } = &mut *state;
        match happened {
            None => core.step(now, effects),
            Some(Event::Connected(connection)) => core.on_connected(connection, now, effects),
            Some(Event::Closed(connection, why)) => {
                core.on_trouble(connection, &why, now);
                core.on_closed(connection, now, effects);
            }
            Some(Event::Frame(connection, frame)) => {
                core.on_frame(connection, &Arc::new(frame), now, effects);
            }
            Some(Event::Written(_)) => {}
        }
        let mut decided = std::mem::take(&mut state.effects);
        for effect in decided.drain() {
            let arrived = match effect {
                Effect::Chunk(chunk) => Arrived::Chunk(chunk),
                Effect::Failed { of, generation, error } => Arrived::Failed { of, generation, error },
                Effect::Net(effect) => {
                    wires.perform(effect);
                    continue;
                }
            };
            state.arrived.push_back(arrived);
            *told = told.take().or_else(|| state.reader.take());
        }
        state.effects = decided;
        state.core.deadline(now)
    }

    fn tell(&self, told: Self::Told, _by: By) {
        told.into_iter().for_each(Waker::wake);
    }

    fn is_stopping(&self) -> bool {
        self.state.lock().is_stopping
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// The end of the thread, whatever it was: nobody is left waiting.
pub(super) struct End(pub(super) Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        let reader = {
            let mut state = self.0.state.lock();
            state.has_ended = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
        // A caller may sit in the seat.
        self.0.driver.ring();
    }
}
