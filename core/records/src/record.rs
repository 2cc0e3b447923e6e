//! One record of a batch, borrowed.
//!
//! ```text
//!   length varint | attributes i8 | timestamp delta varlong | offset delta varint
//!   | key length varint | key | value length varint | value | headers varint
//!   | for each: key length varint | key | value length varint | value
//! ```
//!
//! `length` counts what follows it. A length of -1 is a null key or value. The attributes have no
//! meaning yet and are skipped.

use base::{Offset, TimestampMs};

use crate::error::{BatchError, Malformed};
use crate::header::{BatchHeader, TimestampType};
use crate::varint;

/// A header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name; UTF-8 by convention, which nobody checks.
    pub key: &'a [u8],
    /// What it says.
    pub value: Option<&'a [u8]>,
}

/// A record whose framing is known to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its distance from the batch's base offset.
    pub offset_delta: i32,
    /// Its distance from the batch's base timestamp.
    pub timestamp_delta: i64,
    /// What it is about.
    pub key: Option<&'a [u8]>,
    /// What it says; without one it deletes its key in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

impl Record<'_> {
    /// Its place in the log, in the batch with this header.
    pub const fn offset(&self, batch: &BatchHeader) -> Offset {
        Offset(batch.base_offset.0.saturating_add(self.offset_delta as i64))
    }

    /// Its time, in the batch with this header.
    pub const fn timestamp(&self, batch: &BatchHeader) -> TimestampMs {
        match batch.attributes.timestamp_type() {
            TimestampType::CreateTime => {
                TimestampMs(batch.base_timestamp.0.saturating_add(self.timestamp_delta))
            }
            TimestampType::LogAppendTime => batch.max_timestamp,
        }
    }
}

/// The headers of a record, read as they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    left: u32,
    // Walked once when the record was read, so what is left is as many headers, exactly.
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    #[inline(always)]
    fn check(count: i32, bytes: &'a [u8]) -> Result<Self, Malformed> {
        // Most records have none.
        if count == 0 && bytes.is_empty() {
            return Ok(Self::default());
        }
        Self::walk(count, bytes)
    }

    fn walk(count: i32, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let left = u32::try_from(count).map_err(|_| Malformed::Headers)?;
        let mut rest = bytes;
        for _ in 0..left {
            take_header(&mut rest).ok_or(Malformed::Headers)?;
        }
        if rest.is_empty() { Ok(Self { left, bytes }) } else { Err(Malformed::Leftover) }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        take_header(&mut self.bytes)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The records of a batch, in order. After the first error there is no more.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    bytes: &'a [u8],
    index: i32,
    count: i32,
}

impl<'a> RecordIter<'a> {
    /// Over `count` records that should fill `bytes` exactly.
    pub const fn new(bytes: &'a [u8], count: i32) -> Self {
        Self { bytes, index: 0, count }
    }

    /// Bytes of the records that are still to come.
    pub(crate) const fn bytes_left(&self) -> usize {
        self.bytes.len()
    }

    #[cold]
    fn fail(&mut self, error: BatchError) -> Option<Result<Record<'a>, BatchError>> {
        self.bytes = &[];
        self.index = self.count;
        Some(Err(error))
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            let left = self.bytes.len();
            return if left == 0 { None } else { self.fail(BatchError::RecordsTrailing(left)) };
        }
        match take_record(&mut self.bytes) {
            Ok(record) => {
                self.index += 1;
                Some(Ok(record))
            }
            Err(what) => self.fail(BatchError::Record { index: self.index, what }),
        }
    }
}

#[inline(always)]
fn take_record<'a>(bytes: &mut &'a [u8]) -> Result<Record<'a>, Malformed> {
    let length = varint::take_i32(bytes).and_then(|length| usize::try_from(length).ok());
    let mut body = length.and_then(|length| take(bytes, length)).ok_or(Malformed::Length)?;
    let [_attributes, rest @ ..] = body else { return Err(Malformed::Fields) };
    body = rest;
    let timestamp_delta = varint::take_i64(&mut body).ok_or(Malformed::Fields)?;
    let offset_delta = varint::take_i32(&mut body).ok_or(Malformed::Fields)?;
    let key = take_nullable(&mut body).ok_or(Malformed::Key)?;
    let value = take_nullable(&mut body).ok_or(Malformed::Value)?;
    let count = varint::take_i32(&mut body).ok_or(Malformed::Headers)?;
    let headers = Headers::check(count, body)?;
    Ok(Record { offset_delta, timestamp_delta, key, value, headers })
}

fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<Header<'a>> {
    let key = take_nullable(bytes)??;
    let value = take_nullable(bytes)?;
    Some(Header { key, value })
}

/// The outer `None`: wrong; the inner one: null.
#[inline(always)]
fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match varint::take_i32(bytes)? {
        -1 => Some(None),
        length => take(bytes, usize::try_from(length).ok()?).map(Some),
    }
}

#[inline]
fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// How many bytes [`put_record`] appends after the length it is given.
pub(crate) fn body_bytes(record: &Record<'_>, headers: &[Header<'_>]) -> usize {
    let header_bytes = |header: &Header<'_>| nullable_bytes(Some(header.key)) + nullable_bytes(header.value);
    1 + varint::size(record.timestamp_delta)
        + varint::size(i64::from(record.offset_delta))
        + nullable_bytes(record.key)
        + nullable_bytes(record.value)
        + varint::size(headers.len() as i64)
        + headers.iter().map(header_bytes).sum::<usize>()
}

/// Appends `record` with `headers` instead of its own; `body_bytes` is what [`body_bytes`] says.
#[inline]
pub(crate) fn put_record(out: &mut Vec<u8>, body_bytes: usize, record: &Record<'_>, headers: &[Header<'_>]) {
    out.reserve(varint::size(body_bytes as i64) + body_bytes);
    // What lies before the key is gathered first: a few stores into an array, and one append.
    let mut start = varint::Gathered::default();
    start.put(body_bytes as i64);
    start.put_byte(0);
    start.put(record.timestamp_delta);
    start.put(i64::from(record.offset_delta));
    start.put(nullable_len(record.key));
    out.extend_from_slice(start.bytes());
    out.extend_from_slice(record.key.unwrap_or_default());
    put_nullable(out, record.value);
    varint::put(out, headers.len() as i64);
    for header in headers {
        put_nullable(out, Some(header.key));
        put_nullable(out, header.value);
    }
}

fn nullable_len(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

fn nullable_bytes(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint::size(bytes.len() as i64) + bytes.len())
}

#[inline]
fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint::put(out, nullable_len(bytes));
    out.extend_from_slice(bytes.unwrap_or_default());
}
