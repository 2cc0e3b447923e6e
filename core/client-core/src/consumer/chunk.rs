//! Records on their way from an answer to their reader: lent, never copied.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use base::{LeaderEpoch, Offset, TopicPartition, Uuid};
use records::{BatchError, BatchHeader, Record, RecordIter, Scratch, StoredBatch};

use super::ConsumeError;
use super::position::Position;
use super::session::Told;

/// What an answer says of one partition. Its bytes stay where they were received.
#[derive(Debug)]
pub struct Chunk {
    of: TopicPartition,
    topic_id: Uuid,
    generation: u32,
    frame: Arc<Vec<u8>>,
    /// The batch that was gone to.
    current: Range<usize>,
    rest: Range<usize>,
    bytes: usize,
    /// Records before this were not asked for: they only share a batch with those that were.
    from: Offset,
    /// What follows the batch that was gone to.
    next: Offset,
    /// Who led when what lies before that was written.
    epoch: LeaderEpoch,
    high_watermark: Offset,
    check_crcs: bool,
    transactions: Option<Aborted>,
}

/// Which transactions to leave out, for a reader of committed ones.
#[derive(Debug, Default)]
struct Aborted {
    /// Producer and first offset of each, by offset, the last one first.
    coming: Vec<(i64, i64)>,
    /// Producers whose records are left out where the reader is.
    open: BTreeSet<i64>,
}

/// What a chunk is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) of: TopicPartition,
    /// As whom it was asked, and from where.
    pub(super) told: Told,
    pub(super) frame: Arc<Vec<u8>>,
    pub(super) range: Range<usize>,
    pub(super) high_watermark: Offset,
    pub(super) check_crcs: bool,
    /// Producer and first offset of each aborted transaction; `None` if aborted records are read, too.
    pub(super) aborted: Option<Vec<(i64, i64)>>,
}

impl Chunk {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { of, told, frame, range, high_watermark, check_crcs, aborted } = parts;
        let transactions = aborted.map(|mut coming| {
            // Some brokers do not sort them.
            coming.sort_by_key(|&(_, first)| std::cmp::Reverse(first));
            Aborted { coming, open: BTreeSet::new() }
        });
        let bytes = range.len();
        Self {
            of,
            topic_id: told.topic_id,
            generation: told.generation,
            frame,
            current: 0..0,
            rest: range,
            bytes,
            next: told.offset,
            epoch: told.last_epoch,
            from: told.offset,
            high_watermark,
            check_crcs,
            transactions,
        }
    }

    /// The partition.
    pub const fn of(&self) -> &TopicPartition {
        &self.of
    }

    /// Which assignment or seek of its partition it is of.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The offset of what was not lent yet.
    pub const fn next_offset(&self) -> Offset {
        self.next
    }

    /// Who led when what lies before [`Chunk::next_offset`] was written, as far as that is known.
    pub const fn next_epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Where the partition is read on behind what was lent, if the topic is still the one that it was.
    pub(super) fn position(&self, topic_id: Uuid) -> Position {
        let epoch = if topic_id == self.topic_id { self.epoch } else { LeaderEpoch::NONE };
        Position::Known(self.next, epoch)
    }

    /// How many bytes it has in all.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the partition ended for consumers when this was sent.
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Goes to the next batch with records for the reader; `None` at the end, and after an error.
    pub fn advance(&mut self) -> Option<Result<(), ConsumeError>> {
        loop {
            let (header, range) = match self.next_header()? {
                Ok(next) => next,
                Err(error) => return Some(Err(error)),
            };
            self.rest.start = range.end;
            // Also one that is left out: its header says so, and may be what is damaged.
            let checked = if self.check_crcs { StoredBatch::check } else { StoredBatch::trust };
            if let Err(error) = checked(&self.frame[range.clone()]) {
                return Some(Err(self.corrupt(error)));
            }
            let is_left_out = header.next_offset() <= self.from || self.is_left_out(&header);
            self.next = header.next_offset().max(self.next);
            self.epoch = header.leader_epoch;
            if !is_left_out {
                self.current = range;
                return Some(Ok(()));
            }
        }
    }

    /// The batch that [`Chunk::advance`] went to.
    ///
    /// # Panics
    ///
    /// If it went to none.
    pub fn batch(&self) -> LentBatch<'_> {
        let batch = StoredBatch::trust(&self.frame[self.current.clone()]);
        LentBatch { batch: batch.expect("it was checked"), from: self.from }
    }

    /// Where what is lent begins: the reader has asked past all before.
    pub fn lent_from(&self) -> Offset {
        if self.current.is_empty() { self.next } else { self.batch().header().base_offset.max(self.from) }
    }

    /// Records before this were read already, or were not asked for.
    pub fn begin_at(&mut self, from: Offset) {
        self.from = self.from.max(from);
    }

    /// The batch that it went to cannot be read: it ends before that.
    pub fn refuse(&mut self) {
        self.next = self.lent_from();
        self.rest = 0..0;
    }

    fn corrupt(&mut self, error: BatchError) -> ConsumeError {
        self.rest = 0..0;
        ConsumeError::Corrupt { at: self.next, error }
    }

    /// What it was received in, for another answer, if no other chunk is left of it.
    pub fn into_frame(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.frame)
    }

    fn next_header(&mut self) -> Option<Result<(BatchHeader, Range<usize>), ConsumeError>> {
        let rest = &self.frame[self.rest.clone()];
        if rest.is_empty() {
            return None;
        }
        match BatchHeader::parse(rest) {
            Ok(header) => {
                let range = self.rest.start..self.rest.start + header.size_bytes();
                Some(Ok((header, range)))
            }
            Err(error) => Some(Err(self.corrupt(error))),
        }
    }

    /// Whether a batch is a marker, or of a transaction that was aborted.
    fn is_left_out(&mut self, header: &BatchHeader) -> bool {
        let is_control = header.attributes.is_control();
        let Some(transactions) = &mut self.transactions else { return is_control };
        while transactions.coming.last().is_some_and(|&(_, first)| first <= header.last_offset().0) {
            let begun = transactions.coming.pop();
            transactions.open.extend(begun.map(|(producer, _)| producer));
        }
        let producer = header.producer_id.0;
        if is_control {
            // Whichever way it ended, what follows of the producer is another transaction.
            transactions.open.remove(&producer);
            return true;
        }
        header.attributes.is_transactional() && transactions.open.contains(&producer)
    }
}

/// A batch, lent until the next is asked for.
#[derive(Debug, Clone, Copy)]
pub struct LentBatch<'a> {
    batch: StoredBatch<'a>,
    from: Offset,
}

impl<'a> LentBatch<'a> {
    /// Its header: offsets, times, who wrote it.
    pub const fn header(&self) -> &BatchHeader {
        self.batch.header()
    }

    /// Its bytes as they are stored, those before the first record that was asked for among them.
    pub const fn bytes(&self) -> &'a [u8] {
        self.batch.bytes()
    }

    /// Its records, from the first that was asked for on; those of a compressed batch lie in `scratch`
    /// meanwhile.
    pub fn records<'s>(&self, scratch: &'s mut Scratch) -> Result<LentRecords<'s>, BatchError>
    where
        'a: 's,
    {
        let header = *self.batch.header();
        Ok(LentRecords { records: self.batch.records(scratch)?, header, from: self.from })
    }
}

/// The records of a batch.
#[derive(Debug, Clone)]
pub struct LentRecords<'a> {
    records: RecordIter<'a>,
    header: BatchHeader,
    from: Offset,
}

impl<'a> Iterator for LentRecords<'a> {
    type Item = Result<Record<'a>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.next()? {
                Ok(record) if record.offset(&self.header) < self.from => {}
                record => return Some(record),
            }
        }
    }
}
