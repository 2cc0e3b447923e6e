//! Where it reads each partition: moved, paused, asked for. What was fetched before makes room.

use std::collections::VecDeque;

use base::{Offset, TopicPartition};
use client_core::consumer::{self as core, Chunk, Start};

use super::arrived::Arrived;
use super::owned::Rest;
use super::{Consumer, State, of};

impl Consumer {
    /// Goes on with a partition from elsewhere. Whether it is assigned.
    pub fn seek(&mut self, topic: &str, partition: i32, start: Start) -> bool {
        let Some(of) = of(topic, partition) else { return false };
        let is_assigned = {
            let mut state = self.shared.state.lock();
            let is_assigned = state.core.seek(&of, start);
            state.on_sought(&of, start, is_assigned);
            is_assigned
        };
        self.after_change();
        is_assigned
    }

    /// Lends and asks for nothing of a partition, until [`Consumer::resume`]. What was fetched and not
    /// lent is dropped, so that it is not in the way of others, and comes again then. Whether it is
    /// assigned.
    pub fn pause(&mut self, topic: &str, partition: i32) -> bool {
        let Some(of) = of(topic, partition) else { return false };
        {
            let mut state = self.shared.state.lock();
            let State { core, arrived, .. } = &mut *state;
            // A partition whose failure was told has none. If one is still to be told, it comes again once
            // what lies before it was.
            let at_hand = (self.current.as_ref(), self.rest.as_ref());
            if let Some((chunk, next)) = unlent(&of, at_hand, arrived, core) {
                core.go_back(chunk, next);
            }
            if !core.set_paused(&of, true) {
                return false;
            }
        }
        self.after_change();
        true
    }

    /// Asks for a paused partition again. Whether it is assigned.
    pub fn resume(&mut self, topic: &str, partition: i32) -> bool {
        let Some(of) = of(topic, partition) else { return false };
        let is_assigned = self.shared.state.lock().core.set_paused(&of, false);
        self.shared.driver.ring();
        is_assigned
    }

    /// The next offset of a partition that will be lent, whatever was fetched already; `None` while it is not
    /// known, or not assigned.
    pub fn position(&self, topic: &str, partition: i32) -> Option<Offset> {
        let of = of(topic, partition)?;
        let state = self.shared.state.lock();
        let at_hand = (self.current.as_ref(), self.rest.as_ref());
        let unlent = unlent(&of, at_hand, &state.arrived, &state.core);
        unlent.map(|(_, next)| next).or_else(|| state.core.position(&of))
    }

    /// Bytes that were fetched and not lent yet.
    pub fn unread_bytes(&self) -> usize {
        self.shared.state.lock().core.unread_bytes()
    }

    /// What is at hand, and what waits, may be of what is not read any more: it makes room at once, or
    /// nothing else would be asked for until somebody came to read it.
    pub(super) fn after_change(&mut self) {
        let stale = {
            let mut state = self.shared.state.lock();
            let State { core, arrived, .. } = &mut *state;
            let stale = take_stale(&mut self.current, arrived, core);
            core.on_read(stale.iter().map(Chunk::bytes).sum());
            stale
        };
        if self.current.is_none() {
            self.rest = None;
        }
        self.shared.driver.ring();
        for chunk in stale {
            self.give_back(chunk);
        }
    }
}

/// What was fetched of a partition and is not lent yet: the first chunk of it, and where in it.
fn unlent<'a>(
    of: &TopicPartition,
    (current, rest): (Option<&'a Chunk>, Option<&Rest>),
    arrived: &'a VecDeque<Arrived>,
    core: &core::Consumer,
) -> Option<(&'a Chunk, Offset)> {
    let arrived = arrived.iter().filter_map(|arrived| match arrived {
        Arrived::Chunk(chunk) => Some(chunk),
        Arrived::Failed { .. } | Arrived::Other(_) => None,
    });
    let of_rest = rest.and_then(Rest::next_offset);
    let at_hand = current.into_iter().map(|chunk| (chunk, of_rest.unwrap_or(chunk.next_offset())));
    let mut all = at_hand.chain(arrived.map(|chunk| (chunk, chunk.next_offset())));
    all.find(|(chunk, _)| chunk.of() == of && core.is_current(chunk.of(), chunk.generation()))
}

/// Takes the chunks that are not of what is read now; failures that are not are dropped.
fn take_stale(
    at_hand: &mut Option<Chunk>,
    arrived: &mut VecDeque<Arrived>,
    core: &core::Consumer,
) -> Vec<Chunk> {
    let at_hand = at_hand.take_if(|chunk| !core.is_current(chunk.of(), chunk.generation()));
    let all = std::mem::take(arrived).into_iter();
    let (current, stale): (VecDeque<_>, VecDeque<_>) = all.partition(|arrived| arrived.is_current(core));
    *arrived = current;
    let stale = stale.into_iter().filter_map(|arrived| match arrived {
        Arrived::Chunk(chunk) => Some(chunk),
        Arrived::Failed { .. } | Arrived::Other(_) => None,
    });
    at_hand.into_iter().chain(stale).collect()
}
