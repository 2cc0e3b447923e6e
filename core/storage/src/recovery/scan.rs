//! Going through the batches of a segment that is being opened.

use base::{LeaderEpoch, Offset, TimestampMs};
use records::BatchHeader;

use crate::disk::{DiskError, DiskFile};
use crate::home::Home;
use crate::recovery::Known;
use crate::scan::{BatchWalk, Damage, HeaderWalk, ScanError};
use crate::segment::{Growth, Largest, Segment};
use crate::settings::LogSettings;

/// What scanning needs and does not change.
pub(super) struct Context<'a> {
    pub(super) home: &'a Home,
    pub(super) settings: &'a LogSettings,
    pub(super) wall: TimestampMs,
}

/// What batches must be like, and what was learned from them.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    pub(super) known: Known,
    /// Below it, offsets may have gaps.
    pub(super) gaps_below: Offset,
    /// Leader epochs that were met, and where.
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
}

/// How far a segment was gone through.
pub(super) struct Scanned {
    /// Where it was begun.
    pub(super) from: u32,
    pub(super) growth: Growth,
    /// The offset behind the last good batch.
    pub(super) end: Offset,
    /// What stands behind it, if the file goes on.
    pub(super) damage: Option<Damage>,
}

impl Batches {
    /// Goes through a segment with checksums, from an index entry below the recovery point on. Its
    /// tables are built again from there, and its length becomes that of the good batches.
    pub(super) fn scan(
        &mut self,
        context: &Context<'_>,
        segment: &mut Segment,
        next: Option<Offset>,
    ) -> Result<Scanned, DiskError> {
        let total = segment.bytes;
        let growth = self.rewind(context, segment)?;
        let file = segment.file(context.home)?.clone();
        if let Some(position) = self.first_unsure(file.as_ref(), segment.bytes, total)? {
            file.reread(position)?;
        }
        let mut walk = BatchWalk::new(file.as_ref(), segment.bytes, total);
        let mut batch = || walk.next().map(|found| found.map(|found| found.header));
        self.take(context, (segment, growth), next, &mut batch)
    }

    /// Where in a file, from an index entry on, the first batch lies that may not be on media; `None` if all are.
    fn first_unsure(&self, file: &dyn DiskFile, from: u32, total: u32) -> Result<Option<u64>, DiskError> {
        match HeaderWalk::new(file, from, total).reaching(self.known.recovery_point) {
            Ok(found) => Ok(found.map(|found| found.position.into())),
            Err(ScanError::Damaged { position, .. }) => Ok(Some(position.into())),
            Err(ScanError::Disk(error)) => Err(error),
        }
    }

    /// The damage that lies between a segment and the next, if the next does not go on where it ends.
    pub(super) fn gap(&self, end: Offset, next: Option<Offset>) -> Option<Damage> {
        let found = next?;
        (!self.joins(end, found)).then_some(Damage::Gap { expected: end, found })
    }

    /// Whether offsets may have gaps anywhere.
    pub(super) fn may_have_gaps(&self) -> bool {
        self.gaps_below > Offset::ZERO
    }

    /// Whether a batch that begins at `found` may stand where one at `expected` should.
    fn joins(&self, expected: Offset, found: Offset) -> bool {
        found == expected || (found > expected && expected < self.gaps_below)
    }

    /// Shortens tables and segment to an index entry that can be trusted, or to nothing.
    fn rewind(&self, context: &Context<'_>, segment: &mut Segment) -> Result<Growth, DiskError> {
        let (home, base, total) = (context.home, segment.base, segment.bytes);
        let below = self.known.recovery_point;
        let trusted = |entry: crate::OffsetEntry| entry.position < total && entry.offset(base) < below;
        let entries = segment.offsets.count_valid(home, trusted)?;
        let behind = segment.offsets.stored_at(home, entries)?;
        // A file that Kafka made long in advance goes on with zeroes.
        if behind.is_some_and(|entry| entry.position > 0 && entry.offset(base) < below) {
            segment.offsets.begin_anew(home)?;
        } else {
            segment.offsets.cut_file(home, entries)?;
        }
        let mut entry = segment.offsets.last(home)?;
        let upto = entry.map(|entry| entry.offset(base));
        // Both tables are on media up to the recovery point, and no record below it may be gone.
        let promised = self.known.promised();
        let times = segment.times.count_valid(home, |time| {
            let at = time.offset(base);
            at < promised || upto.is_some_and(|upto| at <= upto)
        })?;
        segment.times.cut_file(home, times)?;
        if !are_true(home, segment, entry)? {
            segment.offsets.begin_anew(home)?;
            segment.times.cut_file(home, 0)?;
            entry = None;
        }
        segment.bytes = entry.map_or(0, |entry| entry.position);
        let mut growth = Growth::new(context.wall);
        growth.largest = indexed_largest(home, segment)?;
        Ok(growth)
    }

    /// Takes in batches as long as they are good.
    fn take(
        &mut self,
        context: &Context<'_>,
        (segment, mut growth): (&mut Segment, Growth),
        next: Option<Offset>,
        batch: &mut dyn FnMut() -> Result<Option<BatchHeader>, ScanError>,
    ) -> Result<Scanned, DiskError> {
        let from = segment.bytes;
        let mut expected = (from == 0).then_some(segment.base);
        let damage = loop {
            let header = match batch() {
                Ok(Some(header)) => header,
                Ok(None) => break None,
                Err(ScanError::Damaged { damage, .. }) => break Some(damage),
                Err(ScanError::Disk(error)) => return Err(error),
            };
            if let Some(damage) = self.misplaced(&header, expected, (segment.base, next)) {
                break Some(damage);
            }
            growth.add(context.home, segment, &header, context.settings)?;
            expected = Some(header.next_offset());
            let newer = self.epochs.last().is_none_or(|&(last, _)| header.leader_epoch > last);
            if newer {
                self.epochs.push((header.leader_epoch, header.base_offset));
            }
        };
        Ok(Scanned { from, growth, end: expected.unwrap_or(segment.base), damage })
    }

    /// What is wrong with the offsets of a batch.
    fn misplaced(
        &self,
        header: &BatchHeader,
        expected: Option<Offset>,
        (base, next): (Offset, Option<Offset>),
    ) -> Option<Damage> {
        let (found, last) = (header.base_offset, header.last_offset());
        let least = expected.unwrap_or(base);
        let goes_on = expected.map_or(found >= base, |expected| self.joins(expected, found));
        if !goes_on || header.last_offset_delta < 0 || last.checked_since(base).is_none() {
            return Some(Damage::Gap { expected: least, found });
        }
        let limit = next.filter(|&limit| last >= limit)?;
        Some(Damage::Overlap { limit, found: last })
    }
}

/// Finds the end of a segment that was closed in order: from its last index entry, by headers.
pub(super) fn resume_from_index(
    context: &Context<'_>,
    segment: &mut Segment,
    batches: &mut Batches,
) -> Result<Scanned, ScanError> {
    let (home, base, total) = (context.home, segment.base, segment.bytes);
    let mut from = 0;
    if let Some(entry) = segment.offsets.last(home)? {
        let file = segment.file(home)?.as_ref();
        let in_order = entry.position < total
            && HeaderWalk::new(file, entry.position, total).begins_with(entry.offset(base))?;
        if !in_order {
            let damage = Damage::Gap { expected: entry.offset(base), found: Offset::NONE };
            return Err(ScanError::Damaged { position: entry.position, damage });
        }
        from = entry.position;
    }
    let mut growth = Growth::new(context.wall);
    growth.largest = indexed_largest(home, segment)?;
    segment.bytes = from;
    let scanned = if from < total {
        let file = segment.file(home)?.clone();
        let mut walk = HeaderWalk::new(file.as_ref(), from, total);
        let mut batch = || walk.next().map(|found| found.map(|found| found.header));
        batches.take(context, (segment, growth), None, &mut batch)?
    } else {
        Scanned { from, growth, end: base, damage: None }
    };
    segment.rest();
    Ok(scanned)
}

/// Checks that a segment ends where the next begins.
pub(super) fn join(
    context: &Context<'_>,
    segment: &Segment,
    next: Offset,
    batches: &Batches,
) -> Result<(), ScanError> {
    let mut end = segment.base;
    let mut walk = segment.walk_to(context.home, Offset(next.0 - 1))?;
    while let Some(found) = walk.next()? {
        end = found.header.next_offset();
    }
    if batches.joins(end, next) {
        return Ok(());
    }
    let damage = Damage::Gap { expected: end, found: next };
    Err(ScanError::Damaged { position: segment.bytes, damage })
}

/// Builds the tables of a closed segment again, from its headers.
pub(super) fn rebuild_tables(context: &Context<'_>, segment: &mut Segment) -> Result<(), ScanError> {
    let total = segment.bytes;
    segment.offsets.begin_anew(context.home)?;
    segment.times.cut_file(context.home, 0)?;
    segment.reopen();
    segment.bytes = 0;
    let mut growth = Growth::new(context.wall);
    let file = segment.file(context.home)?.clone();
    let mut walk = HeaderWalk::new(file.as_ref(), 0, total);
    while let Some(found) = walk.next()? {
        growth.add(context.home, segment, &found.header, context.settings)?;
    }
    growth.finish(context.home, segment)?;
    for file in segment.opened() {
        file.sync()?;
    }
    Ok(())
}

/// Whether the last entries of the tables, the given one of offsets among them, point at batches that
/// are there.
fn are_true(home: &Home, segment: &Segment, last: Option<crate::OffsetEntry>) -> Result<bool, DiskError> {
    if let Some(last) = last {
        let mut walk = HeaderWalk::new(segment.file(home)?.as_ref(), last.position, segment.bytes);
        if !walk.begins_with(last.offset(segment.base))? {
            return Ok(false);
        }
    }
    let Some(time) = segment.times.last(home)? else { return Ok(true) };
    match segment.has_time(home, time) {
        Ok(is_true) => Ok(is_true),
        Err(ScanError::Damaged { .. }) => Ok(false),
        Err(ScanError::Disk(error)) => Err(error),
    }
}

fn indexed_largest(home: &Home, segment: &Segment) -> Result<Option<Largest>, DiskError> {
    let entry = segment.times.last(home)?.filter(|entry| entry.timestamp.is_some());
    Ok(entry.map(|entry| Largest { timestamp: entry.timestamp, offset: entry.offset(segment.base) }))
}
