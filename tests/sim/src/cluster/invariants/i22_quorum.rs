//! I22: the metadata have one history: what is committed stays, and epochs never go back.

use base::LeaderEpoch;

use super::violation;
use crate::cluster::quorum::Entry;
use crate::trace::hash;
use crate::violation::Violation;

/// The history as it was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    hashes: Vec<u64>,
}

impl Seen {
    /// Looks at what was committed since the last look.
    pub(crate) fn check(&mut self, log: &[Entry], found: &mut Vec<Violation>) {
        const NAME: &str = "I22 one history of the metadata";
        let of = |entry: &Entry| hash(0, format!("{:?} {:?}", entry.epoch, entry.records).as_bytes());
        let kept = self
            .hashes
            .len()
            .checked_sub(1)
            .is_none_or(|last| log.get(last).is_some_and(|entry| of(entry) == self.hashes[last]));
        if !kept {
            let what = format!("batch {} of {} is not what was committed", self.hashes.len(), log.len());
            return violation(found, NAME, what);
        }
        let mut last = match self.hashes.len() {
            0 => LeaderEpoch::NONE,
            len => log[len - 1].epoch,
        };
        for entry in &log[self.hashes.len()..] {
            if entry.epoch < last {
                violation(found, NAME, format!("a batch of epoch {} follows one of {last}", entry.epoch));
            }
            last = entry.epoch;
            self.hashes.push(of(entry));
        }
    }
}
