//! I24: what a restart finds is a prefix of what was written, with everything in it that was promised;
//! recovering twice finds the same; tables, epochs and producers are those of the records.

use std::collections::BTreeMap;

use base::{Offset, ProducerId, Sequence};
use storage::{AbortedTxn, Log, ProducerView};

use crate::found::Found;
use crate::found::State;
use crate::model::{ExpectedProducer, Model};
use crate::violation::Violation;
use crate::world::World;

const NAME: &str = "I24 recover prefix";

/// Judges the last restart, and what the log derives from its records.
pub fn check(world: &mut World, found: &mut Vec<Violation>) {
    let mut complain = |what: String| found.push(Violation { invariant: NAME, what });
    if let Some(restart) = &world.restart {
        if let Err(what) = restart.judge() {
            complain(what);
        }
        if let Found::Opened { again: Some(again), state, .. } = &restart.found
            && !(world.over || world.doubted)
            && with_records(&world.model, again) != with_records(&world.model, state)
        {
            complain(format!("recovering twice: first {state:?}, then {again:?}"));
        }
    }
    if !world.look_closely || world.over || world.doubted {
        return;
    }
    if let Some(mut log) = world.log.take() {
        check_epochs(world, &log, &mut complain);
        check_producers(world, &log, &mut complain);
        check_aborted(world, &mut log, &mut complain);
        world.log = Some(log);
    }
}

/// A state without what may be forgotten: what only records say that are not left.
fn with_records(model: &Model, state: &State) -> State {
    let known = &model.producers.known;
    let start = state.edges.start;
    let mut state = state.clone();
    state.producers.retain(|view| known.get(&view.id).is_some_and(|p| p.last_offset >= start));
    for view in &mut state.producers {
        let expected = &known[&view.id];
        view.coordinator_epoch =
            expected.last_marker.filter(|&at| at >= start).map_or(-1, |_| view.coordinator_epoch);
        view.transaction_start =
            view.transaction_start.filter(|_| expected.transaction_start.is_none_or(|at| at >= start));
        if expected.last_records.is_none_or(|at| at < start) {
            view.last_sequence = Sequence::NONE;
        }
    }
    state
}

/// Epochs that have a record must be there; one that was begun at the end may be.
fn check_epochs(world: &World, log: &Log, complain: &mut dyn FnMut(String)) {
    if log.start() == log.end() {
        return;
    }
    let model = &world.model;
    let with_records = model.epochs.iter().rposition(|&(_, start)| start <= log.start());
    let mut expected = model.epochs[with_records.unwrap_or(0)..].to_vec();
    if let Some(first) = expected.first_mut().filter(|first| first.1 < log.start()) {
        first.1 = log.start();
    }
    let begun_at_end = expected.last().is_some_and(|&(_, start)| start == log.end());
    let without = &expected[..expected.len() - usize::from(begun_at_end)];
    let epochs: Vec<_> = log.epochs().collect();
    if epochs != expected && epochs != without {
        complain(format!("epochs are {epochs:?}, should be {expected:?}"));
    }
}

/// Producers whose records are still there must be known as their records say; others may be.
fn check_producers(world: &World, log: &Log, complain: &mut dyn FnMut(String)) {
    let views: BTreeMap<ProducerId, ProducerView> = log.producers().map(|view| (view.id, view)).collect();
    for (id, expected) in &world.model.producers.known {
        match views.get(id) {
            Some(view) if agrees(view, expected, log.start()) => {}
            None if expected.last_offset < log.start() => {}
            other => complain(format!("producer {id} is {other:?}, should be {expected:?}")),
        }
    }
    if let Some(id) = views.keys().find(|id| !world.model.producers.known.contains_key(id)) {
        complain(format!("producer {id} never wrote anything that is there"));
    }
}

/// Whether a producer is known as its records from `start` on say. What lay before may be forgotten.
fn agrees(view: &ProducerView, expected: &ExpectedProducer, start: Offset) -> bool {
    let kept = |at: Option<Offset>| at.is_some_and(|at| at >= start);
    let sequence = view.last_sequence == expected.last_sequence
        || (!kept(expected.last_records) && view.last_sequence.0 < 0);
    let coordinator = view.coordinator_epoch == expected.coordinator_epoch
        || (!kept(expected.last_marker) && view.coordinator_epoch == -1);
    // A transaction whose first records are gone begins, for the log, with those that are there.
    let transaction = view.transaction_start == expected.transaction_start
        || expected.transaction_start.is_some_and(|first| first < start);
    view.epoch == expected.epoch
        && view.last_timestamp == expected.last_timestamp
        && sequence
        && coordinator
        && transaction
}

/// The aborted transactions of the whole log and of its halves.
fn check_aborted(world: &World, log: &mut Log, complain: &mut dyn FnMut(String)) {
    let middle = Offset((log.start().0 + log.end().0) / 2);
    for (from, upto) in [(log.start(), log.end()), (log.start(), middle), (middle, log.end())] {
        let mut expected: Vec<_> = world.model.producers.aborted.clone();
        // A transaction that began before the start may be known by what is left of it.
        let older: Vec<_> = expected.extract_if(.., |txn| txn.first_offset < log.start()).collect();
        expected.retain(|txn| txn.last_offset >= from && txn.first_offset < upto);
        expected.sort_by_key(|txn| txn.first_offset);
        let is_older = |txn: &AbortedTxn| older.iter().any(|older| older.last_offset == txn.last_offset);
        let answer = log.aborted_transactions(from, upto);
        world.trace.event(format!("aborted in {from}..{upto}: {answer:?}"));
        match answer {
            Ok(found)
                if found.iter().filter(|txn| !is_older(txn)).map(range).eq(expected.iter().map(range)) => {}
            other => complain(format!("aborted in {from}..{upto}: {other:?}, should be {expected:?}")),
        }
    }
}

/// What readers need of an aborted transaction.
fn range(txn: &AbortedTxn) -> (ProducerId, Offset, Offset) {
    (txn.producer_id, txn.first_offset, txn.last_offset)
}
