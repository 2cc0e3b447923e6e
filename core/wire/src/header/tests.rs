use super::*;
use crate::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use crate::messages::metadata::MetadataRequest;
use crate::messages::produce::ProduceResponse;

#[test]
fn a_flexible_version_has_the_later_header() {
    let rigid = b"\0\x03\0\x08\0\0\0\x07\0\x02meBODY";
    let (header, body) = decode_request_header(rigid).expect("well-formed");
    let expected = RequestHeader { api_key: 3, api_version: 8, correlation_id: 7, client_id: Some("me") };
    assert_eq!((header, body.remaining()), (expected, &b"BODY"[..]));

    let flexible = b"\0\x03\0\x09\0\0\0\x07\xff\xff\x01\x00\x01zBODY";
    let (header, body) = decode_request_header(flexible).expect("well-formed");
    let expected = RequestHeader { api_key: 3, api_version: 9, correlation_id: 7, client_id: None };
    assert_eq!((header, body.remaining()), (expected, &b"BODY"[..]), "the client id stays rigid");
}

#[test]
fn an_unknown_key_is_told() {
    for key in [-1i16, 4, 5, 6, 7, 1000] {
        let frame = [&key.to_be_bytes()[..], &[0; 20]].concat();
        assert_eq!(decode_request_header(&frame).unwrap_err(), DecodeError::UnknownKey { key });
    }
}

#[test]
fn versions_beyond_the_known_can_be_read_up_to_the_body() {
    let frame = b"\0\x12\0\x63\0\0\0\x01\0\0\0BODY";
    let (header, body) = decode_request_header(frame).expect("well-formed");
    assert_eq!((header.api_version, body.remaining()), (99, &b"BODY"[..]));
    let refused = ApiVersionsRequest::decode(&mut body.clone(), 99);
    assert_eq!(refused, Err(DecodeError::Version { version: 99 }));
}

#[test]
fn api_versions_is_always_answered_with_the_first_header() {
    for version in ApiVersionsResponse::VERSIONS {
        let frame = encode_response(7, ApiKey::ApiVersions, version, &ApiVersionsResponse::default());
        let frame = frame.expect("empty").bytes;
        assert_eq!(frame[4..10], [0, 0, 0, 7, 0, 0], "correlation id, error code");
        let (correlation_id, body) =
            decode_response_header(&frame[4..], ApiKey::ApiVersions, version).expect("well-formed");
        assert_eq!((correlation_id, body.position()), (7, 4));
    }
    let frame = encode_response(7, ApiKey::Produce, 9, &ProduceResponse::default()).expect("empty");
    assert_eq!(frame.bytes[4..9], [0, 0, 0, 7, 0], "correlation id, no tags");
}

#[test]
fn the_answer_to_an_unknown_version_of_api_versions_is_that_of_kafka() {
    let range = ApiVersion { api_key: 18, min_version: 0, max_version: 5 };
    let response = ApiVersionsResponse { error_code: 35, api_keys: vec![range], ..Default::default() };
    let frame = encode_response(0x0102_0304, ApiKey::ApiVersions, 0, &response).expect("short");
    let captured = b"\0\0\0\x10\x01\x02\x03\x04\0\x23\0\0\0\x01\0\x12\0\0\0\x05";
    assert_eq!(frame.bytes, captured);
}

#[test]
fn a_request_can_be_read_back() {
    for version in MetadataRequest::VERSIONS {
        let request = MetadataRequest::default();
        let frame = encode_request(5, Some("client"), version, &request).expect("empty").bytes;
        let (size, frame) = frame.split_first_chunk::<4>().expect("a size");
        assert_eq!(u32::from_be_bytes(*size) as usize, frame.len());
        let (header, mut body) = decode_request_header(frame).expect("well-formed");
        let expected = (3, version, 5, Some("client"));
        assert_eq!((header.api_key, header.api_version, header.correlation_id, header.client_id), expected);
        assert_eq!(MetadataRequest::decode(&mut body, version), Ok(request));
        assert_eq!(body.finish(), Ok(()));
    }
}
