//! The sample records of `core/records/tests/java/Golden.java`, and what is said of their batches.

use base::{ProducerEpoch, ProducerId, Sequence, TimestampMs};
use vltava_records::{BatchBuilder, BatchOptions, Compression, Header, Producer, Scratch};

pub(crate) const BASE_TIME: i64 = 1_700_000_000_000;
pub(crate) const PRODUCER: Producer =
    Producer { id: ProducerId(7), epoch: ProducerEpoch(3), base_sequence: Sequence(11) };

const WORDS: [&str; 16] = [
    "river", "bridge", "water", "stone", "the", "of", "a", "flows", "under", "old", "city", "night", "boat",
    "slowly", "north", "weir",
];

const HEADERS: [Header<'static>; 3] = [
    Header { key: b"trace", value: Some(b"0af7651916cd43dd") },
    Header { key: b"null", value: None },
    Header { key: b"", value: Some(b"") },
];

pub(crate) struct Sample {
    pub(crate) timestamp: TimestampMs,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: &'static [Header<'static>],
}

pub(crate) fn samples() -> Vec<Sample> {
    let sample = |after: i64, key: Option<Vec<u8>>, value: Option<Vec<u8>>, with_headers: bool| Sample {
        timestamp: TimestampMs(BASE_TIME + after),
        key,
        value,
        headers: if with_headers { &HEADERS } else { &[] },
    };
    vec![
        sample(0, None, None, false),
        sample(1, Some(b"k".to_vec()), Some(b"v".to_vec()), false),
        sample(-5_000, Some(vec![]), Some(vec![]), true),
        sample(86_400_000, Some(text(20, 1)), None, false),
        sample(2, None, Some(text(63, 2)), true),
        sample(2, Some(text(64, 3)), Some(noise(64, 4)), false),
        sample(3, Some(text(8, 5)), Some(noise(4_096, 6)), false),
        sample(4, Some(text(8, 7)), Some(text(8_192, 8)), false),
        sample(5, Some(text(8, 9)), Some(text(102_400, 10)), true),
        sample(6, Some(text(8, 11)), Some(vec![0; 40_000]), false),
    ]
}

/// The batch of all samples, as a producer would send it.
pub(crate) fn batch(compression: Compression, level: Option<i32>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 20);
    for sample in samples() {
        builder
            .try_append(sample.timestamp, sample.key.as_deref(), sample.value.as_deref(), sample.headers)
            .expect("the samples fit");
    }
    let options = BatchOptions {
        compression,
        level,
        producer: PRODUCER,
        transactional: compression == Compression::Zstd && level.is_none(),
        ..BatchOptions::default()
    };
    let mut out = Vec::new();
    builder.finish(&options, &mut Scratch::default(), &mut out).expect("the batch is small");
    out
}

fn next(seed: u32) -> u32 {
    seed.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff
}

pub(crate) fn text(size: usize, mut seed: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 8);
    while out.len() < size {
        seed = next(seed);
        out.extend_from_slice(WORDS[(seed >> 16 & 15) as usize].as_bytes());
        out.push(b' ');
    }
    out.truncate(size);
    out
}

pub(crate) fn noise(size: usize, mut seed: u32) -> Vec<u8> {
    let bytes = std::iter::repeat_with(|| {
        seed = next(seed);
        (seed >> 16) as u8
    });
    bytes.take(size).collect()
}
