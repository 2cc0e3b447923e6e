//! What becomes of each batch.
//!
//! | batch | becomes |
//! | --- | --- |
//! | with markers, or behind what the map holds | a copy |
//! | all records stay | a copy |
//! | the same, tombstones among them that were seen for the first time | with the time from which these may go |
//! | some stay | with those |
//! | none stays, its place is needed | without any |
//! | none stays | nothing |

use base::{Offset, TimestampMs};
use records::{BatchHeader, Scratch, StoredBatch};

use crate::compaction::writer::Writer;
use crate::compaction::{Compaction, CompactionError, Dirty, Plan, Rewritten, Source, SourceWalk};
use crate::index::AbortedTxn;
use crate::scan::{Damage, Found, ScanError, read_batch};
use crate::settings::SEGMENT_BYTES_MAX;

/// What becomes of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Copied,
    /// Some records stay, or all of them with a time from which tombstones may go.
    Retained {
        all: bool,
        horizon: Option<TimestampMs>,
    },
    Emptied,
    Dropped,
}

impl Compaction {
    /// Writes a group of segments anew, as one; `None` if that would change nothing.
    pub(super) fn rewrite(
        &mut self,
        group: &[Source],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Rewritten>, CompactionError> {
        let Some(base) = group.first().map(|source| source.base) else { return Ok(None) };
        let mut left: u64 = group.iter().map(|source| u64::from(source.bytes)).sum();
        let replaced_bytes = left;
        let last = group.iter().rposition(|source| source.bytes > 0);
        let mut writer = Writer::new(&self.plan.home, base, self.plan.settings.index_interval_bytes)?;
        let mut changed = group.len() > 1;
        for (index, source) in group.iter().enumerate() {
            let file = source.open(&self.plan.home)?;
            let mut walk = SourceWalk::new(source, file.as_ref());
            while let Some(found) = walk.next()? {
                let size = found.header.size_bytes() as u64;
                left = left.saturating_sub(size);
                self.stats.read_bytes += size;
                if !pace(size) {
                    // It may be for want of room.
                    writer.discard()?;
                    return Err(CompactionError::Stopped);
                }
                let is_last = Some(index) == last && found.end() == source.bytes;
                changed |= self.rewrite_batch(&walk, &found, (is_last, left), &mut writer)?;
            }
        }
        if !changed {
            writer.discard()?;
            return Ok(None);
        }
        let aborted: Vec<AbortedTxn> = group.iter().flat_map(|source| source.aborted.clone()).collect();
        let (mut segment, kinds) = writer.finish(&aborted)?;
        segment.written = group.iter().map(|source| source.written).max().unwrap_or(TimestampMs::NONE);
        self.stats.written_bytes += u64::from(segment.bytes);
        self.stats.replaced_bytes += replaced_bytes;
        let bases = group.iter().map(|source| source.base).collect();
        Ok(Some(Rewritten { home: self.plan.home.clone(), bases, segment, kinds, cuts: self.plan.cuts }))
    }

    /// Writes what becomes of a batch. Whether that is something else.
    fn rewrite_batch(
        &mut self,
        walk: &SourceWalk<'_>,
        found: &Found,
        (is_last, left): (bool, u64),
        writer: &mut Writer,
    ) -> Result<bool, CompactionError> {
        let of = CompactionError::of(walk.source.base);
        let damaged = |error| ScanError::Damaged { position: found.position, damage: Damage::Batch(error) };
        let Some(dirty) = &self.dirty else { return Ok(false) };
        let judge = Judge { plan: &self.plan, dirty, header: &found.header };
        let (batch, scratch, out) =
            (&mut self.buffers.batch, &mut self.buffers.scratch, &mut self.buffers.rewritten);
        let Some(batch) = read_batch(walk.file, found, usize::MAX, batch).map_err(&of)? else {
            return Ok(false);
        };
        let fate = judge.fate(&batch, is_last, scratch).map_err(damaged).map_err(&of)?;
        out.clear();
        let header = match fate {
            Fate::Dropped => return Ok(true),
            Fate::Copied => None,
            Fate::Emptied => Some(batch.emptied(out)),
            Fate::Retained { horizon, .. } => {
                let keep = &mut |record: &records::Record<'_>| {
                    judge.keeps(record.offset(&found.header), record.key, record.value.is_some())
                };
                Some(batch.retain(horizon, keep, scratch, out).map_err(damaged).map_err(&of)?)
            }
        };
        // What is compressed anew, or counts its times from another, may be larger than it was.
        let fits = u64::from(writer.bytes()) + out.len() as u64 + left <= u64::from(SEGMENT_BYTES_MAX);
        match (header, fate) {
            (Some(header), _) if fits => writer.push(&header, out)?,
            (None, _) | (Some(_), Fate::Retained { all: true, .. }) => {
                writer.push(&found.header, batch.bytes())?;
                return Ok(false);
            }
            (Some(_), _) => return Err(CompactionError::NoRoom(walk.source.base)),
        }
        Ok(true)
    }
}

/// Judges the records of one batch.
struct Judge<'a> {
    plan: &'a Plan,
    dirty: &'a Dirty,
    header: &'a BatchHeader,
}

impl Judge<'_> {
    fn fate(
        &self,
        batch: &StoredBatch<'_>,
        is_last: bool,
        scratch: &mut Scratch,
    ) -> Result<Fate, records::BatchError> {
        let header = self.header;
        if header.attributes.is_control() || header.base_offset >= self.dirty.upto {
            return Ok(Fate::Copied);
        }
        let (mut kept, mut tombstones) = (0, 0);
        if header.records_count > 0 {
            for record in batch.records(scratch)? {
                let record = record?;
                if self.keeps(record.offset(header), record.key, record.value.is_some()) {
                    kept += 1;
                    tombstones += i32::from(record.value.is_none());
                }
            }
        }
        let horizon = (tombstones > 0 && self.is_seen_first()).then(|| self.plan.delete_horizon());
        Ok(match kept {
            0 if !is_last && !self.is_place_needed() => Fate::Dropped,
            0 if header.records_count == 0 => Fate::Copied,
            0 => Fate::Emptied,
            _ if kept == header.records_count && horizon.is_none() => Fate::Copied,
            _ => Fate::Retained { all: kept == header.records_count, horizon },
        })
    }

    /// Whether a record stays.
    fn keeps(&self, offset: Offset, key: Option<&[u8]>, has_value: bool) -> bool {
        if offset >= self.dirty.upto {
            return true;
        }
        // Without a key it is nothing that a compacted log has a place for.
        let Some(key) = key else { return false };
        let is_superseded = self.dirty.map.get(key).is_some_and(|last| last > offset);
        !is_superseded && (has_value || !self.is_expired())
    }

    /// Whether its tombstones may go. A time that came with it from a leader is none of this log's: what its
    /// tombstones delete may have been here until now, and who has read that comes by here yet.
    fn is_expired(&self) -> bool {
        let may_go = self.is_clean() && !self.plan.keeps_tombstones;
        may_go && self.header.delete_horizon().is_some_and(|horizon| horizon <= self.plan.wall)
    }

    /// Whether the last of its records were not in the map of an earlier compaction, and all are in this one
    /// or in an earlier: whatever its tombstones delete is gone once this compaction is done. An earlier one may have
    /// left it without a time: that of a Kafka before 3.1, say.
    fn is_seen_first(&self) -> bool {
        let has_no_time = !self.is_clean() || self.header.delete_horizon().is_none();
        has_no_time && self.header.last_offset() < self.dirty.upto
    }

    /// Whether all its records were in the map of an earlier compaction.
    fn is_clean(&self) -> bool {
        self.header.last_offset() < self.plan.first_dirty
    }

    fn is_place_needed(&self) -> bool {
        self.plan.epoch_starts.contains(&self.header.base_offset)
            || self.plan.producer_ends.contains(&self.header.last_offset())
    }
}
