//! The batches in a stretch of a log, as a fetch brings them.

use crate::error::BatchError;
use crate::header::{BatchHeader, LENGTH_PREFIX_BYTES};
use crate::stored::StoredBatch;

/// The batches at the front of `bytes`.
pub const fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes }
}

/// Whole batches, one after the other, each with its CRC checked.
///
/// A fetch is cut at a number of bytes, so its last batch may be partial: the iterator ends before
/// it, and [`Batches::rest`] has it. After the first error there is no more.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
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
        let header = match BatchHeader::parse(self.rest) {
            Ok(header) => header,
            Err(BatchError::Truncated { .. }) => return None,
            Err(error) => {
                self.rest = &[];
                return Some(Err(error));
            }
        };
        let (raw, rest) = self.rest.split_at_checked(header.size_bytes())?;
        let checked = StoredBatch::check(raw);
        self.rest = if checked.is_ok() { rest } else { &[] };
        Some(checked)
    }
}
