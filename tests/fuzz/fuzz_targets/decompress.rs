//! The four decompressors, each with a bound that it may not pass. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use records::{Codecs, Compression};

const OUTPUT_MAX: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    let codec = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
        [usize::from(*which) % 4];
    let mut out = Vec::new();
    let _ = Codecs::default().decompress(codec, bytes, OUTPUT_MAX, &mut out);
    assert!(out.len() <= OUTPUT_MAX, "{} bytes", out.len());
});
