//! Every message of every version: bytes made from the schema are read, and written as they were.

use wire::{ApiKey, Decoder, Encoder, Message};

use crate::common::{self, Fill, Random};

const ROUNDS: u64 = 40;

#[test]
fn every_message_of_every_version_is_written_as_it_was_read() {
    let schema = common::schema();
    let checks = crate::checks();
    assert_eq!(schema.len(), checks.len(), "a message of the schema is not generated");
    for message in &schema {
        let check = checks[message.name.as_str()].again;
        for version in message.versions.low..=message.versions.high {
            for round in 0..ROUNDS {
                let mut random = Random(round << 32 | version as u64);
                let bytes = common::bytes(message, version, Fill::Random, &mut random);
                check(&message.name, version, &bytes);
            }
        }
    }
}

#[test]
fn the_least_size_of_a_message_is_that_of_the_shortest() {
    let schema = common::schema();
    macro_rules! check_api {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            check_data!($module, $request);
            check_data!($module, $response);
        };
    }
    macro_rules! check_data {
        ($module:ident, $name:ident) => {
            let message = common::find(&schema, stringify!($name));
            for version in wire::messages::$module::$name::VERSIONS {
                let bytes = common::bytes(message, version, Fill::Least, &mut Random(7));
                let size = wire::messages::$module::$name::size_min(version);
                assert_eq!(size, bytes.len(), "{} v{version}", message.name);
            }
        };
    }
    wire::every_api!(check_api);
    wire::every_data!(check_data);
}

#[test]
fn tagged_fields_of_later_versions_are_skipped() {
    let schema = common::schema();
    let mut skipped = 0;
    macro_rules! run {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            run!(@ $module, $request);
            run!(@ $module, $response);
        };
        (@ $module:ident, $name:ident) => {
            let message = common::find(&schema, stringify!($name));
            for version in message.versions.low..=message.versions.high {
                for round in 0..8 {
                    let bytes = common::bytes(message, version, Fill::UnknownTags, &mut Random(round));
                    let read = crate::again::<wire::messages::$module::$name>(&bytes, version);
                    let (first, written) = read.expect("well-formed");
                    let (second, same) =
                        crate::again::<wire::messages::$module::$name>(&written, version).expect("well-formed");
                    assert_eq!(first, second, "{} v{version}", message.name);
                    assert_eq!(written, same, "{} v{version}", message.name);
                    skipped += usize::from(written.len() < bytes.len());
                }
            }
        };
    }
    wire::every_api!(run);
    assert!(skipped > 1000, "only {skipped} had unknown tags");
}

#[test]
fn the_table_of_apis_agrees_with_the_messages() {
    macro_rules! check {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            let versions = ApiKey::$key.versions_with_unstable();
            assert_eq!(versions, wire::messages::$module::$request::VERSIONS);
            assert_eq!(versions, wire::messages::$module::$response::VERSIONS);
        };
    }
    wire::every_api!(check);
}

#[test]
fn defaults_can_be_said_in_every_version_that_has_no_use_for_more() {
    let mut said = 0;
    macro_rules! check {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            for version in ApiKey::$key.versions() {
                let mut e = Encoder::new();
                let written = wire::messages::$module::$response::default().encode(&mut e, version);
                if written.is_ok() {
                    let bytes = e.into_bytes();
                    let mut d = Decoder::new(&bytes);
                    let read = wire::messages::$module::$response::decode(&mut d, version);
                    assert_eq!(read, Ok(wire::messages::$module::$response::default()));
                    said += 1;
                }
            }
        };
    }
    wire::every_api!(check);
    assert!(said > 200, "only {said}");
}
