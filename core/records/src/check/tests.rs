use base::{ErrorCode, ProducerEpoch, ProducerId, Sequence};
use proptest::prelude::*;

use super::*;
use crate::builder::{BatchBuilder, BatchOptions, Producer};
use crate::header::Attributes;
use crate::varint;

const IDEMPOTENT: Producer =
    Producer { id: ProducerId(9), epoch: ProducerEpoch(0), base_sequence: Sequence(5) };

/// Three records at 1000, 3000 and 2000; the middle one has no key if `keyed` is false.
fn three(options: &BatchOptions, keyed: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new(4096);
    for (time, key) in [(1000, true), (3000, keyed), (2000, true)] {
        builder.try_append(TimestampMs(time), key.then_some(b"key"), Some(b"value"), &[]).expect("they fit");
    }
    let mut out = Vec::new();
    builder.finish(options, &mut Scratch::default(), &mut out).expect("it is small");
    out
}

/// The batch with its header changed, and the CRC made right again.
fn with_header(raw: &[u8], change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut raw = raw.to_vec();
    let mut header = BatchHeader::parse(&raw).expect("the batch is whole");
    change(&mut header);
    header.crc = header.compute_crc(&raw[HEADER_BYTES..]);
    raw[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    raw
}

/// A batch whose records are these bytes.
fn with_records(records: &[u8], count: i32, compression: Compression) -> Vec<u8> {
    let mut raw = vec![0; HEADER_BYTES];
    Scratch::default().codecs.compress(compression, None, records, &mut raw);
    let header = BatchHeader {
        attributes: Attributes::default().with_compression(compression),
        last_offset_delta: count.wrapping_sub(1),
        records_count: count,
        ..*CheckedBatch::check(
            &three(&BatchOptions::default(), true),
            &BatchLimits::default(),
            &mut Scratch::default(),
        )
        .expect("it is right")
        .header()
    };
    seal(header, &mut raw).expect("it is small");
    raw
}

fn check(raw: &[u8]) -> Result<CheckedBatch<'_>, BatchError> {
    CheckedBatch::check(raw, &BatchLimits::default(), &mut Scratch::default())
}

fn check_err(raw: &[u8]) -> (BatchError, ErrorCode) {
    let error = check(raw).expect_err("the batch is wrong");
    let code = error.error_code();
    (error, code)
}

#[test]
fn a_right_batch_tells_its_times() {
    let raw = three(&BatchOptions::default(), false);
    let batch = check(&raw).expect("it is right");
    assert_eq!(
        batch.times(),
        RecordTimes { min: Some(TimestampMs(1000)), max: TimestampMs(3000), max_offset_delta: 1 }
    );
    assert_eq!((batch.bytes(), batch.compression()), (&raw[..], Compression::None));
}

#[test]
fn records_without_a_time_count_for_neither_end() {
    let mut builder = BatchBuilder::new(4096);
    for time in [-1, 7, -1] {
        builder.try_append(TimestampMs(time), None, None, &[]).expect("they fit");
    }
    let mut raw = Vec::new();
    builder.finish(&BatchOptions::default(), &mut Scratch::default(), &mut raw).expect("it is small");
    let times = check(&raw).expect("it is right").times();
    assert_eq!(times, RecordTimes { min: Some(TimestampMs(7)), max: TimestampMs(7), max_offset_delta: 1 });

    builder.try_append(TimestampMs::NONE, None, None, &[]).expect("it fits");
    raw.clear();
    builder.finish(&BatchOptions::default(), &mut Scratch::default(), &mut raw).expect("it is small");
    let times = check(&raw).expect("it is right").times();
    assert_eq!(times, RecordTimes { min: None, max: TimestampMs::NONE, max_offset_delta: 0 });
}

#[test]
fn the_bytes_must_be_one_batch() {
    let raw = three(&BatchOptions::default(), true);
    let twice = [&raw[..], &raw[..]].concat();
    assert_eq!(check_err(&twice), (BatchError::Trailing(raw.len()), ErrorCode::InvalidRecord));
    assert_eq!(check_err(b"").1, ErrorCode::InvalidRecord);
    for length in 0..raw.len() {
        let (error, code) = check_err(&raw[..length]);
        assert!(matches!(error, BatchError::Truncated { .. }), "{length}: {error}");
        assert_eq!(code, ErrorCode::InvalidRecord);
    }
}

#[test]
fn other_formats_are_refused() {
    let (old, unknown) = (ErrorCode::InvalidRecord, ErrorCode::CorruptMessage);
    for (magic, code) in [(0, old), (1, old), (3, unknown), (0x80, unknown)] {
        let mut raw = three(&BatchOptions::default(), true);
        raw[16] = magic;
        assert_eq!(check_err(&raw), (BatchError::Magic(magic as i8), code));
    }
}

#[test]
fn size_is_bounded() {
    let raw = three(&BatchOptions::default(), true);
    let limits = BatchLimits { batch_bytes_max: raw.len(), ..BatchLimits::default() };
    assert!(CheckedBatch::check(&raw, &limits, &mut Scratch::default()).is_ok());
    let limits = BatchLimits { batch_bytes_max: raw.len() - 1, ..limits };
    let error = CheckedBatch::check(&raw, &limits, &mut Scratch::default()).expect_err("it is larger");
    assert_eq!(error.error_code(), ErrorCode::MessageTooLarge);
}

#[test]
fn headers_that_clients_may_not_send_are_refused() {
    let plain = three(&BatchOptions::default(), true);
    let idempotent = three(&BatchOptions { producer: IDEMPOTENT, ..BatchOptions::default() }, true);
    assert!(check(&idempotent).is_ok());
    type Change = fn(&mut BatchHeader);
    let cases: [(&str, &[u8], Change, ErrorCode); 15] = [
        ("base offset", &plain, |h| h.base_offset = Offset(3), ErrorCode::InvalidRecord),
        ("no records", &plain, |h| h.records_count = 0, ErrorCode::InvalidRecord),
        ("negative count", &plain, |h| h.records_count = i32::MIN, ErrorCode::InvalidRecord),
        ("count above offsets", &plain, |h| h.records_count = 4, ErrorCode::InvalidRecord),
        ("offsets above count", &plain, |h| h.last_offset_delta = 3, ErrorCode::InvalidRecord),
        ("negative last offset", &plain, |h| h.last_offset_delta = -1, ErrorCode::InvalidRecord),
        ("control", &plain, |h| h.attributes = h.attributes.with_control(true), ErrorCode::InvalidRecord),
        (
            "delete horizon",
            &plain,
            |h| h.attributes = h.attributes.with_delete_horizon(true),
            ErrorCode::InvalidRecord,
        ),
        (
            "log append time",
            &plain,
            |h| h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime),
            ErrorCode::InvalidTimestamp,
        ),
        (
            "transaction without producer",
            &plain,
            |h| h.attributes = h.attributes.with_transactional(true),
            ErrorCode::InvalidRecord,
        ),
        ("no sequence", &idempotent, |h| h.base_sequence = Sequence::NONE, ErrorCode::InvalidRecord),
        ("no epoch", &idempotent, |h| h.producer_epoch = ProducerEpoch::NONE, ErrorCode::InvalidRecord),
        (
            "time out of range",
            &plain,
            |h| h.base_timestamp = TimestampMs(i64::MAX),
            ErrorCode::InvalidTimestamp,
        ),
        ("compression 5", &plain, |h| h.attributes.0 |= 5, ErrorCode::UnsupportedCompressionType),
        ("says it is gzip", &plain, |h| h.attributes.0 |= 1, ErrorCode::InvalidRecord),
    ];
    for (name, raw, change, code) in cases {
        assert_eq!(check_err(&with_header(raw, change)).1, code, "{name}");
    }
}

#[test]
fn a_compacted_topic_requires_keys() {
    let limits = BatchLimits { keys_required: true, ..BatchLimits::default() };
    let raw = three(&BatchOptions::default(), true);
    assert!(CheckedBatch::check(&raw, &limits, &mut Scratch::default()).is_ok());
    for compression in Compression::ALL {
        let raw = three(&BatchOptions { compression, ..BatchOptions::default() }, false);
        let refused = CheckedBatch::check(&raw, &limits, &mut Scratch::default());
        assert_eq!(refused, Err(BatchError::KeyMissing { index: 1 }));
    }
}

#[test]
fn a_compressed_record_is_bounded_by_itself() {
    // Seven fields of a byte, "key" and "value"; all but the first have a second byte of time.
    for compression in Compression::ALL {
        let raw = three(&BatchOptions { compression, ..BatchOptions::default() }, true);
        let limits = BatchLimits { decompressed_record_bytes_max: 16, ..BatchLimits::default() };
        assert!(CheckedBatch::check(&raw, &limits, &mut Scratch::default()).is_ok());
        let limits = BatchLimits { decompressed_record_bytes_max: 15, ..limits };
        let checked = CheckedBatch::check(&raw, &limits, &mut Scratch::default()).map(|_| ());
        let refused = Err(BatchError::RecordTooLarge { index: 1, size: 16, max: 15 });
        assert_eq!(checked, if compression == Compression::None { Ok(()) } else { refused });
    }
}

#[test]
fn a_coordinator_may_write_markers() {
    let mut raw = Vec::new();
    let marker = crate::EndMarker { commit: true, coordinator_epoch: 1 };
    marker.write_batch((ProducerId(4), ProducerEpoch(2)), TimestampMs(5), &mut raw);
    assert_eq!(check(&raw), Err(BatchError::Control));
    let limits = BatchLimits { allow_control: true, ..BatchLimits::default() };
    assert!(CheckedBatch::check(&raw, &limits, &mut Scratch::default()).is_ok());
}

#[test]
fn every_field_of_a_record_is_checked() {
    // length, attributes, timestamp, offset, key, value, headers
    let cases: [(&str, &[u8], Malformed); 18] = [
        ("nothing", &[], Malformed::Length),
        ("negative length", &[0x01], Malformed::Length),
        ("length past the end", &[0x0e, 0, 0, 0, 1, 1], Malformed::Length),
        ("length without end", &[0xff; 6], Malformed::Length),
        ("empty", &[0x00], Malformed::Fields),
        ("only attributes", &[0x02, 0], Malformed::Fields),
        ("no offset", &[0x04, 0, 0], Malformed::Fields),
        ("no key", &[0x06, 0, 0, 0], Malformed::Key),
        ("key past the end", &[0x0c, 0, 0, 0, 0x08, 1, 0], Malformed::Key),
        ("key length -2", &[0x0c, 0, 0, 0, 0x03, 1, 0], Malformed::Key),
        ("value past the end", &[0x0c, 0, 0, 0, 1, 0x04, 0], Malformed::Value),
        ("no header count", &[0x0a, 0, 0, 0, 1, 1], Malformed::Headers),
        ("negative header count", &[0x0c, 0, 0, 0, 1, 1, 1], Malformed::Headers),
        ("a header too many", &[0x0c, 0, 0, 0, 1, 1, 2], Malformed::Headers),
        ("header without key", &[0x10, 0, 0, 0, 1, 1, 2, 1, 1], Malformed::Headers),
        ("a header too few", &[0x10, 0, 0, 0, 1, 1, 0, 0, 0], Malformed::Leftover),
        ("a byte too many", &[0x0e, 0, 0, 0, 1, 1, 0, 0], Malformed::Leftover),
        ("wrong offset", &[0x0c, 0, 0, 2, 1, 1, 0], Malformed::OffsetDelta),
    ];
    for compression in Compression::ALL {
        assert!(check(&with_records(&[0x0c, 0, 0, 0, 1, 1, 0], 1, compression)).is_ok());
        for (name, record, what) in cases {
            let refused = check(&with_records(record, 1, compression)).map(|_| ());
            assert_eq!(refused, Err(BatchError::Record { index: 0, what }), "{name}");
        }
    }
}

#[test]
fn miscounted_records_are_refused() {
    let record = |offset: u8| [0x0c, 0, 0, offset * 2, 1, 1, 0];
    let three = [record(0), record(1), record(2)].concat();
    for compression in Compression::ALL {
        assert!(check(&with_records(&three, 3, compression)).is_ok());
        let short = check(&with_records(&three, 2, compression)).map(|_| ());
        assert_eq!(short, Err(BatchError::RecordsTrailing(7)));
        for count in [4, i32::MAX] {
            let long = check(&with_records(&three, count, compression)).map(|_| ());
            assert_eq!(long, Err(BatchError::Record { index: 3, what: Malformed::Length }));
        }
    }
}

#[test]
fn numbers_that_are_longer_than_java_reads_are_refused() {
    // length, attributes, timestamp delta, offset delta, key and value of length -1, no headers
    let short = [0x0c, 0, 0x00, 0x00, 0x01, 0x01, 0x00];
    assert!(check(&with_records(&short, 1, Compression::None)).is_ok());
    // The same with an offset delta of zero in five bytes, which Java reads, and in six.
    let five = [0x14, 0, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01, 0x01, 0x00];
    assert!(check(&with_records(&five, 1, Compression::None)).is_ok());
    let six = [0x16, 0, 0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01, 0x01, 0x00];
    let (error, code) = check_err(&with_records(&six, 1, Compression::None));
    assert_eq!(code, ErrorCode::InvalidRecord, "{error}");
}

#[test]
fn what_was_recompressed_can_be_read() {
    let mut builder = BatchBuilder::new(64 << 20);
    let value = vec![0; 20 << 20];
    builder.try_append(TimestampMs(1), None, Some(&value), &[]).expect("it fits");
    let (mut raw, mut out, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
    builder.finish(&BatchOptions::default(), &mut scratch, &mut raw).expect("it is small");
    let limits = BatchLimits { batch_bytes_max: 64 << 20, ..BatchLimits::default() };
    let checked = CheckedBatch::check(&raw, &limits, &mut scratch).expect("a good batch");
    let packed =
        checked.recompress(Compression::Zstd, None, &limits, &mut scratch, &mut out).expect("it fits");
    // It shrank by more than a producer's batch may grow.
    let stored = StoredBatch::check(packed.bytes()).expect("whole");
    assert!(CheckedBatch::check(packed.bytes(), &limits, &mut scratch).is_err());
    assert_eq!(stored.records(&mut scratch).expect("it was stored").count(), 1);
    let mut tight = limits;
    tight.decompressed.ceiling_bytes = 1 << 20;
    let refused = checked.recompress(Compression::Zstd, None, &tight, &mut scratch, &mut out);
    assert!(refused.is_err(), "nobody could read it");
}

#[test]
fn a_huge_header_count_costs_nothing() {
    let mut body = vec![0, 0, 0, 1, 1];
    varint::put(&mut body, i64::from(i32::MAX));
    let mut record = Vec::new();
    varint::put(&mut record, body.len() as i64);
    record.extend(body);
    let refused = check(&with_records(&record, 1, Compression::None)).map(|_| ());
    assert_eq!(refused, Err(BatchError::Record { index: 0, what: Malformed::Headers }));
}

#[test]
fn the_leader_s_part_is_patched_and_the_crc_follows() {
    for compression in Compression::ALL {
        let raw = three(&BatchOptions { compression, ..BatchOptions::default() }, true);
        let batch = check(&raw).expect("it is right");
        for (append_time, stamped) in [(None, 3000), (Some(TimestampMs(77_000)), 77_000)] {
            let header = batch.assign(Offset(1000), LeaderEpoch(4), append_time);
            let stored = [&header.to_bytes()[..], batch.records_bytes()].concat();
            let stored = StoredBatch::check(&stored).expect("the CRC is right");
            assert_eq!((stored.base_offset(), stored.next_offset()), (Offset(1000), Offset(1003)));
            assert_eq!(stored.leader_epoch(), LeaderEpoch(4));
            assert_eq!(stored.header().max_timestamp, TimestampMs(stamped));
            assert_eq!(append_time.is_none(), header.crc == batch.header().crc);
            let mut scratch = Scratch::default();
            let times: Vec<_> = stored
                .records(&mut scratch)
                .expect("they decompress")
                .map(|record| record.expect("it is whole").timestamp(stored.header()).0)
                .collect();
            let expected = if append_time.is_none() { vec![1000, 3000, 2000] } else { vec![77_000; 3] };
            assert_eq!(times, expected);
        }
    }
}

#[test]
fn a_wrong_max_timestamp_is_mended_as_kafka_does() {
    let raw = with_header(&three(&BatchOptions::default(), true), |h| h.max_timestamp = TimestampMs(9_999));
    let batch = check(&raw).expect("Kafka accepts it");
    let header = batch.assign(Offset::ZERO, LeaderEpoch(0), None);
    assert_eq!(header.max_timestamp, TimestampMs(3000));
    assert!(StoredBatch::check(&[&header.to_bytes()[..], batch.records_bytes()].concat()).is_ok());
}

#[test]
fn a_recompressed_batch_must_still_fit() {
    let mut builder = BatchBuilder::new(1 << 16);
    builder.try_append(TimestampMs(1), None, Some(&[b'x'; 50_000]), &[]).expect("it is the first");
    let mut raw = Vec::new();
    let options = BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() };
    builder.finish(&options, &mut Scratch::default(), &mut raw).expect("it is small");
    let limits = BatchLimits { batch_bytes_max: 40_000, ..BatchLimits::default() };
    let mut scratch = Scratch::default();
    let batch = CheckedBatch::check(&raw, &limits, &mut scratch).expect("compressed it is small");
    let error = batch
        .recompress(Compression::None, None, &limits, &mut scratch, &mut Vec::new())
        .expect_err("plain it is too large");
    assert_eq!(error.error_code(), ErrorCode::MessageTooLarge);
}

#[test]
fn what_compaction_leaves_is_stored_but_not_appendable() {
    let raw = three(&BatchOptions::default(), true);
    let emptied = with_header(&raw[..HEADER_BYTES], |h| {
        h.batch_length = (HEADER_BYTES - 12) as i32;
        h.records_count = 0;
    });
    assert_eq!(check_err(&emptied).0, BatchError::Count { records: 0, delta: 2 });
    let mut scratch = Scratch::default();
    let stored = StoredBatch::check(&emptied).expect("a log may have it");
    assert_eq!((stored.base_offset(), stored.next_offset()), (Offset(0), Offset(3)));
    assert_eq!(stored.records(&mut scratch).expect("there are none").count(), 0);
}

#[test]
fn stored_offsets_must_be_sane() {
    let raw = three(&BatchOptions::default(), true);
    type Change = fn(&mut BatchHeader);
    let cases: [Change; 5] = [
        |h| h.base_offset = Offset(-1),
        |h| h.base_offset = Offset(i64::MAX - 2),
        |h| h.last_offset_delta = -1,
        |h| h.records_count = -1,
        |h| h.records_count = 4,
    ];
    for change in cases {
        let refused = StoredBatch::check(&with_header(&raw, change)).map(|_| ());
        assert!(matches!(refused, Err(BatchError::Offsets { .. })), "{refused:?}");
    }
    assert!(StoredBatch::check(&with_header(&raw, |h| h.base_offset = Offset(i64::MAX - 3))).is_ok());
}

fn any_compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(&Compression::ALL[..])
}

fn any_bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        (any::<u8>(), 0usize..70_000).prop_map(|(byte, size)| vec![byte; size]),
    ])
}

type AnyRecord = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn any_record() -> impl Strategy<Value = AnyRecord> {
    let header = (
        prop::collection::vec(any::<u8>(), 0..20),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..100)),
    );
    (-1i64..4_000_000_000_000, any_bytes(), any_bytes(), prop::collection::vec(header, 0..4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_built_is_checked_and_read_back(
        records in prop::collection::vec(any_record(), 1..12), compression in any_compression(), to in any_compression()
    ) {
        let mut builder = BatchBuilder::new(usize::MAX);
        for (time, key, value, headers) in &records {
            let headers: Vec<_> = headers.iter().map(|(key, value)| crate::Header { key, value: value.as_deref() }).collect();
            builder.try_append(TimestampMs(*time), key.as_deref(), value.as_deref(), &headers).expect("it fits");
        }
        let mut scratch = Scratch::default();
        let mut raw = Vec::new();
        builder.finish(&BatchOptions { compression, producer: IDEMPOTENT, ..BatchOptions::default() }, &mut scratch, &mut raw)
            .expect("it is small");
        let limits = BatchLimits { batch_bytes_max: usize::MAX, ..BatchLimits::default() };
        let batch = CheckedBatch::check(&raw, &limits, &mut scratch).expect("it is right");
        prop_assert_eq!(batch.times().max.0, records.iter().map(|record| record.0).max().expect("there is one"));
        let mut out = Vec::new();
        let other = batch.recompress(to, None, &limits, &mut scratch, &mut out).expect("it is right");
        prop_assert_eq!(CheckedBatch::check(other.bytes(), &limits, &mut scratch), Ok(other));
        let mut read = 0;
        for (record, (time, key, value, headers)) in other.records(&mut scratch).expect("it is right").zip(&records) {
            let record = record.expect("it is whole");
            prop_assert_eq!(record.timestamp(batch.header()).0, *time);
            prop_assert_eq!((record.key, record.value), (key.as_deref(), value.as_deref()));
            let read_headers: Vec<_> = record.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(&read_headers, headers);
            read += 1;
        }
        prop_assert_eq!(read, records.len());
    }

    #[test]
    fn no_changed_byte_goes_unseen(compression in any_compression(), at in any::<prop::sample::Index>(), change in 1u8..) {
        let raw = three(&BatchOptions { compression, ..BatchOptions::default() }, true);
        let mut changed = raw.clone();
        let at = at.index(raw.len());
        changed[at] ^= change;
        let checked = check(&changed);
        // Only the leader epoch is neither in the CRC nor believed: the leader overwrites it.
        prop_assert_eq!(checked.is_ok(), (12..16).contains(&at), "byte {}: {:?}", at, checked);
    }

    #[test]
    fn a_changed_record_under_a_right_crc_never_panics(
        compression in any_compression(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let mut raw = three(&BatchOptions { compression, ..BatchOptions::default() }, true);
        for (at, to) in changes {
            let at = HEADER_BYTES + at.index(raw.len() - HEADER_BYTES);
            raw[at] = to;
        }
        let raw = with_header(&raw, |_| ());
        let mut scratch = Scratch::default();
        if let Ok(records) = StoredBatch::check(&raw).expect("the CRC is right").records(&mut scratch) {
            let headers: usize = records.flatten().map(|record| record.headers.count()).sum();
            prop_assert!(headers <= raw.len() * 1000);
        }
        let _ = check(&raw);
    }

    #[test]
    fn cut_records_under_a_right_crc_are_refused(compression in any_compression(), keep in any::<prop::sample::Index>()) {
        let raw = three(&BatchOptions { compression, ..BatchOptions::default() }, true);
        let keep = HEADER_BYTES + keep.index(raw.len() - HEADER_BYTES);
        let cut = with_header(&raw[..keep], |h| h.batch_length = (keep - 12) as i32);
        prop_assert!(check(&cut).is_err());
    }

    #[test]
    fn no_bytes_panic(mut raw in prop::collection::vec(any::<u8>(), 0..300), right_crc: bool) {
        if right_crc && raw.len() >= HEADER_BYTES {
            raw[16] = 2;
            let length = (raw.len() - 12) as i32;
            raw[8..12].copy_from_slice(&length.to_be_bytes());
            raw = with_header(&raw, |_| ());
        }
        let _ = check(&raw);
        let _ = crate::batches(&raw).count();
    }
}
