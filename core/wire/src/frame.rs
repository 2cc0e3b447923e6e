//! Frames: what one request or answer is on the wire, behind its size.

use crate::error::FrameError;

/// A message ready to be sent, size prefix included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Everything but what fills the holes.
    pub bytes: Vec<u8>,
    /// Where something is missing, in order.
    pub holes: Vec<Hole>,
    /// The error codes in it that are not 0, each with how often it is there.
    pub errors: Vec<(i16, u32)>,
}

/// A place in a frame for bytes that are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// It comes before this one of the frame's bytes.
    pub at: usize,
    /// How many bytes are missing.
    pub len: u32,
}

/// A piece of a frame, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Send these.
    Bytes(&'a [u8]),
    /// Send as many bytes as this hole is long.
    Hole(Hole),
}

impl Frame {
    /// How many bytes go over the wire.
    pub fn wire_len(&self) -> usize {
        self.holes.iter().fold(self.bytes.len(), |len, hole| len + hole.len as usize)
    }

    /// All of it, with zeroes in the holes.
    pub fn with_zeroes(&self) -> Vec<u8> {
        let mut whole = vec![0; self.wire_len()];
        let mut at = 0;
        for part in self.parts() {
            match part {
                Part::Bytes(bytes) => {
                    whole[at..at + bytes.len()].copy_from_slice(bytes);
                    at += bytes.len();
                }
                Part::Hole(hole) => at += hole.len as usize,
            }
        }
        whole
    }

    /// The pieces in the order of sending; none of them is empty.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let ends = self.holes.iter().map(|hole| hole.at).chain([self.bytes.len()]);
        let mut start = 0;
        let runs = ends.map(move |end| {
            let run = &self.bytes[start..end];
            start = end;
            Part::Bytes(run)
        });
        let holes = self.holes.iter().copied().map(Part::Hole).map(Some).chain([None]);
        let parts = runs.zip(holes).flat_map(|(run, hole)| [Some(run), hole]).flatten();
        parts.filter(|part| !matches!(part, Part::Bytes([]) | Part::Hole(Hole { len: 0, .. })))
    }
}

/// The length of the frame behind a size prefix.
///
/// It says how much belongs to the frame, not how much to allocate: a buffer grows with what arrives. An
/// empty frame is one, though no message is as short.
pub fn frame_len(prefix: [u8; 4], max: usize) -> Result<usize, FrameError> {
    let size = i32::from_be_bytes(prefix);
    match usize::try_from(size) {
        Err(_) => Err(FrameError::Negative { size }),
        Ok(size) if size > max => Err(FrameError::TooLong { size, max }),
        Ok(size) => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_not_negative_and_within_the_limit() {
        assert_eq!(frame_len([0, 0, 0, 1], 10), Ok(1));
        assert_eq!(frame_len([0, 0, 0, 10], 10), Ok(10));
        assert_eq!(frame_len([0, 0, 0, 11], 10), Err(FrameError::TooLong { size: 11, max: 10 }));
        assert_eq!(frame_len([0; 4], 10), Ok(0));
        assert_eq!(frame_len([0xff; 4], 10), Err(FrameError::Negative { size: -1 }));
        assert!(matches!(frame_len(*b"GET ", 1 << 20), Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn parts_come_in_the_order_of_sending() {
        let holes = vec![Hole { at: 2, len: 5 }, Hole { at: 2, len: 6 }, Hole { at: 4, len: 7 }];
        let frame = Frame { bytes: vec![1, 2, 3, 4], holes: holes.clone(), errors: Vec::new() };
        let parts: Vec<_> = frame.parts().collect();
        let expected = [
            Part::Bytes(&[1, 2]),
            Part::Hole(holes[0]),
            Part::Hole(holes[1]),
            Part::Bytes(&[3, 4]),
            Part::Hole(holes[2]),
        ];
        assert_eq!(parts, expected);
        assert_eq!(frame.wire_len(), 22);
        let zeroes = |count| vec![0; count];
        assert_eq!(frame.with_zeroes(), [vec![1, 2], zeroes(11), vec![3, 4], zeroes(7)].concat());
    }
}
