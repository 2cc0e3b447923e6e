//! Walking the batches of a segment's file.
//!
//! Two ways: by their headers alone, for bytes that were checked before, and with their checksums, for
//! bytes of which nothing is known. Neither believes a length: what a header says is compared with
//! what the file has before anything is read or made room for.

use base::{LeaderEpoch, Offset};
use records::{BatchError, BatchHeader, HEADER_BYTES, StoredBatch, StoredCheck};

use crate::disk::{DiskError, DiskFile};

/// How much the walk over headers reads at once: about two index intervals.
const HEADERS_BYTES: usize = 8192;
/// How much the walk over whole batches reads at once, however large they say they are.
const BATCHES_BYTES: usize = 1 << 20;

/// A header and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) position: u32,
    pub(crate) header: BatchHeader,
}

impl Found {
    /// Where the next batch begins.
    pub(crate) fn end(&self) -> u32 {
        let size = u32::try_from(self.header.size_bytes()).unwrap_or(u32::MAX);
        self.position.saturating_add(size)
    }
}

/// What stands where a batch was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Not a batch, or one with a wrong checksum.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A batch whose offsets do not go on where those before ended.
    #[error("a batch begins at offset {found} where {expected} was expected")]
    Gap {
        /// The offset that should come.
        expected: Offset,
        /// The one that does.
        found: Offset,
    },
    /// A batch of another leader epoch than the log had there.
    #[error("a batch is of leader epoch {found} where the log was at {expected}")]
    Epoch {
        /// The epoch that was noted when it was written.
        expected: LeaderEpoch,
        /// The one that it says.
        found: LeaderEpoch,
    },
    /// A batch that reaches into the segment behind.
    #[error("a batch ends at offset {found} in a segment that ends before {limit}")]
    Overlap {
        /// The base offset of the segment behind.
        limit: Offset,
        /// The last offset found.
        found: Offset,
    },
    /// The records end before what is known to be durable.
    #[error("the records end at offset {end}, but {durable} is known to be durable")]
    Missing {
        /// Where they end.
        end: Offset,
        /// Where they should reach at least.
        durable: Offset,
    },
}

/// Why a walk could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScanError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("position {position}: {damage}")]
    Damaged { position: u32, damage: Damage },
}

/// Walks headers from `position` to `end`, in file order.
pub(crate) struct HeaderWalk<'a> {
    file: &'a dyn DiskFile,
    position: u32,
    end: u32,
    buffer: [u8; HEADERS_BYTES],
    buffered_from: u32,
    buffered: usize,
}

impl<'a> HeaderWalk<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, position: u32, end: u32) -> Self {
        Self { file, position, end, buffer: [0; HEADERS_BYTES], buffered_from: 0, buffered: 0 }
    }

    /// The header at the current position, and on to the next; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, ScanError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let left = self.end - self.position;
        let bytes = self.header_bytes()?;
        let header = BatchHeader::parse(bytes).map_err(|e| self.damaged(e))?;
        if header.size_bytes() > left as usize {
            let error = BatchError::Truncated { need: header.size_bytes(), have: left as usize };
            return Err(self.damaged(error));
        }
        let found = Found { position: self.position, header };
        self.position = found.end();
        Ok(Some(found))
    }

    /// Whether a batch with this last offset stands at the current position.
    pub(crate) fn begins_with(&mut self, last: Offset) -> Result<bool, DiskError> {
        if self.position >= self.end {
            return Ok(false);
        }
        let header = BatchHeader::parse(self.header_bytes()?);
        Ok(header.is_ok_and(|header| header.last_offset() == last))
    }

    /// The first batch from here on that reaches `target` or beyond.
    pub(crate) fn reaching(&mut self, target: Offset) -> Result<Option<Found>, ScanError> {
        while let Some(found) = self.next()? {
            if found.header.last_offset() >= target {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn header_bytes(&mut self) -> Result<&[u8], DiskError> {
        let at = self.position.checked_sub(self.buffered_from).map_or(usize::MAX, |at| at as usize);
        let wanted = HEADER_BYTES.min((self.end - self.position) as usize);
        if at.checked_add(wanted).is_some_and(|end| end <= self.buffered) {
            return Ok(&self.buffer[at..at + wanted]);
        }
        let room = HEADERS_BYTES.min((self.end - self.position) as usize);
        self.buffered = self.file.read_at(&mut self.buffer[..room], u64::from(self.position))?;
        self.buffered_from = self.position;
        Ok(&self.buffer[..wanted.min(self.buffered)])
    }

    fn damaged(&self, error: BatchError) -> ScanError {
        ScanError::Damaged { position: self.position, damage: error.into() }
    }
}

/// Walks batches from `position` to `end` and checks each one's checksum.
pub(crate) struct BatchWalk<'a> {
    file: &'a dyn DiskFile,
    position: u32,
    end: u32,
    buffer: Vec<u8>,
    buffered_from: u32,
}

impl<'a> BatchWalk<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, position: u32, end: u32) -> Self {
        Self { file, position, end, buffer: Vec::new(), buffered_from: position }
    }

    /// The batch at the current position, checked, and on to the next; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, ScanError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let position = self.position;
        let damaged = |error: BatchError| ScanError::Damaged { position, damage: error.into() };
        let header = BatchHeader::parse(self.bytes_at(position, HEADER_BYTES)?).map_err(damaged)?;
        let size = header.size_bytes();
        let left = (self.end - position) as usize;
        if size > left {
            return Err(damaged(BatchError::Truncated { need: size, have: left }));
        }
        let found = Found { position, header };
        self.position = found.end();
        self.check(&found)?.map_err(damaged)?;
        Ok(Some(found))
    }

    /// Checks a batch piece by piece: the length that it declares is not to be believed before.
    fn check(&mut self, found: &Found) -> Result<Result<(), BatchError>, DiskError> {
        let mut check = StoredCheck::new(found.header);
        while check.left() > 0 {
            let at = found.end().saturating_sub(u32::try_from(check.left()).unwrap_or(u32::MAX));
            let bytes = self.bytes_at(at, check.left().min(BATCHES_BYTES))?;
            if bytes.is_empty() {
                break;
            }
            check.take(bytes);
        }
        Ok(check.finish())
    }

    /// Up to `wanted` bytes at `position`, fewer only at the end.
    fn bytes_at(&mut self, position: u32, wanted: usize) -> Result<&[u8], DiskError> {
        let wanted = wanted.min((self.end - position) as usize);
        let at = position.checked_sub(self.buffered_from).map_or(usize::MAX, |at| at as usize);
        if at.checked_add(wanted).is_some_and(|end| end <= self.buffer.len()) {
            return Ok(&self.buffer[at..at + wanted]);
        }
        let room = BATCHES_BYTES.min((self.end - position) as usize);
        self.buffer.resize(room, 0);
        let read = self.file.read_at(&mut self.buffer, u64::from(position))?;
        self.buffer.truncate(read);
        self.buffered_from = position;
        Ok(&self.buffer[..wanted.min(read)])
    }
}

/// The whole of a batch that a walk over headers found, checked; `None` if it has more than `bytes_max`. Room
/// for more than a walk reads at once is made when its checksum was found right, and its length with it.
pub(crate) fn read_batch<'b>(
    file: &dyn DiskFile,
    found: &Found,
    bytes_max: usize,
    bytes: &'b mut Vec<u8>,
) -> Result<Option<StoredBatch<'b>>, ScanError> {
    let size = found.header.size_bytes();
    if size > bytes_max {
        return Ok(None);
    }
    if size > BATCHES_BYTES {
        BatchWalk::new(file, found.position, found.end()).next()?;
    }
    bytes.resize(size, 0);
    let read = file.read_at(bytes, found.position.into())?;
    let batch = StoredBatch::check(&bytes[..read]);
    batch.map(Some).map_err(|error| ScanError::Damaged { position: found.position, damage: error.into() })
}
