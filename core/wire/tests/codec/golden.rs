//! Bytes that Apache Kafka's own classes wrote: `tests/golden/wire/kafka-clients.txt`.
//!
//! Each line is `key version request|response hex`, or `- version NAME hex` for what is neither. They
//! are made by `java/GoldenFrames.java`, beside this file's folder.

use std::path::Path;

use crate::common;

#[test]
fn what_kafka_writes_is_read_and_written_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/wire/kafka-clients.txt");
    let text = std::fs::read_to_string(path).expect("golden frames");
    let checks = crate::checks();
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [key, version, kind, hex] = words[..] else { panic!("{line:?}") };
        let name = match (key.parse(), kind) {
            (Ok(key), "request") => format!("{}Request", api(key)),
            (Ok(key), "response") => format!("{}Response", api(key)),
            _ => kind.to_owned(),
        };
        let version = version.parse().expect("a version");
        let check = checks.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not generated"));
        check(&name, version, &common::unhex(hex));
        seen.insert((name, version));
    }
    for message in common::schema() {
        for version in message.versions.low..=message.versions.high {
            assert!(seen.contains(&(message.name.clone(), version)), "no {} v{version}", message.name);
        }
    }
}

fn api(key: i16) -> &'static str {
    wire::ApiKey::from_i16(key).unwrap_or_else(|| panic!("no API has key {key}")).name()
}
