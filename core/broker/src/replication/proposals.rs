//! The in-sync sets that leaders of this broker ask for: one request to the controller at a time, with all
//! that came together meanwhile (KIP-497).

use std::collections::BTreeMap;

use replica::AlterIsr;

use super::PartitionKey;

/// See the module. Bounded by the partitions: each has one proposal at most.
#[derive(Debug, Default)]
pub struct Proposals {
    waiting: BTreeMap<PartitionKey, AlterIsr>,
    in_flight: BTreeMap<PartitionKey, AlterIsr>,
}

impl Proposals {
    /// A partition asks. What it asked before and was not sent is replaced.
    pub fn add(&mut self, key: PartitionKey, proposal: AlterIsr) {
        self.waiting.insert(key, proposal);
    }

    /// What to send now, at most `max` of them; empty while an answer is awaited, or if there is nothing.
    pub fn next(&mut self, max: usize) -> Vec<(PartitionKey, AlterIsr)> {
        if !self.in_flight.is_empty() {
            return Vec::new();
        }
        let rest = match self.waiting.keys().nth(max).copied() {
            Some(first_left) => self.waiting.split_off(&first_left),
            None => BTreeMap::new(),
        };
        self.in_flight = std::mem::replace(&mut self.waiting, rest);
        self.in_flight.iter().map(|(key, proposal)| (*key, proposal.clone())).collect()
    }

    /// The request was answered, or nobody knows what became of it: those that were in it, each to be
    /// told.
    pub fn on_answered(&mut self) -> Vec<(PartitionKey, AlterIsr)> {
        std::mem::take(&mut self.in_flight).into_iter().collect()
    }
}
