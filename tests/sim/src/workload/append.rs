//! Producers, well-behaved and not, and a leader whose batches are copied.

use std::sync::Arc;

use base::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use records::{
    BatchBuilder, BatchHeader, BatchLimits, BatchOptions, CheckedBatch, EndMarker, HEADER_BYTES, Producer,
    StoredBatch, TimestampType,
};
use storage::{AppendError, Appended, FlushScope, ProducerError};

use crate::model::{ExpectedProducer, Written};
use crate::world::{Pending, World};

/// How many batches of a producer a log remembers.
const REMEMBERED: usize = 5;

/// A batch as a producer sends it, and the timestamps in it.
struct Sent {
    bytes: Vec<u8>,
    times: Vec<TimestampMs>,
    marker: Option<EndMarker>,
}

impl World {
    pub(super) fn append(&mut self) {
        let (producer, transactional) = self.next_producer();
        let count = self.records_count();
        let options = BatchOptions { producer, transactional, ..self.batch_options() };
        let sent = self.build(count, &options);
        self.send(&sent);
        if self.random.chance(self.options.ack_per_thousand) {
            self.flush(FlushScope::Records);
        }
    }

    pub(super) fn end_transaction(&mut self) {
        let open = self.model.producers.known.iter().filter(|(_, p)| p.transaction_start.is_some());
        let Some((&id, producer)) = open.min_by_key(|(_, p)| p.last_offset) else { return };
        let (epoch, coordinator_epoch) = (producer.epoch, producer.coordinator_epoch.max(0));
        if !self.is_known(producer) {
            return;
        }
        let marker = EndMarker {
            commit: self.random.chance(500),
            coordinator_epoch: coordinator_epoch + i32::from(self.random.chance(200)),
        };
        let time = self.clock.now().wall;
        let mut bytes = Vec::new();
        marker.write_batch((id, epoch), time, &mut bytes);
        self.send(&Sent { bytes, times: vec![time], marker: Some(marker) });
    }

    /// A batch that another leader has placed already.
    pub(super) fn append_stored(&mut self) {
        let (producer, transactional) = self.next_producer();
        let count = self.records_count();
        let leader_epoch = LeaderEpoch(self.model.epoch().0 + i32::from(self.random.chance(100)));
        let stamped = self.options.settings.timestamp_type == TimestampType::LogAppendTime;
        let options = BatchOptions {
            producer,
            transactional,
            base_offset: self.model.end,
            leader_epoch,
            append_time: stamped.then_some(self.clock.now().wall),
            ..self.batch_options()
        };
        let Sent { bytes, mut times, .. } = self.build(count, &options);
        let batch = StoredBatch::check(&bytes).expect("built right");
        if let Some(time) = options.append_time {
            times.fill(time);
        }
        let header = *batch.header();
        let written = Written { header, bytes: bytes.as_slice().into(), times: times.into(), marker: None };
        self.pending = Pending::Append(written.clone());
        let now = self.clock.now();
        let appended = self.log().append_stored(now, &batch);
        self.appended(written, appended);
    }

    /// A producer that got no answer sends a batch again.
    pub(super) fn repeat(&mut self) {
        let Some((header, is_kept)) = self.remembered_batch() else { return };
        let producer = Producer {
            id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
        };
        let transactional = header.attributes.is_transactional();
        let options = BatchOptions { producer, transactional, ..self.batch_options() };
        let sent = self.build(header.records_count as u64, &options);
        let checked = CheckedBatch::check(&sent.bytes, &limits(), &mut self.scratch).expect("built right");
        let (now, epoch) = (self.clock.now(), self.model.epoch());
        if checked.header().records_count != header.records_count {
            return;
        }
        let appended = self.log().append(now, &checked, epoch);
        self.trace.event(format!("repeated {}: {appended:?}", header.base_offset));
        match appended {
            Ok(Appended { base_offset, last_offset, duplicate: true, .. })
                if (base_offset, last_offset) == (header.base_offset, header.last_offset()) => {}
            Err(AppendError::Producer(ProducerError::OutOfSequence { .. })) if !is_kept => {}
            Err(AppendError::Disk(error) | AppendError::Poisoned(error)) => self.failed("repeat", &error),
            other => self.complain("duplicate", format!("{header:?} sent again: {other:?}")),
        }
    }

    /// What must be refused, and changes nothing.
    pub(super) fn misbehave(&mut self) {
        let (mut producer, transactional) = self.next_producer();
        let mut epoch = self.model.epoch();
        let known = self.model.producers.known.get(&producer.id).filter(|p| self.is_known(p)).cloned();
        let refused: fn(&AppendError) -> bool = match (self.random.below(3), known) {
            (0, Some(known)) if known.epoch.0 > 0 => {
                producer.epoch = ProducerEpoch(known.epoch.0 - 1);
                |error| matches!(error, AppendError::Producer(ProducerError::OldEpoch { .. }))
            }
            (1, Some(_)) => {
                producer.base_sequence = producer.base_sequence.wrapping_add(1);
                |error| matches!(error, AppendError::Producer(ProducerError::OutOfSequence { .. }))
            }
            // An epoch of which no record was kept is forgotten with a crash.
            (2, _) if epoch.0 > 0 && self.log().last_epoch() == Some(epoch) => {
                epoch = LeaderEpoch(epoch.0 - 1);
                |error| matches!(error, AppendError::Fenced { .. })
            }
            _ => return,
        };
        let options = BatchOptions { producer, transactional, ..self.batch_options() };
        let sent = self.build(1, &options);
        let checked = CheckedBatch::check(&sent.bytes, &limits(), &mut self.scratch).expect("built right");
        let now = self.clock.now();
        match self.log().append(now, &checked, epoch) {
            Err(error) if refused(&error) => {}
            Err(AppendError::Disk(error) | AppendError::Poisoned(error)) => self.failed("misbehave", &error),
            other => self.complain("refusal", format!("{producer:?} in {epoch} got {other:?}")),
        }
    }

    pub(super) fn begin_epoch(&mut self) {
        let epoch = LeaderEpoch(self.model.epoch().0 + self.random.between(1, 3) as i32);
        match self.log().begin_epoch(epoch) {
            Ok(()) => self.model.begin_epoch(epoch),
            Err(error) => self.failed("begin epoch", &error),
        }
    }

    /// What a log that gave up says to a batch of which it would take every other.
    pub(super) fn try_append(&mut self) -> String {
        let sent = self.build(1, &BatchOptions::default());
        let checked = CheckedBatch::check(&sent.bytes, &limits(), &mut self.scratch).expect("built right");
        let (now, epoch) = (self.clock.now(), self.model.epoch());
        format!("{:?}", self.log().append(now, &checked, epoch))
    }

    fn send(&mut self, sent: &Sent) {
        let checked = CheckedBatch::check(&sent.bytes, &limits(), &mut self.scratch).expect("built right");
        let now = self.clock.now();
        let stamped = self.options.settings.timestamp_type == TimestampType::LogAppendTime;
        let append_time = stamped.then_some(now.wall);
        let epoch = self.model.epoch();
        let header = checked.assign(self.model.end, epoch, append_time);
        let times: Vec<_> = sent.times.iter().map(|&time| append_time.unwrap_or(time)).collect();
        let bytes = [&header.to_bytes()[..], checked.records_bytes()].concat();
        let written = Written { header, bytes: bytes.into(), times: times.into(), marker: sent.marker };
        self.pending = Pending::Append(written.clone());
        let log = self.log.as_mut().expect("the log is open between restarts");
        let appended = log.append(now, &checked, epoch);
        self.appended(written, appended);
    }

    fn appended(&mut self, written: Written, appended: Result<Appended, AppendError>) {
        let header = &written.header;
        self.trace.event(format!("append {}..={}: {appended:?}", header.base_offset, header.last_offset()));
        match appended {
            Ok(Appended { base_offset, last_offset, duplicate: false, log_start, .. }) => {
                let expected = (header.base_offset, header.last_offset(), self.model.start);
                if (base_offset, last_offset, log_start) != expected {
                    self.complain("append", format!("{base_offset}..={last_offset}, should be {expected:?}"));
                }
                self.model.append(written);
                self.pending = Pending::Nothing;
            }
            Err(AppendError::Disk(error) | AppendError::Poisoned(error)) => self.failed("append", &error),
            Err(AppendError::TooLarge { .. }) => self.pending = Pending::Nothing,
            other => self.complain("append", format!("{header:?}: {other:?}")),
        }
    }

    /// The next batch's producer, and whether it is part of a transaction.
    fn next_producer(&mut self) -> (Producer, bool) {
        if self.options.producers == 0 || self.random.chance(300) {
            return (Producer::NONE, false);
        }
        let id = ProducerId(self.random.between(1, self.options.producers) as i64);
        let begins = self.random.chance(self.options.transactional_per_thousand);
        let bump = self.random.chance(30);
        let known = self.model.producers.known.get(&id);
        let (epoch, base_sequence, transactional) = match known {
            None => (ProducerEpoch(0), Sequence(0), begins),
            // As with Kafka, a log that has only the marker of a producer expects it to begin anew.
            Some(p) if !self.is_known(p) => {
                (ProducerEpoch(p.epoch.0 + 1), Sequence(0), begins || p.transaction_start.is_some())
            }
            Some(p) if bump && p.transaction_start.is_none() => {
                (ProducerEpoch(p.epoch.0 + 1), Sequence(0), begins)
            }
            Some(p) => {
                let next = if p.last_sequence.0 < 0 { Sequence(0) } else { p.last_sequence.wrapping_add(1) };
                (p.epoch, next, begins || p.transaction_start.is_some())
            }
        };
        (Producer { id, epoch, base_sequence }, transactional)
    }

    /// A batch of records that its producer could send again, and whether it must be known: a log that
    /// was opened again remembers batches that are still there, and no others.
    fn remembered_batch(&mut self) -> Option<(BatchHeader, bool)> {
        let producers = &self.model.producers.known;
        let known: Vec<ProducerId> = producers
            .iter()
            .filter(|(_, p)| p.last_records.is_some() && self.is_known(p))
            .map(|(&id, _)| id)
            .collect();
        let id = *known.get(self.random.index(known.len()))?;
        let epoch = producers[&id].epoch;
        let of_producer = |batch: &&Written| {
            let header = &batch.header;
            (header.producer_id, header.producer_epoch) == (id, epoch) && batch.marker.is_none()
        };
        let batches: Vec<BatchHeader> =
            self.model.batches.iter().rev().filter(of_producer).take(REMEMBERED).map(|b| b.header).collect();
        let back = self.random.index(batches.len());
        let header = *batches.get(back)?;
        Some((header, header.base_offset >= self.model.start))
    }

    /// Whether the log must know a producer: what it wrote last is still there.
    fn is_known(&self, producer: &ExpectedProducer) -> bool {
        producer.last_offset >= self.model.start
            && producer.last_records.is_none_or(|at| at >= self.model.start)
    }

    fn records_count(&mut self) -> u64 {
        self.random.between(1, self.options.records_max)
    }

    fn batch_options(&mut self) -> BatchOptions {
        let compression = self.options.compressions[self.random.index(self.options.compressions.len())];
        BatchOptions { compression, ..BatchOptions::default() }
    }

    /// Builds a batch of up to `count` records: as many as have room in a segment.
    fn build(&mut self, count: u64, options: &BatchOptions) -> Sent {
        let bytes_max = self.options.settings.segment_bytes as usize - HEADER_BYTES;
        let mut builder = BatchBuilder::new(bytes_max);
        let mut times = Vec::new();
        for _ in 0..count {
            let time = self.record_time();
            let (key, value) = self.record();
            if builder.try_append(time, key.as_deref(), Some(&value), &[]).is_err() {
                break;
            }
            times.push(time);
        }
        let mut bytes = Vec::new();
        builder.finish(options, &mut self.scratch, &mut bytes).expect("small enough");
        Sent { bytes, times, marker: None }
    }

    fn record_time(&mut self) -> TimestampMs {
        let spread = self.options.timestamp_spread_ms;
        let strayed = self.random.between(0, spread) as i64 - (spread / 2) as i64;
        TimestampMs(self.clock.now().wall.0 + strayed)
    }

    /// A key, or none, and a value that no other record has.
    fn record(&mut self) -> (Option<Arc<[u8]>>, Vec<u8>) {
        self.value_next += 1;
        let mut value = self.value_next.to_be_bytes().to_vec();
        let filler = self.random.bits() as u8;
        let len = self.random.between(0, self.options.value_bytes_max) as usize;
        // Half of it compresses well.
        value.extend((0..len).map(|i| if i % 2 == 0 { filler } else { self.random.bits() as u8 }));
        let key = self.random.chance(500).then(|| Arc::from(&[filler % 8][..]));
        (key, value)
    }
}

fn limits() -> BatchLimits {
    BatchLimits { allow_control: true, ..BatchLimits::default() }
}
