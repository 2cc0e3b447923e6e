//! Small batches that decompress to gigabytes are refused early, and cost little memory.

#![expect(clippy::disallowed_methods, reason = "it asks the system how much memory it takes")]

use std::io::Write;

use base::{ErrorCode, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use vltava_records::{
    Attributes, BatchError, BatchHeader, BatchLimits, CheckedBatch, Compression, DecompressError,
    HEADER_BYTES, Scratch,
};

const MIB: usize = 1 << 20;

fn batch(compression: Compression, records: &[u8]) -> Vec<u8> {
    let mut header = BatchHeader {
        base_offset: Offset::ZERO,
        batch_length: i32::try_from(HEADER_BYTES - 12 + records.len()).expect("it is small"),
        leader_epoch: LeaderEpoch::NONE,
        crc: 0,
        attributes: Attributes::default().with_compression(compression),
        last_offset_delta: 0,
        base_timestamp: TimestampMs(0),
        max_timestamp: TimestampMs(0),
        producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch::NONE,
        base_sequence: Sequence::NONE,
        records_count: 1,
    };
    header.crc = header.compute_crc(records);
    [&header.to_bytes()[..], records].concat()
}

/// 1 : 32 768. `window` is the exponent of 1 KiB that the frame declares.
fn zstd_bomb(packed_bytes: usize, window: u8) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, window << 3];
    // A block that repeats one byte 128 Ki times, and is not the last.
    let block = ((128u32 * 1024) << 3 | 1 << 1).to_le_bytes();
    while frame.len() < packed_bytes {
        frame.extend([block[0], block[1], block[2], 0]);
    }
    frame
}

/// 1 : 1 030.
fn gzip_bomb(plain_bytes: usize) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; MIB];
    for _ in 0..plain_bytes / MIB {
        member.write_all(&zeros).expect("a vector takes all");
    }
    member.finish().expect("a vector takes all")
}

/// 1 : 255, in blocks of 4 MiB.
fn lz4_bomb(plain_bytes: usize) -> Vec<u8> {
    let block = lz4_flex::block::compress(&vec![0; 4 * MIB]);
    // The check of these two bytes, for the frame would not be read without.
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73];
    for _ in 0..plain_bytes / (4 * MIB) {
        frame.extend(u32::try_from(block.len()).expect("it is small").to_le_bytes());
        frame.extend(&block);
    }
    frame.extend([0; 4]);
    frame
}

/// 1 : 21, the most that snappy has.
fn snappy_bomb(plain_bytes: usize) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(&vec![0; plain_bytes]).expect("it is below 4 GiB")
}

/// The most memory this process has had at a time.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kib| kib * 1024)
}

// One test, because the peak is that of the whole process.
#[test]
fn bombs_of_every_codec_are_refused_with_little_memory() {
    let bombs = [
        ("zstd", Compression::Zstd, zstd_bomb(100_000, 7)),
        ("zstd with Java's largest window", Compression::Zstd, zstd_bomb(100_000, 17)),
        ("gzip", Compression::Gzip, gzip_bomb(64 * MIB)),
        ("lz4", Compression::Lz4, lz4_bomb(40 * MIB)),
        ("snappy", Compression::Snappy, snappy_bomb(20 * MIB)),
    ];
    let mut limits = BatchLimits { batch_bytes_max: 2 * MIB, ..BatchLimits::default() };
    limits.decompressed.ratio = 20;
    let floor = limits.decompressed.floor_bytes;
    let mut scratch = Scratch::default();
    let before = peak_bytes();
    for (name, compression, records) in bombs {
        let max = limits.decompressed.bytes_max(records.len());
        assert!(max <= floor + 4 * MIB, "{name} is small");
        let raw = batch(compression, &records);
        let error = CheckedBatch::check(&raw, &limits, &mut scratch).expect_err(name);
        assert_eq!(error, BatchError::Decompress(DecompressError::TooLarge { max }), "{name}");
        assert_eq!(error.error_code(), ErrorCode::MessageTooLarge);
    }
    for compression in [Compression::Zstd, Compression::Gzip, Compression::Lz4] {
        let records = match compression {
            Compression::Zstd => zstd_bomb(1000, 7),
            Compression::Gzip => gzip_bomb(17 * MIB),
            _ => lz4_bomb(36 * MIB),
        };
        let refused =
            CheckedBatch::check(&batch(compression, &records), &BatchLimits::default(), &mut scratch)
                .map(|_| ());
        assert!(
            matches!(refused, Err(BatchError::Decompress(DecompressError::TooLarge { .. }))),
            "{refused:?}"
        );
    }
    if let (Some(before), Some(after)) = (before, peak_bytes()) {
        // The bound, twice while the output grows, and as much of a window as was decoded into.
        assert!(after - before < 4 * floor, "{} MiB more", (after - before) / MIB);
    }
}
