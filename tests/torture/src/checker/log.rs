//! What is claimed of a partition: the first value that was claimed for each offset, and by whom it was seen.

use std::collections::BTreeMap;

use super::anomaly::{Source, Value};

/// What a claim is beside those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nobody claimed anything for the offset.
    New,
    /// Somebody claimed the same.
    Known,
    /// This was claimed before.
    Other(Value),
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    value: Value,
    /// Whether a reader saw it.
    polled: bool,
    /// Readers of this partition's end that saw it: the last of them counts.
    last_who: u32,
}

/// A partition. Offsets come from a broker under test, so any of them may be claimed: pages, not an array.
#[derive(Debug, Default)]
pub(super) struct Log {
    pages: BTreeMap<i64, Vec<Option<Cell>>>,
    /// Who read it at the end, and where the end was.
    last: Option<(u32, i64)>,
}

const PAGE: i64 = 4096;
/// No reader has this number.
const NOBODY: u32 = u32::MAX;

impl Log {
    pub(super) fn claim(&mut self, offset: i64, value: Value, source: Source) -> Claim {
        let page = self.pages.entry(offset.div_euclid(PAGE)).or_insert_with(|| vec![None; PAGE as usize]);
        let cell = &mut page[offset.rem_euclid(PAGE) as usize];
        let claim = match cell {
            None => Claim::New,
            Some(cell) if cell.value == value => Claim::Known,
            Some(cell) => return Claim::Other(cell.value),
        };
        let cell = cell.get_or_insert(Cell { value, polled: false, last_who: NOBODY });
        if let Source::Polled(who) = source {
            cell.polled = true;
            cell.last_who = who;
        }
        claim
    }

    /// This reader has read it all.
    pub(super) fn read_finally(&mut self, who: u32, end: i64) {
        self.last = Some((who, end));
    }

    /// Where it ended, if somebody read it at the end.
    pub(super) fn final_end(&self) -> Option<i64> {
        self.last.map(|(_, end)| end)
    }

    /// Whether this value was read at this offset at the end.
    pub(super) fn has_finally(&self, offset: i64, value: Value) -> bool {
        let page = self.pages.get(&offset.div_euclid(PAGE));
        let cell = page.and_then(|page| page[offset.rem_euclid(PAGE) as usize]);
        cell.is_some_and(|cell| cell.value == value && self.is_final(offset, &cell))
    }

    fn is_final(&self, offset: i64, cell: &Cell) -> bool {
        self.last.is_some_and(|(who, end)| cell.last_who == who && offset < end)
    }

    /// What readers saw and the last one did not.
    pub(super) fn seen_and_gone(&self) -> impl Iterator<Item = (i64, Value)> {
        let cells = self.pages.iter().flat_map(|(page, cells)| {
            (0..).zip(cells).filter_map(move |(at, cell)| Some((page * PAGE + at, (*cell)?)))
        });
        cells.filter_map(|(offset, cell)| {
            (cell.polled && !self.is_final(offset, &cell)).then_some((offset, cell.value))
        })
    }
}
