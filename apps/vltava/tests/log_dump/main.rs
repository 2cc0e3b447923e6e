//! `vltava log dump` on files that this test writes, and on those of Apache Kafka.

mod kafka;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base::{Offset, TimestampMs};
use coordinator::GroupRecord;
use coordinator::record::{GroupMetadataValue, OffsetCommitValue};
use records::{BatchBuilder, BatchOptions, Compression, HEADER_BYTES, Header, Scratch, crc32c};

fn dump(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
    command.args(["log", "dump"]).args(arguments).arg(file).output().expect("the binary starts")
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// Two batches of two records: one as it is, one compressed.
fn segment() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (base, compression) in [(7, Compression::None), (9, Compression::Zstd)] {
        let mut builder = BatchBuilder::new(1 << 20);
        let header = Header { key: b"from", value: Some(b"test") };
        for value in [b"a".as_slice(), &[0xff, 0]] {
            builder.try_append(TimestampMs(0), Some(b"k"), Some(value), &[header]).expect("there is room");
        }
        let options = BatchOptions { base_offset: Offset(base), compression, ..BatchOptions::default() };
        builder.finish(&options, &mut Scratch::default(), &mut bytes).expect("it compresses");
    }
    bytes
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    path
}

#[test]
fn batches_and_records_of_a_segment() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let file = write(dir.path(), "00000000000000000007.log", &segment());
    let output = dump(&["--json", "--records"], &file);
    assert_eq!(output.status.code(), Some(0));
    let lines = lines(&output);
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["file", "batch", "record", "record", "batch", "record", "record"]);
    assert_eq!((lines[1]["offset"].as_i64(), lines[1]["last_offset"].as_i64()), (Some(7), Some(8)));
    assert_eq!(lines[4]["compression"], "zstd");
    assert_eq!((lines[5]["offset"].as_i64(), &lines[5]["value"]), (Some(9), &serde_json::json!("a")));
    assert_eq!(lines[6]["value"], "0xff00");
    assert_eq!(lines[6]["headers"], serde_json::json!([["from", "test"]]));
}

#[test]
fn damage_is_said_and_what_follows_is_found() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let mut bytes = segment();
    bytes[62] ^= 1;
    let output = dump(&["--json"], &write(dir.path(), "00000000000000000007.log", &bytes));
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&output);
    let types: Vec<&str> = found.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["file", "batch", "damage", "batch"]);

    let whole = segment();
    let torn = write(dir.path(), "00000000000000000007.log", &whole[..whole.len() - 1]);
    let found = lines(&dump(&["--json"], &torn));
    let types: Vec<&str> = found.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["file", "batch", "damage"]);
}

#[test]
fn zeroes_at_the_end_are_no_damage_and_a_hole_is() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let mut bytes = segment();
    bytes.resize(bytes.len() + (3 << 20), 0);
    let made_long = dump(&["--json"], &write(dir.path(), "00000000000000000007.log", &bytes));
    assert_eq!(made_long.status.code(), Some(0));
    assert_eq!(lines(&made_long).last().map(|line| line["type"].clone()), Some("zeroes".into()));
    bytes.extend(segment());
    let hole = dump(&["--json"], &write(dir.path(), "00000000000000000007.log", &bytes));
    assert_eq!(hole.status.code(), Some(1));
    assert_eq!(lines(&hole).last().map(|line| line["type"].clone()), Some("damage".into()));
}

#[test]
fn nonsense_is_damage_and_not_a_crash() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let nonsense: Vec<u8> = (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for name in [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000000.snapshot",
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "partition.metadata",
        "meta.properties",
    ] {
        let output = dump(&["--records"], &write(dir.path(), name, &nonsense));
        assert_eq!(output.status.code(), Some(1), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("damage"), "{name}");
    }
}

#[test]
fn an_index_has_offsets_from_its_name() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let file =
        write(dir.path(), "00000000000000000100.index", &[0, 0, 0, 5, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let output = dump(&["--json"], &file);
    let found = lines(&output);
    assert_eq!((found[1]["offset"].as_i64(), found[1]["position"].as_i64()), (Some(105), Some(4096)));
    assert_eq!(found[2]["type"], "zeroes");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let output = dump(&[], &write(dir.path(), "notes.txt", b"hello"));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("00000000000000000000.log"));
}

/// A batch from which a compaction took everything, as it stays for its producer.
fn emptied(batch: &[u8]) -> Vec<u8> {
    let mut empty = batch[..HEADER_BYTES].to_vec();
    let length = i32::try_from(HEADER_BYTES - 12).expect("small");
    empty[8..12].copy_from_slice(&length.to_be_bytes());
    empty[57..61].fill(0);
    let crc = crc32c(&empty[21..]);
    empty[17..21].copy_from_slice(&crc.to_be_bytes());
    empty
}

#[test]
fn what_groups_committed_is_read_from_a_compacted_log() {
    let dir = tempfile::tempdir().expect("there is a place for files");
    let dir = dir.path().join("__consumer_offsets-7");
    std::fs::create_dir(&dir).expect("it is not there");
    let batch = |base: i64, records: &[coordinator::Record]| {
        let mut builder = BatchBuilder::new(1 << 20);
        for record in records {
            builder
                .try_append(TimestampMs(0), Some(&record.key), record.value.as_deref(), &[])
                .expect("room");
        }
        let options = BatchOptions { base_offset: Offset(base), ..BatchOptions::default() };
        let mut bytes = Vec::new();
        builder.finish(&options, &mut Scratch::default(), &mut bytes).expect("it is small");
        bytes
    };
    let value = OffsetCommitValue { offset: 42, metadata: "here".into(), ..OffsetCommitValue::default() };
    let commit = |value| GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 3, value }.encode();
    let members = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 5,
        ..GroupMetadataValue::default()
    };
    let group = GroupRecord::GroupMetadata { group: "g", value: Some(members) }.encode();
    let share = coordinator::Record { key: vec![0, 11, 0, 1, b's'], value: None };
    let bytes = [
        batch(0, &[commit(Some(value)), group]),
        emptied(&batch(9, &[commit(None)])),
        // What lay in between is gone.
        batch(40, &[commit(None), share]),
    ]
    .concat();
    let file = write(&dir, "00000000000000000000.log", &bytes);
    let output = dump(&["--json", "--records"], &file);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = lines(&output);
    let types: Vec<&str> = found.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["file", "batch", "record", "record", "batch", "batch", "record", "record"]);
    let key = serde_json::json!({ "type": "OffsetCommit", "group": "g", "topic": "t", "partition": 3 });
    assert_eq!((&found[2]["key"], &found[6]["key"]), (&key, &key));
    assert_eq!((&found[2]["value"]["offset"], &found[2]["value"]["metadata"]), (&42.into(), &"here".into()));
    assert_eq!(
        (&found[3]["key"]["type"], &found[3]["value"]["generation"]),
        (&"GroupMetadata".into(), &5.into())
    );
    assert_eq!((&found[4]["offset"], &found[4]["records"]), (&9.into(), &0.into()));
    assert_eq!((&found[6]["offset"], &found[6]["value"]), (&40.into(), &serde_json::Value::Null));
    assert_eq!(found[7]["key"], "ShareGroupMetadataKey { group_id: \"s\" }");

    let said = dump(&["--records"], &file);
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains(r#"key={"type":"OffsetCommit","group":"g","topic":"t","partition":3}"#), "{said}");
}
