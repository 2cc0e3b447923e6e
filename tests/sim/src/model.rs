//! What the log must hold, written down independently: every batch as it was appended, and what
//! follows from them.

mod producers;

use std::sync::Arc;

use base::{LeaderEpoch, Offset, TimestampMs};
use records::{BatchHeader, EndMarker};

pub use producers::{ExpectedProducer, ExpectedProducers};

/// A batch as it must be stored.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its header, with the place and the epoch it has in the log.
    pub header: BatchHeader,
    /// All of its bytes.
    pub bytes: Arc<[u8]>,
    /// The timestamp of each of its records.
    pub times: Arc<[TimestampMs]>,
    /// What it says if it ends a transaction.
    pub marker: Option<EndMarker>,
}

impl Written {
    /// The offset of its first record.
    pub fn base(&self) -> Offset {
        self.header.base_offset
    }

    /// The offset behind its last record.
    pub fn next(&self) -> Offset {
        self.header.next_offset()
    }
}

/// The log as it must be.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Oldest first and dense. Those that retention has deleted are still here.
    pub batches: Vec<Written>,
    /// Where readers may begin.
    pub start: Offset,
    /// Where the next batch goes.
    pub end: Offset,
    /// Every leader epoch and where it began.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
    /// What follows from the batches for producers and transactions.
    pub producers: ExpectedProducers,
}

impl Model {
    /// Takes in a batch at the end.
    pub fn append(&mut self, batch: Written) {
        self.begin_epoch(batch.header.leader_epoch);
        self.end = batch.next();
        self.producers.take(&batch);
        self.batches.push(batch);
    }

    /// A leader epoch begins at the end.
    pub fn begin_epoch(&mut self, epoch: LeaderEpoch) {
        if self.epochs.last().is_some_and(|&(last, _)| last >= epoch) {
            return;
        }
        self.epochs.retain(|&(_, start)| start < self.end);
        self.epochs.push((epoch, self.end));
    }

    /// The newest leader epoch.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epochs.last().map_or(LeaderEpoch::FIRST, |&(epoch, _)| epoch)
    }

    /// Where a log that is cut at `upto` ends: a batch that reaches over it goes whole.
    pub fn cut_at(&self, upto: Offset) -> Offset {
        self.batch_of(upto).map_or(self.end.min(upto), Written::base)
    }

    /// Drops everything from the batch with `upto` on.
    pub fn cut(&mut self, upto: Offset) {
        let end = self.cut_at(upto);
        self.batches.retain(|batch| batch.next() <= end);
        self.producers = ExpectedProducers::of(&self.batches);
        self.epochs.retain(|&(_, start)| start < end);
        self.end = end;
        self.start = self.start.min(end);
    }

    /// Drops everything; the next batch has this offset.
    pub fn start_over(&mut self, at: Offset) {
        *self = Self { start: at, end: at, ..Self::default() };
    }

    /// The batch with the record at `offset`.
    pub fn batch_of(&self, offset: Offset) -> Option<&Written> {
        self.batches.get(self.place_of(offset)).filter(|batch| batch.base() <= offset)
    }

    /// The batches from the one with `offset` on.
    pub fn from(&self, offset: Offset) -> &[Written] {
        &self.batches[self.place_of(offset)..]
    }

    /// Whether a batch ends, or the log begins, at `offset`.
    pub fn is_boundary(&self, offset: Offset) -> bool {
        offset == self.end || self.batch_of(offset).is_some_and(|batch| batch.base() == offset)
    }

    /// The bytes of the batches in `from..upto`, from the one with `from` on.
    pub fn bytes(&self, from: Offset, upto: Offset) -> Vec<u8> {
        let batches = self.from(from).iter().take_while(|batch| batch.next() <= upto);
        batches.map(|batch| &batch.bytes[..]).collect::<Vec<_>>().concat()
    }

    /// Every record's offset and timestamp, from the start on.
    pub fn timestamps(&self) -> impl Iterator<Item = (Offset, TimestampMs)> + '_ {
        let records = self
            .from(self.start)
            .iter()
            .flat_map(|batch| (batch.base().0..).map(Offset).zip(batch.times.iter().copied()));
        records.filter(|&(offset, _)| offset >= self.start)
    }

    fn place_of(&self, offset: Offset) -> usize {
        self.batches.partition_point(|batch| batch.next() <= offset)
    }
}
