//! What was promised, and whether it is so.
//!
//! Per partition: what was acknowledged, what readers saw, and what was found at each offset. What was
//! once found at an offset must be found there ever after.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use base::{Offset, PartitionIndex};
use client::Connection;
use client::raw::FetchLimits;
use records::{Scratch, StoredBatch};

use crate::sample::Origin;

/// How far behind the end the tail is read again.
const TAIL_RECORDS: usize = 2_000;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its topic.
    pub topic: String,
    /// Its index.
    pub partition: PartitionIndex,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Records of which a producer was told that they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The offset of the first.
    pub base: Offset,
    /// Where it comes from; the others follow it.
    pub first: Origin,
    /// How many.
    pub count: u32,
}

/// How much is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What is new, and some of what is known.
    Tail,
    /// Everything.
    All,
}

/// Everything that is known of some partitions.
#[derive(Debug, Default)]
pub struct Ledger {
    partitions: BTreeMap<Place, Known>,
    /// Producers that send again what was not acknowledged, so that all of it is there once.
    idempotent: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct Known {
    acknowledged: Vec<Acknowledged>,
    /// How many of them were compared with what was found.
    compared: usize,
    seen: Vec<(Offset, Origin)>,
    /// By offset.
    found: Vec<Origin>,
    /// Each leader epoch and the offset of its first batch.
    epochs: Vec<(i32, Offset)>,
    /// What each producer's next record is.
    next: BTreeMap<u32, u64>,
}

impl Ledger {
    /// With these producers idempotent.
    pub fn new(idempotent: impl IntoIterator<Item = u32>) -> Self {
        Self { partitions: BTreeMap::new(), idempotent: idempotent.into_iter().collect() }
    }

    /// Takes down what was acknowledged.
    pub fn acknowledged(&mut self, at: &Place, of: impl IntoIterator<Item = Acknowledged>) {
        self.known(at).acknowledged.extend(of);
    }

    /// Takes down what a reader saw.
    pub fn seen(&mut self, at: &Place, of: impl IntoIterator<Item = (Offset, Origin)>) {
        self.known(at).seen.extend(of);
    }

    fn known(&mut self, at: &Place) -> &mut Known {
        self.partitions.entry(at.clone()).or_default()
    }

    /// The first offset of a partition at which nothing was found yet.
    pub fn end(&self, at: &Place) -> Offset {
        Offset(self.partitions.get(at).map_or(0, |known| known.found.len() as i64))
    }

    /// How many records were acknowledged.
    pub fn acknowledged_count(&self) -> u64 {
        let all = self.partitions.values().flat_map(|known| &known.acknowledged);
        all.map(|acknowledged| u64::from(acknowledged.count)).sum()
    }

    /// How many records were found.
    pub fn found_count(&self) -> usize {
        self.partitions.values().map(|known| known.found.len()).sum()
    }

    /// Each leader epoch found in a partition's batches, with the offset it starts at.
    pub fn epochs(&self) -> impl Iterator<Item = (&Place, &[(i32, Offset)], Offset)> {
        self.partitions
            .iter()
            .map(|(at, known)| (at, known.epochs.as_slice(), Offset(known.found.len() as i64)))
    }

    /// Reads back and fails if a promise was broken.
    pub fn check(&mut self, connection: &mut Connection, depth: Depth) -> Result<()> {
        for (at, known) in &mut self.partitions {
            let from = match depth {
                Depth::Tail => known.found.len().saturating_sub(TAIL_RECORDS),
                Depth::All => 0,
            };
            known
                .read_back(connection, at, from, &self.idempotent)
                .with_context(|| format!("partition {at}"))?;
            known.compare().with_context(|| format!("partition {at}"))?;
        }
        Ok(())
    }

    /// How many acknowledged records lie behind the end of their partition.
    pub fn count_lost(&self, connection: &mut Connection) -> Result<u64> {
        let mut lost = 0;
        for (at, known) in &self.partitions {
            let end = end(connection, at)?;
            for of in &known.acknowledged {
                let ends = of.base.0 + i64::from(of.count);
                lost += (ends - end.0.max(of.base.0)).max(0) as u64;
            }
        }
        Ok(lost)
    }
}

impl Known {
    fn read_back(
        &mut self,
        connection: &mut Connection,
        at: &Place,
        from: usize,
        idempotent: &BTreeSet<u32>,
    ) -> Result<()> {
        let end = end(connection, at)?;
        let known = self.found.len();
        ensure!(end.0 >= known as i64, "ends at {end}, but records were found up to {known}");
        let mut next = Offset(from as i64);
        let mut scratch = Scratch::default();
        while next < end {
            let fetched = connection.fetch(&at.topic, at.partition, next, FetchLimits::default())?;
            let before = next;
            for batch in records::batches(&fetched.records) {
                let batch = batch.with_context(|| format!("at {next}"))?;
                next = self.read_batch(&batch, next, idempotent, &mut scratch)?;
            }
            ensure!(next > before, "nothing to read at {next}, but the end is {end}");
        }
        Ok(())
    }

    fn read_batch(
        &mut self,
        batch: &StoredBatch<'_>,
        next: Offset,
        idempotent: &BTreeSet<u32>,
        scratch: &mut Scratch,
    ) -> Result<Offset> {
        let header = *batch.header();
        // Only the first batch of a read may begin before the offset that was asked for.
        ensure!(header.base_offset <= next && batch.next_offset() > next, "{header:?} at {next}");
        let count = header.last_offset_delta + 1;
        ensure!(header.records_count == count, "{} of {count} records at {next}", header.records_count);
        let mut offset = header.base_offset;
        for record in batch.records(scratch)? {
            let record = record.with_context(|| format!("at {offset}"))?;
            ensure!(record.offset(&header) == offset, "{} where {offset} is due", record.offset(&header));
            let origin =
                Origin::of(&record, record.timestamp(&header)).with_context(|| format!("at {offset}"))?;
            self.found_at(offset, origin, idempotent)?;
            offset = offset.next();
        }
        self.epoch_of(header.base_offset, header.leader_epoch.0)?;
        Ok(offset)
    }

    fn found_at(&mut self, offset: Offset, origin: Origin, idempotent: &BTreeSet<u32>) -> Result<()> {
        let place = usize::try_from(offset.0)?;
        if let Some(before) = self.found.get(place) {
            ensure!(*before == origin, "{origin:?} at {offset}, where {before:?} was found before");
            return Ok(());
        }
        ensure!(place == self.found.len(), "a gap: {} is followed by {offset}", self.found.len());
        self.found.push(origin);
        let next = self.next.entry(origin.producer).or_default();
        if idempotent.contains(&origin.producer) {
            ensure!(origin.number == *next, "{origin:?} at {offset}, where its number {next} is due");
        } else {
            ensure!(
                origin.number >= *next,
                "{origin:?} at {offset} is there before or behind its number {next}"
            );
        }
        *next = origin.number + 1;
        Ok(())
    }

    fn epoch_of(&mut self, base: Offset, epoch: i32) -> Result<()> {
        let in_force = self.epochs.iter().rev().find(|(_, start)| *start <= base);
        match in_force {
            Some((known, _)) if *known == epoch => Ok(()),
            Some((known, start)) if *known > epoch || self.epochs.iter().any(|(_, start)| *start > base) => {
                bail!("epoch {epoch} at {base}, but epoch {known} from {start} on")
            }
            Some(_) | None => {
                self.epochs.push((epoch, base));
                Ok(())
            }
        }
    }

    /// What was acknowledged and seen since the last time, against what was found.
    fn compare(&mut self) -> Result<()> {
        for of in &self.acknowledged[self.compared..] {
            let base = usize::try_from(of.base.0).with_context(|| format!("{of:?}"))?;
            let found = self.found.get(base..).unwrap_or_default();
            let expected = (of.first.number..).map(|number| Origin { number, ..of.first });
            for (index, expected) in expected.take(of.count as usize).enumerate() {
                let found = found.get(index);
                ensure!(
                    found == Some(&expected),
                    "{of:?} was acknowledged, but found: {found:?}, number {index}"
                );
            }
        }
        self.compared = self.acknowledged.len();
        for (offset, origin) in self.seen.drain(..) {
            let found = self.found.get(usize::try_from(offset.0)?);
            ensure!(found == Some(&origin), "{origin:?} was read at {offset}, but found: {found:?}");
        }
        Ok(())
    }
}

/// Behind the last record that consumers may read.
fn end(connection: &mut Connection, at: &Place) -> Result<Offset> {
    let limits = FetchLimits { bytes_min: 0, wait_ms_max: 0, bytes_max: 1 };
    let fetched = connection.fetch(&at.topic, at.partition, Offset::ZERO, limits)?;
    ensure!(fetched.log_start == Offset::ZERO, "{at} starts at {}", fetched.log_start);
    Ok(fetched.high_watermark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Offset = Offset(0);

    fn origin(producer: u32, number: u64) -> Origin {
        Origin { producer, number }
    }

    fn found(of: &[(u32, u64)]) -> Result<Known> {
        let mut known = Known::default();
        for (offset, (producer, number)) in (0..).zip(of) {
            known.found_at(Offset(offset), origin(*producer, *number), &BTreeSet::from([1]))?;
        }
        Ok(known)
    }

    #[test]
    fn duplicates_gaps_and_disorder_are_noticed() {
        assert!(found(&[(1, 0), (2, 3), (1, 1), (2, 7)]).is_ok());
        assert!(found(&[(1, 0), (1, 0)]).is_err(), "an idempotent record twice");
        assert!(found(&[(1, 0), (1, 2)]).is_err(), "an idempotent record is missing");
        assert!(found(&[(2, 5), (2, 5)]).is_err(), "a record twice that was sent once");
        let mut known = found(&[(1, 0)]).unwrap();
        assert!(known.found_at(Offset(2), origin(1, 1), &BTreeSet::new()).is_err(), "a gap");
        assert!(known.found_at(AT, origin(1, 5), &BTreeSet::new()).is_err(), "another record there");
        assert!(known.found_at(AT, origin(1, 0), &BTreeSet::new()).is_ok(), "the same again");
    }

    #[test]
    fn broken_promises_are_noticed() {
        let promise = |base, first, count| {
            let mut known = found(&[(1, 0), (2, 0), (1, 1), (1, 2)]).unwrap();
            known.acknowledged.push(Acknowledged { base: Offset(base), first, count });
            known.compare()
        };
        assert!(promise(2, origin(1, 1), 2).is_ok());
        assert!(promise(2, origin(1, 1), 3).is_err(), "the end is lost");
        assert!(promise(1, origin(1, 0), 1).is_err(), "something else is there");
        assert!(promise(9, origin(1, 0), 1).is_err(), "all of it is lost");
        let mut known = found(&[(1, 0)]).unwrap();
        known.seen.push((AT, origin(1, 1)));
        assert!(known.compare().is_err(), "something else was read");
    }

    #[test]
    fn epochs_only_grow() {
        let mut known = Known::default();
        for (base, epoch) in [(0, 3), (5, 3), (9, 4), (0, 3), (5, 3), (9, 4), (12, 7)] {
            known.epoch_of(Offset(base), epoch).unwrap();
        }
        assert_eq!(known.epochs, [(3, Offset(0)), (4, Offset(9)), (7, Offset(12))]);
        assert!(known.epoch_of(Offset(20), 6).is_err());
        assert!(known.epoch_of(Offset(5), 4).is_err());
    }
}
