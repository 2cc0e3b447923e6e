//! The batches in a stretch of a log, as a fetch brings them.

use crate::error::BatchError;
use crate::header::{BatchHeader, LENGTH_PREFIX_BYTES};
use crate::stored::StoredBatch;

/// The batches at the front of `bytes`.
pub const fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes, is_cut: true }
}

/// The batches of `bytes`, a stretch that ends where a batch ends: one that is not all there is an error, since only its
/// length can be wrong.
pub const fn whole_batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes, is_cut: false }
}

/// Whole batches, one after the other, each with its CRC checked.
///
/// A fetch is cut at a number of bytes, so its last batch may be partial: the iterator of [`batches`] ends before
/// it, and [`Batches::rest`] has it. After the first error there is no more.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    /// Whether the stretch may end within a batch.
    is_cut: bool,
}

impl<'a> Batches<'a> {
    /// What follows the batches given so far.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes the batch at the front says it takes, even if it is not all there.
    pub fn next_size_bytes(&self) -> Option<usize> {
        let length = i32::from_be_bytes(*self.rest.get(8..LENGTH_PREFIX_BYTES)?.first_chunk()?);
        usize::try_from(length).ok()?.checked_add(LENGTH_PREFIX_BYTES)
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<StoredBatch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let have = self.rest.len();
        let checked = match BatchHeader::parse(self.rest) {
            Ok(header) => match self.rest.split_at_checked(header.size_bytes()) {
                Some((raw, rest)) => StoredBatch::check(raw).inspect(|_| self.rest = rest),
                None => Err(BatchError::Truncated { need: header.size_bytes(), have }),
            },
            Err(error) => Err(error),
        };
        match &checked {
            Ok(_) => {}
            Err(BatchError::Truncated { .. }) if self.is_cut || have == 0 => return None,
            Err(_) => self.rest = &[],
        }
        Some(checked)
    }
}
