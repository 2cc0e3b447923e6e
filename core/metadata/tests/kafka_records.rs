//! Records that Apache Kafka's own classes wrote: `tests/golden/wire/kafka-metadata.txt`, which
//! `core/wire/tests/java/GoldenFrames.java` makes.
//!
//! Each line is `- version NAME hex`. A line of version `LOW>HIGH` has what the first line of LOW says,
//! written as HIGH.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read files")]

use std::collections::BTreeMap;
use std::path::Path;

use vltava_metadata::record;
use wire::{Decoder, Encoder, Message};

/// Reads bytes of one version and writes what they say as another.
type Translate = fn(i16, i16, &[u8]) -> Vec<u8>;

fn translate<M: for<'a> Message<'a>>(from: i16, to: i16, bytes: &[u8]) -> Vec<u8> {
    let mut d = Decoder::new(bytes);
    let record = M::decode(&mut d, from).expect("well-formed");
    d.finish().expect("nothing follows");
    let mut e = Encoder::new();
    record.encode(&mut e, to).expect("what was read can be written");
    e.into_bytes()
}

fn records() -> BTreeMap<&'static str, Translate> {
    let mut records = BTreeMap::<&'static str, Translate>::new();
    macro_rules! add {
        ($($name:ident)*) => { $(records.insert(stringify!($name), translate::<record::$name>);)* };
    }
    add!(AbortTransactionRecord AccessControlEntryRecord BeginTransactionRecord
        BrokerRegistrationChangeRecord ClearElrRecord ClientQuotaRecord ConfigRecord DelegationTokenRecord
        EndTransactionRecord FeatureLevelRecord FenceBrokerRecord NoOpRecord PartitionChangeRecord
        PartitionRecord ProducerIdsRecord RegisterBrokerRecord RegisterControllerRecord
        RemoveAccessControlEntryRecord RemoveDelegationTokenRecord RemoveTopicRecord
        RemoveUserScramCredentialRecord TopicRecord UnfenceBrokerRecord UnregisterBrokerRecord
        UnregisterControllerRecord UserScramCredentialRecord ZkMigrationStateRecord);
    records
}

#[test]
fn what_kafka_writes_is_read_and_written_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/wire/kafka-metadata.txt");
    let text = std::fs::read_to_string(path).expect("golden records");
    let records = records();
    let mut full = BTreeMap::<(&str, &str), &str>::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let ["-", versions, name, hex] = words[..] else { panic!("{line:?}") };
        let number = |text: &str| text.parse::<i16>().expect("a version");
        let (from, to, input) = match versions.split_once('>') {
            Some((low, high)) => (number(low), number(high), full[&(name, low)]),
            None => (number(versions), number(versions), hex),
        };
        full.entry((name, versions)).or_insert(hex);
        let written: String =
            records[name](from, to, &unhex(input)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex, "{name} v{versions}");
    }
    let names: std::collections::BTreeSet<&str> = full.keys().map(|(name, _)| *name).collect();
    assert!(names.iter().eq(records.keys()), "Kafka wrote {names:?}");
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}
