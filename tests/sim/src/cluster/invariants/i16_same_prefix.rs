//! I16: what is committed is the same on all replicas, byte for byte, and never changes.

use base::Offset;

use super::{
    Look, i03_dense_monotone, i11_epochs, i11_generations, i15_committed_by_all, i17_epochs, i26_compaction,
    violation,
};
use crate::cluster::process::PartitionKey;
use crate::cluster::process::cell::Cell;
use crate::cluster::truth::{History, Replica, Stored, Truth, read};
use crate::violation::Violation;

const NAME: &str = "I16 same prefix";

/// Compares what a replica takes for committed, and writes down what a leader has committed first.
pub(crate) fn check(look: &Look<'_>, truth: &mut Truth, found: &mut Vec<Violation>) {
    let committed = look.after.committed;
    let Some(history) = truth.histories.get(&look.key) else { return };
    let is_new = committed > history.end;
    if is_new && look.after.leads {
        let Some(batches) = read_new(look, truth, history, committed) else { return };
        extend(look, truth, (committed, batches), found);
        i15_committed_by_all::check(look, truth, committed, found);
    }
    let Some(history) = truth.histories.get(&look.key) else { return };
    let mut upto = committed.min(history.end);
    if look.after.leads && history.is_latest(look.after.epoch) {
        // A leader has it all, whether it knows that it is committed or not.
        upto = history.end.min(look.after.end);
    }
    let mut nodes = vec![(look.node, upto)];
    if is_new {
        // Who was counted on has it, too; a directory that was given up is read by nobody.
        let is_there = |replica: &Replica| replica.is_up && !replica.view.has_failed;
        let others =
            truth.replicas_of(look.key).filter(|(node, replica)| *node != look.node && is_there(replica));
        let who_has = others.filter(|(_, replica)| history.counted(&replica.view) >= history.end);
        let counted: Vec<_> = who_has.map(|(node, _)| (node, history.end)).collect();
        let is_in_sync = |node: usize| {
            look.decided.is_some_and(|decided| decided.isr.contains(&crate::cluster::quorum::broker(node)))
        };
        nodes.extend(counted.into_iter().filter(|(node, _)| is_in_sync(*node)));
    }
    for (node, upto) in nodes {
        verify(look, truth, (node, upto), found);
    }
}

/// What a leader has committed. Where its disk has not kept all of it, a batch that it reads may not be the one that was
/// asked for: then what another has, who was counted on for that; `None` if nobody who is up does.
fn read_new(
    look: &Look<'_>,
    truth: &Truth,
    history: &History,
    committed: Offset,
) -> Option<Result<Vec<Stored>, String>> {
    let read = |cell: &Cell| cell.with(|it| read(it.log(), history.end, committed, history.compacts));
    let batches = read(look.cell);
    if batches.is_ok() || !(look.is_rotten)(look.node) {
        return Some(batches);
    }
    let has_it = |(node, replica): &(usize, &Replica)| {
        *node != look.node && replica.is_up && history.counted(&replica.view) >= committed
    };
    let mut others = truth.replicas_of(look.key).filter(has_it);
    others.find_map(|(node, _)| (look.cell_of)(node)).map(|cell| read(&cell))
}

fn extend(
    look: &Look<'_>,
    truth: &mut Truth,
    (committed, batches): (Offset, Result<Vec<Stored>, String>),
    found: &mut Vec<Violation>,
) {
    let Some(history) = truth.histories.get_mut(&look.key) else { return };
    let from = history.end;
    match batches {
        Ok(batches) => {
            i03_dense_monotone::check_batches(&history.name, from, &batches, found);
            i17_epochs::check_batches(history, &batches, found);
            for batch in batches {
                for record in &batch.records {
                    i11_epochs::extend(&mut truth.groups, record, found);
                    i11_generations::extend(&mut truth.groups, look.key, record, found);
                }
                history.extend(batch);
            }
        }
        Err(why) => {
            let what = format!("{} cannot be read from {from} to {committed}: {why}", history.name);
            violation(found, NAME, what);
        }
    }
}

/// Compares what a node has from where it was compared last.
fn verify(look: &Look<'_>, truth: &mut Truth, (node, upto): (usize, Offset), found: &mut Vec<Violation>) {
    let Some(cell) = (look.cell_of)(node).filter(|_| !(look.is_rotten)(node)) else { return };
    let Some(history) = truth.histories.get(&look.key) else { return };
    let Some(replica) = truth.replicas.get_mut(&(look.key, node)) else { return };
    // A batch that the log starts within is there whole, and was compared or is not read.
    let start = cell.with(|partition| partition.log().start());
    let from = history.first_whole(replica.verified.max(start));
    if upto <= from {
        return;
    }
    compare(&cell, node, history, (from, upto), found);
    replica.verified = upto;
    i17_epochs::check_cache(&cell, node, history, upto, found);
}

/// Compares a stretch of a replica with what was committed.
pub(crate) fn compare(
    cell: &Cell,
    node: usize,
    history: &History,
    (from, upto): (Offset, Offset),
    found: &mut Vec<Violation>,
) {
    if history.compacts {
        return i26_compaction::compare(cell, node, history, (from, upto), found);
    }
    let say = |what: String| format!("node {node} {} {from}..{upto}: {what}", history.name);
    let stored = match cell.with(|partition| read(partition.log(), from, upto, false)) {
        Ok(stored) => stored,
        Err(why) => return violation(found, NAME, say(why)),
    };
    let expected: Vec<_> = history.from(from).iter().take_while(|batch| batch.next <= upto).collect();
    let differs = stored.iter().zip(&expected).find(|(stored, expected)| stored != *expected);
    if let Some((stored, expected)) = differs {
        violation(found, NAME, say(format!("has {stored:?} where {expected:?} is committed")));
    } else if stored.len() < expected.len() {
        violation(found, NAME, say(format!("{} of {} batches", stored.len(), expected.len())));
    }
}

/// Compares whole replicas, at the end.
pub(crate) fn compare_all(
    key: PartitionKey,
    cell: &Cell,
    node: usize,
    truth: &Truth,
    found: &mut Vec<Violation>,
) {
    let Some(history) = truth.histories.get(&key).filter(|history| !history.is_broken) else { return };
    let start = cell.with(|partition| partition.log().start());
    compare(cell, node, history, (history.first_whole(start), history.end), found);
}
