//! Producers of one log: their newest batches, and their open transactions.
//!
//! ```text
//!   last 5 batches of a producer   [10..19] [20..29] [30..34] [35..39] [40..49]
//!   next batch starts at 50        new
//!                     at 40 to 49  a repetition: answered with the offsets of the first append
//!                     elsewhere    out of sequence
//! ```
//!
//! Five, because a client that wants order keeps at most five batches in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use records::{BatchHeader, EndMarker};

use crate::index::AbortedTxn;

/// How many batches of a producer are remembered.
pub(crate) const BATCHES_MAX: usize = 5;
/// How many producers one log remembers: 5 MiB of memory, and of a snapshot. Whoever is forgotten is taken
/// for one that was never seen, so that only a repetition after as many others is not recognised.
pub(crate) const PRODUCERS_MAX: usize = 20_000;
/// The epoch of a coordinator before any marker came.
pub(crate) const NO_COORDINATOR: i32 = -1;

/// Why a producer's batch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// Another life of the producer has begun.
    #[error("producer {id} has epoch {current}, the batch has {got}")]
    OldEpoch {
        /// Whose batch it is.
        id: ProducerId,
        /// The epoch of the batch.
        got: ProducerEpoch,
        /// The newest epoch seen.
        current: ProducerEpoch,
    },
    /// Batches before this one are missing, or it was appended too long ago to be told from a new one.
    #[error("sequence {got} of producer {id} does not follow {last}")]
    OutOfSequence {
        /// Whose batch it is.
        id: ProducerId,
        /// Its first sequence.
        got: Sequence,
        /// The last one appended; [`Sequence::NONE`] at the start of an epoch.
        last: Sequence,
    },
    /// A batch outside a transaction while the producer has one open.
    #[error("producer {id} has a transaction open, the batch is not part of it")]
    InTransaction {
        /// Whose batch it is.
        id: ProducerId,
    },
    /// A marker of a coordinator that was replaced.
    #[error("a marker for producer {id} has coordinator epoch {got}, but {current} was seen")]
    CoordinatorFenced {
        /// Whose transaction it would end.
        id: ProducerId,
        /// The epoch of the marker.
        got: i32,
        /// The newest epoch seen.
        current: i32,
    },
}

/// What is to be done with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    New,
    /// Appended before, at these offsets.
    Duplicate {
        first: Offset,
        last: Offset,
        timestamp: TimestampMs,
    },
}

/// A transaction that a marker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completed {
    /// There if it was aborted: what readers must leave out.
    pub(crate) aborted: Option<AbortedTxn>,
}

/// What a log knows of one producer, for those who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerView {
    /// Which producer.
    pub id: ProducerId,
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of its last record; [`Sequence::NONE`] if it wrote none in that epoch.
    pub last_sequence: Sequence,
    /// The largest timestamp of its last batch.
    pub last_timestamp: TimestampMs,
    /// The epoch of the coordinator that wrote its last marker; -1 if there was none.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins.
    pub transaction_start: Option<Offset>,
}

/// A batch that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) last_sequence: Sequence,
    pub(crate) last_offset: Offset,
    /// Records of the batch, less one.
    pub(crate) delta: i32,
    pub(crate) timestamp: TimestampMs,
}

impl Seen {
    fn first_sequence(self) -> Sequence {
        // Sequences wrap from i32::MAX to 0.
        let first = i64::from(self.last_sequence.0) - i64::from(self.delta);
        let wrapped = if first < 0 { first + i64::from(i32::MAX) + 1 } else { first };
        Sequence(i32::try_from(wrapped).unwrap_or(i32::MAX))
    }

    fn first_offset(self) -> Offset {
        Offset(self.last_offset.0.saturating_sub(i64::from(self.delta)))
    }
}

/// One producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: ProducerEpoch,
    pub(crate) coordinator_epoch: i32,
    pub(crate) last_timestamp: TimestampMs,
    pub(crate) transaction_start: Option<Offset>,
    /// When this broker appended its last batch, by `Now::elapsed`; when the log was opened, for those
    /// from before. Not what its records say: a back-fill writes old ones.
    appended: Duration,
    /// Oldest first; only those of the newest epoch.
    seen: [Option<Seen>; BATCHES_MAX],
}

impl Producer {
    pub(crate) fn new(epoch: ProducerEpoch, appended: Duration) -> Self {
        Self {
            appended,
            epoch,
            coordinator_epoch: NO_COORDINATOR,
            last_timestamp: TimestampMs::NONE,
            transaction_start: None,
            seen: [None; BATCHES_MAX],
        }
    }

    pub(crate) fn last_seen(&self) -> Option<Seen> {
        self.seen.iter().rev().find_map(|&seen| seen)
    }

    /// The batches that are remembered, oldest first.
    pub(crate) fn seen(&self) -> impl Iterator<Item = Seen> {
        self.seen.iter().flatten().copied()
    }

    pub(crate) fn push(&mut self, seen: Seen) {
        let free = self.seen.iter().position(Option::is_none);
        if free.is_none() {
            self.seen.rotate_left(1);
        }
        self.seen[free.unwrap_or(BATCHES_MAX - 1)] = Some(seen);
    }

    fn enter_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.seen = [None; BATCHES_MAX];
        }
    }

    fn find(&self, header: &BatchHeader) -> Option<Seen> {
        if header.producer_epoch != self.epoch {
            return None;
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        self.seen.iter().flatten().find(|s| s.first_sequence() == first && s.last_sequence == last).copied()
    }

    fn expects(&self, header: &BatchHeader) -> bool {
        let got = header.base_sequence;
        match self.last_seen() {
            // A new epoch counts from 0.
            _ if header.producer_epoch != self.epoch => got == Sequence(0),
            Some(last) => got == last.last_sequence.wrapping_add(1),
            // Only a marker came in this epoch.
            None => got == Sequence(0),
        }
    }
}

/// All producers of one log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    // Ordered maps: producers choose their ids.
    known: BTreeMap<ProducerId, Producer>,
    /// Open transactions by where they begin.
    open: BTreeMap<Offset, ProducerId>,
    /// Ended transactions whose marker is not below the high watermark: first and last offset.
    ended: BTreeMap<Offset, Offset>,
}

impl Producers {
    /// Judges a batch of records from a client. A producer that is not known may start at any
    /// sequence: its earlier batches may have been deleted.
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<Verdict, ProducerError> {
        let id = header.producer_id;
        let Some(producer) = self.known.get(&id) else { return Ok(Verdict::New) };
        check_epoch(id, producer, header)?;
        if let Some(seen) = producer.find(header) {
            let (first, last) = (seen.first_offset(), seen.last_offset);
            return Ok(Verdict::Duplicate { first, last, timestamp: seen.timestamp });
        }
        if !producer.expects(header) {
            let last = producer.last_seen().filter(|_| header.producer_epoch == producer.epoch);
            let last = last.map_or(Sequence::NONE, |seen| seen.last_sequence);
            return Err(ProducerError::OutOfSequence { id, got: header.base_sequence, last });
        }
        if producer.transaction_start.is_some() && !header.attributes.is_transactional() {
            return Err(ProducerError::InTransaction { id });
        }
        Ok(Verdict::New)
    }

    /// Judges a marker.
    pub(crate) fn check_marker(&self, header: &BatchHeader, marker: &EndMarker) -> Result<(), ProducerError> {
        let id = header.producer_id;
        let Some(producer) = self.known.get(&id) else { return Ok(()) };
        check_epoch(id, producer, header)?;
        let (got, current) = (marker.coordinator_epoch, producer.coordinator_epoch);
        if got < current {
            return Err(ProducerError::CoordinatorFenced { id, got, current });
        }
        Ok(())
    }

    /// Takes in a batch of records that is in the log.
    pub(crate) fn apply(&mut self, header: &BatchHeader, now: Duration) {
        let id = header.producer_id;
        let producer = self.enter(header, now);
        producer.last_timestamp = header.max_timestamp;
        producer.push(Seen {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        if header.attributes.is_transactional() && producer.transaction_start.is_none() {
            producer.transaction_start = Some(header.base_offset);
            self.open.insert(header.base_offset, id);
        }
        self.bound();
    }

    fn enter(&mut self, header: &BatchHeader, now: Duration) -> &mut Producer {
        let epoch = header.producer_epoch;
        let new = || Producer::new(epoch, now);
        let producer = self.known.entry(header.producer_id).or_insert_with(new);
        producer.enter_epoch(epoch);
        producer.appended = now;
        producer
    }

    /// Forgets those that have been silent for longest, if there are too many: as many at once that
    /// finding them costs little per producer.
    fn bound(&mut self) {
        if self.known.len() <= PRODUCERS_MAX {
            return;
        }
        let silent = self.known.iter().filter(|(_, producer)| producer.transaction_start.is_none());
        // Offsets tell the order, also of those that a snapshot brought back.
        let last = |producer: &Producer| producer.last_seen().map_or(Offset::NONE, |seen| seen.last_offset);
        let mut oldest: Vec<_> = silent.map(|(&id, producer)| (last(producer), id)).collect();
        let count = (self.known.len() - PRODUCERS_MAX + PRODUCERS_MAX / 16).min(oldest.len());
        if count < oldest.len() {
            oldest.select_nth_unstable(count);
        }
        for (_, id) in &oldest[..count] {
            self.known.remove(id);
        }
    }

    /// Takes in a marker that is in the log; what it ended, if the producer wrote anything.
    pub(crate) fn apply_marker(
        &mut self,
        header: &BatchHeader,
        marker: &EndMarker,
        now: Duration,
    ) -> Option<Completed> {
        let id = header.producer_id;
        let producer = self.enter(header, now);
        producer.coordinator_epoch = marker.coordinator_epoch;
        producer.last_timestamp = header.max_timestamp;
        let first_offset = producer.transaction_start.take();
        self.bound();
        let first_offset = first_offset?;
        let last_offset = header.last_offset();
        self.open.remove(&first_offset);
        self.ended.insert(first_offset, last_offset);
        let still_open = self.open.keys().next().copied();
        let last_stable_offset = still_open.unwrap_or_else(|| header.next_offset());
        let aborted = (!marker.commit).then_some(AbortedTxn {
            producer_id: id,
            first_offset,
            last_offset,
            last_stable_offset,
        });
        Some(Completed { aborted })
    }

    /// The first offset of a transaction that is open, or whose end not all in-sync replicas have.
    pub(crate) fn first_unstable(&self) -> Option<Offset> {
        let open = self.open.keys().next();
        let ended = self.ended.keys().next();
        open.into_iter().chain(ended).min().copied()
    }

    /// Forgets ended transactions that all in-sync replicas have.
    pub(crate) fn on_high_watermark(&mut self, high_watermark: Offset) {
        if !self.ended.is_empty() {
            self.ended.retain(|_, last| *last >= high_watermark);
        }
    }

    /// Forgets transactions that lie below the start of the log.
    pub(crate) fn advance_start(&mut self, start: Offset) {
        if !self.ended.is_empty() {
            self.ended.retain(|_, last| *last >= start);
        }
    }

    /// Forgets producers of which this broker appended nothing for as long as `is_old` says, but for those with a
    /// transaction open. How many.
    pub(crate) fn expire(&mut self, is_old: impl Fn(Duration) -> bool) -> usize {
        let before = self.known.len();
        self.known.retain(|_, p| p.transaction_start.is_some() || !is_old(p.appended));
        before - self.known.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a producer as a snapshot has it.
    pub(crate) fn restore(&mut self, id: ProducerId, producer: Producer) {
        if let Some(start) = producer.transaction_start {
            self.open.insert(start, id);
        }
        self.known.insert(id, producer);
        self.bound();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProducerId, &Producer)> {
        self.known.iter().map(|(&id, producer)| (id, producer))
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = ProducerView> + '_ {
        self.iter().map(|(id, producer)| ProducerView {
            id,
            epoch: producer.epoch,
            last_sequence: producer.last_seen().map_or(Sequence::NONE, |seen| seen.last_sequence),
            last_timestamp: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_start: producer.transaction_start,
        })
    }
}

fn check_epoch(id: ProducerId, producer: &Producer, header: &BatchHeader) -> Result<(), ProducerError> {
    let (got, current) = (header.producer_epoch, producer.epoch);
    if got < current { Err(ProducerError::OldEpoch { id, got, current }) } else { Ok(()) }
}
