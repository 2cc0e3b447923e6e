//! The four decompressors, each with a bound that it may not pass. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use records::{Codecs, Compression};
use vltava_fuzz::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const OUTPUT_MAX: usize = 1 << 20;
/// The output twice, as it grows, and the windows and tables of four codecs.
const BYTES_MAX: usize = 2 * OUTPUT_MAX + (16 << 20);

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    let codec = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
        [usize::from(*which) % 4];
    let mut out = Vec::new();
    let _ = ALLOCATOR.within(BYTES_MAX, || {
        Codecs::default().decompress(codec, bytes, OUTPUT_MAX, &mut out)
    });
    assert!(out.len() <= OUTPUT_MAX, "{} bytes", out.len());
});
