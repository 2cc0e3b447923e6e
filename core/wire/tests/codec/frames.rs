//! Requests captured from real clients: `tests/golden/frames/*.hex`.
//!
//! Each line is `client key version hex`: the whole frame without its size.

use std::path::Path;

use wire::decode_request_header;

use crate::common;

#[test]
fn what_clients_send_is_read_and_written_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/frames");
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let checks = crate::checks();
    for entry in entries {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [client, key, version, hex] = words[..] else { panic!("{}: {line:?}", path.display()) };
            let frame = common::unhex(hex);
            let (header, body) = decode_request_header(&frame).expect("a header");
            assert_eq!(
                (header.api_key.to_string(), header.api_version.to_string()),
                (key.into(), version.into())
            );
            let api = wire::ApiKey::from_i16(header.api_key).expect("a known key");
            let name = format!("{api}Request");
            (checks[name.as_str()].again)(&format!("{client} {name}"), header.api_version, body.remaining());
        }
    }
}
