//! What real clients and Kafka said to each other: `tests/golden/frames/*.hex`.
//!
//! Each line is `request|response key version hex`: the whole frame without its size. `FORMAT.txt` there
//! says more.

#![expect(clippy::disallowed_methods, reason = "it reads what another program wrote")]

use std::path::Path;

use wire::{ApiKey, decode_request_header, decode_response_header};

use crate::common;

const UNSUPPORTED_VERSION: [u8; 2] = [0, 35];

#[test]
fn what_clients_and_kafka_say_is_read_and_written_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/frames");
    let mut frames = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let client = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        for line in text.lines() {
            check(&client, line);
            frames += 1;
        }
    }
    assert!(frames > 100, "{frames} frames");
}

fn check(client: &str, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [direction, key, version, hex] = words[..] else { panic!("{client}: {line:?}") };
    let version: i16 = version.parse().expect("a version");
    let api = key.parse().ok().and_then(ApiKey::from_i16).expect("a known key");
    let frame = common::unhex(hex);
    let (name, version, body) = if direction == "request" {
        let (header, body) = decode_request_header(&frame).expect("a header");
        assert_eq!((header.api_key, header.api_version), (api.code(), version));
        (format!("{api}Request"), version, body)
    } else {
        let (_, body) = decode_response_header(&frame, api, version).expect("a header");
        let refused = api == ApiKey::ApiVersions && body.remaining().starts_with(&UNSUPPORTED_VERSION);
        (format!("{api}Response"), if refused { 0 } else { version }, body)
    };
    (crate::checks()[name.as_str()].again)(&format!("{client} {name}"), version, body.remaining());
}
