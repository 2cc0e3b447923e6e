//! Records of every shape, and whether what was read is what was written.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use crate::matrix::{Client, Feature};
use crate::record::{Bytes, Record, Stored};

type Headers = Vec<(String, Option<Bytes>)>;

/// Between two records.
pub(super) const STEP_MS: i64 = 1000;

struct Shape {
    needs: &'static [Feature],
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Headers,
}

/// One record of each shape that the writer can write and the reader can read, from the time on if the writer
/// can say the time.
pub(super) fn shapes(writer: &Client, reader: &Client, first_ms: i64) -> Vec<Record> {
    let can = |feature: &Feature| writer.can(*feature) && reader.can_read(*feature);
    let able = all().into_iter().filter(|shape| shape.needs.iter().all(can));
    let stamp = |index: usize| writer.can(Feature::Timestamps).then_some(first_ms + index as i64 * STEP_MS);
    able.enumerate()
        .map(|(index, Shape { key, value, headers, .. })| Record {
            key,
            value,
            headers,
            timestamp: stamp(index),
        })
        .collect()
}

fn all() -> Vec<Shape> {
    use Feature::{Binary, BinaryHeader, Empty, NullBoth, NullHeader, RepeatHeader};
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let some = |text: &str| Some(Bytes::from(text));
    let header = |name: &str, value: &str| (name.to_owned(), some(value));
    let many = (0..100).map(|index| header(&format!("name-{index}"), "value")).collect();
    let shape = |needs, key, value, headers| Shape { needs, key, value, headers };
    vec![
        shape(&[], some("key"), some("value"), vec![]),
        shape(&[], None, some("no key"), vec![]),
        // Clients leave a batch as it is if compression makes it longer: this one makes it shorter.
        shape(&[], some("long"), some(&"a".repeat(1000)), vec![]),
        shape(&[], some("no value"), None, vec![]),
        shape(&[NullBoth], None, None, vec![]),
        shape(&[Empty], some(""), some(""), vec![]),
        shape(&[], some("klíč"), some("příliš žluťoučký 🐎"), vec![]),
        shape(&[Binary], Some(Bytes(every_byte.clone())), Some(Bytes(every_byte.clone())), vec![]),
        shape(&[], some("header"), some("one"), vec![header("a", "1")]),
        shape(&[], some("header"), some("empty"), vec![header("a", ""), header("b", "2")]),
        shape(&[], None, some("many headers"), many),
        shape(
            &[RepeatHeader],
            None,
            some("twice"),
            vec![header("a", "1"), header("b", "2"), header("a", "3")],
        ),
        shape(&[NullHeader], None, some("null header"), vec![("a".to_owned(), None)]),
        shape(&[BinaryHeader], None, some("bytes"), vec![("é".to_owned(), Some(Bytes(every_byte)))]),
    ]
}

/// Checks that what was read is what was written, in order and without gaps from the offset on.
/// `clock` are the times that a client may have given by itself.
pub(super) fn check_same(
    read: &[Stored],
    written: &[Record],
    first: i64,
    clock: &RangeInclusive<i64>,
) -> Result<()> {
    for (index, (got, want)) in read.iter().zip(written).enumerate() {
        let offset = first + index as i64;
        ensure!(got.offset == offset, "offset {} where {offset} should be", got.offset);
        let timestamp = got.record.timestamp;
        let is_in_time = match want.timestamp {
            Some(_) => timestamp == want.timestamp,
            None => timestamp.is_some_and(|at| clock.contains(&at)),
        };
        ensure!(is_in_time, "timestamp {timestamp:?} at {offset}, written {:?} in {clock:?}", want.timestamp);
        let got = Record { timestamp: want.timestamp, ..got.record.clone() };
        ensure!(got == *want, "at {offset}\nread    {got:?}\nwritten {want:?}");
    }
    ensure!(read.len() == written.len(), "{} records where {} should be", read.len(), written.len());
    Ok(())
}

/// The time by this machine's clock.
pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
