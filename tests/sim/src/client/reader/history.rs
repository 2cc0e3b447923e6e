//! A partition's log as its brokers have it, and all that was ever in it, so that what a reader is lent
//! can be compared.

use std::collections::BTreeMap;
use std::ops::Range;

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, Uuid};
use records::{BatchBuilder, BatchOptions, Compression, EndMarker, Producer, Scratch};

/// What became of a record's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in none, or in one that stands.
    Stands,
    /// Nobody knows yet.
    Open,
    /// It was taken back.
    Aborted,
}

/// A record that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) offset: i64,
    pub(super) value: u64,
    pub(super) fate: Fate,
    producer: i64,
    written_us: u64,
    /// When a new leader's log turned out not to have it.
    pub(super) cut_us: Option<u64>,
    /// Deleted for its age, or compacted away.
    is_removed: bool,
}

/// A batch as it is stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) base: i64,
    pub(super) next: i64,
    pub(super) bytes: Vec<u8>,
    time: TimestampMs,
    /// Whose transaction it is of.
    producer: Option<i64>,
}

/// A transaction that was taken back: who, its first offset, and that of its marker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aborted {
    pub(super) producer: i64,
    pub(super) first: i64,
    pub(super) last: i64,
}

/// One partition of one topic, from its creation to its deletion.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) topic_id: Uuid,
    pub(super) leader: i32,
    pub(super) batches: Vec<Stored>,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) high_watermark: i64,
    /// Who has led it, and from where on.
    epochs: Vec<(i32, i64)>,
    pub(super) aborted: Vec<Aborted>,
    /// Who is in a transaction, and where it began.
    open: BTreeMap<i64, i64>,
    pub(super) written: Vec<Truth>,
}

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) now_us: u64,
    pub(super) time: TimestampMs,
    /// The value of the first record; those behind count on.
    pub(super) value: u64,
    pub(super) records: u64,
    pub(super) bytes: usize,
    pub(super) compression: Compression,
    /// In whose transaction.
    pub(super) producer: Option<i64>,
}

impl Log {
    pub(super) fn new(topic_id: Uuid, leader: i32) -> Self {
        Self {
            topic_id,
            leader,
            batches: Vec::new(),
            start: 0,
            end: 0,
            high_watermark: 0,
            epochs: vec![(0, 0)],
            aborted: Vec::new(),
            open: BTreeMap::new(),
            written: Vec::new(),
        }
    }

    pub(super) fn epoch(&self) -> i32 {
        self.epochs.last().map_or(0, |&(epoch, _)| epoch)
    }

    /// Up to where nothing is undecided.
    pub(super) fn stable_end(&self) -> i64 {
        self.open.values().min().map_or(self.high_watermark, |&first| first.min(self.high_watermark))
    }

    /// Appends a batch.
    pub(super) fn write(&mut self, writing: Writing) {
        let mut builder = BatchBuilder::new(usize::MAX);
        for number in 0..writing.records {
            let value = writing.value + number;
            let mut bytes = value.to_be_bytes().to_vec();
            bytes.resize(8 + writing.bytes, 7);
            builder.try_append(writing.time, None, Some(&bytes), &[]).expect("the batch has no bound");
            self.written.push(Truth {
                offset: self.end + number as i64,
                value,
                fate: if writing.producer.is_some() { Fate::Open } else { Fate::Stands },
                producer: writing.producer.unwrap_or(-1),
                written_us: writing.now_us,
                cut_us: None,
                is_removed: false,
            });
        }
        let producer = writing.producer.map_or(Producer::NONE, |id| Producer {
            id: ProducerId(id),
            epoch: ProducerEpoch(0),
            // Nobody looks at it here.
            base_sequence: Sequence(0),
        });
        let options = BatchOptions {
            base_offset: Offset(self.end),
            leader_epoch: LeaderEpoch(self.epoch()),
            compression: writing.compression,
            producer,
            transactional: writing.producer.is_some(),
            ..BatchOptions::default()
        };
        let mut bytes = Vec::new();
        builder.finish(&options, &mut Scratch::default(), &mut bytes).expect("it is small");
        if let Some(id) = writing.producer {
            self.open.entry(id).or_insert(self.end);
        }
        self.push(bytes, writing.records as i64, writing.time, writing.producer);
    }

    fn push(&mut self, bytes: Vec<u8>, records: i64, time: TimestampMs, producer: Option<i64>) {
        let (base, next) = (self.end, self.end + records);
        self.batches.push(Stored { base, next, bytes, time, producer });
        self.end = next;
    }

    pub(super) fn is_open(&self, producer: i64) -> bool {
        self.open.contains_key(&producer)
    }

    /// Ends the transaction of a producer, if it is in one.
    pub(super) fn end_transaction(&mut self, producer: i64, commit: bool, time: TimestampMs) {
        let Some(first) = self.open.remove(&producer) else { return };
        let mut bytes = Vec::new();
        let marker = EndMarker { commit, coordinator_epoch: 0 };
        marker.write_batch((ProducerId(producer), ProducerEpoch(0)), time, &mut bytes);
        // Where it is and who leads is not covered by its checksum.
        bytes[..8].copy_from_slice(&self.end.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.epoch().to_be_bytes());
        if !commit {
            self.aborted.push(Aborted { producer, first, last: self.end });
        }
        let fate = if commit { Fate::Stands } else { Fate::Aborted };
        let open = self.written.iter_mut().filter(|truth| truth.fate == Fate::Open);
        open.filter(|truth| truth.producer == producer).for_each(|truth| truth.fate = fate);
        self.push(bytes, 1, time, None);
    }

    pub(super) fn end_transactions(&mut self, time: TimestampMs) {
        while let Some((&producer, &first)) = self.open.first_key_value() {
            self.end_transaction(producer, first % 2 == 0, time);
        }
    }

    /// Deletes what lies before a batch.
    pub(super) fn retain_from(&mut self, place: usize) {
        let Some(start) = self.batches.get(place).map(|batch| batch.base) else { return };
        if start > self.stable_end() {
            return;
        }
        self.start = start;
        self.batches.drain(..place);
        self.remove(|offset| offset < start);
    }

    /// Compacts a batch away, if it is one that may be.
    pub(super) fn compact(&mut self, place: usize) {
        let is_last = place + 1 >= self.batches.len();
        let Some(batch) = self.batches.get(place).filter(|_| !is_last) else { return };
        if batch.producer.is_some() || is_control(batch) || batch.next > self.stable_end() {
            return;
        }
        let (base, next) = (batch.base, batch.next);
        self.batches.remove(place);
        self.remove(|offset| (base..next).contains(&offset));
    }

    fn remove(&mut self, is_gone: impl Fn(i64) -> bool) {
        let gone = self.written.iter_mut().filter(|truth| is_gone(truth.offset) && truth.cut_us.is_none());
        gone.for_each(|truth| truth.is_removed = true);
    }

    /// Another broker leads, whose log ends before `end`.
    pub(super) fn lead(&mut self, leader: i32, end: i64, now_us: u64) {
        self.leader = leader;
        let end = self.batches.iter().map(|batch| batch.base).find(|&base| base >= end).unwrap_or(self.end);
        self.batches.retain(|batch| batch.base < end);
        // No log ends with what was compacted away.
        let end = self.batches.last().map_or(self.start, |batch| batch.next);
        let gone = self.written.iter_mut().filter(|truth| truth.offset >= end && truth.cut_us.is_none());
        gone.for_each(|truth| truth.cut_us = Some(now_us));
        self.end = end;
        self.high_watermark = self.high_watermark.min(end);
        let epoch = self.epoch() + 1;
        self.epochs.retain(|&(_, from)| from <= end);
        self.epochs.push((epoch, end));
    }

    /// The high watermark goes to the batch boundary at or before `to`.
    pub(super) fn commit(&mut self, to: i64) {
        let bounds = self.batches.iter().map(|batch| batch.next);
        let bound = bounds.filter(|&next| next <= to).max().unwrap_or(self.start);
        self.high_watermark = bound.max(self.start);
    }

    /// Where this log differs from one that was read up to `offset` in `epoch`; which epoch ends there.
    pub(super) fn divergence(&self, epoch: i32, offset: i64) -> Option<(i32, i64)> {
        let known = self.epochs.iter().rposition(|&(known, _)| known <= epoch)?;
        let end = self.epochs.get(known + 1).map_or(self.end, |&(_, from)| from);
        let (known, _) = self.epochs[known];
        (known < epoch || end < offset).then_some((known, end))
    }

    /// Who led when what lies before an offset was written.
    pub(super) fn epoch_before(&self, offset: i64) -> i32 {
        self.epochs.iter().rfind(|&&(_, from)| from < offset).map_or(0, |&(epoch, _)| epoch)
    }

    /// The first offset with this timestamp or a later one.
    pub(super) fn at_time(&self, time: i64, upto: i64) -> Option<i64> {
        let later = self.batches.iter().find(|batch| batch.time.0 >= time)?;
        Some(later.base).filter(|&base| base < upto)
    }

    /// The first record that a reader who goes from one offset to another should have seen, if what is there
    /// was in the log at a time.
    pub(super) fn first_due(
        &self,
        offsets: Range<i64>,
        before_us: u64,
        is_committed_only: bool,
    ) -> Option<i64> {
        let is_due = |truth: &&Truth| {
            let is_there = truth.cut_us.is_none() && !truth.is_removed;
            let is_shown = !is_committed_only || truth.fate != Fate::Aborted;
            offsets.contains(&truth.offset) && truth.written_us < before_us && is_there && is_shown
        };
        self.written.iter().filter(is_due).map(|truth| truth.offset).min()
    }

    /// Whether two records were never in the log at once: one was cut before the other was written.
    pub(super) fn is_torn(&self, before: &Truth, after: &Truth) -> bool {
        before.cut_us.is_some_and(|cut| cut < after.written_us)
    }
}

fn is_control(batch: &Stored) -> bool {
    let header = records::BatchHeader::parse(&batch.bytes).expect("it was written here");
    header.attributes.is_control()
}
