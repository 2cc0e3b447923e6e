//! What happened, as a hash of everything and the text of the end.
//!
//! Two runs of one seed must have the same hash; where they differ, something in `core` asked the
//! machine for time, chance, or the order of a hash map.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many of the last events a failing run prints.
const EVENTS_KEPT: usize = 400;

/// The rolling hash of all events, and the last of them as text. A clone records into the same trace,
/// so that the disk and the workload appear in the order they acted.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Events>>);

#[derive(Debug, Default)]
struct Events {
    hash: u64,
    count: u64,
    /// How many of them were told as text.
    kept: u64,
    last: VecDeque<String>,
}

impl Trace {
    /// Adds an event: its text goes into the hash and is kept for a while.
    pub fn event(&self, text: String) {
        let mut events = self.lock();
        events.count += 1;
        events.hash = hash(events.hash, text.as_bytes());
        events.kept += 1;
        if events.last.len() == EVENTS_KEPT {
            events.last.pop_front();
        }
        events.last.push_back(text);
    }

    /// Adds an event that happens too often to be read: its text goes into the hash and is not kept.
    pub fn hum(&self, text: &str) {
        let mut events = self.lock();
        events.count += 1;
        events.hash = hash(events.hash, text.as_bytes());
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.lock().hash
    }

    /// How many events there were.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// The last events, oldest first, one to a line, numbered.
    pub fn tail(&self, events_max: usize) -> String {
        let events = self.lock();
        let skipped = events.last.len().saturating_sub(events_max);
        let first = events.kept - (events.last.len() - skipped) as u64;
        let mut text = String::new();
        for (number, event) in (first..).zip(events.last.iter().skip(skipped)) {
            let _ = writeln!(text, "{number:>6}  {event}");
        }
        text
    }

    /// The events that were kept since there were `kept` of them, as far as they still are, and how many
    /// there are.
    #[cfg(test)]
    pub(crate) fn since(&self, kept: u64) -> (Vec<String>, u64) {
        let events = self.lock();
        let new = usize::try_from(events.kept - kept).unwrap_or(usize::MAX);
        let skipped = events.last.len().saturating_sub(new);
        (events.last.iter().skip(skipped).cloned().collect(), events.kept)
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mixes bytes into a hash, eight at a time.
pub fn hash(start: u64, bytes: &[u8]) -> u64 {
    let mut state = start ^ (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        state = (state ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    }
    for &byte in words.remainder() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(7);
    }
    state ^ (state >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_content_change_the_hash() {
        let run = |events: &[&str]| {
            let trace = Trace::default();
            events.iter().for_each(|event| trace.event((*event).to_owned()));
            trace.hash()
        };
        assert_eq!(run(&["a", "b"]), run(&["a", "b"]));
        assert_ne!(run(&["a", "b"]), run(&["b", "a"]));
        assert_ne!(run(&["ab"]), run(&["a", "b"]));
        assert_ne!(run(&["12345678"]), run(&["12345679"]));
    }

    #[test]
    fn the_tail_is_the_last_events() {
        let trace = Trace::default();
        (0..500).for_each(|n| trace.event(format!("event {n}")));
        assert_eq!(trace.tail(2), "   498  event 498\n   499  event 499\n");
        assert_eq!(trace.tail(1000).lines().count(), EVENTS_KEPT);
    }
}
