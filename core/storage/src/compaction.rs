//! Compaction: of all records with one key, the last stays.
//!
//! ```text
//!   start          first dirty            upto           end
//!   ──┬───────────────┬─────────────────────┬─────────────┬──▶ offsets
//!     │ clean         │ dirty: closed, on   │ not yet     │
//!     │               │ media, committed    │             │
//!                      └─ read into the map ─┘
//!     └── written anew by what the map says ─┘
//!
//!   compaction_plan ─▶ Compaction ── next, outside the lock ──▶ Rewritten ─▶ on_rewritten ─▶ Swap
//!                          ▲                                                       run, outside ▼
//!                          └───────────────── on_swapped ◀── Swapped ◀──────────────────────────┘
//! ```
//!
//! - A record stays if the map has no later offset for its key; so does everything behind `upto`. The map has
//!   a bounded size: what does not fit is dirty until the next time.
//! - A record of an aborted transaction takes nobody's place. Markers stay.
//! - A record without a value deletes its key, and goes itself `delete.retention.ms` after the compaction
//!   that dropped all before it here: its batch is given the time from which it may (KIP-534), whatever time it
//!   brought from a leader. Only a compaction whose map held the record gives it: one that a cut has put below
//!   `upto` waits. While a replica is out of sync none goes: one that came back without it would keep for ever what
//!   it deletes.
//! - Offsets, order, epochs and sequences stay. A batch from which nothing goes is copied byte by byte.
//! - A batch without records stays where its place is needed: the last of each segment, so that a segment ends
//!   where the next begins and a log where it ended; the first of each leader epoch, so that a follower
//!   learns where it began; the last of each producer that is known, with its sequence.
//! - Segments are written anew from the front on, in groups that make one segment each, and each takes its
//!   place before the next is begun: an older value never outlives a later one.
//!
//! **Invariant:** after a crash at any point each group is as it was or as it was written anew.

mod map;
mod rewrite;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Offset, ProducerId, TimestampMs, TopicId};
use records::{BatchHeader, Scratch};

use crate::disk::{DiskError, DiskFile, OpenMode};
use crate::home::Home;
use crate::index::AbortedTxn;
use crate::layout::{FileKind, cleaned_base};
use crate::scan::{Damage, Found, HeaderWalk, ScanError, read_batch};
use crate::segment::Segment;
use crate::settings::{LogSettings, SEGMENT_BYTES_MAX};

use map::OffsetMap;

/// How many segments become one at most: their names are changed while the log waits.
const GROUP_SEGMENTS_MAX: usize = 256;

/// Why a compaction could not go on. The log is as good as before, unless the disk says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompactionError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The records are damaged.
    #[error("segment {segment}, position {position}: {damage}")]
    Damaged {
        /// The base offset of the segment.
        segment: Offset,
        /// Where in its file.
        position: u32,
        /// What stands there.
        damage: Damage,
    },
    /// Batches that are compressed anew would not fit into one segment any more.
    #[error("segment {0} has no room for its batches once they are compressed anew")]
    NoRoom(Offset),
    /// The caller asked for it.
    #[error("stopped")]
    Stopped,
}

impl CompactionError {
    fn of(segment: Offset) -> impl Fn(ScanError) -> Self {
        move |error| match error {
            ScanError::Disk(error) => Self::Disk(error),
            ScanError::Damaged { position, damage } => Self::Damaged { segment, position, damage },
        }
    }
}

/// What a compaction has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Bytes of batches that were read.
    pub read_bytes: u64,
    /// Bytes of the segments that took the place of others.
    pub written_bytes: u64,
    /// Bytes of the segments whose place they took.
    pub replaced_bytes: u64,
    /// Keys that were seen among dirty records.
    pub keys: u64,
}

/// A segment that may be written anew.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) base: Offset,
    /// Where the next one begins.
    pub(crate) end: Offset,
    pub(crate) bytes: u32,
    pub(crate) index_bytes: u64,
    pub(crate) written: TimestampMs,
    pub(crate) aborted: Vec<AbortedTxn>,
}

/// Everything that a compaction needs to know of its log.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) home: Home,
    pub(crate) topic: TopicId,
    pub(crate) settings: LogSettings,
    pub(crate) wall: TimestampMs,
    /// Whether tombstones stay for longer than their time: a replica may lack some.
    pub(crate) keeps_tombstones: bool,
    pub(crate) first_dirty: Offset,
    pub(crate) upto: Offset,
    /// From the start of the log on, without a gap between them.
    pub(crate) sources: Vec<Source>,
    /// Transactions that were aborted and reach into what is dirty.
    pub(crate) aborted: Vec<AbortedTxn>,
    /// Where the batches begin that an epoch begins with.
    pub(crate) epoch_starts: BTreeSet<Offset>,
    /// Where the last batches of producers end.
    pub(crate) producer_ends: BTreeSet<Offset>,
    pub(crate) map_bytes_max: usize,
    /// Counts cuts of the log.
    pub(crate) cuts: u64,
}

/// A compaction of one log. Nothing is borrowed from the log.
#[derive(Debug)]
#[must_use = "nothing is compacted until it is run"]
pub struct Compaction {
    plan: Plan,
    /// What is known of dirty records, once they were read.
    dirty: Option<Dirty>,
    groups: VecDeque<Vec<Source>>,
    /// Whether all of them have taken their places.
    is_done: bool,
    stats: CompactionStats,
    buffers: Buffers,
}

/// The dirty records.
#[derive(Debug)]
struct Dirty {
    map: OffsetMap,
    /// Up to where they are in the map.
    upto: Offset,
}

/// Room that is used again and again.
#[derive(Debug, Default)]
struct Buffers {
    batch: Vec<u8>,
    rewritten: Vec<u8>,
    scratch: Scratch,
}

/// A segment that is ready to take the place of others.
#[derive(Debug)]
#[must_use = "it takes its place once the log has heard of it"]
pub struct Rewritten {
    pub(crate) home: Home,
    /// What it was made from: base offsets, in order.
    pub(crate) bases: Vec<Offset>,
    pub(crate) segment: Segment,
    /// Its files, that of records last.
    pub(crate) kinds: Vec<FileKind>,
    pub(crate) cuts: u64,
}

/// The proof that a [`Compaction`] came to its end.
#[derive(Debug)]
pub struct Compacted {
    /// What it did.
    pub stats: CompactionStats,
    pub(crate) clean_upto: Offset,
    pub(crate) cuts: u64,
}

impl Compaction {
    pub(crate) fn new(plan: Plan) -> Self {
        let (stats, buffers) = (CompactionStats::default(), Buffers::default());
        Self { plan, dirty: None, groups: VecDeque::new(), is_done: false, stats, buffers }
    }

    /// What it has done so far.
    pub fn stats(&self) -> CompactionStats {
        self.stats
    }

    /// Goes on to the next segment that is to take its place; `None` at the end. May take long; needs no
    /// lock. What was returned before must have taken its place, or the compaction be given up.
    ///
    /// `pace` is told of bytes that were read, and may wait; it stops the compaction by `false`.
    pub fn next(&mut self, pace: &mut dyn FnMut(u64) -> bool) -> Result<Option<Rewritten>, CompactionError> {
        if self.dirty.is_none() {
            settle_names(&self.plan.home)?;
            let dirty = self.read_dirty(pace)?;
            self.stats.keys = dirty.map.len() as u64;
            self.groups = group(&self.plan, dirty.upto);
            self.dirty = Some(dirty);
        }
        while let Some(group) = self.groups.pop_front() {
            if let Some(rewritten) = self.rewrite(&group, pace)? {
                return Ok(Some(rewritten));
            }
        }
        self.is_done = true;
        Ok(None)
    }

    /// The proof. Unless [`Compaction::next`] has come to the end, it says that nothing more is compacted.
    pub fn finish(self) -> Compacted {
        let upto = self.dirty.filter(|_| self.is_done).map(|dirty| dirty.upto);
        let clean_upto = upto.unwrap_or(self.plan.first_dirty);
        Compacted { stats: self.stats, clean_upto, cuts: self.plan.cuts }
    }

    /// Reads dirty records into a map, as many as there is room for.
    fn read_dirty(&mut self, pace: &mut dyn FnMut(u64) -> bool) -> Result<Dirty, CompactionError> {
        let Self { plan, stats, buffers, .. } = self;
        let offsets = u64::try_from(plan.upto.0 - plan.first_dirty.0).unwrap_or(0);
        let map = OffsetMap::new(plan.topic, offsets, plan.map_bytes_max);
        let mut dirty = Dirty { map, upto: plan.upto };
        let aborted = Aborted::of(&plan.aborted);
        for source in plan.sources.iter().filter(|source| source.end > plan.first_dirty) {
            let file = source.open(&plan.home)?;
            let mut walk = SourceWalk::new(source, file.as_ref());
            while let Some(found) = walk.next()? {
                let header = &found.header;
                let size = header.size_bytes() as u64;
                let is_clean = header.last_offset() < plan.first_dirty;
                if is_clean || header.attributes.is_control() || header.records_count == 0 {
                    continue;
                }
                stats.read_bytes += size;
                if !pace(size) {
                    return Err(CompactionError::Stopped);
                }
                let full = walk.read(&found, buffers, |offset, key, _| {
                    let counts = offset >= plan.first_dirty && !aborted.has(header, offset);
                    key.is_none_or(|key| !counts || dirty.map.put(key, offset))
                })?;
                if let Some(offset) = full {
                    dirty.upto = offset;
                    return Ok(dirty);
                }
            }
        }
        Ok(dirty)
    }
}

/// Removes what an earlier compaction left when it was given up, and lets nothing of the last one wait for its
/// new name: of a swap beside a file that is still being cleaned, a start believes that it was not decided yet.
fn settle_names(home: &Home) -> Result<(), DiskError> {
    for entry in home.disk.list(&home.dir)?.iter().filter(|entry| cleaned_base(&entry.name).is_some()) {
        home.disk.remove_file(&home.child(&entry.name))?;
    }
    home.sync_dir()
}

/// Segments below `upto`, those together that fit into one.
fn group(plan: &Plan, upto: Offset) -> VecDeque<Vec<Source>> {
    let bytes_max = u64::from(plan.settings.segment_bytes.min(SEGMENT_BYTES_MAX));
    let index_bytes_max = u64::from(plan.settings.index_bytes_max);
    let mut groups: VecDeque<Vec<Source>> = VecDeque::new();
    let (mut bytes, mut index_bytes) = (0, 0);
    for source in plan.sources.iter().filter(|source| source.base < upto) {
        bytes += u64::from(source.bytes);
        index_bytes += source.index_bytes;
        let fits = bytes <= bytes_max && index_bytes <= index_bytes_max;
        let has_room = |group: &[Source]| {
            let span = group.first().map_or(0, |first| source.end.0 - first.base.0);
            fits && group.len() < GROUP_SEGMENTS_MAX && span <= i64::from(i32::MAX)
        };
        match groups.back_mut().filter(|group| has_room(group)) {
            Some(group) => group.push(source.clone()),
            None => {
                (bytes, index_bytes) = (source.bytes.into(), source.index_bytes);
                groups.push_back(vec![source.clone()]);
            }
        }
    }
    groups
}

/// Which records were part of a transaction that was aborted: of each producer where those began and ended, in
/// order.
struct Aborted(BTreeMap<ProducerId, Vec<(Offset, Offset)>>);

impl Aborted {
    fn of(transactions: &[AbortedTxn]) -> Self {
        let mut of: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for txn in transactions {
            of.entry(txn.producer_id).or_default().push((txn.first_offset, txn.last_offset));
        }
        Self(of)
    }

    fn has(&self, header: &BatchHeader, offset: Offset) -> bool {
        let of = self.0.get(&header.producer_id).filter(|_| header.attributes.is_transactional());
        let begun = |of: &Vec<(Offset, Offset)>| of.partition_point(|&(first, _)| first <= offset);
        of.and_then(|of| of.get(begun(of).checked_sub(1)?)).is_some_and(|&(_, last)| offset <= last)
    }
}

impl Source {
    fn open(&self, home: &Home) -> Result<Arc<dyn DiskFile>, DiskError> {
        home.open(FileKind::Log, self.base, OpenMode::Read)
    }
}

/// Goes through the batches of a segment.
struct SourceWalk<'a> {
    source: &'a Source,
    file: &'a dyn DiskFile,
    walk: HeaderWalk<'a>,
    /// No batch may begin before it.
    least: Offset,
}

impl<'a> SourceWalk<'a> {
    fn new(source: &'a Source, file: &'a dyn DiskFile) -> Self {
        Self { source, file, walk: HeaderWalk::new(file, 0, source.bytes), least: source.base }
    }

    fn next(&mut self) -> Result<Option<Found>, CompactionError> {
        let found = self.walk.next().map_err(CompactionError::of(self.source.base))?;
        let Some(found) = found else { return Ok(None) };
        // A batch's place is not under its checksum. One that has rotted must not drop records.
        self.check(&found).map_err(|damage| CompactionError::Damaged {
            segment: self.source.base,
            position: found.position,
            damage,
        })?;
        self.least = found.header.next_offset();
        Ok(Some(found))
    }

    fn check(&self, found: &Found) -> Result<(), Damage> {
        let (first, last, limit) = (found.header.base_offset, found.header.last_offset(), self.source.end);
        if first < self.least || last < first {
            return Err(Damage::Gap { expected: self.least, found: first });
        }
        if last >= limit { Err(Damage::Overlap { limit, found: last }) } else { Ok(()) }
    }

    /// Reads the batch that was found last, and shows its records: offset, key, and whether there is a
    /// value. Ends with the first for which `more` does not hold, and answers where that is.
    fn read(
        &self,
        found: &Found,
        buffers: &mut Buffers,
        mut more: impl FnMut(Offset, Option<&[u8]>, bool) -> bool,
    ) -> Result<Option<Offset>, CompactionError> {
        let Buffers { batch, scratch, .. } = buffers;
        let of = CompactionError::of(self.source.base);
        let damaged = |error| ScanError::Damaged { position: found.position, damage: Damage::Batch(error) };
        let batch = read_batch(self.file, found, usize::MAX, batch).map_err(&of)?;
        let Some(batch) = batch.filter(|batch| batch.header().records_count > 0) else { return Ok(None) };
        for record in batch.records(scratch).map_err(damaged).map_err(&of)? {
            let record = record.map_err(damaged).map_err(&of)?;
            let offset = record.offset(batch.header());
            if !more(offset, record.key, record.value.is_some()) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
}

impl Plan {
    /// From when tombstones that this compaction has seen for the first time may go.
    fn delete_horizon(&self) -> TimestampMs {
        let retention: Duration = self.settings.tombstone_retention;
        self.wall.saturating_add(retention)
    }
}
