//! Snappy, in the framing of the Java library that Kafka's clients grew up with.
//!
//! ```text
//!   | 82 "SNAPPY" 0 | version i32 = 1 | oldest reader i32 = 1 |  then blocks:  | size i32 | snappy |
//! ```
//!
//! Big-endian. Java reads neither Google's framing nor anything larger than it wants to, so blocks are
//! its default of 32 KiB. Some clients write one bare snappy block instead; that is read too.

use super::DecompressError::{self, Malformed, Truncated};
use super::Output;

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
const BLOCK_BYTES: usize = 32 * 1024;
/// Three bytes of snappy make at most 64; what declares more is not snappy, and gets no memory.
const RATIO_MAX: usize = 22;

#[derive(Default)]
pub(super) struct Snappy {
    encoder: Option<snap::raw::Encoder>,
}

impl Snappy {
    pub(super) fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        let encoder = self.encoder.get_or_insert_with(snap::raw::Encoder::new);
        out.extend_from_slice(&HEADER);
        for block in plain.chunks(BLOCK_BYTES) {
            let start = out.len();
            out.resize(start + 4 + snap::raw::max_compress_len(block.len()), 0);
            let (size, room) = out[start..].split_at_mut(4);
            let wrote = encoder.compress(block, room).expect("the room is snappy's own bound");
            size.copy_from_slice(&(wrote as u32).to_be_bytes());
            out.truncate(start + 4 + wrote);
        }
    }

    pub(super) fn decompress(&mut self, packed: &[u8], out: &mut Output<'_>) -> Result<(), DecompressError> {
        if !packed.starts_with(&MAGIC) {
            return decompress_block(packed, out);
        }
        let mut rest = skip_header(packed)?;
        while !rest.is_empty() {
            // Streams that were written one after the other are one stream.
            if rest.starts_with(&MAGIC) {
                rest = skip_header(rest)?;
                continue;
            }
            let (size, after) = rest.split_first_chunk().ok_or(Truncated)?;
            let size = usize::try_from(i32::from_be_bytes(*size))
                .map_err(|_| Malformed("a snappy block has a negative size"))?;
            let (block, after) = after.split_at_checked(size).ok_or(Truncated)?;
            decompress_block(block, out)?;
            rest = after;
        }
        Ok(())
    }
}

fn skip_header(packed: &[u8]) -> Result<&[u8], DecompressError> {
    let (header, rest) = packed.split_first_chunk::<16>().ok_or(Truncated)?;
    let [.., v0, v1, v2, v3] = *header;
    // The version that wrote it does not matter; the oldest that can read it does.
    if i32::from_be_bytes([v0, v1, v2, v3]) > 1 {
        return Err(Malformed("snappy data needs a later reader"));
    }
    Ok(rest)
}

fn decompress_block(block: &[u8], out: &mut Output<'_>) -> Result<(), DecompressError> {
    const WRONG: DecompressError = Malformed("a snappy block is malformed");
    let size = snap::raw::decompress_len(block).map_err(|_| WRONG)?;
    if size > block.len().saturating_mul(RATIO_MAX) {
        return Err(WRONG);
    }
    if size > out.left() {
        return Err(out.too_large());
    }
    out.fill(size, |room| {
        let wrote = snap::raw::Decoder::new().decompress(block, room).map_err(|_| WRONG)?;
        Ok((wrote, ()))
    })
}
