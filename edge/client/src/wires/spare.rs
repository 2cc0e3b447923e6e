//! Buffers of large frames, for the next ones: fresh memory costs several times what filling it does.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

/// Buffers that nobody uses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Spares>>);

#[derive(Debug, Default)]
struct Spares {
    frames: Vec<Vec<u8>>,
    /// What they take together.
    bytes: usize,
}

/// As many as are on their way or being read at once, with a few brokers.
const SPARE_MAX: usize = 8;
/// A smaller one is cheap, and would be in the way of a larger; a larger one is rare, and would be kept for
/// nothing.
const SPARE_BYTES: RangeInclusive<usize> = 64 << 10..=16 << 20;
/// So many times as large as a frame is no buffer for it.
const FAR_TOO_LARGE: usize = 4;
/// What all of them may take together.
const SPARE_BYTES_MAX: usize = 64 << 20;

impl Spare {
    pub(crate) fn give_back(&self, mut frame: Vec<u8>) {
        let bytes = frame.capacity();
        if !SPARE_BYTES.contains(&bytes) {
            return;
        }
        frame.clear();
        let mut spare = self.0.lock();
        if spare.frames.len() < SPARE_MAX && spare.bytes + bytes <= SPARE_BYTES_MAX {
            spare.bytes += bytes;
            spare.frames.push(frame);
        }
    }

    /// The smallest that such a frame fits into, unless it is far too large for it: whoever keeps the frame
    /// keeps all of its buffer.
    pub(super) fn take(&self, frame_bytes: usize) -> Vec<u8> {
        let fits = frame_bytes..=frame_bytes.saturating_mul(FAR_TOO_LARGE);
        let mut spare = self.0.lock();
        let all = spare.frames.iter().map(Vec::capacity).enumerate();
        let best = all.filter(|(_, bytes)| fits.contains(bytes)).min_by_key(|&(_, bytes)| bytes);
        let Some((index, bytes)) = best else { return Vec::new() };
        spare.bytes -= bytes;
        spare.frames.swap_remove(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_frames_are_few_and_of_use() {
        let spare = Spare::default();
        spare.give_back(Vec::with_capacity((64 << 10) - 1));
        spare.give_back(Vec::with_capacity((16 << 20) + 1));
        assert_eq!(spare.take(1 << 20).capacity(), 0, "neither is worth it");
        for _ in 0..10 {
            spare.give_back(Vec::with_capacity(15 << 20));
        }
        assert_eq!(spare.take(1 << 20).capacity(), 0, "they are far too large");
        spare.give_back(Vec::with_capacity(2 << 20));
        assert_eq!(spare.take(1 << 20).capacity(), 2 << 20, "the smallest that fits");
        let kept: Vec<_> =
            (0..10).map(|_| spare.take(9 << 20)).filter(|frame| frame.capacity() > 0).collect();
        assert_eq!(kept.len(), 4, "64 MiB in all");
        kept.into_iter().for_each(|frame| spare.give_back(frame));
        assert!(spare.take(9 << 20).capacity() > 0, "what was taken makes room");
    }
}
