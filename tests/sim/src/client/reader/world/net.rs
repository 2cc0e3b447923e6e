//! What the consumer has done: connections, frames, and what comes for the reader.

use std::sync::Arc;

use client_core::consumer::Effect;
use client_core::{ConnectionId, NetEffect};

use super::World;
use crate::client::invariants::i30_hostile_bytes::{self, Did};
use crate::client::network::{Network, Travelling, Wire, bytes_of};
use crate::client::reader::inbox::Arrived;

impl World {
    /// What the network has for now.
    pub(super) fn arrive(&mut self) {
        let ids: Vec<_> = self.network.wires.keys().copied().collect();
        for id in ids {
            let (now, now_us) = (self.now(), self.now_us);
            let Some(wire) = self.network.wires.get_mut(&id) else { continue };
            if wire.breaks_us.is_some_and(|at| at <= now_us) {
                self.trace.event(format!("{id:?} breaks"));
                self.network.break_wire(id, 0, &mut self.random);
                self.consumer.on_closed(id, now, &mut self.effects);
            } else if !wire.is_open && wire.opens_us <= now_us {
                wire.is_open = true;
                self.consumer.on_connected(id, now, &mut self.effects);
            } else if let Some(request) = wire.requests.pop_front_if(|frame| frame.at_us <= now_us) {
                let broker = wire.broker;
                self.serve(id, broker, &request.frame);
            } else if let Some(answer) = wire.answers.pop_front_if(|frame| frame.at_us <= now_us) {
                self.consumer.on_frame(id, &Arc::new(answer.frame), now, &mut self.effects);
                if answer.is_malformed {
                    let did = self.effects.iter().map(|effect| match effect {
                        Effect::Net(effect) => Did::Net(effect),
                        Effect::Chunk(_) => Did::Believed,
                        Effect::Failed { .. } => Did::Other,
                    });
                    i30_hostile_bytes::check(id, did, &mut self.found);
                }
            }
            self.perform();
        }
    }

    fn serve(&mut self, id: ConnectionId, broker: i32, frame: &[u8]) {
        let mut answer = self.brokers.answer(broker, frame);
        self.trace.event(format!("{:>9} broker {broker} on {id:?}: {}", self.now_us, answer.what));
        let mut is_malformed = false;
        if self.brokers.chance(self.options.rubbish_per_thousand) {
            is_malformed = i30_hostile_bytes::spoil(&answer.what, &mut answer.bytes, &mut self.random);
            self.trace.event("rubbish".to_owned());
        }
        let delay = answer.hold_us + self.random.below(self.options.delay_us);
        if let Some(wire) = self.network.wires.get_mut(&id) {
            Network::push(
                &mut wire.answers,
                self.now_us,
                delay,
                Travelling { frame: answer.bytes, is_malformed, ..Travelling::default() },
            );
        }
    }

    /// Does what the consumer decided.
    pub(super) fn perform(&mut self) {
        for effect in self.effects.drain().collect::<Vec<_>>() {
            match effect {
                Effect::Net(effect) => self.perform_net(effect),
                Effect::Chunk(chunk) => self.inbox.arrived.push_back(Arrived::Chunk(chunk)),
                Effect::Failed { of, generation, error } => {
                    self.inbox.arrived.push_back(Arrived::Failed { of, generation, error });
                }
            }
        }
    }

    fn perform_net(&mut self, effect: NetEffect) {
        let delay = self.random.below(self.options.delay_us);
        match effect {
            NetEffect::Connect { connection, address } => {
                let at = self.brokers.at(&address.host);
                let lives = at.filter(|&(_, up_at_us)| up_at_us <= self.now_us || self.brokers.is_healed);
                self.trace.event(format!("{connection:?} to {address}: {lives:?}"));
                let wire = Wire {
                    broker: at.map_or(0, |(broker, _)| broker),
                    opens_us: self.now_us + delay,
                    is_open: false,
                    requests: Default::default(),
                    answers: Default::default(),
                    breaks_us: lives.is_none().then_some(self.now_us + delay),
                };
                self.network.wires.insert(connection, wire);
            }
            NetEffect::Send { connection, outgoing } => {
                if let Some(wire) = self.network.wires.get_mut(&connection) {
                    Network::push(
                        &mut wire.requests,
                        self.now_us,
                        delay,
                        Travelling { frame: bytes_of(&outgoing), ..Travelling::default() },
                    );
                }
            }
            NetEffect::Close { connection } => {
                self.trace.event(format!("{connection:?} is closed"));
                self.network.break_wire(connection, 0, &mut self.random);
            }
        }
    }
}
