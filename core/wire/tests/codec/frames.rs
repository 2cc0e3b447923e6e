//! What real clients and Kafka said to each other: `tests/golden/frames/*.hex`.
//!
//! Each line is `request|response key version hex`: the whole frame without its size. `FORMAT.txt` there
//! says more.

#![expect(clippy::disallowed_methods, reason = "it reads what another program wrote")]

use std::collections::BTreeMap;
use std::path::Path;

use wire::{ApiKey, decode_request_header, decode_response_header};

use crate::{Framed, common};

const UNSUPPORTED_VERSION: [u8; 2] = [0, 35];
/// How many frames there are of each client: none of them is passed over, and no file is lost.
const FRAMES: [(&str, usize); 9] = [
    ("franz-go", 30),
    ("java-4.3", 33),
    ("java-4.4", 37),
    ("kafka-python", 26),
    ("kcat", 23),
    ("librdkafka", 31),
    ("sarama", 26),
    ("sarama-max", 25),
    ("tools", 59),
];

#[test]
fn what_clients_and_kafka_say_is_read_and_written_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/frames");
    let framed = crate::framed();
    let mut frames = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let client = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        for line in text.lines() {
            check(&client, line, &framed);
            *frames.entry(client.clone()).or_insert(0) += 1;
        }
    }
    assert_eq!(frames, FRAMES.map(|(client, frames)| (client.to_owned(), frames)).into());
}

fn check(client: &str, line: &str, framed: &BTreeMap<&str, Framed>) {
    let words: Vec<&str> = line.split(' ').collect();
    let [direction, key, version, hex] = words[..] else { panic!("{client}: {line:?}") };
    let version: i16 = version.parse().expect("a version");
    let api = key.parse().ok().and_then(ApiKey::from_i16).expect("a known key");
    let frame = common::unhex(hex);
    let (name, version, correlation_id, client_id, body) = if direction == "request" {
        let (header, body) = decode_request_header(&frame).expect("a header");
        assert_eq!((header.api_key, header.api_version), (api.code(), version));
        (format!("{api}Request"), version, header.correlation_id, header.client_id, body)
    } else {
        let (correlation_id, body) = decode_response_header(&frame, api, version).expect("a header");
        let refused = api == ApiKey::ApiVersions && body.remaining().starts_with(&UNSUPPORTED_VERSION);
        (format!("{api}Response"), if refused { 0 } else { version }, correlation_id, None, body)
    };
    (crate::checks()[name.as_str()].again)(&format!("{client} {name}"), version, body.remaining());
    let written = framed[name.as_str()](correlation_id, client_id, version, body.remaining());
    assert_eq!(common::hex(&written), hex, "{client} {name} v{version}, with its header");
}
