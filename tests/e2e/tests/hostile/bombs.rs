//! Batches within the limit whose records would be gigabytes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::{ErrorCode, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use client::raw;
use records::{Attributes, BatchHeader, Compression, Scratch};
use vltava_e2e::Chance;
use wire::encode_request;

use crate::target::{TOPIC, Target};

/// Kafka's `message.max.bytes`, with room for the header.
const PACKED_BYTES_MAX: usize = (1 << 20) - 100;
/// Those of each kind that are sent at the same time.
const AT_ONCE: usize = 3;
/// One thread unpacks them all, one after the other.
const ALL_ANSWERED_MAX: Duration = Duration::from_secs(20);

/// What no producer's batch could be refused with if the bomb was not seen for what it is.
const REFUSALS: &[ErrorCode] = &[
    ErrorCode::CorruptMessage,
    ErrorCode::MessageTooLarge,
    ErrorCode::RecordListTooLarge,
    ErrorCode::InvalidRecord,
];

pub(crate) fn every_codec(target: &Target, _: &mut Chance) -> Result<()> {
    for (name, bomb) in bombs() {
        ensure!(bomb.len() <= PACKED_BYTES_MAX + 100, "{name} has {} bytes", bomb.len());
        let request = raw::produce_request(TOPIC, base::PartitionIndex(0), -1, &bomb);
        let request = encode_request(7, None, 9, &request)?.bytes;
        let mut attackers = (0..AT_ONCE).map(|_| target.connect()).collect::<Result<Vec<_>>>()?;
        attackers.iter_mut().for_each(|attacker| attacker.send(&request));
        let since = std::time::Instant::now();
        for attacker in &mut attackers {
            let answer = attacker.answer().context(name)?;
            let code = code(&answer).context(name)?;
            ensure!(REFUSALS.contains(&code), "{name}: {code:?}");
        }
        ensure!(since.elapsed() < ALL_ANSWERED_MAX, "{name}: {:?}", since.elapsed());
    }
    Ok(())
}

/// The code of the only partition in a Produce answer.
fn code(answer: &[u8]) -> Result<ErrorCode> {
    use wire::messages::produce::ProduceResponse;
    use wire::{ApiKey, Message, decode_response_header};
    let (_, mut body) = decode_response_header(answer, ApiKey::Produce, 9)?;
    let body = ProduceResponse::decode(&mut body, 9)?;
    let part = body.responses.first().and_then(|topic| topic.partition_responses.first());
    ErrorCode::from_i16(part.context("no partition")?.error_code).context("no code of Kafka's")
}

fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("gzip", batch(Compression::Gzip, &gzip())),
        ("gzip of many members", batch(Compression::Gzip, &gzip_members())),
        ("snappy, raw", batch(Compression::Snappy, &snappy())),
        ("snappy that declares 4 GiB", batch(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0])),
        ("snappy, framed by Java, declares 2 GiB", batch(Compression::Snappy, &snappy_java())),
        ("lz4", batch(Compression::Lz4, &packed(Compression::Lz4, 200 << 20))),
        ("zstd", batch(Compression::Zstd, &zstd(0x38, 250_000))),
        ("zstd with a window of 2 GiB", batch(Compression::Zstd, &zstd(0xa8, 1_000))),
        ("records that are not there", batch(Compression::None, &[2, 0])),
    ]
}

/// A batch around packed records: its header is right, checksum and all.
fn batch(compression: Compression, packed: &[u8]) -> Vec<u8> {
    let mut header = BatchHeader {
        base_offset: Offset::ZERO,
        batch_length: 0,
        leader_epoch: LeaderEpoch::NONE,
        crc: 0,
        attributes: Attributes::default().with_compression(compression),
        last_offset_delta: i32::MAX - 1,
        base_timestamp: TimestampMs(1),
        max_timestamp: TimestampMs(1),
        producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch::NONE,
        base_sequence: Sequence::NONE,
        records_count: i32::MAX,
    };
    // One huge record is what all but the last of them hold.
    if compression != Compression::None {
        (header.last_offset_delta, header.records_count) = (0, 1);
    }
    header.batch_length = (header.to_bytes().len() - 12 + packed.len()) as i32;
    header.crc = header.compute_crc(packed);
    [header.to_bytes().as_slice(), packed].concat()
}

/// The front of a record of nearly 2 GiB: length, attributes, deltas, no key, length of the value.
const RECORD_FRONT: [u8; 14] = [0xe0, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1, 0xc0, 0xff, 0xff, 0xff, 0x0f];

/// What a codec makes of the record and as many zeroes.
fn packed(compression: Compression, bytes: usize) -> Vec<u8> {
    let mut plain = RECORD_FRONT.to_vec();
    plain.resize(bytes, 0);
    let mut out = Vec::new();
    Scratch::default().codecs().compress(compression, None, &plain, &mut out);
    out
}

fn gzip() -> Vec<u8> {
    packed(Compression::Gzip, 512 << 20)
}

fn gzip_members() -> Vec<u8> {
    let member = packed(Compression::Gzip, 64 << 20);
    member.repeat(PACKED_BYTES_MAX / member.len())
}

fn snappy() -> Vec<u8> {
    packed(Compression::Snappy, 16 << 20)
}

/// Xerial's frame, with a block of which the length is not kept.
fn snappy_java() -> Vec<u8> {
    let mut bytes = vec![0x82];
    bytes.extend(b"SNAPPY\0");
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    bytes
}

/// A frame of so many blocks, each of one byte to be repeated 128 Ki times.
///
/// ```text
///   magic | descriptor 0 | window | block: last | type | size, 3 bytes | the byte | …
/// ```
fn zstd(window: u8, blocks: u32) -> Vec<u8> {
    const RUN: u32 = 1;
    const BLOCK_BYTES: u32 = 128 << 10;
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    let front = (RECORD_FRONT.len() as u32) << 3;
    bytes.extend(&front.to_le_bytes()[..3]);
    bytes.extend(RECORD_FRONT);
    for block in 1..=blocks {
        let head = u32::from(block == blocks) | RUN << 1 | BLOCK_BYTES << 3;
        bytes.extend(&head.to_le_bytes()[..3]);
        bytes.push(0);
    }
    bytes
}
