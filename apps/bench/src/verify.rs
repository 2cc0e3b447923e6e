//! Whether what is read is what was written: nothing lost, duplicated, reordered or corrupt.
//!
//! Each sender numbers its records, whatever partition they go to. So a number that is missing among all
//! partitions was lost; one that is there twice was duplicated; and within a partition a number that is
//! lower than the one before it was reordered.

mod carry;
mod numbers;

use std::fmt;
use std::ops::Range;

use anyhow::{Result, bail, ensure};
use base::{Offset, PartitionIndex};
use client::Record;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::mark::{Found, Mark};
use numbers::Numbers;

pub(crate) use carry::Piece;

/// Looks at every record that is read. A place is a partition, as the reader counts them.
#[derive(Debug, Default)]
pub struct Checker {
    /// Whose records count; those of all runs if `None`.
    run: Option<u64>,
    has_short_marks: bool,
    writers: Vec<Writer>,
    /// The writer of the last record, who most often wrote the next one, too.
    last_writer: usize,
    verdict: Verdict,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Records with a mark, good or bad.
    checked: u64,
    /// Records of others.
    unmarked: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    corrupt: u64,
    /// Records of others, where there should be none.
    #[serde(default)]
    foreign: u64,
    /// What was wrong first.
    first: Option<String>,
}

/// One sender of one run.
#[derive(Debug)]
struct Writer {
    run: u64,
    sender: u16,
    numbers: Numbers,
    /// The first and the last number in each place.
    spans: Vec<Option<(u64, u64)>>,
}

/// How much of a place was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// From the first record there ever was.
    pub from_start: bool,
    /// Up to the last one.
    pub to_end: bool,
}

/// Where a record was read.
#[derive(Debug, Clone, Copy)]
pub struct ReadAt<'a> {
    /// Its partition, as the reader counts them.
    pub place: usize,
    /// Its topic.
    pub topic: &'a str,
    /// Its partition.
    pub partition: PartitionIndex,
    /// Its offset.
    pub offset: Offset,
}

/// A topic to which more senders wrote is not that of a measurement.
const WRITERS_MAX: usize = 1 << 16;

impl Checker {
    /// For the records of one run, or of all.
    pub fn new(run: Option<u64>) -> Self {
        Self { run, ..Self::default() }
    }

    /// For the records of one run that have short marks.
    pub fn of_short_marks(run: u64) -> Self {
        Self { has_short_marks: true, ..Self::new(Some(run)) }
    }

    #[inline]
    /// Looks at a record.
    pub fn check(&mut self, at: ReadAt<'_>, record: &Record<'_>) -> Result<()> {
        let found = match self.run {
            Some(run) if self.has_short_marks => Mark::find_short(record, run),
            _ => Mark::find(record),
        };
        match found {
            Found::Sent(mark) if self.run.is_none_or(|run| run == mark.run) => self.take(at, mark),
            Found::Sent(_) | Found::Unmarked => {
                self.verdict.unmarked += 1;
                Ok(())
            }
            Found::Corrupt => {
                self.verdict.checked += 1;
                self.verdict.corrupt += 1;
                self.verdict.note(|| format!("what is at {at} is not what was sent"));
                Ok(())
            }
        }
    }

    #[inline]
    fn take(&mut self, at: ReadAt<'_>, mark: Mark) -> Result<()> {
        let place = at.place;
        self.verdict.checked += 1;
        let writer = self.writer(mark)?;
        let Writer { numbers, spans, .. } = &mut self.writers[writer];
        if spans.len() <= place {
            spans.resize(place + 1, None);
        }
        let (is_new, span) = (numbers.insert(mark.number)?, &mut spans[place]);
        let last = span.map(|(_, last)| last);
        if !is_new {
            self.verdict.duplicated += 1;
            self.verdict.note(|| format!("{mark} came again at {at}"));
        } else if let Some(last) = last.filter(|&last| mark.number < last) {
            self.verdict.reordered += 1;
            self.verdict.note(|| format!("{mark} came behind record {last}, at {at}"));
        }
        let (first, last) = span.unwrap_or((mark.number, mark.number));
        *span = Some((first.min(mark.number), last.max(mark.number)));
        Ok(())
    }

    #[inline]
    fn writer(&mut self, mark: Mark) -> Result<usize> {
        let is = |writer: &Writer| writer.run == mark.run && writer.sender == mark.sender;
        if self.writers.get(self.last_writer).is_some_and(is) {
            return Ok(self.last_writer);
        }
        self.last_writer = match self.writers.iter().position(is) {
            Some(at) => at,
            None => {
                ensure!(self.writers.len() < WRITERS_MAX, "more than {WRITERS_MAX} senders wrote there");
                let Mark { run, sender, .. } = mark;
                self.writers.push(Writer { run, sender, numbers: Numbers::default(), spans: Vec::new() });
                self.writers.len() - 1
            }
        };
        Ok(self.last_writer)
    }

    /// Adds what another reader saw of the same run, in other places: what both saw was duplicated.
    pub fn absorb(&mut self, other: Self) -> Result<()> {
        let Self { writers, verdict, .. } = other;
        for writer in writers {
            let mark = Mark { run: writer.run, sender: writer.sender, number: 0 };
            let at = self.writer(mark)?;
            let mine = &mut self.writers[at];
            let (both, first) = mine.numbers.absorb(writer.numbers);
            self.verdict.duplicated += both;
            if let Some(number) = first {
                self.verdict.note(|| format!("{} came to two readers", Mark { number, ..mark }));
            }
            let places = mine.spans.len().max(writer.spans.len());
            mine.spans.resize(places, None);
            for (mine, others) in mine.spans.iter_mut().zip(writer.spans) {
                *mine = mine.or(others);
            }
        }
        self.verdict.add(verdict);
        Ok(())
    }

    /// What was found so far; what is missing may still come.
    pub const fn so_far(&self) -> &Verdict {
        &self.verdict
    }

    /// How many of so many records of each sender did not come yet, without those that it gave up, whose
    /// numbers are in order.
    pub fn missing(&self, sent: &[u64], given_up: &[Vec<u64>]) -> u64 {
        let of = |(sender, &sent): (u16, &u64)| {
            let given_up = given_up.get(usize::from(sender)).map_or(&[][..], Vec::as_slice);
            let Some(writer) = self.of_sender(sender) else { return sent - given_up.len() as u64 };
            let are_excused =
                given_up.iter().filter(|&&number| !writer.numbers.contains(number)).count() as u64;
            writer.numbers.missing(0..sent).0 - are_excused
        };
        (0..).zip(sent).map(of).sum()
    }

    /// The first record of a sender that is missing and was not given up.
    fn first_missing(&self, sender: u16, sent: u64, given_up: &[u64]) -> Option<u64> {
        let none = Numbers::default();
        let numbers = self.of_sender(sender).map_or(&none, |writer| &writer.numbers);
        (0..sent).find(|number| !numbers.contains(*number) && given_up.binary_search(number).is_err())
    }

    fn of_sender(&self, sender: u16) -> Option<&Writer> {
        self.writers.iter().find(|writer| writer.sender == sender)
    }

    /// For one who knows what was sent by each sender of the run, and which of them were given up: those
    /// may have come or not.
    pub fn verdict_on(mut self, sent: &[u64], given_up: &[Vec<u64>]) -> Verdict {
        self.verdict.lost = self.missing(sent, given_up);
        for (sender, &sent) in (0..).zip(sent).filter(|_| self.verdict.lost > 0) {
            let given_up = given_up.get(usize::from(sender)).map_or(&[][..], Vec::as_slice);
            if let Some(number) = self.first_missing(sender, sent, given_up) {
                let run = self.run.unwrap_or_default();
                self.verdict.note(|| format!("{} did not come", Mark { run, sender, number }));
                break;
            }
        }
        self.verdict
    }

    /// For one who knows only how much was read of each place: what is missing between what is there.
    pub fn verdict_within(mut self, extents: &[Extent]) -> Verdict {
        for writer in &self.writers {
            let (missing, first) = writer.numbers.missing(writer.known_range(extents));
            self.verdict.lost += missing;
            if let Some(number) = first {
                let Writer { run, sender, .. } = *writer;
                self.verdict.note(|| format!("{} did not come", Mark { run, sender, number }));
            }
        }
        self.verdict
    }
}

impl Writer {
    /// The numbers that were read if they are there at all.
    ///
    /// ```text
    ///   place 0   3 4 7 8           begins later than it did once: below 3 nothing is known
    ///   place 1   0 1 2 5 6 9 12    was not read to its end: above 12 nothing is known
    ///                 └──────┘
    /// ```
    fn known_range(&self, extents: &[Extent]) -> Range<u64> {
        let (mut from, mut to) = (0, self.numbers.end());
        for (place, extent) in extents.iter().enumerate() {
            let span = self.spans.get(place).copied().flatten();
            if !extent.from_start {
                from = from.max(span.map_or(u64::MAX, |(first, _)| first));
            }
            if !extent.to_end {
                to = to.min(span.map_or(0, |(_, last)| last));
            }
        }
        from..to.max(from)
    }
}

impl fmt::Display for ReadAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} of {}-{}", self.offset, self.topic, self.partition)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of sender {} of run {:016x}", self.number, self.sender, self.run)
    }
}

impl Verdict {
    /// Of records without marks, which are only counted: so many were acknowledged, so many sent, so many read.
    pub fn of_counts(acknowledged: u64, sent: u64, read: u64) -> Self {
        let mut verdict = Self { unmarked: read, duplicated: read.saturating_sub(sent), ..Self::default() };
        if verdict.duplicated > 0 {
            verdict.note(|| format!("{read} records came of {sent}"));
        }
        verdict.lose(acknowledged.saturating_sub(read));
        verdict
    }

    fn add(&mut self, other: Self) {
        self.checked += other.checked;
        self.unmarked += other.unmarked;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.first = self.first.take().or(other.first);
    }

    /// What was wrong first, if anything was.
    pub fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(what());
        }
    }

    /// Records that did not come at all, beside those that are missing between others.
    pub fn lose(&mut self, records: u64) {
        self.lost = self.lost.max(records);
        if records > 0 {
            self.note(|| format!("{records} records did not come"));
        }
    }

    /// Records with a mark.
    pub const fn checked(&self) -> u64 {
        self.checked
    }

    /// Records that are what was sent, each counted once.
    pub const fn arrived(&self) -> u64 {
        self.checked - self.corrupt - self.duplicated
    }

    /// Records without one, or of another run.
    pub const fn unmarked(&self) -> u64 {
        self.unmarked
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        [self.lost, self.duplicated, self.reordered, self.corrupt, self.foreign]
            .iter()
            .all(|count| *count == 0)
    }

    /// Of topics to which nobody else writes: a record of others is wrong there.
    pub(crate) fn of_own_topics(mut self) -> Self {
        let foreign = self.unmarked;
        if foreign > 0 {
            self.note(|| format!("{foreign} records are none that were sent"));
        }
        self.foreign = foreign;
        self
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "records": self.checked,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "corrupt": self.corrupt,
            "foreign": self.foreign,
            "unmarked": self.unmarked,
        })
    }

    /// An error if a run must fail.
    pub fn into_result(self) -> Result<()> {
        if self.is_clean() {
            return Ok(());
        }
        let counts = [
            (self.lost, "lost"),
            (self.duplicated, "duplicated"),
            (self.reordered, "reordered"),
            (self.corrupt, "corrupt"),
            (self.foreign, "foreign"),
        ];
        let wrong = counts.iter().filter(|(count, _)| *count > 0);
        let wrong: Vec<String> = wrong.map(|(count, what)| format!("{count} {what}")).collect();
        bail!("verification failed: records {}: {}", wrong.join(", "), self.first.unwrap_or_default())
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let Self { checked, lost, duplicated, reordered, corrupt, .. } = self;
        format!(
            "{checked} records checked: {lost} lost, {duplicated} duplicated, {reordered} reordered, \
             {corrupt} corrupt"
        )
    }
}

#[cfg(test)]
mod tests;
