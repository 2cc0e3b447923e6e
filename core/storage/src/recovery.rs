//! How a log comes back after its process ended, one way or the other.
//!
//! ```text
//!   segments before the recovery point    segment with it         segments behind
//!   ──────────────────────────────────┬──────────────┬─────────┬─────────────────
//!   on media, with their tables       │ from an index entry on: every checksum
//!   only that they join is looked at  │ below it: damage is quarantined
//!                                     │              └ above: cut at the first bad batch
//! ```
//!
//! | stop | records | decision |
//! | --- | --- | --- |
//! | clean | end where the file and the recovery point do, if one is known | believe it |
//! | clean | do not | as after an unclean stop |
//! | unclean | bad below the recovery point, or missing | quarantine, leave the records as they are |
//! | unclean | bad above it | cut there, drop everything behind, make that durable |
//! | any | good, tables missing or wrong | build them again |
//! | any | gaps between good ones, where compaction left them | believe them |
//!
//! What lay below the recovery point was promised to others: only they can say what stood there. What
//! lies above it was never promised, so a torn end is normal. Batches behind a bad one are never taken
//! back, however good they look. Recovering twice gives the same as recovering once.

mod error;
mod listing;
mod scan;

use std::path::PathBuf;
use std::sync::Arc;

use base::{LeaderEpoch, Now, Offset, TopicId, Uuid};

use crate::checkpoint::{parse_epochs, read_partition_metadata};
use crate::disk::{Disk, DiskError};
use crate::epochs::Epochs;
use crate::gaps::gaps_below;
use crate::home::Home;
use crate::layout::EPOCHS_FILE;
use crate::log::Log;
use crate::scan::{Damage, ScanError};
use crate::segment::{Growth, Segment};
use crate::settings::LogSettings;

use error::quarantine_at;
use listing::Listing;
use scan::{Batches, Context, join, rebuild_tables, resume_from_index};

pub use error::OpenError;

/// More epochs than a partition has leaders in its life.
const EPOCHS_BYTES_MAX: u64 = 64 << 20;

/// What is known of a log before it is opened, from the checkpoints of its log directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Up to where records are on media for certain; 0 if nothing is known.
    pub recovery_point: Offset,
    /// Where readers may begin; 0 if nothing is known.
    pub log_start: Offset,
    /// Whether the last stop was an orderly one.
    pub clean: bool,
    /// Whether another program wrote the log, and this node opens it for the first time: offsets in it may
    /// have gaps then, which are kept for good. True until [`Log::open`] has returned well once.
    pub adopted: bool,
}

impl Known {
    /// Up to where records must be there. Of what was deleted on request nothing needs to be left.
    fn promised(&self) -> Offset {
        if self.log_start < self.recovery_point { self.recovery_point } else { Offset::ZERO }
    }
}

/// What recovery did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whether the records were believed without a look at them.
    pub clean: bool,
    /// Bytes of batches whose checksums were compared.
    pub scanned_bytes: u64,
    /// What was cut off at the end.
    pub cut: Option<Cut>,
    /// Segments whose tables were built again.
    pub tables_rebuilt: usize,
}

/// A torn end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where the log ends instead.
    pub at: Offset,
    /// Bytes that were dropped.
    pub bytes: u64,
    /// What stood there.
    pub damage: Damage,
}

impl Log {
    /// Opens the log in a directory, and mends what a crash left.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        settings: LogSettings,
        known: Known,
        now: Now,
    ) -> Result<(Self, Recovered), OpenError> {
        let home = Home { disk, dir };
        let topic_id = read_partition_metadata(home.disk.as_ref(), &home.dir);
        let topic_id = topic_id.map_err(OpenError::Metadata)?.unwrap_or(TopicId(Uuid::ZERO));
        let listing = Listing::read(&home)?;
        let gaps_below = match known.adopted {
            true => Offset(i64::MAX),
            false => gaps_below(&home)?,
        };
        let mut opening = Opening {
            batches: Batches { known, gaps_below, epochs: Vec::new() },
            settings,
            home,
            now,
            recovered: Recovered::default(),
        };
        let Content { segments, growth, end } = opening.segments(listing.segments)?;
        let Opening { home, settings, recovered, batches, .. } = opening;
        let mut log = Self::assemble(home, topic_id, settings, segments, now);
        (log.growth, log.gaps_below) = (growth, gaps_below);
        log.snapshots = listing.snapshots;
        log.names_changed = u64::from(listing.names_changed);
        log.finish_opening(now, end, &batches, recovered.clean)?;
        if log.end < known.log_start {
            // Everything was deleted, and the last of it lost before it was durable.
            log.truncate_fully_and_start_at(now, known.log_start)?;
        }
        if known.adopted {
            log.allow_gaps(log.end)?;
        }
        if !recovered.clean {
            // What was made right before the process ended has a name, but not on media for certain.
            log.names_changed += 1;
            log.segments.iter_mut().for_each(|segment| segment.named = log.names_changed);
        }
        Ok((log, recovered))
    }

    fn finish_opening(
        &mut self,
        now: Now,
        end: Offset,
        batches: &Batches,
        clean: bool,
    ) -> Result<(), OpenError> {
        let known = &batches.known;
        let first = self.segments.first().map_or(end, |segment| segment.base);
        let active = self.active().base;
        (self.end, self.durable_end, self.recovery_point, self.unsynced_from) = (end, end, end, active);
        self.start = known.log_start.max(first).min(end);
        self.load_epochs(batches, clean)?;
        let trusted = if clean { end } else { known.recovery_point };
        self.rebuild_producers(now, trusted)?;
        // A snapshot that was removed must not come back beside other records.
        self.sync_names()?;
        self.producers.advance_start(self.start);
        for segment in &mut self.segments {
            segment.written = now.wall;
            // Everything is on media: the files open again when they are needed.
            segment.rest();
        }
        self.check();
        Ok(())
    }

    /// Reads the epochs and compares them with what the records say.
    fn load_epochs(&mut self, batches: &Batches, clean: bool) -> Result<(), OpenError> {
        let bytes = self.home.disk.read(&self.home.child(EPOCHS_FILE), EPOCHS_BYTES_MAX)?;
        let stored = bytes.as_deref().map(parse_epochs).and_then(Result::ok);
        let first = self.segments.first().map_or(self.start, |segment| segment.base);
        let found = stored.clone().map(|stored| {
            let mut epochs = Epochs::from_starts(stored);
            epochs.truncate(self.end);
            // The file lacks those that began above the recovery point.
            for &(epoch, from) in &batches.epochs {
                epochs.begin(epoch, from);
            }
            epochs.forget_before(first);
            epochs
        });
        self.epochs = match found {
            // The file has no checksum, so after a crash its entries are held against the records.
            Some(epochs) if batches.may_have_gaps() => epochs,
            Some(epochs) if clean && !epochs.kept().is_empty() => epochs,
            Some(epochs) if self.are_epochs_true(&epochs)? => epochs,
            _ => self.epochs_of_batches(first)?,
        };
        self.note_unsaved_epochs(&stored.unwrap_or_default(), batches.known.recovery_point)?;
        self.epochs.advance_start(self.start);
        Ok(())
    }

    /// Compares the epochs with their file. What it only lacks above the recovery point can wait for a
    /// flush, and the recovery point with it: thousands of logs are to start at once.
    fn note_unsaved_epochs(
        &mut self,
        stored: &[(LeaderEpoch, Offset)],
        known: Offset,
    ) -> Result<(), OpenError> {
        let kept = self.epochs.kept();
        if stored.ends_with(kept) {
            return Ok(());
        }
        let common = stored.iter().position(|start| Some(start) == kept.first()).unwrap_or(stored.len());
        match kept.strip_prefix(&stored[common..]).and_then(<[_]>::first) {
            Some(&(epoch, from)) if from >= known => {
                self.epochs_unsaved = Some(epoch);
                self.recovery_point = self.recovery_point.min(from);
            }
            _ => {
                self.epochs_unsaved = Some(LeaderEpoch::NONE);
                self.save_epochs()?;
            }
        }
        Ok(())
    }

    /// Whether each epoch begins with a batch of it, behind one of the epoch before, and the log ends
    /// with the newest.
    fn are_epochs_true(&self, epochs: &Epochs) -> Result<bool, OpenError> {
        let first = self.segments.first().map_or(self.end, |segment| segment.base);
        let mut before = LeaderEpoch::NONE;
        for &(epoch, from) in epochs.kept() {
            let from = from.max(first);
            if from < self.end && self.batch_at(from)? != Some((epoch, from)) {
                return Ok(false);
            }
            if from > first && !self.is_epoch_at(Offset(from.0 - 1), before)? {
                return Ok(false);
            }
            before = epoch;
        }
        if self.end > first { self.is_epoch_at(Offset(self.end.0 - 1), before) } else { Ok(true) }
    }

    /// Whether the batch that has `offset` is of that epoch, if it can be read.
    fn is_epoch_at(&self, offset: Offset, epoch: LeaderEpoch) -> Result<bool, OpenError> {
        let found = self.batch_at(offset)?;
        Ok(found.is_none_or(|(found, _)| found.max(LeaderEpoch::NONE) == epoch))
    }

    /// The epoch and the first offset of the batch that has `offset`, if it can be read.
    fn batch_at(&self, offset: Offset) -> Result<Option<(LeaderEpoch, Offset)>, OpenError> {
        let segment = &self.segments[self.segment_of(offset)];
        let found = segment.walk_to(&self.home, offset).and_then(|mut walk| walk.reaching(offset));
        match found {
            Ok(found) => Ok(found.map(|found| (found.header.leader_epoch, found.header.base_offset))),
            Err(ScanError::Damaged { .. }) => Ok(None),
            Err(ScanError::Disk(error)) => Err(error.into()),
        }
    }

    /// The epochs as every batch of the log has them.
    fn epochs_of_batches(&self, first: Offset) -> Result<Epochs, OpenError> {
        let mut epochs = Epochs::default();
        for segment in &self.segments {
            let walked = (|| {
                let mut walk = segment.walk_to(&self.home, Offset::NONE)?;
                while let Some(found) = walk.next()? {
                    epochs.begin(found.header.leader_epoch, found.header.base_offset);
                }
                Ok(())
            })();
            walked.map_err(quarantine_at(segment.base))?;
        }
        epochs.forget_before(first);
        Ok(epochs)
    }
}

/// What a log is made of.
struct Content {
    segments: Vec<Segment>,
    growth: Growth,
    end: Offset,
}

/// A log that is being opened.
struct Opening {
    home: Home,
    settings: LogSettings,
    now: Now,
    recovered: Recovered,
    batches: Batches,
}

impl Opening {
    fn context(&self) -> Context<'_> {
        Context { home: &self.home, settings: &self.settings, wall: self.now.wall }
    }

    fn segments(&mut self, mut found: Vec<listing::Found>) -> Result<Content, OpenError> {
        let known = self.batches.known;
        if found.is_empty() {
            let missing = Damage::Missing { end: known.log_start, durable: known.recovery_point };
            if known.recovery_point > known.log_start {
                return Err(OpenError::Quarantined { at: known.log_start, damage: missing });
            }
            let segment = Segment::create(&self.home, known.log_start)?;
            self.home.sync_dir()?;
            self.recovered.clean = known.clean;
            let growth = Growth::new(self.now.wall);
            return Ok(Content { segments: vec![segment], growth, end: known.log_start });
        }
        if known.clean
            && let Some(content) = self.believe(&mut found)?
        {
            self.recovered.clean = true;
            return Ok(content);
        }
        self.recover(found)
    }

    /// Takes the segments as an orderly stop left them; `None` if they do not look like it.
    fn believe(&mut self, found: &mut [listing::Found]) -> Result<Option<Content>, OpenError> {
        let Some((last, closed)) = found.split_last() else { return Ok(None) };
        if last.tables_missing() {
            return Ok(None);
        }
        let mut active = last.segment();
        let resumed = resume_from_index(&self.context(), &mut active, &mut self.batches_checked_by_headers());
        let resumed = match resumed {
            Ok(resumed) if resumed.damage.is_none() => resumed,
            Ok(_) | Err(ScanError::Damaged { .. }) => return Ok(None),
            Err(ScanError::Disk(error)) => return Err(error.into()),
        };
        // An orderly stop writes down where the log ends. The headers of the last batches are believed without
        // their checksums, so this is what finds a wrong one among them.
        let point = self.batches.known.recovery_point;
        if point != Offset::ZERO && resumed.end != point {
            return Ok(None);
        }
        let mut segments = Vec::with_capacity(found.len());
        for (index, file) in closed.iter().enumerate() {
            segments.push(self.closed(file, found[index + 1].base)?);
        }
        segments.push(active);
        Ok(Some(Content { segments, growth: resumed.growth, end: resumed.end }))
    }

    fn batches_checked_by_headers(&self) -> Batches {
        Batches { epochs: Vec::new(), ..self.batches.clone() }
    }

    /// A segment below the recovery point, with tables.
    fn closed(&mut self, found: &listing::Found, next: Offset) -> Result<Segment, OpenError> {
        let mut segment = found.segment();
        segment.span = next.checked_since(segment.base).map_or(0, |delta| delta.0);
        if found.tables_missing() {
            self.rebuild(&mut segment)?;
        }
        Ok(segment)
    }

    fn rebuild(&mut self, segment: &mut Segment) -> Result<(), OpenError> {
        rebuild_tables(&self.context(), segment).map_err(quarantine_at(segment.base))?;
        segment.rest();
        self.recovered.tables_rebuilt += 1;
        Ok(())
    }

    /// Looks at everything above the recovery point.
    fn recover(&mut self, found: Vec<listing::Found>) -> Result<Content, OpenError> {
        let recovery_point = self.batches.known.recovery_point;
        let scan_from = found.partition_point(|f| f.base <= recovery_point).saturating_sub(1);
        let mut segments = Vec::with_capacity(found.len());
        for (index, file) in found[..scan_from].iter().enumerate() {
            let next = found[index + 1].base;
            let mut segment = self.closed(file, next)?;
            let joined = join(&self.context(), &segment, next, &self.batches);
            joined.map_err(quarantine_at(segment.base))?;
            if segment.is_distrusted() {
                self.rebuild(&mut segment)?;
            }
            segment.rest();
            segments.push(segment);
        }
        self.scan(segments, &found[scan_from..])
    }

    fn scan(&mut self, mut segments: Vec<Segment>, found: &[listing::Found]) -> Result<Content, OpenError> {
        let (promised, recovery_point) = (self.batches.known.promised(), self.batches.known.recovery_point);
        let scanned_from = segments.len();
        for (index, file) in found.iter().enumerate() {
            let next = found.get(index + 1).map(|next| next.base);
            let mut segment = file.segment();
            if file.tables_missing() {
                segment.offsets.begin_anew(&self.home)?;
            }
            if file.has_aborted() {
                // Open, so that `make_durable` covers it, too: a cut may have shortened it, even to nothing.
                segment.prepare_aborted(&self.home)?;
            }
            let context = Context { home: &self.home, settings: &self.settings, wall: self.now.wall };
            let scanned = self.batches.scan(&context, &mut segment, next)?;
            self.recovered.scanned_bytes += u64::from(segment.bytes - scanned.from);
            let end = scanned.end;
            let damage = scanned.damage.or_else(|| self.batches.gap(end, next));
            let missing = || Damage::Missing { end, durable: recovery_point };
            // What was durable is not torn, also where it was deleted on request and need not be there.
            let is_rotten = damage.is_some() && end < recovery_point;
            if is_rotten || (end < promised && next.is_none()) {
                return Err(OpenError::Quarantined { at: end, damage: damage.unwrap_or_else(missing) });
            }
            segments.push(segment);
            if let Some(damage) = damage {
                self.cut(&segments, end, damage, &found[index..])?;
            } else if next.is_some() {
                let segment = segments.last_mut().expect("pushed above");
                scanned.growth.finish(&self.home, segment)?;
                continue;
            }
            let last = segments.last_mut().expect("pushed above");
            scanned.growth.write_tables(&self.home, last)?;
            self.make_durable(&segments[scanned_from..], end)?;
            return Ok(Content { segments, growth: scanned.growth, end });
        }
        unreachable!("the last segment ends the loop");
    }

    /// Drops what lies behind the end of the last segment in `segments`; `found` are that one and
    /// those behind it.
    fn cut(
        &mut self,
        segments: &[Segment],
        at: Offset,
        damage: Damage,
        found: &[listing::Found],
    ) -> Result<(), DiskError> {
        let (Some(last), Some((torn, behind))) = (segments.last(), found.split_first()) else {
            return Ok(());
        };
        for file in behind.iter().rev() {
            file.remove(&self.home)?;
        }
        if !behind.is_empty() {
            // While the end is torn, a start that comes after a kill in here knows that there is a cut to do.
            self.home.sync_dir()?;
        }
        let bytes = torn.bytes - u64::from(last.bytes);
        if bytes > 0 {
            last.file(&self.home)?.set_len(u64::from(last.bytes))?;
        }
        let bytes = bytes + behind.iter().map(|file| file.bytes).sum::<u64>();
        self.recovered.cut = Some(Cut { at, bytes, damage });
        Ok(())
    }

    /// What was scanned above the recovery point may have been in the page cache only, and so is what
    /// was mended. A file that ends right there may have been cut to it by a process that was killed before
    /// its barrier: what was cut must not come back when the power goes, beside other records. Everything
    /// else is on media: there is nothing to wait for.
    fn make_durable(&self, scanned: &[Segment], end: Offset) -> Result<(), DiskError> {
        let recovery_point = self.batches.known.recovery_point;
        let cut = self.recovered.cut.is_some();
        let mut names = cut || end > recovery_point;
        for (index, segment) in scanned.iter().enumerate() {
            let segment_end = scanned.get(index + 1).map_or(end, |next| next.base);
            if cut || segment_end >= recovery_point {
                segment.opened_records().try_for_each(|file| file.sync())?;
            }
            for table in segment.changed_tables() {
                table.sync()?;
                names = true;
            }
        }
        if names { self.home.sync_dir() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
