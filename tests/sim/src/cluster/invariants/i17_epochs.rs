//! I17: epochs of batches never go back, and every replica remembers the same epochs of what is committed.

use base::{LeaderEpoch, Offset};

use super::violation;
use crate::cluster::process::cell::Cell;
use crate::cluster::truth::{History, Stored};
use crate::violation::Violation;

const NAME: &str = "I17 epochs";

/// Batches that are about to be committed.
pub(crate) fn check_batches(history: &History, batches: &[Stored], found: &mut Vec<Violation>) {
    let mut last = history.batches.last().map_or(LeaderEpoch::NONE, |batch| batch.epoch);
    for batch in batches {
        if batch.epoch < last {
            let what = format!("{} {} of epoch {} follows {last}", history.name, batch.base, batch.epoch);
            violation(found, NAME, what);
        }
        last = batch.epoch;
    }
}

/// What a replica remembers of epochs, up to an offset.
pub(crate) fn check_cache(
    cell: &Cell,
    node: usize,
    history: &History,
    upto: Offset,
    found: &mut Vec<Violation>,
) {
    let (cached, start): (Vec<_>, _) = cell.with(|partition| {
        let log = partition.log();
        (log.epochs().filter(|(_, start)| *start < upto).collect(), log.start())
    });
    let expected = history.epochs_before(upto);
    if start == Offset::ZERO && cached != expected {
        let what =
            format!("node {node} {} up to {upto}: remembers {cached:?}, has {expected:?}", history.name);
        violation(found, NAME, what);
    }
}
