//! The room that records occupy until they are acknowledged.

/// Buffers of batches, and what they occupy together. A buffer that comes back is kept for the next
/// batch: memory that was never touched before costs several times what writing to it costs.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes_max: usize,
    /// Room of all buffers that are out, and of what is kept beside them.
    used_bytes: usize,
    batch_bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// What a batch begins with when there is not much room.
const SMALL_BYTES: usize = 4 << 10;

impl Memory {
    pub(crate) const fn new(bytes_max: usize, batch_bytes: usize) -> Self {
        Self { bytes_max, used_bytes: 0, batch_bytes, spare: Vec::new() }
    }

    /// A buffer with room for `bytes`, and for a whole batch if there is plenty; `None` if it is full.
    ///
    /// `is_sure` is whether the batch will be filled, as far as anybody can know. Of those that may not be,
    /// there can be as many as partitions: they begin whole only while half is free, so that many more can.
    pub(crate) fn take(&mut self, bytes: usize, is_sure: bool) -> Option<Vec<u8>> {
        let whole = bytes.max(self.batch_bytes);
        let plenty = if is_sure { self.bytes_max } else { self.bytes_max / 2 };
        let wanted = match self.used_bytes + whole <= plenty {
            true => whole,
            false => bytes.max(SMALL_BYTES.min(self.batch_bytes)),
        };
        if self.used_bytes + wanted > self.bytes_max {
            return None;
        }
        let spare = if wanted == self.batch_bytes { self.spare.pop() } else { None };
        let buffer = spare.unwrap_or_else(|| Vec::with_capacity(wanted));
        self.used_bytes += buffer.capacity();
        self.trim();
        Some(buffer)
    }

    /// Whether a buffer, or what is kept beside it, may grow from one size to another; then it is counted so.
    pub(crate) fn grow(&mut self, from: usize, to: usize) -> bool {
        let fits = self.used_bytes - from + to <= self.bytes_max;
        if fits {
            self.used_bytes = self.used_bytes - from + to;
            self.trim();
        }
        fits
    }

    /// Something that was counted beside the buffers is gone.
    pub(crate) const fn shrink(&mut self, bytes: usize) {
        self.used_bytes -= bytes;
    }

    /// A buffer is not used any more.
    pub(crate) fn give_back(&mut self, counted: usize, buffer: Vec<u8>) {
        self.used_bytes -= counted;
        if buffer.capacity() == self.batch_bytes {
            self.spare.push(buffer);
            self.trim();
        }
    }

    /// Those that are kept and those that are out stay within the bound together.
    fn trim(&mut self) {
        while !self.spare.is_empty() && self.used_bytes + self.spare.len() * self.batch_bytes > self.bytes_max
        {
            self.spare.pop();
        }
    }

    pub(crate) const fn used_bytes(&self) -> usize {
        self.used_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_out_and_what_is_kept_stay_within_the_bound(
            steps in proptest::collection::vec((0_u8..4, 1_usize..40_000), 0..200),
        ) {
            let (bytes_max, batch_bytes) = (100_000, 16_384);
            let mut memory = Memory::new(bytes_max, batch_bytes);
            let mut out: Vec<(usize, Vec<u8>)> = Vec::new();
            for (step, bytes) in steps {
                match step {
                    0 | 1 => {
                        let taken = memory.take(bytes, step == 0);
                        out.extend(taken.map(|buffer| (buffer.capacity(), buffer)));
                    }
                    2 => if let Some((counted, buffer)) = out.last_mut()
                        && memory.grow(*counted, *counted + bytes)
                    {
                        buffer.reserve_exact(*counted + bytes);
                        *counted += bytes;
                    },
                    _ => if !out.is_empty() {
                        let (counted, buffer) = out.swap_remove(bytes % out.len());
                        memory.give_back(counted, buffer);
                    },
                }
                let counted: usize = out.iter().map(|(counted, _)| counted).sum();
                prop_assert_eq!(counted, memory.used_bytes());
                let kept: usize = memory.spare.iter().map(Vec::capacity).sum();
                prop_assert!(counted + kept <= bytes_max, "{} + {}", counted, kept);
            }
        }
    }
}
