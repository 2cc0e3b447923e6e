//! The codec against everything that knows the protocol besides it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read files")]

extern crate vltava_wire as wire;

#[path = "../common/mod.rs"]
mod common;

mod frames;
mod golden;
mod headers;
mod oracle;
mod round_trip;

use std::collections::BTreeMap;
use std::fmt::Debug;

use wire::{DecodeError, Decoder, EncodeError, Encoder, Message};

/// Decodes all of `bytes`, and encodes what that gave.
fn again<'a, M: Message<'a>>(bytes: &'a [u8], version: i16) -> Result<(M, Vec<u8>), DecodeError> {
    let mut d = Decoder::new(bytes);
    let message = M::decode(&mut d, version)?;
    d.finish()?;
    let mut e = Encoder::new();
    message.encode(&mut e, version).expect("what was decoded can be encoded");
    Ok((message, e.into_bytes()))
}

/// Asserts that `bytes` mean something, and that it is written as they are.
fn assert_again<'a, M: Message<'a> + Debug>(name: &str, version: i16, bytes: &'a [u8]) -> M {
    match again::<M>(bytes, version) {
        Ok((message, encoded)) => {
            assert!(
                encoded == bytes,
                "{name} v{version} is written otherwise\nread    {}\nwritten {}\n{message:#?}",
                common::hex(bytes),
                common::hex(&encoded)
            );
            message
        }
        Err(error) => panic!("{name} v{version} {}: {error}", common::hex(bytes)),
    }
}

type Encoded = Result<Vec<u8>, EncodeError>;

/// What can be done with a message whose type only its name tells.
struct Check {
    /// Asserts that bytes of a version mean something and are written as they are: `(name, version, bytes)`.
    again: fn(&str, i16, &[u8]),
    /// Reads bytes of one version and writes what they say as another: `(from, to, bytes)`.
    translate: fn(i16, i16, &[u8]) -> Encoded,
}

/// How to check any request, response or data message, by name.
fn checks() -> BTreeMap<&'static str, Check> {
    let mut checks = BTreeMap::<&'static str, Check>::new();
    macro_rules! add_api {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            add_data!($module, $request);
            add_data!($module, $response);
        };
    }
    macro_rules! add_data {
        ($module:ident, $name:ident) => {
            let again: fn(&str, i16, &[u8]) = |name, version, bytes| {
                assert_again::<wire::messages::$module::$name>(name, version, bytes);
            };
            let translate: fn(i16, i16, &[u8]) -> Encoded = |from, to, bytes| {
                let read = wire::messages::$module::$name::decode(&mut Decoder::new(bytes), from);
                let mut e = Encoder::new();
                read.expect("well-formed").encode(&mut e, to)?;
                Ok(e.into_bytes())
            };
            checks.insert(stringify!($name), Check { again, translate });
        };
    }
    wire::every_api!(add_api);
    wire::every_data!(add_data);
    checks
}

/// Reads a body, and writes it behind a header, without the size of the whole:
/// `(correlation id, client id, version, body)`. Only a request says who the client is.
type Framed = fn(i32, Option<&str>, i16, &[u8]) -> Vec<u8>;

/// How to make a frame of any request or response, by name.
fn framed() -> BTreeMap<&'static str, Framed> {
    let mut framed = BTreeMap::<&'static str, Framed>::new();
    macro_rules! add {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            framed.insert(stringify!($request), |correlation_id, client_id, version, body| {
                let read = wire::messages::$module::$request::decode(&mut Decoder::new(body), version);
                let read = read.expect("well-formed");
                behind_size(wire::encode_request(correlation_id, client_id, version, &read))
            });
            framed.insert(stringify!($response), |correlation_id, _, version, body| {
                let read = wire::messages::$module::$response::decode(&mut Decoder::new(body), version);
                let read = read.expect("well-formed");
                behind_size(wire::encode_response(correlation_id, wire::ApiKey::$key, version, &read))
            });
        };
    }
    wire::every_api!(add);
    framed
}

fn behind_size(frame: Result<wire::Frame, EncodeError>) -> Vec<u8> {
    let frame = frame.expect("what was decoded can be encoded");
    assert!(frame.holes.is_empty(), "all of it was there");
    let (size, rest) = frame.bytes.split_first_chunk::<4>().expect("a size");
    assert_eq!(u32::from_be_bytes(*size) as usize, rest.len());
    rest.to_vec()
}
