//! The admin's machine, as the driver drives it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use client_core::admin::Effect;

use super::{Shared, State};
use crate::clock::Clock;
use crate::driver::{By, Machine};
use crate::wires::{Event, Wires};

impl Machine for Shared {
    /// Who waits for a call that is done.
    type Told = Vec<Waker>;

    fn step(&self, happened: Option<Event>, wires: &mut Wires, told: &mut Self::Told) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let State { core, effects, waiting, .. } = &mut *state;
        match happened {
            None | Some(Event::Written(_)) => core.step(now, effects),
            Some(Event::Connected(connection)) => core.on_connected(connection, now, effects),
            Some(Event::Closed(connection, why)) => core.on_closed(connection, why, now, effects),
            Some(Event::Frame(connection, frame)) => core.on_frame(connection, &frame, now, effects),
        }
        for effect in effects.drain() {
            match effect {
                Effect::Net(effect) => wires.perform(effect),
                Effect::Done(call) => told.extend(waiting.remove(&call)),
            }
        }
        core.deadline(now)
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
        let waiting = {
            let mut state = self.0.state.lock();
            state.has_ended = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }
}
