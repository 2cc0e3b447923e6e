//! What the batches of a log say about its producers.

use std::collections::BTreeMap;

use base::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use storage::AbortedTxn;

use super::Written;

/// One producer, as its batches say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedProducer {
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of its last record in that epoch.
    pub last_sequence: Sequence,
    /// The timestamp of its last batch.
    pub last_timestamp: TimestampMs,
    /// Where its last batch or marker lies.
    pub last_offset: Offset,
    /// Where its last batch of records in that epoch lies.
    pub last_records: Option<Offset>,
    /// The epoch of the coordinator that wrote its last marker; -1 if there was none.
    pub coordinator_epoch: i32,
    /// Where its last marker lies.
    pub last_marker: Option<Offset>,
    /// Where its open transaction begins.
    pub transaction_start: Option<Offset>,
}

/// All producers of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedProducers {
    /// By their ids.
    pub known: BTreeMap<ProducerId, ExpectedProducer>,
    /// Transactions that were aborted, in the order of their markers.
    pub aborted: Vec<AbortedTxn>,
}

impl ExpectedProducers {
    pub(super) fn of(batches: &[Written]) -> Self {
        let mut producers = Self::default();
        batches.iter().for_each(|batch| producers.take(batch));
        producers
    }

    /// Where the first open transaction begins.
    pub fn first_open(&self) -> Option<Offset> {
        self.known.values().filter_map(|producer| producer.transaction_start).min()
    }

    pub(super) fn take(&mut self, batch: &Written) {
        let header = &batch.header;
        if !header.has_producer_id() {
            return;
        }
        let producer = self.known.entry(header.producer_id).or_insert(ExpectedProducer {
            epoch: header.producer_epoch,
            last_sequence: Sequence::NONE,
            last_timestamp: TimestampMs::NONE,
            last_offset: Offset::NONE,
            last_records: None,
            coordinator_epoch: -1,
            last_marker: None,
            transaction_start: None,
        });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.last_sequence = Sequence::NONE;
            producer.last_records = None;
        }
        producer.last_timestamp = header.max_timestamp;
        producer.last_offset = header.last_offset();
        let Some(marker) = batch.marker else {
            producer.last_sequence = header.last_sequence();
            producer.last_records = Some(header.last_offset());
            if header.attributes.is_transactional() {
                producer.transaction_start.get_or_insert(header.base_offset);
            }
            return;
        };
        producer.coordinator_epoch = marker.coordinator_epoch;
        producer.last_marker = Some(header.last_offset());
        let first = producer.transaction_start.take();
        if let Some(first_offset) = first.filter(|_| !marker.commit) {
            let last_stable_offset = self.first_open().unwrap_or(header.next_offset());
            self.aborted.push(AbortedTxn {
                producer_id: header.producer_id,
                first_offset,
                last_offset: header.last_offset(),
                last_stable_offset,
            });
        }
    }
}
