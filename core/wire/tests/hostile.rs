//! Bytes of an enemy: whatever comes in, decoding ends with a message or an error, and never takes more
//! memory than a fixed multiple of what came in.

extern crate vltava_wire as wire;

#[path = "common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Fill, Random};
use wire::{Decoder, Message, decode_request_header};

/// What decoding may take: so many times the bytes that came, and a floor.
const MEMORY_PER_BYTE: usize = 16;
const MEMORY_FLOOR_BYTES: usize = 64 * 1024;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread has, and the most that it ever had.
struct Counting;

impl Counting {
    fn more(bytes: usize) {
        let live = LIVE.get().wrapping_add(bytes);
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
    }

    fn less(bytes: usize) {
        LIVE.set(LIVE.get().wrapping_sub(bytes));
    }
}

// SAFETY: everything is handed to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::more(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Self::less(layout.size());
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while it moves.
        Self::more(size);
        Self::less(layout.size());
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Decodes and forgets; whether it was a message.
type Attempt = fn(i16, &[u8]) -> bool;

fn attempts() -> Vec<(&'static str, Attempt)> {
    let mut attempts = Vec::<(&'static str, Attempt)>::new();
    macro_rules! add_api {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            add_data!($module, $request);
            add_data!($module, $response);
        };
    }
    macro_rules! add_data {
        ($module:ident, $name:ident) => {
            attempts.push((stringify!($name), |version, bytes| {
                wire::messages::$module::$name::decode(&mut Decoder::new(bytes), version).is_ok()
            }));
        };
    }
    wire::every_api!(add_api);
    wire::every_data!(add_data);
    attempts
}

/// Calls `each` with every version of every message.
fn every(mut each: impl FnMut(&common::Message, i16, &dyn Fn(&[u8]) -> bool)) {
    let schema = common::schema();
    for (name, attempt) in attempts() {
        let message = common::find(&schema, name);
        for version in message.versions.low..=message.versions.high {
            each(message, version, &|bytes| bounded(name, version, bytes, attempt));
        }
    }
}

fn bounded(name: &str, version: i16, bytes: &[u8], attempt: Attempt) -> bool {
    let before = LIVE.get();
    PEAK.set(before);
    let read = attempt(version, bytes);
    let taken = PEAK.get() - before;
    let most = bytes.len() * MEMORY_PER_BYTE + MEMORY_FLOOR_BYTES;
    assert!(taken <= most, "{name} v{version}: {} bytes took {taken} of {most}", bytes.len());
    assert_eq!(LIVE.get(), before, "{name} v{version} keeps memory");
    read
}

#[test]
fn noise_is_refused() {
    every(|_, version, attempt| {
        let mut random = Random(version as u64);
        for round in 0..60 {
            let len = random.below(1 << (round % 11));
            let mut bytes = random.bytes(len);
            // Small numbers are more often lengths that fit.
            if round % 2 == 0 {
                bytes.iter_mut().for_each(|byte| *byte &= 0x07);
            }
            attempt(&bytes);
        }
    });
}

#[test]
fn half_a_message_is_refused_wherever_it_ends() {
    every(|message, version, attempt| {
        let bytes = common::bytes(message, version, Fill::Random, &mut Random(3));
        assert!(attempt(&bytes));
        for end in 0..bytes.len() {
            assert!(!attempt(&bytes[..end]), "{} v{version} up to {end} of {}", message.name, bytes.len());
        }
    });
}

#[test]
fn a_lie_about_a_length_costs_nothing() {
    const BOMBS: &[&[u8]] = &[
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0x00, 0x0f, 0x42, 0x40],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0xc1, 0x84, 0x3d],
        &[0x90, 0x4e],
    ];
    every(|message, version, attempt| {
        let bytes = common::bytes(message, version, Fill::Random, &mut Random(5));
        for at in 0..bytes.len() {
            for bomb in BOMBS {
                let mut bombed = bytes[..at].to_vec();
                bombed.extend_from_slice(bomb);
                bombed.extend(bytes.iter().skip(at + bomb.len()));
                attempt(&bombed);
            }
        }
    });
}

#[test]
fn damage_is_survived() {
    every(|message, version, attempt| {
        let mut random = Random(11);
        for _ in 0..20 {
            let mut bytes = common::bytes(message, version, Fill::Random, &mut random);
            for _ in 0..1 + random.below(4) {
                if !bytes.is_empty() {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            }
            attempt(&bytes);
        }
    });
}

#[test]
fn long_arrays_of_next_to_nothing_stay_within_the_bound() {
    let (mut read, mut refused) = (0, 0);
    every(|message, version, attempt| {
        let bytes = common::bytes(message, version, Fill::Many(10_000), &mut Random(13));
        match attempt(&bytes) {
            true => read += 1,
            false => refused += 1,
        }
    });
    assert!(read > 20 * refused, "{read} were read, {refused} refused");
}

#[test]
fn zeros_and_ones_without_end_stay_within_the_bound() {
    every(|_, _, attempt| {
        for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
            attempt(&[byte; 2_000]);
        }
        // A count that is believed, and elements as empty as can be.
        for prefix in 0..24 {
            for filler in [1, 0] {
                let mut bytes = vec![0; prefix];
                bytes.extend([0, 0, 0x0c, 0]);
                bytes.resize(10_000, filler);
                attempt(&bytes);
                let mut bytes = vec![0; prefix];
                bytes.extend([0x81, 0x20]);
                bytes.resize(10_000, filler);
                attempt(&bytes);
            }
        }
    });
}

#[test]
fn headers_are_bounded_too() {
    let mut random = Random(17);
    for key in -2..100i16 {
        for version in [-1, 0, 1, 5, 9, 99, i16::MAX] {
            for _ in 0..10 {
                let mut frame = [key.to_be_bytes(), i16::to_be_bytes(version)].concat();
                let len = random.below(300);
                frame.extend(random.bytes(len));
                bounded("header", version, &frame, |_, frame| decode_request_header(frame).is_ok());
            }
        }
    }
}
