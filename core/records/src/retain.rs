//! Leaving records out of a batch: what compaction does.
//!
//! ```text
//!   header │ r0 r1 r2 r3      keep r1, r3 ──▶   header'│ r1 r3     offsets and times of r1, r3 as they were
//!   header │ r0 r1 r2 r3      keep none   ──▶   header''          a place, an epoch and a producer's sequence
//! ```
//!
//! Offsets that are gone leave gaps: base offset and last offset delta stay, and with them the sequence of
//! the last record. A batch without records tells where a log, an epoch or a producer had come to.

use base::TimestampMs;

use crate::compress::{Compression, Scratch};
use crate::error::BatchError;
use crate::header::{BatchHeader, HEADER_BYTES, TimestampType, seal};
use crate::record::{Header, Record, RecordIter, body_bytes, put_record};
use crate::stored::{STORED_BYTES_MAX, StoredBatch, compression};

impl StoredBatch<'_> {
    /// Appends to `out` the batch with the records for which `keep` holds, compressed as they are here;
    /// answers its header.
    ///
    /// With a `delete_horizon` it says from when its tombstones may go (KIP-534), whatever it said before. The
    /// latest timestamp becomes that of the records that are left; without any, all is as in
    /// [`StoredBatch::emptied`]. If the batch cannot be read, `out` is as it was.
    pub fn retain(
        &self,
        delete_horizon: Option<TimestampMs>,
        keep: &mut dyn FnMut(&Record<'_>) -> bool,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<BatchHeader, BatchError> {
        let start = out.len();
        let retained = self.retain_in(delete_horizon, keep, scratch, out);
        scratch.give_back();
        if retained.is_err() {
            out.truncate(start);
        }
        retained
    }

    fn retain_in(
        &self,
        delete_horizon: Option<TimestampMs>,
        keep: &mut dyn FnMut(&Record<'_>) -> bool,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<BatchHeader, BatchError> {
        let start = out.len();
        let mut header = *self.header();
        if let Some(horizon) = delete_horizon {
            header.attributes = header.attributes.with_delete_horizon(true);
            header.base_timestamp = horizon;
        }
        let codec = compression(&header)?;
        let Scratch { codecs, records } = scratch;
        let plain = match codec {
            Compression::None => self.records_bytes(),
            of => {
                records.clear();
                codecs.decompress(of, self.records_bytes(), STORED_BYTES_MAX, records)?;
                &records[..]
            }
        };
        let mut kept = Kept::new(self.header(), &header);
        for record in RecordIter::new(plain, header.records_count) {
            let record = record?;
            if keep(&record) {
                kept.push(&record);
            }
        }
        if kept.count == 0 {
            return Ok(self.emptied(out));
        }
        header.records_count = kept.count;
        if header.attributes.timestamp_type() == TimestampType::CreateTime {
            header.max_timestamp = kept.newest;
        }
        out.resize(start + HEADER_BYTES, 0);
        codecs.compress(codec, None, &kept.bytes, out);
        seal(header, &mut out[start..])
    }

    /// Appends to `out` the batch without any record; answers its header. Its time stays, so that a
    /// producer is as old as it was.
    pub fn emptied(&self, out: &mut Vec<u8>) -> BatchHeader {
        let start = out.len();
        let mut header = *self.header();
        // Nothing is compressed, and there is nothing to delete.
        header.attributes = header.attributes.with_compression(Compression::None).with_delete_horizon(false);
        header.base_timestamp = header.max_timestamp;
        header.records_count = 0;
        out.resize(start + HEADER_BYTES, 0);
        seal(header, &mut out[start..]).expect("a header alone is not too large")
    }
}

/// Records on their way into another batch.
struct Kept {
    bytes: Vec<u8>,
    count: i32,
    newest: TimestampMs,
    from: TimestampMs,
    to: TimestampMs,
}

impl Kept {
    fn new(from: &BatchHeader, to: &BatchHeader) -> Self {
        let (from, to) = (from.base_timestamp, to.base_timestamp);
        Self { bytes: Vec::new(), count: 0, newest: TimestampMs::NONE, from, to }
    }

    fn push(&mut self, record: &Record<'_>) {
        let time = self.from.0.saturating_add(record.timestamp_delta);
        let record = Record { timestamp_delta: time.saturating_sub(self.to.0), ..*record };
        let headers: Vec<Header<'_>> = record.headers.collect();
        let size = body_bytes(&record, &headers);
        put_record(&mut self.bytes, size, &record, &headers);
        self.newest = self.newest.max(TimestampMs(time));
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};

    use super::*;
    use crate::{BatchBuilder, BatchOptions, Producer};

    /// Five records of keys 0 to 4 at times 100 to 104, the last of them a tombstone; all have a header.
    fn batch(compression: Compression) -> Vec<u8> {
        let mut builder = BatchBuilder::new(10_000);
        for i in 0..5u8 {
            let (text, number) = ([b'v'; 50], [i]);
            let value = (i < 4).then_some(&text[..]);
            let headers = [Header { key: b"h", value: Some(&number) }];
            let time = TimestampMs(100 + i64::from(i));
            builder.try_append(time, Some(&[i]), value, &headers).expect("it fits");
        }
        let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(1), base_sequence: Sequence(10) };
        let (base_offset, leader_epoch) = (Offset(40), LeaderEpoch(3));
        let options =
            BatchOptions { base_offset, leader_epoch, compression, producer, ..BatchOptions::default() };
        let mut out = Vec::new();
        builder.finish(&options, &mut Scratch::default(), &mut out).expect("it is small");
        out
    }

    type Seen = (i64, i64, u8, bool, Option<u8>);

    fn records(raw: &[u8]) -> Vec<Seen> {
        let batch = StoredBatch::check(raw).expect("it is whole");
        let mut scratch = Scratch::default();
        let records = batch.records(&mut scratch).expect("they can be read");
        let seen = |record: Record<'_>| {
            let mut headers = record.headers;
            let header = headers.next().and_then(|header| Some(header.value?[0]));
            let key = record.key.expect("it has one")[0];
            let (offset, time) = (record.offset(batch.header()).0, record.timestamp(batch.header()).0);
            (offset, time, key, record.value.is_none(), header)
        };
        records.map(|record| seen(record.expect("it is whole"))).collect()
    }

    #[test]
    fn what_is_kept_is_as_it_was() {
        for compression in Compression::ALL {
            let raw = batch(compression);
            let whole = StoredBatch::check(&raw).expect("it is whole");
            let mut out = vec![9; 3];
            let mut scratch = Scratch::default();
            let mut odd = |record: &Record<'_>| record.offset_delta % 2 == 1;
            let header = whole.retain(None, &mut odd, &mut scratch, &mut out).expect("it can be read");
            let seen = records(&out[3..]);
            assert_eq!(seen, [(41, 101, 1, false, Some(1)), (43, 103, 3, false, Some(3))]);
            assert_eq!((header.base_offset, header.last_offset()), (Offset(40), Offset(44)));
            assert_eq!((header.records_count, header.max_timestamp), (2, TimestampMs(103)));
            assert_eq!((header.last_sequence(), header.leader_epoch), (Sequence(14), LeaderEpoch(3)));
            assert_eq!(header.attributes.compression(), Ok(compression));
            // A horizon takes the place of the base timestamp, and the times stay.
            let mut out = Vec::new();
            let mut last = |record: &Record<'_>| record.offset_delta >= 3;
            let horizon = Some(TimestampMs(1_000_000));
            let header = whole.retain(horizon, &mut last, &mut scratch, &mut out).expect("it can be read");
            assert_eq!(header.delete_horizon(), horizon);
            assert_eq!(records(&out), [(43, 103, 3, false, Some(3)), (44, 104, 4, true, Some(4))]);
            // A later one takes its place.
            let again = StoredBatch::check(&out).expect("it is whole");
            let mut more = Vec::new();
            let later = Some(TimestampMs(2_000_000));
            let header = again.retain(later, &mut |_| true, &mut scratch, &mut more).expect("it can be read");
            assert_eq!(header.delete_horizon(), later);
            assert_eq!(records(&more), records(&out));
        }
    }

    #[test]
    fn an_empty_batch_keeps_its_place_and_its_producer() {
        for compression in Compression::ALL {
            let raw = batch(compression);
            let whole = StoredBatch::check(&raw).expect("it is whole");
            let mut out = Vec::new();
            let horizon = Some(TimestampMs(5));
            let header = whole.retain(horizon, &mut |_| false, &mut Scratch::default(), &mut out);
            let header = header.expect("it can be read");
            assert_eq!(header, *StoredBatch::check(&out).expect("whole").header());
            assert_eq!((out.len(), records(&out)), (HEADER_BYTES, vec![]));
            assert_eq!((header.base_offset, header.last_offset()), (Offset(40), Offset(44)));
            assert_eq!((header.producer_id, header.last_sequence()), (ProducerId(7), Sequence(14)));
            assert_eq!((header.max_timestamp, header.delete_horizon()), (TimestampMs(104), None));
        }
    }
}
