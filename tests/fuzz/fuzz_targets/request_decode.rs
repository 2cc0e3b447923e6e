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

fn decode<'a, M: Message<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8], version: i16) {
    let began = ALLOCATOR.begin();
    let decoded = M::decode(&mut Decoder::new(bytes), version);
    let peak = ALLOCATOR.peak_since(began);
    assert!(peak <= 16 * bytes.len() + (64 << 10), "{peak} bytes for {} of input", bytes.len());
    if let Ok(message) = decoded {
        let mut encoder = Encoder::new();
        message.encode(&mut encoder, version).expect("what was read can be written");
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, version, bytes @ ..] = input else { return };
    let key = ApiKey::ALL[usize::from(*which) % ApiKey::ALL.len()];
    let (low, high) = (*key.versions_with_unstable().start(), *key.versions_with_unstable().end());
    let version = low + i16::from(*version) % (high - low + 1);
    macro_rules! each {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            if key == ApiKey::$key {
                decode::<wire::messages::$module::$request>(bytes, version);
                decode::<wire::messages::$module::$response>(bytes, version);
            }
        };
    }
    wire::every_api!(each);
});
