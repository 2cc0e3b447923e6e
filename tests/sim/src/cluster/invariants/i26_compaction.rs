//! I26: compaction keeps of each key the last record, every record in its place, and nothing that was never there:
//! also through crashes, failovers and cuts.
//!
//! A record may be missing if a later one of its key is committed, or if it says that there is nothing any more: then
//! what it deletes is missing, too.

use std::collections::BTreeMap;

use base::Offset;

use super::violation;
use crate::cluster::keyed::{KeyedRecord, read_keyed};
use crate::cluster::process::cell::Cell;
use crate::cluster::truth::History;
use crate::violation::Violation;

const NAME: &str = "I26 compaction keeps the last";

/// Compares a stretch of a replica with what was committed.
pub(super) fn compare(
    cell: &Cell,
    node: usize,
    history: &History,
    (from, upto): (Offset, Offset),
    found: &mut Vec<Violation>,
) {
    let say = |what: String| format!("node {node} {} {from}..{upto}: {what}", history.name);
    let stored = match read_all(cell, from, upto) {
        Ok(stored) => stored,
        Err(why) => return violation(found, NAME, say(why)),
    };
    let expected = history.batches.iter().flat_map(|batch| &batch.records);
    let expected: BTreeMap<Offset, &KeyedRecord> =
        expected.filter(|it| (from..upto).contains(&it.offset)).map(|it| (it.offset, it)).collect();
    let mut last = from;
    for record in &stored {
        if record.offset < last || expected.get(&record.offset) != Some(&record) {
            let there = expected.get(&record.offset);
            return violation(found, NAME, say(format!("has {record:?} where {there:?} is committed")));
        }
        last = record.offset.next();
    }
    check_deleted(&stored, (history, &expected), say, found);
    let mut stored = stored.iter().map(|record| record.offset).peekable();
    for (offset, record) in expected {
        if stored.next_if_eq(&offset).is_some() || record.value.is_none() {
            continue;
        }
        if !history.is_replaced(record) {
            return violation(found, NAME, say(format!("lacks {record:?}, the last of its key")));
        }
    }
}

/// What was deleted is not there without what deleted it, or what came after that.
fn check_deleted(
    stored: &[KeyedRecord],
    (history, expected): (&History, &BTreeMap<Offset, &KeyedRecord>),
    say: impl Fn(String) -> String,
    found: &mut Vec<Violation>,
) {
    let last_of: BTreeMap<&[u8], &KeyedRecord> =
        expected.values().map(|record| (record.key.as_slice(), *record)).collect();
    for record in stored.iter().filter(|record| record.value.is_some()) {
        let deletes = |last: &&&KeyedRecord| {
            last.value.is_none() && last.offset > record.offset && !history.is_replaced(last)
        };
        let deleted_at = last_of.get(record.key.as_slice()).filter(deletes).map(|last| last.offset);
        let is_there = |at: Offset| stored.binary_search_by_key(&at, |it| it.offset).is_ok();
        if let Some(at) = deleted_at.filter(|at| !is_there(*at)) {
            return violation(found, NAME, say(format!("has {record:?}, and not what deletes it at {at}")));
        }
    }
}

fn read_all(cell: &Cell, from: Offset, upto: Offset) -> Result<Vec<KeyedRecord>, String> {
    let (mut next, mut all) = (from, Vec::new());
    while next < upto {
        let (records, goes_on_at) =
            cell.with(|partition| read_keyed(partition.log(), next, upto, 1 << 20))?;
        all.extend(records);
        next = goes_on_at;
    }
    Ok(all)
}
