//! Produce: batches that a partition does not take, with Kafka's code for each, and nothing of them in the log.

use base::{ErrorCode, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, Uuid};
use records::{BatchBuilder, BatchOptions, Compression, EndMarker, Producer, Scratch};
use wire::messages::produce::ProduceRequest;

use crate::requests::{produce, produced, with_topic};
use crate::world::{World, batch};

/// What producer 5 says of itself.
fn by(epoch: i16, sequence: i32) -> BatchOptions {
    let (id, epoch, base_sequence) = (ProducerId(5), ProducerEpoch(epoch), Sequence(sequence));
    BatchOptions { producer: Producer { id, epoch, base_sequence }, ..BatchOptions::default() }
}

/// A batch with one record of this many zeros.
fn zeros(count: usize, compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(count + 1024);
    builder.try_append(TimestampMs(1_700_000_000_000), None, Some(&vec![0; count]), &[]).unwrap();
    let mut out = Vec::new();
    let options = BatchOptions { compression, ..BatchOptions::default() };
    builder.finish(&options, &mut Scratch::default(), &mut out).unwrap();
    out
}

/// Of a topic.
type Settings<'a> = &'a [(&'a str, &'a str)];

fn end(world: &World, topic: &str) -> Offset {
    world.partition(topic, 0).act(|partition, _| partition.log().end())
}

/// A coordinator of transactions would say PRODUCER_FENCED.
#[test]
fn g25_a_producer_that_has_begun_anew_is_not_heard_as_it_was() {
    let mut world = with_topic();
    let mut sent = |epoch, sequence| produced(&mut world, "t", &batch(&["x"], &by(epoch, sequence)));
    assert_eq!(ErrorCode::InvalidProducerEpoch.code(), 47);
    assert_eq!(sent(0, 0), (ErrorCode::None, 0));
    assert_eq!(sent(1, 0), (ErrorCode::None, 1));
    for sequence in [0, 1] {
        assert_eq!(sent(0, sequence), (ErrorCode::InvalidProducerEpoch, -1), "sequence {sequence}");
    }
    assert_eq!(sent(1, 1), (ErrorCode::None, 2), "nothing else was stored");
}

#[test]
fn not_yet_transactions_are_refused_whether_they_are_named_or_not() {
    let mut world = with_topic();
    let transactional = batch(&["x"], &BatchOptions { transactional: true, ..by(0, 0) });
    let mut marker = Vec::new();
    let producer = (ProducerId(5), ProducerEpoch(0));
    EndMarker { commit: true, coordinator_epoch: 0 }.write_batch(producer, world.now.wall, &mut marker);
    let plain = batch(&["x"], &by(0, 0));
    let sent = |world: &mut World, version, transactional_id, records, acks| {
        let request = ProduceRequest { transactional_id, ..produce("t", Uuid::ZERO, records, acks) };
        world.ask(version, &request, |response| {
            let part = &response.responses[0].partition_responses[0];
            (ErrorCode::from_i16(part.error_code).unwrap(), part.base_offset)
        })
    };
    for (name, acks) in [(None, -1), (None, 1), (Some("tx"), -1), (Some("tx"), 1)] {
        for version in [3, 9, 12] {
            let told = sent(&mut world, version, name, &transactional, acks);
            assert_eq!(told, (ErrorCode::InvalidTxnState, -1), "v{version} {name:?} {acks}");
            let told = sent(&mut world, version, name, &marker, acks);
            assert_eq!(told, (ErrorCode::InvalidRecord, -1), "only brokers end transactions");
        }
    }
    assert_eq!(end(&world, "t"), Offset(0));
    let told = sent(&mut world, 9, Some("tx"), &plain, 1);
    assert_eq!(told, (ErrorCode::None, 0), "it is not the name that is refused");
}

#[test]
fn g34_records_of_old_formats_are_refused() {
    // A message without a key and with the value `x`, as producers of before 0.10 and of before 0.11 send it.
    const FORMAT_0: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\0\x0f\x35\xb4\x92\xf2\0\0\xff\xff\xff\xff\0\0\0\x01x";
    const FORMAT_1: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\0\x17\x26\xdf\x07\xc2\x01\0\
        \0\0\x01\x8b\xcf\xe5\x68\0\xff\xff\xff\xff\0\0\0\x01x";
    let mut world = with_topic();
    let mut format_3 = batch(&["x"], &BatchOptions::default());
    format_3[16] = 3;
    for (format, records, code) in [
        (0, FORMAT_0, ErrorCode::InvalidRecord),
        (1, FORMAT_1, ErrorCode::InvalidRecord),
        (3, &format_3, ErrorCode::CorruptMessage),
    ] {
        for version in 3..=12 {
            world.ask(version, &produce("t", Uuid::ZERO, records, 1), |response| {
                let part = &response.responses[0].partition_responses[0];
                let why = format!("the batch has format {format}; only format 2 is supported");
                let why = (version >= 8).then_some(why.as_str());
                let told = (part.error_code, part.base_offset, part.error_message);
                assert_eq!(told, (code.code(), -1, why), "v{version}");
            });
        }
    }
    assert_eq!(end(&world, "t"), Offset(0));
}

#[test]
fn g34_what_is_larger_than_a_topic_takes_is_refused() {
    const MIB: usize = 1 << 20;
    let small = zeros(100, Compression::None);
    let (fits, short) = (small.len().to_string(), (small.len() - 1).to_string());
    let plain = zeros(1000, Compression::None);
    let packed = zeros(1000, Compression::Gzip);
    let segment = [("segment.bytes", "1048576"), ("max.message.bytes", "9000000")];
    let too_large = ErrorCode::MessageTooLarge;
    let cases: [(&str, Settings<'_>, &[u8], ErrorCode); 8] = [
        ("a-batch", &[("max.message.bytes", &short)], &small, too_large),
        ("a-batch-that-fits", &[("max.message.bytes", &fits)], &small, ErrorCode::None),
        ("by-default", &[], &zeros(MIB + 100, Compression::None), too_large),
        ("unpacked", &[], &zeros(17 * MIB, Compression::Zstd), too_large),
        ("a-segment", &segment, &zeros(MIB, Compression::None), ErrorCode::RecordListTooLarge),
        ("in-a-segment", &segment, &zeros(MIB - 100, Compression::None), ErrorCode::None),
        ("a-record", &[("max.decompressed.message.bytes", "1000")], &packed, ErrorCode::InvalidRecord),
        ("not-packed", &[("max.decompressed.message.bytes", "1000")], &plain, ErrorCode::None),
    ];
    let mut world = World::new();
    for (topic, settings, records, code) in cases {
        world.topic(topic, 1, settings);
        let offset = if code.is_none() { 0 } else { -1 };
        assert_eq!(produced(&mut world, topic, records), (code, offset), "{topic}");
        assert_eq!(end(&world, topic), Offset(offset + 1), "{topic}");
    }
}
