//! Bytes that Apache Kafka's own classes wrote: `tests/golden/wire/kafka-clients.txt`.
//!
//! Each line is `key version request|response hex`, or `- version NAME hex` for what is neither. A line
//! of version `LOW>HIGH` has what the first line of LOW says, as HIGH; or `-` if that cannot be said.
//! `java/GoldenFrames.java`, beside this file's folder, makes them.

#![expect(clippy::disallowed_methods, reason = "it reads what another program wrote")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common;

/// A line: the message, its version, a later version, and the bytes.
struct Line {
    name: String,
    version: i16,
    later: Option<i16>,
    bytes: Option<Vec<u8>>,
}

#[test]
fn what_kafka_writes_is_read_and_written_the_same() {
    let checks = crate::checks();
    let mut seen = BTreeSet::new();
    for line in lines().into_iter().filter(|line| line.later.is_none()) {
        let Line { name, version, bytes, .. } = line;
        let check = checks.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not generated"));
        (check.again)(&name, version, &bytes.expect("bytes"));
        seen.insert((name, version));
    }
    for message in common::schema() {
        for version in message.versions.low..=message.versions.high {
            assert!(seen.contains(&(message.name.clone(), version)), "no {} v{version}", message.name);
        }
    }
}

#[test]
fn what_an_early_version_does_not_say_has_the_default_that_kafka_gives_it() {
    let checks = crate::checks();
    let mut full = BTreeMap::new();
    let (mut said, mut unsaid) = (0, 0);
    for Line { name, version, later, bytes } in lines() {
        let Some(later) = later else {
            full.entry((name, version)).or_insert(bytes.expect("bytes"));
            continue;
        };
        let input = &full[&(name.clone(), version)];
        let written = (checks[name.as_str()].translate)(version, later, input);
        match (written, bytes) {
            (Ok(written), Some(expected)) => {
                let (written, expected) = (common::hex(&written), common::hex(&expected));
                assert_eq!(written, expected, "{name} v{version} as v{later}");
                said += 1;
            }
            (Err(_), None) => unsaid += 1,
            (written, _) => panic!("{name} v{version} as v{later}: {written:?}"),
        }
    }
    assert!(said > 300 && unsaid > 10, "{said} were said, {unsaid} not");
}

fn lines() -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/wire/kafka-clients.txt");
    let text = std::fs::read_to_string(path).expect("golden frames");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [key, versions, kind, hex] = words[..] else { panic!("{line:?}") };
            let name = match (key.parse(), kind) {
                (Ok(key), "request") => format!("{}Request", api(key)),
                (Ok(key), "response") => format!("{}Response", api(key)),
                _ => kind.to_owned(),
            };
            let number = |text: &str| text.parse::<i16>().expect("a version");
            let (version, later) = match versions.split_once('>') {
                Some((low, high)) => (number(low), Some(number(high))),
                None => (number(versions), None),
            };
            Line { name, version, later, bytes: (hex != "-").then(|| common::unhex(hex)) }
        })
        .collect()
}

fn api(key: i16) -> &'static str {
    wire::ApiKey::from_i16(key).unwrap_or_else(|| panic!("no API has key {key}")).name()
}
