//! Frames out of a stream of bytes.

use std::io;

use wire::frame_len;

use super::Spare;

/// An answer longer than this is none.
const FRAME_BYTES_MAX: usize = 256 << 20;
/// What is read at once: a buffer grows with what arrives, not with what is declared.
const READ_BYTES: usize = 64 << 10;

/// What came and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
    /// Bytes at its front that were taken.
    taken: usize,
    /// A frame that is too large for the buffer, as far as it came, and how long it will be.
    large: Option<(Vec<u8>, usize)>,
}

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) bytes: usize,
    /// There was no room for more.
    pub(super) is_full: bool,
}

impl Frames {
    /// The next whole frame, without its size. An error if what comes is no frame.
    pub(super) fn next(&mut self, spare: &Spare) -> io::Result<Option<Vec<u8>>> {
        if let Some((mut frame, len)) = self.large.take() {
            if frame.len() < len {
                self.large = Some((frame, len));
                return Ok(None);
            }
            // A buffer that was used before may have had room for the beginning of the next one.
            self.buffer.clear();
            self.taken = 0;
            self.buffer.extend_from_slice(&frame[len..]);
            frame.truncate(len);
            return Ok(Some(frame));
        }
        let Some(prefix) = self.buffer[self.taken..].first_chunk() else { return Ok(None) };
        let len = frame_len(*prefix, FRAME_BYTES_MAX).map_err(io::Error::other)?;
        let come = &self.buffer[self.taken + 4..];
        if let Some(frame) = come.get(..len) {
            let frame = frame.to_vec();
            self.taken += 4 + len;
            return Ok(Some(frame));
        }
        if len > READ_BYTES / 2 {
            let mut frame = spare.take(len);
            frame.extend_from_slice(come);
            self.buffer.clear();
            self.taken = 0;
            self.large = Some((frame, len));
        }
        Ok(None)
    }

    /// How much has to come at least before there is another frame.
    pub(super) fn missing_bytes(&self) -> usize {
        self.large.as_ref().map_or(1, |(frame, len)| len.saturating_sub(frame.len()))
    }

    /// Reads once, into the room that there is behind what came. A large frame comes straight to where it
    /// stays.
    pub(super) fn fill(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<Filled> {
        let into = match &mut self.large {
            Some((frame, len)) => {
                if frame.len() == frame.capacity() {
                    frame.reserve(frame.len().max(READ_BYTES).min(*len - frame.len()));
                }
                frame
            }
            None => {
                self.buffer.drain(..self.taken);
                self.taken = 0;
                self.buffer.reserve(READ_BYTES / 2);
                &mut self.buffer
            }
        };
        let room = into.capacity() - into.len();
        let bytes = read(into)?;
        Ok(Filled { bytes, is_full: bytes == room })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much of `come` as there is room for.
    fn take(come: &mut &[u8]) -> impl FnOnce(&mut Vec<u8>) -> io::Result<usize> {
        |into| {
            let (now, later) = come.split_at(come.len().min(into.capacity() - into.len()));
            into.extend_from_slice(now);
            *come = later;
            Ok(now.len())
        }
    }

    /// All frames of a stream that comes in pieces.
    fn frames_of(stream: &[u8], piece: usize, spare: &Spare) -> Vec<Vec<u8>> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for mut piece in stream.chunks(piece) {
            while !piece.is_empty() {
                frames.fill(take(&mut piece)).expect("there is something");
                while let Some(frame) = frames.next(spare).expect("frames") {
                    found.push(frame);
                }
            }
        }
        found
    }

    #[test]
    fn frames_are_found_however_they_come() {
        let sizes = [0, 1, 4, READ_BYTES / 2, READ_BYTES / 2 + 1, 3 * READ_BYTES, 7, 100_000, 0, 9];
        let wanted: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(index, &size)| vec![index as u8; size]).collect();
        let stream: Vec<u8> = wanted
            .iter()
            .flat_map(|frame| (frame.len() as i32).to_be_bytes().into_iter().chain(frame.iter().copied()))
            .collect();
        for piece in [1, 3, 1_000, 40_000, 100_000] {
            let spare = Spare::default();
            // Larger than any: it takes in what follows a frame.
            spare.give_back(Vec::with_capacity(300 << 10));
            assert_eq!(frames_of(&stream, piece, &spare), wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn memory_follows_what_comes_not_what_is_declared() {
        let mut frames = Frames::default();
        frames.fill(take(&mut &(200_i32 << 20).to_be_bytes()[..])).expect("four bytes");
        assert!(frames.next(&Spare::default()).expect("a size").is_none());
        frames.fill(take(&mut &[0; 100][..])).expect("a few bytes");
        let (frame, _) = frames.large.as_ref().expect("it is large");
        assert!(frame.capacity() <= 2 * READ_BYTES);
        let mut frames = Frames::default();
        frames.fill(take(&mut &(-1_i32).to_be_bytes()[..])).expect("four bytes");
        frames.next(&Spare::default()).expect_err("no frame is so long");
    }
}
