//! Records whose bytes follow from who wrote them.
//!
//! ```text
//!   key     null, or producer u32 and number u64         every third has none
//!   value   | producer u32 | number u64 | filler |        the filler is chance with the two as its seed
//! ```

use anyhow::{Context, Result, ensure};
use base::{Offset, TimestampMs};
use records::{BatchBuilder, BatchOptions, Compression, Producer, Record, Scratch};

use crate::chance::Chance;

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Who wrote it.
    pub producer: u32,
    /// How many that producer had written before.
    pub number: u64,
}

const ORIGIN_BYTES: usize = 12;
/// 2024-01-01: a fixed time makes the same bytes.
const EPOCH_MS: i64 = 1_704_067_200_000;

impl Origin {
    /// What the record is about.
    pub fn key(self) -> Option<Vec<u8>> {
        (!self.number.is_multiple_of(3)).then(|| self.to_bytes().to_vec())
    }

    /// What the record says.
    pub fn value(self) -> Vec<u8> {
        let mut chance = Chance::new(u64::from(self.producer) << 40 ^ self.number);
        let filler = if chance.one_in(300) { chance.pick(10_000..60_000) } else { chance.pick(0..600) };
        let mut value = self.to_bytes().to_vec();
        value.extend(chance.bytes(filler as usize));
        value
    }

    /// When it was written, as it says.
    pub fn timestamp(self) -> TimestampMs {
        TimestampMs(EPOCH_MS + self.number as i64)
    }

    /// Who wrote a record that was read; fails if any of its bytes are not what that origin writes.
    pub fn of(record: &Record<'_>, timestamp: TimestampMs) -> Result<Self> {
        let value = record.value.context("the record has no value")?;
        let (producer, number) =
            value.get(..ORIGIN_BYTES).context("the value is too short")?.split_at(size_of::<u32>());
        let origin = Self {
            producer: u32::from_be_bytes(producer.try_into()?),
            number: u64::from_be_bytes(number.try_into()?),
        };
        ensure!(value == origin.value(), "{origin:?} did not write this value");
        ensure!(record.key == origin.key().as_deref(), "{origin:?} did not write this key");
        ensure!(timestamp == origin.timestamp(), "{origin:?} did not write this timestamp");
        ensure!(record.headers.len() == 0, "{origin:?} did not write headers");
        Ok(origin)
    }

    fn to_bytes(self) -> [u8; ORIGIN_BYTES] {
        let mut bytes = [0; ORIGIN_BYTES];
        bytes[..4].copy_from_slice(&self.producer.to_be_bytes());
        bytes[4..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }
}

/// A batch of a producer's records, from `first` on.
pub fn batch(first: Origin, count: u32, compression: Compression, producer: Producer) -> Vec<u8> {
    let mut builder = BatchBuilder::new(usize::MAX);
    for number in (first.number..).take(count as usize) {
        let origin = Origin { number, ..first };
        let appended =
            builder.try_append(origin.timestamp(), origin.key().as_deref(), Some(&origin.value()), &[]);
        appended.expect("there is room for any number of records");
    }
    let options =
        BatchOptions { compression, producer, base_offset: Offset::ZERO, ..BatchOptions::default() };
    let mut batch = Vec::new();
    builder.finish(&options, &mut Scratch::default(), &mut batch).expect("a batch of records is a batch");
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_known_again_and_nothing_else() {
        let first = Origin { producer: 3, number: 298 };
        for compression in Compression::ALL {
            let bytes = batch(first, 5, compression, Producer::NONE);
            let stored = records::batches(&bytes).next().unwrap().unwrap();
            let mut scratch = Scratch::default();
            let read = stored.records(&mut scratch).unwrap().map(|record| {
                let record = record.unwrap();
                Origin::of(&record, record.timestamp(stored.header())).unwrap().number
            });
            assert_eq!(read.collect::<Vec<_>>(), [298, 299, 300, 301, 302]);
        }
        let mut value = first.value();
        value[20] ^= 1;
        let record = |value| Record {
            offset_delta: 0,
            timestamp_delta: 0,
            key: None,
            value: Some(value),
            headers: records::Headers::default(),
        };
        assert!(Origin::of(&record(&value), first.timestamp()).is_err());
        assert!(Origin::of(&record(&value[..5]), first.timestamp()).is_err());
    }
}
