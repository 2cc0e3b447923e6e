//! Connections: frames in order both ways, each after a delay, until one breaks.

use std::collections::{BTreeMap, VecDeque};

use client_core::{ConnectionId, Outgoing};
use wire::Part;

use crate::random::Random;

/// A frame on its way, without its size.
#[derive(Debug, Clone, Default)]
pub(super) struct Travelling {
    /// When it arrives, in microseconds.
    pub(super) at_us: u64,
    pub(super) frame: Vec<u8>,
    /// Its sender wants to know when it has gone out.
    pub(super) is_unanswered: bool,
    /// It is no answer any more.
    pub(super) is_malformed: bool,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    /// Which broker it leads to.
    pub(super) broker: i32,
    /// When it stands; then the client learns of it.
    pub(super) opens_us: u64,
    pub(super) is_open: bool,
    pub(super) requests: VecDeque<Travelling>,
    pub(super) answers: VecDeque<Travelling>,
    /// When the client learns that it broke.
    pub(super) breaks_us: Option<u64>,
}

/// All connections, and the requests of broken ones that arrive all the same.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) wires: BTreeMap<ConnectionId, Wire>,
    pub(super) ghosts: Vec<(i32, Travelling)>,
}

impl Network {
    /// A frame leaves behind those that left before.
    pub(super) fn push(queue: &mut VecDeque<Travelling>, now_us: u64, delay_us: u64, frame: Travelling) {
        let before = queue.back().map_or(0, |last| last.at_us);
        queue.push_back(Travelling { at_us: before.max(now_us + delay_us), ..frame });
    }

    /// A connection is no more: what was on its way to the broker may be lost, or may come later.
    pub(super) fn break_wire(&mut self, id: ConnectionId, ghosts_per_thousand: u32, random: &mut Random) {
        let Some(wire) = self.wires.remove(&id) else { return };
        // In order, as TCP has it: the first that is lost ends it.
        for mut request in wire.requests {
            if !random.chance(ghosts_per_thousand) {
                break;
            }
            request.at_us += random.below(2_000_000);
            self.ghosts.push((wire.broker, request));
        }
    }

    /// When the next thing happens here.
    pub(super) fn next_us(&self) -> Option<u64> {
        let of_wire = |wire: &Wire| {
            let opens = (!wire.is_open).then_some(wire.opens_us);
            let request = wire.requests.front().filter(|_| wire.is_open).map(|frame| frame.at_us);
            let answer = wire.answers.front().map(|frame| frame.at_us);
            [opens, request, answer, wire.breaks_us].into_iter().flatten().min()
        };
        let wires = self.wires.values().filter_map(of_wire);
        wires.chain(self.ghosts.iter().map(|(_, ghost)| ghost.at_us)).min()
    }
}

/// A frame that is to be sent, without its size.
pub(super) fn bytes_of(outgoing: &Outgoing) -> Vec<u8> {
    let mut fills = outgoing.fills.iter();
    let mut bytes = Vec::new();
    for part in outgoing.frame.parts() {
        match part {
            Part::Bytes(part) => bytes.extend_from_slice(part),
            Part::Hole(_) => bytes.extend_from_slice(fills.next().expect("each hole has its batch").bytes()),
        }
    }
    bytes.split_off(4)
}
