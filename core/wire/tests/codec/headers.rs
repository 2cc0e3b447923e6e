//! The headers of every API in every version against the kafka-protocol crate: which of the forms each has, and
//! what is in it.

use bytes::BytesMut;
use kafka_protocol::messages::{ApiKey as TheirKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use wire::{ApiKey, decode_request_header, decode_response_header};

use crate::common::{self, Fill, Random};

/// Of later releases than the one that crate knows.
const UNKNOWN: [&str; 4] = [
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "StreamsGroupTopologyDescriptionUpdate",
    "UnregisterController",
];
const CLIENTS: [Option<&str>; 4] = [None, Some(""), Some("a client"), Some("řeka 水")];

/// A header as that crate writes it, which must read all of it again.
fn written<H: Encodable + Decodable + PartialEq>(header: &H, version: i16) -> Vec<u8> {
    let mut out = BytesMut::new();
    header.encode(&mut out, version).expect("the oracle writes it");
    let mut rest = out.clone().freeze();
    assert!(H::decode(&mut rest, version).expect("the oracle reads it") == *header && rest.is_empty());
    out.to_vec()
}

/// A header's last byte says that it has no tags: one that nobody knows, and its bytes, instead.
fn with_an_unknown_tag(header: &[u8]) -> Vec<u8> {
    let (none, front) = header.split_last().expect("a header");
    assert_eq!(*none, 0);
    [front, &[1, 100, 3, 1, 2, 3]].concat()
}

fn check_request(key: ApiKey, version: i16, client_id: Option<&str>, body: &[u8]) {
    let form = TheirKey::try_from(key.code()).expect("a key").request_header_version(version);
    let correlation_id = 0x0102_0304 + i32::from(version);
    let header = RequestHeader::default()
        .with_request_api_key(key.code())
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(client_id.map(|id| StrBytes::from_string(id.to_owned())));
    let theirs = written(&header, form);
    let ours = crate::framed()[format!("{key}Request").as_str()](correlation_id, client_id, version, body);
    assert_eq!(common::hex(&ours), common::hex(&[&theirs[..], body].concat()), "{key}Request v{version}");

    let tagged = (form == 2).then(|| with_an_unknown_tag(&theirs));
    for front in [Some(theirs), tagged].into_iter().flatten() {
        let frame = [&front[..], body].concat();
        let (read, rest) = decode_request_header(&frame).expect("a header");
        let expected =
            wire::RequestHeader { api_key: key.code(), api_version: version, correlation_id, client_id };
        assert_eq!((read, rest.remaining()), (expected, body), "{key}Request v{version}");
    }
}

fn check_response(key: ApiKey, version: i16, body: &[u8]) {
    let form = TheirKey::try_from(key.code()).expect("a key").response_header_version(version);
    let correlation_id = -i32::from(version) - 1;
    let theirs = written(&ResponseHeader::default().with_correlation_id(correlation_id), form);
    let ours = crate::framed()[format!("{key}Response").as_str()](correlation_id, None, version, body);
    assert_eq!(common::hex(&ours), common::hex(&[&theirs[..], body].concat()), "{key}Response v{version}");

    let tagged = (form == 1).then(|| with_an_unknown_tag(&theirs));
    for front in [Some(theirs), tagged].into_iter().flatten() {
        let frame = [&front[..], body].concat();
        let (read, rest) = decode_response_header(&frame, key, version).expect("a header");
        assert_eq!((read, rest.remaining()), (correlation_id, body), "{key}Response v{version}");
    }
}

#[test]
fn another_codec_reads_and_writes_the_same_headers() {
    let schema = common::schema();
    let mut unknown = Vec::new();
    for &key in ApiKey::ALL {
        if TheirKey::try_from(key.code()).is_err() {
            unknown.push(key.name());
            continue;
        }
        let [request, response] = ["Request", "Response"].map(|kind| format!("{key}{kind}"));
        let [request, response] = [request, response].map(|name| common::find(&schema, &name));
        for version in key.versions() {
            let random = &mut Random(version as u64);
            for client_id in CLIENTS {
                check_request(
                    key,
                    version,
                    client_id,
                    &common::bytes(request, version, Fill::Random, random),
                );
            }
            check_response(key, version, &common::bytes(response, version, Fill::Random, random));
        }
    }
    assert_eq!(unknown, UNKNOWN, "these that crate does not know");
}
