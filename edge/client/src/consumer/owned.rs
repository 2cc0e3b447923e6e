//! Records that their reader may keep: a batch is copied once, and its records share the copy.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec;

use base::{Offset, PartitionIndex, TimestampMs, TopicPartition};
use bytes::Bytes;
use client_core::consumer::ConsumeError;
use futures_core::Stream;
use records::{BatchError, BatchHeader, Record, TimestampType};

use super::{Consumer, Failure, batch_of};

/// A record that is its reader's own. Its bytes are shared with the other records of its batch: who keeps one
/// keeps the keys, values and headers of them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: PartitionIndex,
    /// Its place in the partition.
    pub offset: Offset,
    /// Its time, in milliseconds since 1970.
    pub timestamp: TimestampMs,
    /// Whether that is when it was made or when it was appended.
    pub timestamp_type: TimestampType,
    /// What it is about.
    pub key: Option<Bytes>,
    /// What it says; without a value it deletes its key in a compacted topic.
    pub value: Option<Bytes>,
    /// Its headers, in their order.
    pub headers: Vec<OwnedHeader>,
}

/// A header of an [`OwnedRecord`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedHeader {
    /// Its name; UTF-8 by convention, which nobody checks.
    pub key: Bytes,
    /// What it says.
    pub value: Option<Bytes>,
}

/// What is left of the batch at hand, for who reads record by record.
pub(super) struct Rest {
    topic: Arc<str>,
    partition: PartitionIndex,
    timestamp_type: TimestampType,
    records: vec::IntoIter<Fields>,
    /// Of each record the key, the value, and each header's name and value; `None` is null.
    lengths: vec::IntoIter<Option<u32>>,
    /// What these are the lengths of.
    bytes: Bytes,
    /// The record that was given last.
    in_hand: Option<Offset>,
}

struct Fields {
    offset: Offset,
    timestamp: TimestampMs,
    headers: usize,
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

impl Rest {
    fn read<'a>(
        of: &TopicPartition,
        header: &BatchHeader,
        records: impl Iterator<Item = Result<Record<'a>, BatchError>>,
    ) -> Result<Self, BatchError> {
        let (mut all, mut lengths, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut put = |field: Option<&[u8]>| {
            // A field of a record has at most 2³¹ bytes.
            lengths.push(field.map(|field| field.len() as u32));
            bytes.extend_from_slice(field.unwrap_or_default());
        };
        for record in records {
            let record = record?;
            put(record.key);
            put(record.value);
            all.push(Fields {
                offset: record.offset(header),
                timestamp: record.timestamp(header),
                headers: record.headers.len(),
            });
            for header in record.headers {
                put(Some(header.key));
                put(header.value);
            }
        }
        Ok(Self {
            topic: of.topic.as_str().into(),
            partition: of.partition,
            timestamp_type: header.attributes.timestamp_type(),
            records: all.into_iter(),
            lengths: lengths.into_iter(),
            bytes: bytes.into(),
            in_hand: None,
        })
    }

    /// The offset of the next record; `None` if there is no more.
    pub(super) fn next_offset(&self) -> Option<Offset> {
        self.records.as_slice().first().map(|fields| fields.offset)
    }

    /// The offset of the record that was given last; `None` if none was.
    pub(super) fn in_hand(&self) -> Option<Offset> {
        self.in_hand
    }

    fn field(&mut self) -> Option<Bytes> {
        let length = self.lengths.next().flatten()?;
        Some(self.bytes.split_to(length as usize))
    }
}

impl Iterator for Rest {
    type Item = OwnedRecord;

    fn next(&mut self) -> Option<OwnedRecord> {
        let fields = self.records.next()?;
        self.in_hand = Some(fields.offset);
        let (key, value) = (self.field(), self.field());
        let mut headers = Vec::with_capacity(fields.headers);
        for _ in 0..fields.headers {
            headers.push(OwnedHeader { key: self.field().unwrap_or_default(), value: self.field() });
        }
        Some(OwnedRecord {
            topic: self.topic.clone(),
            partition: self.partition,
            offset: fields.offset,
            timestamp: fields.timestamp,
            timestamp_type: self.timestamp_type,
            key,
            value,
            headers,
        })
    }
}

impl Consumer {
    /// Waits for the next record. An error is about one partition; the others go on.
    ///
    /// Batches and records can be taken in turn: [`Consumer::next_batch`] lends what is left of a batch
    /// that was begun record by record.
    pub async fn next_record(&mut self) -> Result<OwnedRecord, Failure> {
        poll_fn(|context| self.poll_record(context)).await
    }

    /// [`Consumer::next_record`] for a thread that may block so long; `None` if none came.
    pub fn next_record_within(&mut self, timeout: Duration) -> Result<Option<OwnedRecord>, Failure> {
        loop {
            if let Some(record) = self.next_of_rest() {
                return Ok(Some(record));
            }
            // A batch without records is rare, and seldom is there another one.
            if self.next_batch_within(timeout)?.is_none() {
                return Ok(None);
            }
            self.open_batch()?;
        }
    }

    /// The records, one after the other, for a thread that may block. There is always a next one: it is
    /// waited for. After an error the others go on.
    ///
    /// ```no_run
    /// use vltava_client::consumer::{Consumer, Start};
    ///
    /// let mut consumer = Consumer::builder("127.0.0.1:9092").build()?;
    /// consumer.assign([("orders", 0, Start::Earliest)]);
    /// for record in consumer.records_blocking().take(10) {
    ///     let record = record?;
    ///     println!("{}: {:?}", record.offset, record.value);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn records_blocking(&mut self) -> RecordsBlocking<'_> {
        RecordsBlocking { consumer: self }
    }

    /// The next record of the batch at hand, unless the group takes it away.
    fn next_of_rest(&mut self) -> Option<OwnedRecord> {
        self.on_asked();
        if self.shared.has_rebalances.load(Ordering::Acquire) {
            self.rebalance();
        }
        self.rest.as_mut().and_then(Rest::next)
    }

    fn wait_for_record(&mut self) -> Result<OwnedRecord, Failure> {
        loop {
            if let Some(record) = self.next_of_rest() {
                return Ok(record);
            }
            self.next_batch_blocking()?;
            self.open_batch()?;
        }
    }

    fn poll_record(&mut self, context: &mut Context<'_>) -> Poll<Result<OwnedRecord, Failure>> {
        loop {
            if let Some(record) = self.next_of_rest() {
                return Poll::Ready(Ok(record));
            }
            ready!(self.poll_advance(context))?;
            self.open_batch()?;
        }
    }

    /// Copies the batch that was gone to.
    fn open_batch(&mut self) -> Result<(), Failure> {
        let batch = batch_of(self.current.as_ref().expect("it went to a batch"));
        let records = batch.records(&mut self.scratch);
        match records.and_then(|records| Rest::read(batch.of, batch.header(), records)) {
            Ok(rest) => {
                self.rest = Some(rest);
                Ok(())
            }
            Err(error) => {
                let at = batch.header().base_offset;
                if let Some(chunk) = &mut self.current {
                    chunk.refuse();
                }
                Err(self.fail_current(ConsumeError::Corrupt { at, error }))
            }
        }
    }
}

/// Never ends: the next record is waited for.
impl Stream for Consumer {
    type Item = Result<OwnedRecord, Failure>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_record(context).map(Some)
    }
}

/// What [`Consumer::records_blocking`] goes through.
#[derive(Debug)]
pub struct RecordsBlocking<'a> {
    consumer: &'a mut Consumer,
}

impl Iterator for RecordsBlocking<'_> {
    type Item = Result<OwnedRecord, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.consumer.wait_for_record())
    }
}

#[cfg(test)]
mod tests {
    use records::{BatchBuilder, BatchOptions, Compression, Header, Scratch, StoredBatch};

    use super::*;

    #[test]
    fn a_record_is_what_was_written_and_shares_its_batch() {
        let options = BatchOptions { compression: Compression::Lz4, ..BatchOptions::default() };
        let mut batch = BatchBuilder::new(1_000);
        let headers = [Header { key: b"h", value: Some(b"1") }, Header { key: b"", value: None }];
        let mut put = |time, key, value, headers| {
            batch.try_append(TimestampMs(time), key, value, headers).expect("there is room");
        };
        put(7, Some(&b"k"[..]), Some(&b"value"[..]), &headers[..]);
        put(8, None, None, &[]);
        put(9, Some(b""), Some(b""), &[]);
        let mut scratch = Scratch::default();
        let mut raw = Vec::new();
        batch.finish(&options, &mut scratch, &mut raw).expect("it is short");
        let batch = StoredBatch::check(&raw).expect("it is a batch");
        let read = batch.records(&mut scratch).expect("it is lz4");
        let topic = base::TopicName::new("orders").expect("legal");
        let of = TopicPartition { topic, partition: PartitionIndex(3) };
        let mut rest = Rest::read(&of, batch.header(), read).expect("they are records");

        assert_eq!(rest.next_offset(), Some(Offset(0)));
        let first = rest.next().expect("there are three");
        assert_eq!(rest.next_offset(), Some(Offset(1)));
        let expected = OwnedRecord {
            topic: "orders".into(),
            partition: PartitionIndex(3),
            offset: Offset(0),
            timestamp: TimestampMs(7),
            timestamp_type: TimestampType::CreateTime,
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::from_static(b"value")),
            headers: vec![
                OwnedHeader { key: Bytes::from_static(b"h"), value: Some(Bytes::from_static(b"1")) },
                OwnedHeader { key: Bytes::new(), value: None },
            ],
        };
        assert_eq!(first, expected);
        let [second, third] = [rest.next(), rest.next()].map(|record| record.expect("there are three"));
        assert_eq!((second.key, second.value, second.offset), (None, None, Offset(1)));
        assert_eq!((third.key, third.value), (Some(Bytes::new()), Some(Bytes::new())));
        assert_eq!((rest.next(), rest.next_offset()), (None, None));
        let value = first.value.expect("it has one");
        let key = first.key.expect("it has one");
        assert_eq!(key.as_ptr().addr() + 1, value.as_ptr().addr(), "they lie in one piece");
    }
}
