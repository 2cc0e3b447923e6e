//! Every file of a log directory that Apache Kafka wrote: `tests/golden/logs/kafka-4.3.1`.
//!
//! `golden` has small segments: 30 plain records, 6 transactions of 3 (every other one aborted), 20 records with
//! each compression, and a transaction that was left open. `single` has 50 records in one segment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// File → what is found in it.
type Found = BTreeMap<String, Vec<Value>>;

/// Says only by being there that the directory was closed.
const EMPTY: &str = ".kafka_cleanshutdown";

/// How many things of which type are in each file.
const FILES: [(&str, &[(&str, usize)]); 24] = [
    ("golden-0/00000000000000000000.index", &[("entry", 10)]),
    ("golden-0/00000000000000000000.log", &[("batch", 22), ("record", 22)]),
    ("golden-0/00000000000000000000.timeindex", &[("entry", 11)]),
    ("golden-0/00000000000000000022.index", &[("entry", 5)]),
    ("golden-0/00000000000000000022.log", &[("batch", 11), ("record", 11)]),
    ("golden-0/00000000000000000022.snapshot", &[("producer", 1)]),
    ("golden-0/00000000000000000022.timeindex", &[("entry", 5)]),
    ("golden-0/00000000000000000033.index", &[("entry", 10)]),
    ("golden-0/00000000000000000033.log", &[("batch", 26), ("record", 102)]),
    ("golden-0/00000000000000000033.snapshot", &[("producer", 2)]),
    ("golden-0/00000000000000000033.timeindex", &[("entry", 6)]),
    ("golden-0/00000000000000000033.txnindex", &[("aborted", 3)]),
    ("golden-0/00000000000000000135.snapshot", &[("producer", 3)]),
    ("golden-0/leader-epoch-checkpoint", &[("epoch", 1)]),
    ("golden-0/partition.metadata", &[("topic", 1)]),
    ("log-start-offset-checkpoint", &[]),
    ("meta.properties", &[("directory", 1)]),
    ("recovery-point-offset-checkpoint", &[("partition", 2)]),
    ("single-0/00000000000000000000.index", &[("entry", 24)]),
    ("single-0/00000000000000000000.log", &[("batch", 50), ("record", 50)]),
    ("single-0/00000000000000000000.timeindex", &[("entry", 25)]),
    ("single-0/00000000000000000050.snapshot", &[("producer", 1)]),
    ("single-0/leader-epoch-checkpoint", &[("epoch", 1)]),
    ("single-0/partition.metadata", &[("topic", 1)]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/logs/kafka-4.3.1")
}

/// The files that are there, by name.
fn files() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for sub in ["", "golden-0/", "single-0/"] {
        for entry in std::fs::read_dir(folder().join(sub)).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("it has one").is_file() {
                names.insert(format!("{sub}{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    names
}

/// What is said of all files; and that nothing of them is damaged.
fn dump(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
    command.current_dir(folder()).args(["log", "dump", "--records"]).args(arguments);
    let output = command.args(FILES.map(|(name, _)| name)).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

fn found() -> Found {
    let mut found = Found::new();
    let mut file = String::new();
    for line in dump(&["--json"]).lines() {
        let line: Value = serde_json::from_str(line).expect("each line is JSON");
        if line["type"] == "file" {
            file = line["path"].as_str().expect("a path").to_owned();
            found.entry(file.clone()).or_default();
        } else {
            found.get_mut(&file).expect("a file comes first").push(line);
        }
    }
    found
}

/// The things of a type in a file, each with these of its fields.
fn of(found: &Found, file: &str, kind: &str, fields: &[&str]) -> Vec<Value> {
    let lines = found[file].iter().filter(|line| line["type"] == kind);
    lines.map(|line| fields.iter().map(|field| line[*field].clone()).collect()).collect()
}

/// The same of the three segments of `golden`.
fn of_golden(found: &Found, kind: &str, fields: &[&str]) -> Vec<Value> {
    let segments = ["00", "22", "33"].map(|base| format!("golden-0/000000000000000000{base}.log"));
    segments.iter().flat_map(|segment| of(found, segment, kind, fields)).collect()
}

#[test]
fn every_file_of_kafka_is_read_whole() {
    let mut known: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.insert(EMPTY.to_owned());
    assert_eq!(files(), known);
    let found = found();
    for (file, expected) in FILES {
        let mut counts = BTreeMap::<&str, usize>::new();
        for line in &found[file] {
            *counts.entry(line["type"].as_str().expect("a type")).or_default() += 1;
        }
        assert_eq!(counts, expected.iter().copied().collect(), "{file}");
    }
}

#[test]
fn the_records_of_kafka_are_those_that_were_written() {
    let found = found();
    let offsets = |end: i64| (0..end).map(|offset| json!([offset])).collect::<Vec<_>>();
    assert_eq!(of_golden(&found, "record", &["offset"]), offsets(135));
    let single = "single-0/00000000000000000000.log";
    assert_eq!(of(&found, single, "record", &["offset"]), offsets(50));
    assert_eq!(of(&found, single, "batch", &["offset", "sequence", "producer"])[49], json!([49, 49, 2]));

    let markers = of_golden(&found, "record", &["offset", "marker"]);
    let markers: Vec<_> = markers.into_iter().filter(|record| !record[1].is_null()).collect();
    let ends = [(33, "Abort"), (37, "Commit"), (41, "Abort"), (45, "Commit"), (49, "Abort"), (53, "Commit")];
    assert_eq!(markers, ends.map(|(offset, what)| json!([offset, what])));
    let batches = of_golden(&found, "batch", &["offset", "last_offset", "records", "compression"]);
    let packed: Vec<_> = batches.into_iter().filter(|batch| batch[3] != "none").collect();
    let packings = [(54, 73, "gzip"), (74, 93, "snappy"), (94, 113, "lz4"), (114, 133, "zstd")];
    assert_eq!(packed, packings.map(|(first, last, packing)| json!([first, last, 20, packing])));
    let records = of_golden(&found, "record", &["key", "value"]);
    for (first, _, packing) in packings {
        for at in 0..20 {
            assert_eq!(records[first + at], json!([null, format!("{packing} {at}")]));
        }
    }
    assert_eq!(records[134], json!(["open", "left open"]));
}

#[test]
fn the_tables_of_kafka_say_what_its_records_are() {
    let found = found();
    for segment in
        ["golden-0/00000000000000000000", "golden-0/00000000000000000022", "golden-0/00000000000000000033"]
            .into_iter()
            .chain(["single-0/00000000000000000000"])
    {
        let [log, index, times] = ["log", "index", "timeindex"].map(|kind| format!("{segment}.{kind}"));
        let places = of(&found, &log, "batch", &["last_offset", "position"]);
        for entry in of(&found, &index, "entry", &["offset", "position"]) {
            assert!(places.contains(&entry), "{index}: {entry}");
        }
        let at = of(&found, &log, "batch", &["last_offset", "time"]);
        for entry in of(&found, &times, "entry", &["offset", "time"]) {
            assert!(at.contains(&entry), "{times}: {entry}");
        }
    }
    let aborted = of(
        &found,
        "golden-0/00000000000000000033.txnindex",
        "aborted",
        &["producer", "first_offset", "last_offset"],
    );
    assert_eq!(aborted, [json!([1, 30, 33]), json!([1, 38, 41]), json!([1, 46, 49])]);
    let producers = of(
        &found,
        "golden-0/00000000000000000135.snapshot",
        "producer",
        &["id", "epoch", "last_sequence", "last_offset", "transaction_start"],
    );
    let expected = [json!([0, 0, 29, 29, null]), json!([1, 6, -1, -1, null]), json!([3, 0, 0, 134, 134])];
    assert_eq!(producers, expected);
    let points =
        of(&found, "recovery-point-offset-checkpoint", "partition", &["topic", "partition", "offset"]);
    assert_eq!(points, [json!(["golden", 0, 135]), json!(["single", 0, 50])]);
    for topic in ["golden-0", "single-0"] {
        let epochs =
            of(&found, &format!("{topic}/leader-epoch-checkpoint"), "epoch", &["epoch", "start_offset"]);
        assert_eq!(epochs, [json!([0, 0])]);
    }
    assert_eq!(
        of(&found, "golden-0/partition.metadata", "topic", &["id"]),
        [json!(["TdcFG674Se625MSxgoj6pQ"])]
    );
    let owner = of(&found, "meta.properties", "directory", &["cluster", "node", "id"]);
    assert_eq!(owner, [json!(["XJ_0WvxiRnGjFPXzDwMsCA", 1, "wM6U_Zky4Q9kELYi4_9Dww"])]);
}

/// What people are shown: the type, then every field that says something.
fn in_words(line: &Value) -> String {
    let fields = line
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(name, value)| *name != "type" && !value.is_null());
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let kind = line["type"].as_str().expect("a type");
    let indent = if kind == "record" { "    " } else { "  " };
    fields.fold(format!("{indent}{kind}"), |said, (name, value)| format!("{said} {name}={}", shown(value)))
}

#[test]
fn people_and_programs_are_told_the_same() {
    let found = found();
    let files = FILES.iter().map(|(name, _)| *name);
    let expected: Vec<String> = files
        .flat_map(|name| std::iter::once(name.to_owned()).chain(found[name].iter().map(in_words)))
        .collect();
    let said = dump(&[]);
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said, expected);
}
