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
    /// What was claimed first.
    value: Value,
    /// Whether a reader saw that.
    polled: bool,
    /// What was seen last, and by whom.
    last: Option<(u32, Value)>,
}

/// A partition. Offsets come from a broker under test, so any of them may be claimed: pages, not an array.
#[derive(Debug, Default)]
pub(super) struct Log {
    pages: BTreeMap<i64, Vec<Option<Cell>>>,
    /// Who read it at the end, and where the end was.
    last: Option<(u32, i64)>,
}

const PAGE: i64 = 4096;

impl Log {
    pub(super) fn claim(&mut self, offset: i64, value: Value, source: Source) -> Claim {
        let page = self.pages.entry(offset.div_euclid(PAGE)).or_insert_with(|| vec![None; PAGE as usize]);
        let place = &mut page[offset.rem_euclid(PAGE) as usize];
        let is_new = place.is_none();
        let cell = place.get_or_insert(Cell { value, polled: false, last: None });
        if let Source::Polled(who) = source {
            cell.polled |= cell.value == value;
            cell.last = Some((who, value));
        }
        match cell.value {
            _ if is_new => Claim::New,
            known if known == value => Claim::Known,
            other => Claim::Other(other),
        }
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
        cell.is_some_and(|cell| self.is_final(offset, value, &cell))
    }

    fn is_final(&self, offset: i64, value: Value, cell: &Cell) -> bool {
        self.last.is_some_and(|(who, end)| cell.last == Some((who, value)) && offset < end)
    }

    /// What readers saw and the last one did not.
    pub(super) fn seen_and_gone(&self) -> impl Iterator<Item = (i64, Value)> {
        let cells = self.pages.iter().flat_map(|(page, cells)| {
            (0..).zip(cells).filter_map(move |(at, cell)| Some((page * PAGE + at, (*cell)?)))
        });
        cells.filter_map(|(offset, cell)| {
            (cell.polled && !self.is_final(offset, cell.value, &cell)).then_some((offset, cell.value))
        })
    }
}
