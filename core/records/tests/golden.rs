//! Batches that Kafka's client library wrote, and ours next to them. See `core/records/tests/java/Golden.java`.

#![expect(clippy::disallowed_methods, reason = "it reads what another program wrote")]

mod samples;

use std::path::PathBuf;

use base::{BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};
use samples::{BASE_TIME, PRODUCER, samples};
use vltava_records::{
    BatchError, BatchLimits, CheckedBatch, Compression, ControlRecord, EndMarker, LeaderChange, RecordIter,
    Scratch, StoredBatch, batches, whole_batches,
};

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/records").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn assert_samples(raw: &[u8], records: RecordIter<'_>) {
    let header = *StoredBatch::check(raw).expect("the batch is whole").header();
    let mut count = 0;
    for (record, sample) in records.zip(samples()) {
        let record = record.expect("the record is whole");
        assert_eq!(record.offset(&header), Offset(count));
        assert_eq!(record.timestamp(&header), sample.timestamp);
        assert_eq!(record.key, sample.key.as_deref());
        assert_eq!(record.value, sample.value.as_deref());
        assert_eq!(record.headers.collect::<Vec<_>>(), sample.headers);
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn what_java_wrote_is_read() {
    for (name, compression) in [
        ("none.bin", Compression::None),
        ("gzip.bin", Compression::Gzip),
        ("gzip-1.bin", Compression::Gzip),
        ("snappy.bin", Compression::Snappy),
        ("lz4.bin", Compression::Lz4),
        ("lz4-17.bin", Compression::Lz4),
        ("zstd.bin", Compression::Zstd),
        ("zstd-22.bin", Compression::Zstd),
    ] {
        let raw = golden(name);
        let mut scratch = Scratch::default();
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).expect(name);
        assert_eq!(batch.compression(), compression);
        let header = *batch.header();
        assert_eq!(header.producer_id, PRODUCER.id);
        assert_eq!(header.producer_epoch, PRODUCER.epoch);
        assert_eq!(header.base_sequence, PRODUCER.base_sequence);
        assert_eq!(header.last_sequence().0, 20);
        assert_eq!(header.attributes.is_transactional(), name == "zstd.bin");
        assert_eq!(batch.times().min, Some(TimestampMs(BASE_TIME - 5_000)));
        assert_eq!(batch.times().max, header.max_timestamp);
        assert_eq!(batch.times().max_offset_delta, 3);
        // What is stored is what Java wrote: nothing had to be stamped.
        let assigned = batch.assign(Offset::ZERO, LeaderEpoch::NONE, None);
        assert_eq!(assigned.to_bytes()[..], raw[..61]);
        let records = batch.records(&mut scratch).expect(name);
        assert_samples(&raw, records);
    }
}

#[test]
fn uncompressed_we_write_the_same_bytes_as_java() {
    assert!(samples::batch(Compression::None, None) == golden("none.bin"));
}

#[test]
fn every_compression_turns_into_every_other() {
    let (limits, mut scratch) = (BatchLimits::default(), Scratch::default());
    for from in Compression::ALL {
        let raw = golden(&format!("{}.bin", from.name()));
        let batch = CheckedBatch::check(&raw, &limits, &mut scratch).expect("Java's batch is right");
        for to in Compression::ALL {
            let mut out = Vec::new();
            let other = batch.recompress(to, None, &limits, &mut scratch, &mut out).expect("it fits");
            assert_eq!((other.compression(), other.times()), (to, batch.times()));
            let again = CheckedBatch::check(other.bytes(), &limits, &mut scratch).expect("it is right");
            assert_eq!(again, other);
            assert_samples(other.bytes(), other.records(&mut scratch).expect("it decompresses"));
        }
    }
}

#[test]
fn markers_are_java_s_byte_for_byte() {
    let mut scratch = Scratch::default();
    for (name, commit) in [("commit.bin", true), ("abort.bin", false)] {
        let raw = golden(name);
        let marker = EndMarker { commit, coordinator_epoch: 5 };
        let read = StoredBatch::check(&raw).expect(name).control_record(&mut scratch);
        assert_eq!(read, Ok(Some(ControlRecord::End(marker))));
        let mut ours = Vec::new();
        marker.write_batch((ProducerId(7), ProducerEpoch(3)), TimestampMs(BASE_TIME), &mut ours);
        assert_eq!(ours, raw);
    }
    let raw = golden("leader-change.bin");
    let change = LeaderChange {
        leader: BrokerId(1),
        voters: vec![BrokerId(1), BrokerId(300)],
        granting: vec![BrokerId(1)],
    };
    let read = StoredBatch::check(&raw).expect("Java's").control_record(&mut scratch);
    assert_eq!(read, Ok(Some(ControlRecord::LeaderChange(change.clone()))));
    let mut ours = Vec::new();
    change.write_batch(LeaderEpoch(9), TimestampMs(BASE_TIME), &mut ours);
    assert_eq!(ours, raw);
}

#[test]
fn a_fetch_of_all_of_them_is_walked_up_to_the_cut() {
    let mut fetch = Vec::new();
    let names = ["none.bin", "commit.bin", "zstd.bin", "abort.bin", "lz4.bin"];
    for name in names {
        fetch.extend(golden(name));
    }
    for all in [batches(&fetch), whole_batches(&fetch)] {
        let whole: Vec<_> = all.collect::<Result<_, _>>().expect("all are right");
        assert_eq!(whole.len(), 5);
    }
    for cut in [1, 11, 12, 60, 61, 1000] {
        let mut cut_off = batches(&fetch[..fetch.len() - golden("lz4.bin").len() + cut]);
        assert_eq!(cut_off.by_ref().map(|batch| batch.map(|_| ())).collect::<Vec<_>>(), vec![Ok(()); 4]);
        assert_eq!(cut_off.rest().len(), cut);
        assert_eq!(cut_off.next_size_bytes(), (cut >= 12).then(|| golden("lz4.bin").len()));
        // Where a batch has to end it is an error.
        let mut all = whole_batches(&fetch[..fetch.len() - golden("lz4.bin").len() + cut]).skip(4);
        assert!(matches!(all.next(), Some(Err(BatchError::Truncated { .. }))), "{cut}");
        assert!(all.next().is_none());
    }
}
