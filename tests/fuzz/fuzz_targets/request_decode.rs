//! Requests and answers of every key and version. The first two bytes choose which.
//!
//! Whatever comes, decoding allocates at most 16 times the input and 64 KiB more; and what was
//! decoded can be written again, and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vltava_fuzz::Counting;
use wire::{ApiKey, Decoder, Encoder, Message};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Reads bytes as a message, writes it, and reads that. A macro, because the two borrow from
/// different bytes.
macro_rules! examine {
    ($message:ty, $bytes:expr, $version:expr) => {{
        let (bytes, version): (&[u8], i16) = ($bytes, $version);
        let began = ALLOCATOR.begin();
        let decoded = <$message>::decode(&mut Decoder::new(bytes), version);
        let peak = ALLOCATOR.peak_since(began);
        assert!(peak <= 16 * bytes.len() + (64 << 10), "{peak} bytes for {} of input", bytes.len());
        if let Ok(message) = decoded {
            // Compared as bytes: a number that is not one is not even equal to itself.
            let written = encode(&message, version);
            let again = <$message>::decode(&mut Decoder::new(&written), version);
            let again = again.expect("what was written can be read");
            assert_eq!(encode(&again, version), written, "{message:?}");
        }
    }};
}

fn encode<'a, M: Message<'a>>(message: &M, version: i16) -> Vec<u8> {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder, version).expect("what was read can be written");
    encoder.into_bytes()
}

fuzz_target!(|input: &[u8]| {
    let [which, version, bytes @ ..] = input else { return };
    let key = ApiKey::ALL[usize::from(*which) % ApiKey::ALL.len()];
    let (low, high) = (*key.versions_with_unstable().start(), *key.versions_with_unstable().end());
    let version = low + i16::from(*version) % (high - low + 1);
    macro_rules! each {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            if key == ApiKey::$key {
                examine!(wire::messages::$module::$request, bytes, version);
                examine!(wire::messages::$module::$response, bytes, version);
            }
        };
    }
    wire::every_api!(each);
});
