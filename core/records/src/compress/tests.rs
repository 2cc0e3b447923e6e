use proptest::prelude::*;

use super::*;

const PACKED: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn pack(to: Compression, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Codecs::default().compress(to, None, plain, &mut out);
    out
}

fn unpack(from: Compression, packed: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecompressError> {
    let mut out = Vec::new();
    Codecs::default().decompress(from, packed, bytes_max, &mut out).map(|()| out)
}

fn noise(size: usize) -> Vec<u8> {
    (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn ids_and_names_are_kafka_s() {
    for (id, name) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let of: Compression = name.parse().expect("it is a name");
        assert_eq!((usize::from(of.id()), of.name()), (id, name));
        assert_eq!(Compression::from_id(id as u8), Ok(of));
    }
    assert_eq!(Compression::from_id(5), Err(UnknownCompression(5)));
    assert!("brotli".parse::<Compression>().is_err());
}

#[test]
fn what_is_compressed_comes_back_at_every_size() {
    let mut codecs = Codecs::default();
    for size in [0, 1, 2, 100, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 200_000] {
        for plain in [noise(size), vec![7; size]] {
            for of in Compression::ALL {
                let mut packed = b"kept".to_vec();
                codecs.compress(of, None, &plain, &mut packed);
                let mut out = b"kept".to_vec();
                codecs.decompress(of, &packed[4..], size, &mut out).expect("it is what was written");
                assert!(
                    out[..4] == *b"kept" && packed[..4] == *b"kept" && out[4..] == plain,
                    "{of:?} {size}"
                );
            }
        }
    }
}

#[test]
fn every_level_is_taken() {
    let plain = noise(5000);
    let mut codecs = Codecs::default();
    for of in PACKED {
        for level in [i32::MIN, -131_072, -5, -1, 0, 1, 9, 17, 22, i32::MAX] {
            let mut packed = Vec::new();
            codecs.compress(of, Some(level), &plain, &mut packed);
            assert_eq!(unpack(of, &packed, 5000).as_ref(), Ok(&plain), "{of:?} {level}");
        }
    }
}

#[test]
fn the_bound_is_exact() {
    for size in [1, 1000, 65_536, 100_000] {
        for plain in [noise(size), vec![7; size]] {
            for of in Compression::ALL {
                let packed = pack(of, &plain);
                for more in [0, 1, 70_000] {
                    assert!(unpack(of, &packed, size + more).as_ref() == Ok(&plain), "{of:?} {size}+{more}");
                }
                for max in [0, size / 2, size - 1] {
                    assert_eq!(unpack(of, &packed, max), Err(DecompressError::TooLarge { max }), "{of:?}");
                }
            }
        }
    }
}

#[test]
fn the_default_bound_grows_with_the_input() {
    let bound = DecompressBound::default();
    assert_eq!(bound.bytes_max(0), 16 << 20);
    assert_eq!(bound.bytes_max(1 << 20), 100 << 20);
    assert_eq!(bound.bytes_max(usize::MAX), 256 << 20);
}

#[test]
fn data_that_ends_early_is_refused() {
    let plain = noise(3000);
    for of in PACKED {
        let packed = pack(of, &plain);
        for length in 0..packed.len() {
            match unpack(of, &packed[..length], 1 << 20) {
                // A stream of no blocks is a stream, and a bare block cannot tell.
                Ok(out) => assert!(of == Compression::Snappy && out.is_empty(), "{of:?} cut at {length}"),
                Err(error) => assert!(
                    error == DecompressError::Truncated || of == Compression::Snappy || length == 0,
                    "{of:?} cut at {length}: {error}"
                ),
            }
        }
    }
}

#[test]
fn streams_one_after_the_other_are_read_as_java_does() {
    for of in PACKED {
        let twice = [pack(of, b"first "), pack(of, b"second")].concat();
        let read = unpack(of, &twice, 100);
        if of == Compression::Lz4 {
            // Java stops after the first frame without a word; nobody shall lose the second.
            assert_eq!(read, Err(DecompressError::Malformed("bytes follow the lz4 frame")));
        } else {
            assert_eq!(read.as_deref(), Ok(&b"first second"[..]), "{of:?}");
        }
        let mut trailing = pack(of, b"first");
        trailing.extend([9; 40]);
        assert!(unpack(of, &trailing, 100).is_err(), "{of:?}");
    }
}

#[test]
fn gzip_headers_may_have_every_field() {
    let packed = pack(Compression::Gzip, b"plain");
    let mut fancy = packed[..10].to_vec();
    fancy[3] = 0b11110;
    fancy.extend([3, 0, 1, 2, 3]);
    fancy.extend(b"name\0comment\0");
    let crc = crate::crc::crc32_gzip(&fancy) as u16;
    fancy.extend(crc.to_le_bytes());
    let with_crc = fancy.len();
    fancy.extend(&packed[10..]);
    assert_eq!(unpack(Compression::Gzip, &fancy, 100).as_deref(), Ok(&b"plain"[..]));
    for length in 0..fancy.len() {
        assert!(unpack(Compression::Gzip, &fancy[..length], 100).is_err());
    }
    fancy[with_crc - 1] ^= 1;
    assert!(unpack(Compression::Gzip, &fancy, 100).is_err());
}

#[test]
fn snappy_is_read_bare_and_written_framed() {
    let plain = noise(100_000);
    let bare = snap::raw::Encoder::new().compress_vec(&plain).expect("snappy takes any bytes");
    assert_eq!(unpack(Compression::Snappy, &bare, 100_000).as_ref(), Ok(&plain));
    let framed = pack(Compression::Snappy, &plain);
    assert_eq!(framed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    // A later writer is fine as long as this reader is not too old for it.
    let mut later = framed.clone();
    later[11] = 7;
    assert_eq!(unpack(Compression::Snappy, &later, 100_000).as_ref(), Ok(&plain));
    later[15] = 2;
    assert!(unpack(Compression::Snappy, &later, 100_000).is_err());
}

/// Java does not read it. Without its identifier known, its beginning could pass for the size of a bare block.
#[test]
fn snappy_in_googles_framing_is_refused_and_not_misread() {
    const IDENTIFIER: &[u8] = b"\xff\x06\0\0sNaPpY";
    let frame = |plain: &[u8]| {
        let mut out = snap::write::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut out, plain).expect("a vector takes all");
        out.into_inner().expect("a vector takes all")
    };
    for size in [0, 1, 12, 895, 65_536, 200_000] {
        for plain in [noise(size), vec![7; size]] {
            // Of nothing there is not even a beginning.
            let framed = if size == 0 { IDENTIFIER.to_vec() } else { frame(&plain) };
            assert!(framed.starts_with(IDENTIFIER), "{size}");
            let block_in_ours = [
                &pack(Compression::Snappy, b"")[..16],
                &u32::try_from(framed.len()).expect("small").to_be_bytes(),
                &framed,
            ];
            for packed in [framed.clone(), block_in_ours.concat()] {
                let read = unpack(Compression::Snappy, &packed, 1 << 20);
                assert_eq!(read, Err(DecompressError::Malformed("a snappy block is malformed")), "{size}");
            }
        }
    }
}

#[test]
fn a_snappy_block_that_declares_gigabytes_gets_no_memory() {
    let declares_4_gib = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    for packed in
        [&declares_4_gib[..], &[&pack(Compression::Snappy, b"")[..], &[0, 0, 0, 7], &declares_4_gib].concat()]
    {
        let mut out = Vec::new();
        assert!(Codecs::default().decompress(Compression::Snappy, packed, usize::MAX, &mut out).is_err());
        assert!(out.capacity() < 1024);
    }
}

fn lz4_frame(info: lz4_flex::frame::FrameInfo, plain: &[u8]) -> Vec<u8> {
    let mut frame = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    std::io::Write::write_all(&mut frame, plain).expect("a vector takes all");
    frame.finish().expect("a vector takes all")
}

#[test]
fn lz4_frames_of_every_kind_that_java_reads_are_read() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameInfo};
    let plain = [noise(150_000), vec![1; 150_000]].concat();
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
        for checks in [false, true] {
            let info = FrameInfo::new()
                .block_mode(BlockMode::Independent)
                .block_size(size)
                .block_checksums(checks)
                .content_checksum(checks)
                .content_size(checks.then_some(plain.len() as u64));
            let frame = lz4_frame(info, &plain);
            assert!(
                unpack(Compression::Lz4, &frame, plain.len()).as_ref() == Ok(&plain),
                "{size:?} {checks}"
            );
            if checks {
                for at in [15, 200, frame.len() - 1] {
                    let mut wrong = frame.clone();
                    wrong[at] ^= 1;
                    assert!(unpack(Compression::Lz4, &wrong, plain.len()).is_err(), "{size:?} byte {at}");
                }
            }
        }
    }
    let linked = lz4_frame(FrameInfo::new().block_mode(BlockMode::Linked), &plain);
    assert!(matches!(unpack(Compression::Lz4, &linked, plain.len()), Err(DecompressError::Malformed(_))));
}

#[test]
fn another_lz4_reads_what_is_written() {
    let plain = [noise(70_000), vec![1; 70_000]].concat();
    let packed = pack(Compression::Lz4, &plain);
    let mut out = Vec::new();
    let mut decoder = lz4_flex::frame::FrameDecoder::new(&packed[..]);
    std::io::Read::read_to_end(&mut decoder, &mut out).expect("it is a frame");
    assert!(out == plain);
}

#[test]
fn a_zstd_window_past_java_s_largest_is_refused() {
    // A frame of one raw block of one byte; the window is 2^(10 + exponent).
    let frame = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0x00, exponent << 3, 0x09, 0x00, 0x00, b'x'];
    assert_eq!(unpack(Compression::Zstd, &frame(17), 10).as_deref(), Ok(&b"x"[..]));
    for exponent in [18, 21, 31] {
        assert!(matches!(
            unpack(Compression::Zstd, &frame(exponent), 10),
            Err(DecompressError::Malformed(_))
        ));
    }
}

#[test]
fn a_codec_is_as_good_as_new_after_a_failure() {
    let plain = noise(10_000);
    let mut codecs = Codecs::default();
    for of in PACKED {
        let packed = pack(of, &plain);
        for _ in 0..3 {
            let mut out = Vec::new();
            assert!(codecs.decompress(of, &packed, 100, &mut out).is_err());
            assert!(codecs.decompress(of, &packed[..packed.len() / 2], 1 << 20, &mut out).is_err());
            out.clear();
            assert_eq!(codecs.decompress(of, &packed, 1 << 20, &mut out), Ok(()));
            assert_eq!(out, plain);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_or_pass_the_bound(packed in prop::collection::vec(any::<u8>(), 0..200), of in 0u8..5) {
        let of = Compression::from_id(of).expect("it is one");
        let mut out = Vec::new();
        let _ = Codecs::default().decompress(of, &packed, 1000, &mut out);
        prop_assert!(out.len() <= 1000);
    }

    #[test]
    fn no_damage_panics_or_passes_the_bound(
        size in 0usize..5000, of in 1u8..5, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let of = Compression::from_id(of).expect("it is one");
        let mut packed = pack(of, &[noise(size), vec![3; size]].concat());
        for (at, to) in changes {
            let at = at.index(packed.len());
            packed[at] = to;
        }
        let mut out = Vec::new();
        let _ = Codecs::default().decompress(of, &packed, 6000, &mut out);
        prop_assert!(out.len() <= 6000);
    }
}
