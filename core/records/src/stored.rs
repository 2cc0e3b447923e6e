//! A batch that was checked when it first came.

use base::{LeaderEpoch, Offset};

use crate::compress::{Compression, DecompressBound, Scratch};
use crate::control::{ControlError, ControlRecord};
use crate::crc::Crc32c;
use crate::error::BatchError;
use crate::header::{BatchHeader, CRC_FROM, HEADER_BYTES};
use crate::record::RecordIter;

/// What the records of a stored batch may decompress to: as much as those of any batch that is appended.
pub(crate) const STORED_BYTES_MAX: usize = DecompressBound::CEILING_BYTES;

/// One whole batch as a log holds it: its header is sane and its CRC is right.
///
/// For bytes whose records a leader checked before it appended them: log recovery, followers, and
/// consumers. What lies behind the header is what was written, so it is not walked again. Compaction
/// leaves gaps: a stored batch may have fewer records than offsets, and even none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBatch<'a> {
    raw: &'a [u8],
    header: BatchHeader,
}

impl<'a> StoredBatch<'a> {
    /// Checks that `raw` is exactly one batch and is what was written.
    pub fn check(raw: &'a [u8]) -> Result<Self, BatchError> {
        let header = exactly_one(raw)?;
        header.check_crc(raw)?;
        check_offsets(&header)?;
        Ok(Self { raw, header })
    }

    /// The same without the CRC, for a reader that trusts its broker and its network; Kafka's
    /// `check.crcs=false`.
    pub fn trust(raw: &'a [u8]) -> Result<Self, BatchError> {
        let header = exactly_one(raw)?;
        check_offsets(&header)?;
        Ok(Self { raw, header })
    }

    /// What the caller has checked itself.
    pub(crate) const fn known(raw: &'a [u8], header: BatchHeader) -> Self {
        Self { raw, header }
    }

    /// All bytes of the batch.
    pub const fn bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// The bytes behind the header, compressed if the batch is.
    pub fn records_bytes(&self) -> &'a [u8] {
        &self.raw[HEADER_BYTES..]
    }

    /// Its header.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The offset of its first record.
    pub const fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// The offset right after its last record.
    pub const fn next_offset(&self) -> Offset {
        self.header.next_offset()
    }

    /// The leader that appended it.
    pub const fn leader_epoch(&self) -> LeaderEpoch {
        self.header.leader_epoch
    }

    /// Its records; those of a compressed batch lie in `scratch` meanwhile.
    pub fn records<'s>(&self, scratch: &'s mut Scratch) -> Result<RecordIter<'s>, BatchError>
    where
        'a: 's,
    {
        // Not by how much it grows: a broker that compressed it anew may have shrunk it by more than a
        // producer may.
        let plain = plain_records(&self.header, self.raw, STORED_BYTES_MAX, scratch)?;
        Ok(RecordIter::new(plain, self.header.records_count))
    }

    /// The marker in it; `None` if it is not a control batch, or compaction removed the marker.
    pub fn control_record(&self, scratch: &mut Scratch) -> Result<Option<ControlRecord>, ControlError> {
        if !self.header.attributes.is_control() {
            return Ok(None);
        }
        self.records(scratch)?.next().transpose()?.map(|record| ControlRecord::parse(&record)).transpose()
    }
}

/// The same check for a batch that is too large to be held: its bytes come in pieces.
pub struct StoredCheck {
    header: BatchHeader,
    left: usize,
    crc: Crc32c,
}

impl StoredCheck {
    /// Begins with the header, which says how many bytes belong to the batch.
    pub fn new(header: BatchHeader) -> Self {
        let mut crc = Crc32c::new();
        crc.update(&header.to_bytes()[CRC_FROM..]);
        Self { header, left: header.size_bytes() - HEADER_BYTES, crc }
    }

    /// How many bytes behind the header have not come.
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Takes the next of them.
    pub fn take(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.left)];
        self.left -= bytes.len();
        self.crc.update(bytes);
    }

    /// Whether the batch is what was written.
    pub fn finish(self) -> Result<(), BatchError> {
        let size = self.header.size_bytes();
        if self.left > 0 {
            return Err(BatchError::Truncated { need: size, have: size - self.left });
        }
        let (said, is) = (self.header.crc, self.crc.finish());
        if said != is {
            return Err(BatchError::Crc { said, is });
        }
        check_offsets(&self.header)
    }
}

fn check_offsets(header: &BatchHeader) -> Result<(), BatchError> {
    let (base, delta, records) = (header.base_offset.0, header.last_offset_delta, header.records_count);
    let ends = base.checked_add(i64::from(delta)).is_some_and(|last| last < i64::MAX);
    let counted = (0..=i64::from(delta) + 1).contains(&i64::from(records));
    if base < 0 || delta < 0 || !ends || !counted {
        return Err(BatchError::Offsets { base, delta, records });
    }
    Ok(())
}

/// The header of `raw` if it is one batch, no less and no more.
pub(crate) fn exactly_one(raw: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse(raw)?;
    let (need, have) = (header.size_bytes(), raw.len());
    match have.checked_sub(need) {
        None => Err(BatchError::Truncated { need, have }),
        Some(0) => Ok(header),
        Some(more) => Err(BatchError::Trailing(more)),
    }
}

/// The records of the batch `raw`, decompressed into `scratch` if they must be.
pub(crate) fn plain_records<'s>(
    header: &BatchHeader,
    raw: &'s [u8],
    bytes_max: usize,
    scratch: &'s mut Scratch,
) -> Result<&'s [u8], BatchError> {
    let records = raw.get(HEADER_BYTES..).unwrap_or_default();
    match compression(header)? {
        Compression::None => Ok(records),
        of => Ok(scratch.decompress(of, records, bytes_max)?),
    }
}

pub(crate) fn compression(header: &BatchHeader) -> Result<Compression, BatchError> {
    header.attributes.compression().map_err(|unknown| BatchError::Compression(unknown.0))
}
