//! Where a reader is in each partition, by what it asked for and was lent; and whether the next record
//! follows from that.

use client_core::consumer::{Reset, Start};

use super::brokers::{Brokers, Place, Said};
use super::fetch::EPOCHS_FROM;
use super::history::{Fate, Log, Truth};
use crate::client::invariants::i07_committed_only;
use crate::violation::Violation;

/// Where a reader is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The next record is the first one from here on.
    Offset(i64),
    /// It was asked where that is.
    Asked(Start),
}

/// One partition as it is read.
#[derive(Debug)]
pub(super) struct Follow {
    at: At,
    since_us: u64,
    /// Which log the last record was of, and its value, since the last seek.
    last: Option<(usize, u64)>,
    pub(super) is_paused: bool,
}

/// What is lent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lent {
    pub(super) place: Place,
    pub(super) offset: i64,
    pub(super) value: u64,
}

impl Follow {
    pub(super) const fn new(start: Start, now_us: u64) -> Self {
        let at = match start {
            Start::Offset(offset) => At::Offset(offset.0),
            start => At::Asked(start),
        };
        Self { at, since_us: now_us, last: None, is_paused: false }
    }

    /// It goes on from elsewhere, paused or not as it was.
    pub(super) const fn seek(&mut self, start: Start, now_us: u64) {
        *self = Self { is_paused: self.is_paused, ..Self::new(start, now_us) };
    }

    /// It goes on where it is, but nobody remembers of which history it read.
    pub(super) const fn forget_history(&mut self) {
        self.last = None;
    }

    /// The value of the last record that was lent since the last seek.
    pub(super) fn last_value(&self) -> Option<u64> {
        self.last.map(|(_, value)| value)
    }

    /// A record is lent: whether it is the one that is due.
    pub(super) fn lent(&mut self, lent: Lent, brokers: &Brokers) -> Result<(), Violation> {
        let wrong = |invariant, what: &str| {
            let what = format!("{lent:?} {what}; the reader is at {self:?}");
            Err(Violation { invariant, what })
        };
        let Some((number, truth)) = find(brokers, lent) else {
            return wrong("what is read was written", "was not written there");
        };
        let log = &brokers.logs[&lent.place][number];
        let is_committed = truth.fate == Fate::Stands;
        i07_committed_only::check(brokers.options.is_committed_only, is_committed, || {
            format!("{lent:?} is {:?}; the reader is at {self:?}", truth.fate)
        })?;
        if let Some((before, value)) = self.last {
            // Only what says what it read can be told that it is not there any more.
            let is_torn = brokers.options.fetch_version_max >= EPOCHS_FROM
                && before == number
                && log.written.iter().any(|last| last.value == value && log.is_torn(last, &truth));
            if before > number || is_torn {
                return wrong("what is read is one history", "was never in the log with the last one");
            }
        }
        let Some(since_us) = self.leads_to(lent, (number, &truth), brokers) else {
            return wrong("a run without gap or overlap", "is not the next one");
        };
        *self = Self {
            at: At::Offset(lent.offset + 1),
            since_us,
            last: Some((number, lent.value)),
            is_paused: self.is_paused,
        };
        Ok(())
    }

    /// Whether nothing was left out between where the reader is and an offset: since when it has been on its
    /// way there.
    fn leads_to(
        &self,
        Lent { place, offset, .. }: Lent,
        (number, truth): (usize, &Truth),
        brokers: &Brokers,
    ) -> Option<u64> {
        let is_committed_only = brokers.options.is_committed_only;
        let before_us = truth.cut_us.unwrap_or(u64::MAX);
        let logs = &brokers.logs[&place];
        // In a topic that was made anew the reader goes on at the offset where it was in the old one.
        let before = self.last.map_or(0, |(before, _)| before);
        let is_run = |from: i64| {
            let first_due = |log: &Log, from: i64| log.first_due(from..offset, before_us, is_committed_only);
            // In each of those before, it may have gone on to the first record that was due there.
            let reached =
                logs[before..number].iter().fold(from, |from, log| first_due(log, from).unwrap_or(offset));
            from <= offset && first_due(&logs[number], reached).is_none()
        };
        let said = brokers.said.get(&place).into_iter().flatten();
        let mut since = said.filter(|(at_us, _)| *at_us >= self.since_us).copied();
        let starts = match self.at {
            At::Offset(at) if is_run(at) => return Some(self.since_us),
            At::Offset(at) => {
                // Only a broker that says that the reader's offset is not there makes it go elsewhere.
                since.find(|(_, said)| matches!(said, Said::OutOfRange(offset) if *offset >= at))?;
                brokers.options.reset
            }
            At::Asked(start) => return began(since, start, brokers.options.reset, is_run),
        };
        let start = match starts {
            Reset::Earliest => Start::Earliest,
            Reset::Latest => Start::Latest,
            Reset::None => return None,
        };
        began(since, start, brokers.options.reset, is_run)
    }
}

/// Whether a broker named a place to begin, as it was asked for, from which on nothing was left out. What
/// it named may have been out of range by the time it was asked for.
fn began(
    mut said: impl Iterator<Item = (u64, Said)>,
    start: Start,
    reset: Reset,
    is_run: impl Fn(i64) -> bool,
) -> Option<u64> {
    let mut asked = match start {
        Start::Earliest => vec![-2],
        Start::Latest => vec![-1],
        // Behind the last, if none is as late.
        Start::Time(time) => vec![time.0, -1],
        Start::Offset(_) => Vec::new(),
    };
    let began = said.find(|(_, said)| match *said {
        Said::OutOfRange(_) => {
            asked.push(match reset {
                Reset::Earliest => -2,
                Reset::Latest => -1,
                Reset::None => return false,
            });
            false
        }
        Said::Offset { asked: time, offset } => asked.contains(&time) && offset >= 0 && is_run(offset),
        Said::Diverges(_) => false,
    });
    began.map(|(at_us, _)| at_us)
}

/// The record, and which of the partition's logs it was in.
fn find(brokers: &Brokers, lent: Lent) -> Option<(usize, Truth)> {
    let logs = brokers.logs[&lent.place].iter().enumerate();
    logs.flat_map(|(number, log)| log.written.iter().map(move |truth| (number, *truth)))
        .find(|(_, truth)| truth.value == lent.value && truth.offset == lent.offset)
}
