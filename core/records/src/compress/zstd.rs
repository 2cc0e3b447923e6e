//! Zstandard frames.

use ::zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};
use ::zstd::zstd_safe::{compress_bound, max_c_level, min_c_level};

use super::DecompressError::{self, Malformed, Truncated};
use super::Output;

const LEVEL_DEFAULT: i32 = 3;

/// The largest window that is decoded, 128 MiB. Java's level 22 declares it for batches of any size,
/// since it streams and does not know theirs. It costs addresses, not memory: the decoder touches its
/// window only as far as it really decodes, and that has its own bound.
const WINDOW_LOG_MAX: u32 = 27;

/// A context that grew past this is dropped after use: most stay below a megabyte, and one with a
/// large window would hold a thread's memory for ever.
const KEPT_BYTES: usize = 8 << 20;

#[derive(Default)]
pub(super) struct Zstd {
    encoder: Option<CCtx<'static>>,
    decoder: Option<DCtx<'static>>,
}

impl Zstd {
    pub(super) fn compress(&mut self, level: Option<i32>, plain: &[u8], out: &mut Vec<u8>) {
        let level = level.unwrap_or(LEVEL_DEFAULT).clamp(min_c_level(), max_c_level());
        let encoder = self.encoder.get_or_insert_with(CCtx::create);
        encoder
            .set_parameter(CParameter::CompressionLevel(level))
            .expect("the level is within zstd's own range");
        let start = out.len();
        out.resize(start + compress_bound(plain.len()), 0);
        let wrote = encoder
            .compress2(&mut out[start..], plain)
            .expect("the room is zstd's own bound, and memory failures end the process");
        out.truncate(start + wrote);
        if encoder.sizeof() > KEPT_BYTES {
            self.encoder = None;
        }
    }

    pub(super) fn decompress(&mut self, packed: &[u8], out: &mut Output<'_>) -> Result<(), DecompressError> {
        let decoder = self.decoder.get_or_insert_with(|| {
            let mut decoder = DCtx::create();
            decoder
                .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
                .expect("the window is within zstd's own range");
            decoder
        });
        let decoded = decompress_frames(decoder, packed, out);
        if decoder.sizeof() > KEPT_BYTES {
            self.decoder = None;
        }
        decoded
    }
}

fn decompress_frames(
    decoder: &mut DCtx<'static>,
    packed: &[u8],
    out: &mut Output<'_>,
) -> Result<(), DecompressError> {
    const WRONG: DecompressError = Malformed("the zstd data is malformed");
    // What a batch before this one left unfinished.
    decoder.reset(ResetDirective::SessionOnly).map_err(|_| WRONG)?;
    let mut input = InBuffer::around(packed);
    loop {
        let (wanted, room_left) = out.step(|room| {
            let size = room.len();
            let mut output = OutBuffer::around(room);
            let wanted = decoder.decompress_stream(&mut output, &mut input).map_err(|_| WRONG)?;
            let wrote = output.pos();
            Ok((wrote, (wanted, wrote < size)))
        })?;
        let ended = input.pos() == packed.len();
        match wanted {
            0 if ended => return Ok(()),
            0 => {}
            _ if ended && room_left => return Err(Truncated),
            _ => {}
        }
    }
}
