//! Where decompressed bytes go: a vector that may grow by so much and no more.

use super::DecompressError;

/// Bytes made room for at a time, so that a bomb is noticed before it costs memory.
const STEP_BYTES: usize = 64 * 1024;

pub(crate) struct Output<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    bytes_max: usize,
}

impl<'a> Output<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, bytes_max: usize) -> Self {
        let start = out.len();
        Self { out, start, bytes_max }
    }

    /// How many bytes may still come.
    pub(crate) fn left(&self) -> usize {
        self.bytes_max - (self.out.len() - self.start)
    }

    /// The bytes from the `from`th on that came so far.
    pub(crate) fn since(&self, from: usize) -> &[u8] {
        &self.out[self.start + from..]
    }

    /// How many bytes came so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    pub(crate) fn too_large(&self) -> DecompressError {
        DecompressError::TooLarge { max: self.bytes_max }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), DecompressError> {
        if bytes.len() > self.left() {
            return Err(self.too_large());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Lets `fill` write into a step of room and say how much it wrote.
    ///
    /// The step reaches one byte past the bound, so that a decoder at the bound shows whether it is
    /// done or wants to go on.
    pub(crate) fn step<T>(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<(usize, T), DecompressError>,
    ) -> Result<T, DecompressError> {
        let room = STEP_BYTES.min(self.left() + 1);
        self.fill(room, fill)
    }

    /// Lets `fill` write into `room` bytes and say how much it wrote. The caller knows that its
    /// input can really fill them.
    pub(crate) fn fill<T>(
        &mut self,
        room: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(usize, T), DecompressError>,
    ) -> Result<T, DecompressError> {
        let before = self.out.len();
        self.out.resize(before + room, 0);
        let filled = fill(&mut self.out[before..]);
        let wrote = filled.as_ref().map_or(0, |(wrote, _)| (*wrote).min(room));
        let fits = wrote <= self.bytes_max - (before - self.start);
        self.out.truncate(if fits { before + wrote } else { before });
        let (_, answer) = filled?;
        if fits { Ok(answer) } else { Err(self.too_large()) }
    }
}
