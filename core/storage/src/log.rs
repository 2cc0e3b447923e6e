//! One partition's log: batches in segments, one after the other, each offset once.
//!
//! ```text
//!   start        recovery point    durable end      end
//!   ──┬───────────────┬────────────────┬─────────────┬──▶ offsets
//!     │ readable      │ so are tables  │ records on  │ next append
//!     │               │ on media       │ media       │
//! ```
//!
//! - Batches are appended with one write to the page cache. [`Log::flush_plan`] says what must reach
//!   the media; the caller does that outside its lock and reports it with [`Log::on_flushed`].
//! - Bytes that were once readable are never written over: a cut log goes on in a new file, because
//!   pages of the old one may still be on their way to a reader. Compaction writes other files, too.
//! - After the first error of a write or a barrier the log takes no more changes, for good. What a
//!   change needs is opened before: that no descriptor is left is no reason to give a log up.
//!
//! **Invariant:** start ≤ end, recovery point ≤ durable end ≤ end, segments are in order, dense but for what
//! compaction took, and the last one, which alone grows, is always there.

mod append;
mod close;
mod compact;
mod delete;
mod flush;
mod lookup;
mod producers;
mod truncate;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{LeaderEpoch, Now, Offset, TopicId};
use smallvec::SmallVec;

use crate::checkpoint::{format_epochs, format_partition_metadata};
use crate::disk::{Disk, DiskError, DiskFile, Failed};
use crate::epochs::Epochs;
use crate::home::Home;
use crate::layout::{EPOCHS_FILE, PARTITION_METADATA_FILE};
use crate::producer::Producers;
use crate::segment::{Growth, Segment};
use crate::settings::LogSettings;

use close::READ_OPEN_MAX;
use compact::Swapping;

pub use append::{AppendError, Appended};
pub use compact::{Committed, Dirt, Swap, Swapped};
pub use delete::{DeleteError, Removal, Removed};
pub use flush::{Flush, FlushScope, Flushed};
pub use lookup::{LookupError, TimestampedOffset};

/// One partition's log.
#[derive(Debug)]
pub struct Log {
    pub(crate) home: Home,
    pub(crate) topic_id: TopicId,
    pub(crate) settings: LogSettings,
    /// Ordered by base offset; never empty.
    pub(crate) segments: Vec<Segment>,
    /// Of the last segment.
    pub(crate) growth: Growth,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    pub(crate) durable_end: Offset,
    pub(crate) recovery_point: Offset,
    /// The first segment of which a file may not be on media.
    pub(crate) unsynced_from: Offset,
    pub(crate) epochs: Epochs,
    /// The first epoch that is not in its file; [`LeaderEpoch::NONE`] if the file may say what is not so.
    pub(crate) epochs_unsaved: Option<LeaderEpoch>,
    pub(crate) producers: Producers,
    /// Offsets of the producer snapshots in the directory, in order.
    pub(crate) snapshots: Vec<Offset>,
    /// Up to where the log was compacted.
    pub(crate) clean_upto: Offset,
    /// Below it, offsets may have gaps; as it stands in its file.
    pub(crate) gaps_below: Offset,
    /// What is about to take the place of segments.
    pub(crate) swapping: Option<Swapping>,
    /// Files that were given up, and when they may go.
    pub(crate) aside: Vec<(Duration, PathBuf)>,
    /// Counts cuts, so that a flush that began before one does not vouch for what came after.
    pub(crate) cuts: u64,
    /// Counts changes of names in the directory; up to which of them they are durable.
    pub(crate) names_changed: u64,
    pub(crate) names_synced: u64,
    /// The change of names with which retention last put a segment aside: the next one waits for it.
    pub(crate) names_retained: u64,
    /// Snapshots that were written but may not be on media, by the change of names that made each.
    pub(crate) unsynced_snapshots: Vec<(u64, Arc<dyn DiskFile>)>,
    /// Base offsets of the segments that readers have open and that do not grow, the last read last.
    pub(crate) read: SmallVec<[Offset; READ_OPEN_MAX]>,
    pub(crate) poison: Option<Box<DiskError>>,
}

impl Log {
    /// Makes the log of a new partition. It is durable when this returns.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        topic_id: TopicId,
        settings: LogSettings,
        now: Now,
    ) -> Result<Self, DiskError> {
        let home = Home { disk, dir };
        home.disk.create_dir(&home.dir)?;
        refuse_records(&home)?;
        let segment = Segment::create(&home, Offset::ZERO)?;
        // Putting the file in place makes the names in the directory durable, the segment's too.
        let metadata = format_partition_metadata(topic_id);
        home.disk.replace(&home.child(PARTITION_METADATA_FILE), metadata.as_bytes())?;
        if let Some(parent) = home.dir.parent() {
            home.disk.sync_dir(parent)?;
        }
        Ok(Self::assemble(home, topic_id, settings, vec![segment], now))
    }

    /// A log of these segments, the last of which is taken to be empty.
    pub(crate) fn assemble(
        home: Home,
        topic_id: TopicId,
        settings: LogSettings,
        segments: Vec<Segment>,
        now: Now,
    ) -> Self {
        let end = segments.last().map_or(Offset::ZERO, |segment| segment.base);
        Self {
            home,
            topic_id,
            settings,
            segments,
            growth: Growth::new(now.wall),
            start: end,
            end,
            durable_end: end,
            recovery_point: end,
            unsynced_from: end,
            epochs: Epochs::default(),
            epochs_unsaved: None,
            producers: Producers::default(),
            snapshots: Vec::new(),
            clean_upto: Offset::ZERO,
            gaps_below: Offset::ZERO,
            swapping: None,
            aside: Vec::new(),
            cuts: 0,
            names_changed: 0,
            names_synced: 0,
            names_retained: 0,
            unsynced_snapshots: Vec::new(),
            read: SmallVec::new(),
            poison: None,
        }
    }

    /// The first offset that readers may ask for.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// What its first file is called by: a log never starts before that.
    pub fn first_base(&self) -> Offset {
        self.segments.first().map_or(self.end, |segment| segment.base)
    }

    /// The offset of the next record.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Up to where records are known to be on media.
    pub fn durable_end(&self) -> Offset {
        self.durable_end
    }

    /// Up to where records and all tables are known to be on media: what belongs into the checkpoint
    /// that [`crate::Known::recovery_point`] is read from.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// Bytes of all batches, those before the start in a segment that is still there included.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.bytes)).sum()
    }

    /// How many segments there are.
    pub fn segments_count(&self) -> usize {
        self.segments.len()
    }

    /// The id of the topic, [`base::Uuid::ZERO`] if the directory does not say.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.home.dir
    }

    /// The settings in force.
    pub fn settings(&self) -> &LogSettings {
        &self.settings
    }

    /// The newest leader epoch; `None` before the first.
    pub fn last_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.last()
    }

    /// Leader epochs and where they begin in the log, oldest first.
    pub fn epochs(&self) -> impl Iterator<Item = (LeaderEpoch, Offset)> + '_ {
        self.epochs.iter()
    }

    /// The epoch in which the record at `offset` was written.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.at(offset)
    }

    /// Kafka's OffsetForLeaderEpoch: the largest known epoch not above `requested` and where it ended,
    /// or twice "none" if `requested` is above everything known.
    pub fn epoch_end(&self, requested: LeaderEpoch) -> (LeaderEpoch, Offset) {
        self.epochs.end_of(requested, self.end)
    }

    /// Why the log takes no more changes, if it does not.
    pub fn poison(&self) -> Option<&DiskError> {
        self.poison.as_deref()
    }

    /// Puts other settings in force.
    pub fn reconfigure(&mut self, settings: LogSettings) {
        self.settings = settings;
    }

    /// A new leader epoch begins at the end of the log; durable when this returns. An epoch that is
    /// not newer than the last changes nothing.
    pub fn begin_epoch(&mut self, epoch: LeaderEpoch) -> Result<(), DiskError> {
        self.changing(|log| {
            log.note_epoch(epoch);
            log.save_epochs()
        })
    }

    /// Notes that the next batch is of this epoch. Its file follows with the flush that takes the recovery
    /// point past it: above, an epoch is found again from the batches.
    pub(crate) fn note_epoch(&mut self, epoch: LeaderEpoch) {
        if self.epochs.begin(epoch, self.end) {
            self.epochs_unsaved.get_or_insert(epoch);
        }
    }

    /// Brings the epochs into their file, durably, if they are not there.
    pub(crate) fn save_epochs(&mut self) -> Result<(), DiskError> {
        if self.epochs_unsaved.is_some() {
            let text = format_epochs(self.epochs.kept());
            self.home.disk.replace(&self.home.child(EPOCHS_FILE), text.as_bytes())?;
            self.epochs_unsaved = None;
        }
        Ok(())
    }

    /// Opens the files that a change needs, before anything is changed: if there are no descriptors left,
    /// or one file cannot be opened, that is refused and all stays as it was.
    pub(crate) fn preparing<T>(
        &mut self,
        prepare: impl FnOnce(&mut Self) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if let Some(poison) = self.poison.as_deref() {
            return Err(poison.clone());
        }
        prepare(self).inspect_err(|error| {
            if error.is_of_directory() {
                self.poison = Some(Box::new(error.clone()));
            }
        })
    }

    /// Does something that writes. The first error is kept: the log takes no change after it.
    pub(crate) fn changing<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if let Some(poison) = self.poison.as_deref() {
            return Err(poison.clone());
        }
        let done = change(self);
        match &done {
            Ok(_) => self.check(),
            Err(error) => self.poison = Some(Box::new(error.clone())),
        }
        done
    }

    /// The segment that grows.
    pub(crate) fn active(&self) -> &Segment {
        self.segments.last().expect("a log has a segment")
    }

    /// The place of the segment that `offset` lies in, if the log reaches that far.
    pub(crate) fn segment_of(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base <= offset).saturating_sub(1)
    }

    /// Where a segment ends, which is where the next one begins.
    pub(crate) fn segment_end(&self, index: usize) -> Offset {
        self.segments.get(index + 1).map_or(self.end, |next| next.base)
    }

    pub(crate) fn check(&self) {
        assert!(self.start <= self.end, "start {} end {}", self.start, self.end);
        assert!(self.durable_end <= self.end, "durable {} end {}", self.durable_end, self.end);
        assert!(
            self.recovery_point <= self.durable_end,
            "recovery point {} durable {}",
            self.recovery_point,
            self.durable_end
        );
        assert!(self.active().base <= self.end, "segment {} end {}", self.active().base, self.end);
    }
}

/// A directory that holds records is opened, never made anew.
fn refuse_records(home: &Home) -> Result<(), DiskError> {
    let entries = home.disk.list(&home.dir)?;
    match entries.iter().find(|entry| entry.name.ends_with(".log") && entry.len > 0) {
        None => Ok(()),
        Some(entry) => Err(DiskError {
            operation: "create",
            path: home.dir.join(&entry.name),
            reason: "the directory already holds records".to_owned(),
            failed: Failed::File,
        }),
    }
}

#[cfg(test)]
mod tests;
