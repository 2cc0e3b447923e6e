//! The codec against everything that knows the protocol besides it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read files")]

extern crate vltava_wire as wire;

#[path = "../common/mod.rs"]
mod common;

mod frames;
mod golden;
mod oracle;
mod round_trip;

use std::fmt::Debug;

use wire::{DecodeError, Decoder, Encoder, Message};

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

/// Calls a macro-made check by the name of a message: `(name, version, bytes)`.
type Check = fn(&str, i16, &[u8]);

/// How to check any request, response or data message, by name.
fn checks() -> std::collections::BTreeMap<&'static str, Check> {
    let mut checks = std::collections::BTreeMap::<&'static str, Check>::new();
    macro_rules! add_api {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            add_data!($module, $request);
            add_data!($module, $response);
        };
    }
    macro_rules! add_data {
        ($module:ident, $name:ident) => {
            checks.insert(stringify!($name), |name, version, bytes| {
                assert_again::<wire::messages::$module::$name>(name, version, bytes);
            });
        };
    }
    wire::every_api!(add_api);
    wire::every_data!(add_data);
    checks
}
