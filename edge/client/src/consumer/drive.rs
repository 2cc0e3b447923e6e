//! The consumer's machines, as the driver drives them: what reads, and who is a member.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use base::Now;
use client_core::consumer::Effect;
use client_core::group::{Effect as GroupEffect, Membership};

use super::arrived::{Arrived, Failure};
use super::outcome::Outcome;
use super::rebalance::{Rebalance, forget_revocations};
use super::{Shared, State};
use crate::clock::Clock;
use crate::driver::{By, Machine};
use crate::wires::{Event, Wires};

impl Machine for Shared {
    /// Who waits for what arrived.
    type Told = Vec<Waker>;

    fn step(&self, happened: Option<Event>, wires: &mut Wires, told: &mut Self::Told) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let of_group = happened.as_ref().is_some_and(is_of_group);
        // A turn ends with a step in which nothing happened, for both.
        let is_for_reader = happened.is_some() && !of_group;
        let (of_group, happened) = if of_group { (happened, None) } else { (None, happened) };
        let deadline = match is_for_reader {
            true => None,
            false => self.step_group(&mut state, of_group, now, (wires, told)),
        };
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
            told.extend(state.take_reader(&self.clock));
        }
        state.effects = decided;
        [state.core.deadline(now), deadline].into_iter().flatten().min()
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

fn is_of_group(event: &Event) -> bool {
    let connection = match event {
        Event::Connected(connection)
        | Event::Closed(connection, _)
        | Event::Frame(connection, _)
        | Event::Written(connection) => *connection,
    };
    connection >= Membership::CONNECTIONS_FROM
}

impl Shared {
    /// What reads is stepped after it, and reads at once what it was given here.
    fn step_group(
        &self,
        state: &mut State,
        happened: Option<Event>,
        now: Now,
        (wires, told): (&mut Wires, &mut Vec<Waker>),
    ) -> Option<Duration> {
        let group = state.group.as_mut()?;
        group.on_asked(self.asked.load(Ordering::Relaxed), &self.clock);
        let (membership, effects) = (&mut group.membership, &mut group.effects);
        match happened {
            None | Some(Event::Written(_)) => membership.step(now, effects),
            Some(Event::Connected(connection)) => membership.on_connected(connection, now, effects),
            Some(Event::Closed(connection, why)) => {
                membership.on_trouble(connection, &why, now);
                membership.on_closed(connection, now, effects);
            }
            Some(Event::Frame(connection, frame)) => membership.on_frame(connection, &frame, now, effects),
        }
        let deadline = membership.deadline(now);
        let mut decided = std::mem::take(&mut group.effects);
        for effect in decided.drain() {
            match effect {
                GroupEffect::Net(effect) => wires.perform(effect),
                effect => told.extend(self.on_group_effect(state, effect)),
            }
        }
        if let Some(group) = &mut state.group {
            group.effects = decided;
        }
        deadline
    }

    /// What the member was told, for the reader; whom to wake for it.
    fn on_group_effect(&self, state: &mut State, effect: GroupEffect) -> Option<Waker> {
        let State { core, group, arrived, .. } = &mut *state;
        let group = group.as_mut()?;
        let event = match effect {
            GroupEffect::Net(_) => return None,
            GroupEffect::Committed { id, result } => {
                return group.waits.on_outcome(id.0, Outcome::Committed(result));
            }
            GroupEffect::Fetched { id, result } => {
                return group.waits.on_outcome(id.0, Outcome::Fetched(result));
            }
            GroupEffect::Failed(error) => {
                arrived.push_back(Arrived::Other(Failure::of_group(error)));
                return state.take_reader(&self.clock);
            }
            GroupEffect::Assigned(found) => {
                for (of, committed) in &found {
                    let from = committed.as_ref().map(|it| (it.offset, it.leader_epoch));
                    if let Err((generation, error)) = core.take(of, from) {
                        arrived.push_back(Arrived::Failed { of: of.clone(), generation, error });
                    }
                }
                Rebalance::Assigned(found.into_keys().collect())
            }
            GroupEffect::Revoking { id, partitions } => Rebalance::Revoking { id, partitions },
            GroupEffect::Lost(partitions) => {
                partitions.iter().for_each(|of| core.give_up(of));
                forget_revocations(&mut group.events);
                Rebalance::Lost(partitions)
            }
        };
        group.events.push_back(event);
        self.has_rebalances.store(true, Ordering::Release);
        state.take_reader(&self.clock)
    }
}

/// The end of the thread, whatever it was: nobody is left waiting.
pub(super) struct End(pub(super) Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        let waiting: Vec<Waker> = {
            let mut state = self.0.state.lock();
            state.has_ended = true;
            let of_group = state.group.as_mut().map(|group| group.waits.end());
            state.reader.take().into_iter().chain(of_group.into_iter().flatten()).collect()
        };
        waiting.into_iter().for_each(Waker::wake);
        // A caller may sit in the seat.
        self.0.driver.ring();
    }
}
