//! LZ4 frames, of the kind that Java reads.
//!
//! ```text
//!   | 04 22 4d 18 | flags | block size | content size u64? | header check u8 |
//!   then blocks: | stored bit, size u32 | bytes | xxh32 u32? |   then: | 0 u32 | content xxh32 u32? |
//! ```
//!
//! Little-endian. Java knows only independent blocks and one frame, so nothing else is written, and
//! what it could not read is refused. The blocks go to the block codec directly: it decodes into the
//! output itself, and none of a frame decoder's buffers is made for each batch.

use lz4_flex::block::{self, CompressTable, DecompressError as BlockError};

use super::DecompressError::{self, Malformed, Truncated};
use super::Output;
use super::xxh32::xxh32;

const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
/// Version 1, independent blocks, no checksums; blocks of 64 KiB; and the check of these two.
const DESCRIPTOR: [u8; 3] = [0x60, 0x40, 0x82];
const BLOCK_BYTES: usize = 64 * 1024;
const END: [u8; 4] = [0; 4];
const STORED: u32 = 1 << 31;
/// One byte of LZ4 makes at most 255, so no block gets more memory than its own size can fill.
const RATIO_MAX: usize = 255;

#[derive(Default)]
pub(super) struct Lz4 {
    table: Option<CompressTable>,
}

impl Lz4 {
    pub(super) fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        let table = self.table.get_or_insert_with(CompressTable::large);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&DESCRIPTOR);
        for chunk in plain.chunks(BLOCK_BYTES) {
            let start = out.len();
            out.resize(start + 4 + block::get_maximum_output_size(chunk.len()), 0);
            let (size, room) = out[start..].split_at_mut(4);
            let mut wrote = block::compress_into_with_table(chunk, room, table)
                .expect("the room is the codec's own bound");
            let mut head = wrote as u32;
            if wrote >= chunk.len() {
                room[..chunk.len()].copy_from_slice(chunk);
                wrote = chunk.len();
                head = wrote as u32 | STORED;
            }
            size.copy_from_slice(&head.to_le_bytes());
            out.truncate(start + 4 + wrote);
        }
        out.extend_from_slice(&END);
    }

    pub(super) fn decompress(&mut self, packed: &[u8], out: &mut Output<'_>) -> Result<(), DecompressError> {
        let (frame, mut rest) = Frame::read(packed)?;
        let from = out.len();
        loop {
            let (head, after) = rest.split_first_chunk().ok_or(Truncated)?;
            rest = after;
            if *head == END {
                break;
            }
            let head = u32::from_le_bytes(*head);
            let size = (head & !STORED) as usize;
            if size > frame.block_bytes_max {
                return Err(Malformed("an lz4 block is larger than its frame says"));
            }
            let (block, after) = rest.split_at_checked(size).ok_or(Truncated)?;
            rest = after;
            if frame.block_checks {
                rest = check(block, rest)?;
            }
            if head & STORED != 0 {
                out.append(block)?;
            } else {
                decompress_block(block, frame.block_bytes_max, out)?;
            }
        }
        let content = out.since(from);
        if frame.content_bytes.is_some_and(|said| said != content.len() as u64) {
            return Err(Malformed("an lz4 frame has a wrong content size"));
        }
        if frame.content_check {
            rest = check(content, rest)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(Malformed("bytes follow the lz4 frame")) }
    }
}

/// What the head of a frame says.
struct Frame {
    block_bytes_max: usize,
    block_checks: bool,
    content_check: bool,
    content_bytes: Option<u64>,
}

impl Frame {
    fn read(packed: &[u8]) -> Result<(Self, &[u8]), DecompressError> {
        let (magic, descriptor) = packed.split_first_chunk::<4>().ok_or(Truncated)?;
        if *magic != MAGIC {
            return Err(Malformed("an lz4 frame does not begin as one"));
        }
        let ([flags, sizes], mut rest) = descriptor.split_first_chunk().ok_or(Truncated)?;
        if flags >> 6 != 1 {
            return Err(Malformed("an lz4 frame has an unknown version"));
        }
        if flags & (1 << 5) == 0 {
            return Err(Malformed("lz4 blocks depend on one another, which Java clients cannot read"));
        }
        if flags & 0b11 != 0 || sizes & 0b1000_1111 != 0 {
            return Err(Malformed("an lz4 frame has an unknown flag or a dictionary"));
        }
        let block_bytes_max = match sizes >> 4 {
            size @ 4..=7 => 1usize << (8 + 2 * size),
            _ => return Err(Malformed("an lz4 frame has an unknown block size")),
        };
        let mut content_bytes = None;
        if flags & (1 << 3) != 0 {
            let (bytes, after) = rest.split_first_chunk().ok_or(Truncated)?;
            content_bytes = Some(u64::from_le_bytes(*bytes));
            rest = after;
        }
        let checked = &descriptor[..descriptor.len() - rest.len()];
        let (&said, rest) = rest.split_first().ok_or(Truncated)?;
        if said != (xxh32(checked) >> 8) as u8 {
            return Err(Malformed("an lz4 frame has a wrong header checksum"));
        }
        let (block_checks, content_check) = (flags & (1 << 4) != 0, flags & (1 << 2) != 0);
        Ok((Self { block_bytes_max, block_checks, content_check, content_bytes }, rest))
    }
}

/// Compares the hash of `bytes` with the one at the front of `rest`; answers what follows.
fn check<'a>(bytes: &[u8], rest: &'a [u8]) -> Result<&'a [u8], DecompressError> {
    let (said, rest) = rest.split_first_chunk().ok_or(Truncated)?;
    if u32::from_le_bytes(*said) != xxh32(bytes) {
        return Err(Malformed("an lz4 checksum is wrong"));
    }
    Ok(rest)
}

fn decompress_block(
    block: &[u8],
    block_bytes_max: usize,
    out: &mut Output<'_>,
) -> Result<(), DecompressError> {
    let size_max = block_bytes_max.min(block.len() * RATIO_MAX);
    let room = size_max.min(out.left());
    let too_large = out.too_large();
    out.fill(room, |room| match block::decompress_into(block, room) {
        Ok(wrote) => Ok((wrote, ())),
        // The bound was in the way, not the frame's own block size.
        Err(BlockError::OutputTooSmall { .. }) if room.len() < size_max => Err(too_large),
        Err(_) => Err(Malformed("an lz4 block is malformed")),
    })
}
