//! CRC-32C (Castagnoli), the checksum of a batch.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    truncate(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// The CRC-32 of gzip, which is another polynomial.
pub(crate) fn crc32_gzip(bytes: &[u8]) -> u32 {
    truncate(crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, bytes))
}

/// A checksum over bytes that do not lie in one piece.
pub struct Crc32c(Digest);

impl Crc32c {
    /// The checksum of nothing.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Continues over `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u32 {
        truncate(self.0.finalize())
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

// The crate answers every width in 64 bits; a 32-bit checksum lies in the low half.
fn truncate(crc: u64) -> u32 {
    (crc & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bitwise(bytes: &[u8], polynomial: u32) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg());
            }
        }
        !crc
    }

    #[test]
    fn it_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32_gzip(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c(b""), 0);
    }

    // The fast one picks its instructions by the processor; a wrong pick must not go unseen.
    #[test]
    fn the_fast_one_agrees_with_the_plain_one_at_every_size() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in (0..1200).chain([4095, 4096, 4097, 16_384, 65_535, 65_536, 70_000]) {
            for start in [0, 1, 7] {
                let bytes = &bytes[start.min(length)..length];
                assert_eq!(crc32c(bytes), bitwise(bytes, 0x82f6_3b78), "{length} from {start}");
                assert_eq!(crc32_gzip(bytes), bitwise(bytes, 0xedb8_8320), "{length} from {start}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_continues_over_pieces(bytes in proptest::collection::vec(any::<u8>(), 0..3000), cut in 0usize..3000) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut crc = Crc32c::new();
            crc.update(head);
            crc.update(tail);
            prop_assert_eq!(crc.finish(), bitwise(&bytes, 0x82f6_3b78));
        }
    }
}
