//! Producers of the log: who they are, their snapshots, and how they are found again.

use std::io::IoSlice;
use std::sync::Arc;

use base::{Now, Offset};

use crate::disk::{DiskError, DiskFile, Failed, OpenMode};
use crate::index::AbortedTxn;
use crate::layout::FileKind;
use crate::log::append::stored_marker;
use crate::log::{Log, LookupError};
use crate::producer::snapshot::{format_snapshot, restore_snapshot};
use crate::producer::{ProducerView, Producers};
use crate::scan::{ScanError, read_batch};

/// The largest snapshot that is read: a quarter of a million producers with all their batches.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;

/// Far more than a control batch has.
const MARKER_BYTES_MAX: usize = 1 << 16;

impl Log {
    /// The producers the log knows, by their ids.
    pub fn producers(&self) -> impl Iterator<Item = ProducerView> + '_ {
        self.producers.views()
    }

    /// Forgets producers that wrote nothing for `producer.id.expiration.ms`. How many.
    pub fn expire_producers(&mut self, now: Now) -> usize {
        let expiry = self.settings.producer_expiry;
        self.producers.expire(|appended| now.elapsed.saturating_sub(appended) >= expiry)
    }

    /// Takes note of how far all in-sync replicas have come: transactions that ended below are over.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.producers.on_high_watermark(high_watermark);
    }

    /// The first offset of a transaction that is open, or whose end not all in-sync replicas have.
    pub fn first_unstable(&self) -> Option<Offset> {
        self.producers.first_unstable()
    }

    /// Up to where a reader at `read_committed` may read.
    pub fn last_stable_offset(&self, high_watermark: Offset) -> Offset {
        // A transaction may have begun in what was deleted since.
        self.first_unstable().map_or(high_watermark, |unstable| unstable.max(self.start).min(high_watermark))
    }

    /// The aborted transactions that a reader of `from..upto` has to leave out, by first offset. Closes again
    /// what it had to open behind `upto`: a transaction may have been open for many segments.
    pub fn aborted_transactions(
        &mut self,
        from: Offset,
        upto: Offset,
    ) -> Result<Vec<AbortedTxn>, LookupError> {
        let mut found = Vec::new();
        let mut complete = false;
        for index in self.segment_of(from)..self.segments.len() {
            let segment = &self.segments[index];
            let keep_open = segment.is_open() || segment.base < upto;
            let visited = segment.visit_aborted(&self.home, &mut |txn| {
                if txn.last_offset >= from && txn.first_offset < upto {
                    found.push(txn);
                }
                // Everything that begins before the end of the range has ended by this marker.
                complete = txn.last_stable_offset >= upto;
                !complete
            });
            self.close_again(index, keep_open);
            visited?;
            if complete {
                break;
            }
        }
        found.sort_by_key(|txn| txn.first_offset);
        Ok(found)
    }

    /// Opens the file of the snapshot at the end of the log; `None` if that is there already.
    pub(crate) fn open_snapshot(&self) -> Result<Option<Arc<dyn DiskFile>>, DiskError> {
        if self.snapshots.last() == Some(&self.end) {
            return Ok(None);
        }
        self.home.open(FileKind::Snapshot, self.end, OpenMode::Create).map(Some)
    }

    /// Saves the producers as they are at the end of the log, into the file that was opened for it.
    pub(crate) fn save_producers(&mut self, file: Option<Arc<dyn DiskFile>>) -> Result<(), DiskError> {
        let Some(file) = file else { return Ok(()) };
        let bytes = format_snapshot(&self.producers);
        file.set_len(0)?;
        file.write_at(&[IoSlice::new(&bytes)], 0)?;
        self.names_changed += 1;
        self.unsynced_snapshots.push((self.names_changed, file));
        self.drop_snapshots_between()?;
        self.snapshots.push(self.end);
        self.growth.saved_at = self.active().bytes;
        Ok(())
    }

    /// Keeps one snapshot for each segment: those within are only steps towards the newest.
    fn drop_snapshots_between(&mut self) -> Result<(), DiskError> {
        let Self { home, segments, snapshots, .. } = self;
        let is_base = |offset: Offset| segments.binary_search_by_key(&offset, |s| s.base).is_ok();
        let (kept, dropped): (Vec<_>, Vec<_>) = snapshots.drain(..).partition(|&at| is_base(at));
        *snapshots = kept;
        dropped.into_iter().try_for_each(|at| home.remove(FileKind::Snapshot, at))
    }

    /// Removes the snapshots for which `keep` does not hold.
    pub(crate) fn retain_snapshots(&mut self, keep: impl Fn(Offset) -> bool) -> Result<(), DiskError> {
        let (kept, dropped): (Vec<_>, Vec<_>) = self.snapshots.drain(..).partition(|&at| keep(at));
        self.snapshots = kept;
        for at in dropped {
            self.home.remove(FileKind::Snapshot, at)?;
            self.names_changed += 1;
        }
        Ok(())
    }

    /// Finds the producers again: from the newest snapshot that can be read, and the batches behind
    /// it. Aborted transactions that cannot be right are found again, too.
    ///
    /// What lies beyond `trusted` may never have reached the media, or speak of records that were cut
    /// since: such snapshots are removed, and such aborted transactions found again. So are snapshots
    /// from before the first segment, because the batches behind them are gone.
    pub(crate) fn rebuild_producers(&mut self, now: Now, trusted: Offset) -> Result<(), LookupError> {
        let end = self.end;
        let trusted = trusted.min(end);
        let first = self.segments.first().map_or(end, |segment| segment.base);
        self.retain_snapshots(|at| at >= first && at <= trusted)?;
        let from = self.load_snapshot(now, self.first_bad_aborted()?.unwrap_or(trusted))?;
        self.growth.saved_at = if from < end { 0 } else { self.active().bytes };
        self.replay_producers(now, from)
    }

    /// The first segment whose aborted transactions cannot be right.
    fn first_bad_aborted(&self) -> Result<Option<Offset>, DiskError> {
        for (index, segment) in self.segments.iter().enumerate().filter(|(_, s)| s.aborted > 0) {
            if !segment.are_aborted_sane(&self.home, self.segment_end(index))? {
                return Ok(Some(segment.base));
            }
        }
        Ok(None)
    }

    /// Loads the newest snapshot that can be read, of those up to `limit`; up to where it speaks.
    fn load_snapshot(&mut self, now: Now, limit: Offset) -> Result<Offset, DiskError> {
        while let Some(index) = self.snapshots.partition_point(|&at| at <= limit).checked_sub(1) {
            let at = self.snapshots[index];
            let path = self.home.path(FileKind::Snapshot, at);
            let bytes = match self.home.disk.read(&path, SNAPSHOT_BYTES_MAX) {
                Ok(bytes) => bytes,
                // Too large, or not readable: what it says stands in the log as well.
                Err(error) if error.failed == Failed::File => None,
                Err(error) => return Err(error),
            };
            if let Some(Ok(producers)) = bytes.map(|bytes| restore_snapshot(&bytes, now.elapsed)) {
                self.producers = producers;
                return Ok(at);
            }
            self.snapshots.remove(index);
            self.home.remove(FileKind::Snapshot, at)?;
            self.names_changed += 1;
        }
        self.producers = Producers::default();
        Ok(Offset::ZERO)
    }

    /// Takes in the batches from `from` on.
    fn replay_producers(&mut self, now: Now, from: Offset) -> Result<(), LookupError> {
        for index in self.segment_of(from)..self.segments.len() {
            // A log that ends with a snapshot is opened without a look at its records.
            let damaged = LookupError::of(self.segments[index].base);
            let aborted = match from < self.end {
                true => self.replay_segment(now, index, from).map_err(damaged)?,
                false => Vec::new(),
            };
            let Self { home, segments, .. } = self;
            segments[index].set_aborted_from(home, from, &aborted)?;
        }
        Ok(())
    }

    /// Takes in the batches of one segment from `from` on; what was aborted in it.
    fn replay_segment(&mut self, now: Now, index: usize, from: Offset) -> Result<Vec<AbortedTxn>, ScanError> {
        let Self { home, segments, producers, .. } = self;
        let segment = &segments[index];
        let (mut aborted, mut bytes) = (Vec::new(), Vec::new());
        let mut walk = segment.walk_to(home, from)?;
        while let Some(found) = walk.next()? {
            let header = &found.header;
            if header.base_offset < from || !header.has_producer_id() {
                continue;
            }
            if !header.attributes.is_control() {
                producers.apply(header, now.elapsed);
                continue;
            }
            let file = segment.file(home)?.as_ref();
            let batch = read_batch(file, &found, MARKER_BYTES_MAX, &mut bytes)?;
            // A marker that cannot be read was not written by a broker; it ends nothing.
            if let Some(Ok(Some(marker))) = batch.as_ref().map(stored_marker) {
                let completed = producers.apply_marker(header, &marker, now.elapsed);
                aborted.extend(completed.and_then(|completed| completed.aborted));
            }
        }
        Ok(aborted)
    }
}
