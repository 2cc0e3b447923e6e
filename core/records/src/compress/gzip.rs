//! gzip: members of deflated bytes.
//!
//! ```text
//!   | 1f 8b | 8 | flags | mtime u32 | xfl | os | extra… name… comment… crc16 | deflate | crc u32 | size u32 |
//! ```
//!
//! Little-endian. The header is read here and only the deflated bytes go to the codec: that one can
//! be reset and used again, while a new one costs 40 KiB for each batch.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::DecompressError::{self, Malformed, Truncated};
use super::Output;
use crate::crc::crc32_gzip;

const MAGIC: [u8; 2] = [0x1f, 0x8b];
const DEFLATE: u8 = 8;
const UNKNOWN_OS: u8 = 0xff;
const HEADER_BYTES: usize = 10;
const LEVEL_DEFAULT: u32 = 6;

const HAS_HEADER_CRC: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

#[derive(Default)]
pub(super) struct Gzip {
    inflate: Option<Decompress>,
    deflate: Option<(u32, Compress)>,
}

impl Gzip {
    pub(super) fn compress(&mut self, level: Option<i32>, plain: &[u8], out: &mut Vec<u8>) {
        let level = level.map_or(LEVEL_DEFAULT, |level| level.clamp(1, 9) as u32);
        if self.deflate.as_ref().is_none_or(|(of, _)| *of != level) {
            self.deflate = Some((level, Compress::new(flate2::Compression::new(level), false)));
        }
        let (_, deflate) = self.deflate.as_mut().expect("made above");
        deflate.reset();
        out.extend_from_slice(&[MAGIC[0], MAGIC[1], DEFLATE, 0, 0, 0, 0, 0, 0, UNKNOWN_OS]);
        loop {
            // At worst deflate stores, with five bytes for each 16 KiB or so.
            let taken = deflate.total_in() as usize;
            let left = plain.len() - taken;
            out.reserve(left / 2 + 1024);
            let status = deflate
                .compress_vec(&plain[taken..], out, FlushCompress::Finish)
                .expect("a deflater that was not finished takes any bytes");
            if status == Status::StreamEnd {
                break;
            }
        }
        out.extend_from_slice(&crc32_gzip(plain).to_le_bytes());
        out.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    }

    pub(super) fn decompress(&mut self, packed: &[u8], out: &mut Output<'_>) -> Result<(), DecompressError> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(false));
        let mut rest = packed;
        loop {
            rest = skip_header(rest)?;
            let from = out.len();
            rest = inflate_member(inflate, rest, out)?;
            let (crc, size);
            (crc, rest) = rest.split_first_chunk().ok_or(Truncated)?;
            (size, rest) = rest.split_first_chunk().ok_or(Truncated)?;
            let member = out.since(from);
            if u32::from_le_bytes(*crc) != crc32_gzip(member) {
                return Err(Malformed("a gzip member has a wrong checksum"));
            }
            if u32::from_le_bytes(*size) != member.len() as u32 {
                return Err(Malformed("a gzip member has a wrong size"));
            }
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Inflates to the end of the member; answers what follows.
fn inflate_member<'a>(
    inflate: &mut Decompress,
    packed: &'a [u8],
    out: &mut Output<'_>,
) -> Result<&'a [u8], DecompressError> {
    inflate.reset(false);
    let mut rest = packed;
    loop {
        let (status, taken, room_left) = out.step(|room| {
            let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
            let status = inflate
                .decompress(rest, room, FlushDecompress::None)
                .map_err(|_| Malformed("a gzip member is not deflated data"))?;
            let wrote = (inflate.total_out() - before_out) as usize;
            let taken = (inflate.total_in() - before_in) as usize;
            Ok((wrote, (status, taken, wrote < room.len())))
        })?;
        rest = rest.get(taken..).unwrap_or_default();
        if status == Status::StreamEnd {
            return Ok(rest);
        }
        // With room to write and nothing written, only more input could help.
        if rest.is_empty() && room_left {
            return Err(Truncated);
        }
    }
}

fn skip_header(packed: &[u8]) -> Result<&[u8], DecompressError> {
    let (header, mut rest) = packed.split_first_chunk::<HEADER_BYTES>().ok_or(Truncated)?;
    let [m0, m1, method, flags, ..] = *header;
    if [m0, m1] != MAGIC {
        return Err(Malformed("a gzip member does not begin as one"));
    }
    if method != DEFLATE || flags & RESERVED != 0 {
        return Err(Malformed("a gzip member has an unknown method or flag"));
    }
    if flags & HAS_EXTRA != 0 {
        let (size, after) = rest.split_first_chunk().ok_or(Truncated)?;
        rest = after.get(usize::from(u16::from_le_bytes(*size))..).ok_or(Truncated)?;
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&byte| byte == 0).ok_or(Truncated)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & HAS_HEADER_CRC != 0 {
        let (said, after) = rest.split_first_chunk().ok_or(Truncated)?;
        let covered = &packed[..packed.len() - rest.len()];
        if u16::from_le_bytes(*said) != crc32_gzip(covered) as u16 {
            return Err(Malformed("a gzip member's header has a wrong checksum"));
        }
        rest = after;
    }
    Ok(rest)
}
