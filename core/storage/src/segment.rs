//! One segment: a file of batches and the tables beside it.
//!
//! Files are opened when they are first needed, and closed when the log rests. The segment at the
//! end of a log is the one that grows; what is known only of that one is its [`Growth`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Offset, OffsetDelta, TimestampMs};
use records::BatchHeader;

use crate::disk::{DiskError, DiskFile, OpenMode};
use crate::home::Home;
use crate::index::table::{Entry, Guess, Table};
use crate::index::{AbortedTxn, OffsetEntry, TimeEntry};
use crate::layout::FileKind;
use crate::recent::{Recent, Spot};
use crate::scan::{Found, HeaderWalk, ScanError};
use crate::settings::LogSettings;

/// The largest timestamp of a segment, and the last offset of the first batch that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Largest {
    pub(crate) timestamp: TimestampMs,
    pub(crate) offset: Offset,
}

/// One segment of a log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base: Offset,
    /// Bytes of batches, which is the length of the file.
    pub(crate) bytes: u32,
    /// How many offsets it reaches over, as far as that is known: only to guess by.
    pub(crate) span: u32,
    pub(crate) offsets: Table<OffsetEntry>,
    pub(crate) times: Table<TimeEntry>,
    /// How many aborted transactions its index holds.
    pub(crate) aborted: u32,
    /// When it was last written to, or opened.
    pub(crate) written: TimestampMs,
    /// With which change of names, as its log counts them, its file was made; 0 if its name is on media.
    pub(crate) named: u64,
    file: OnceLock<Arc<dyn DiskFile>>,
    aborted_file: OnceLock<Arc<dyn DiskFile>>,
    /// Of a segment that does not grow any more.
    largest: OnceLock<Option<Largest>>,
    /// Whether the offset index was found to be wrong.
    distrusted: AtomicBool,
    /// Whether its records were used since the files were last thought of closing.
    used: AtomicBool,
}

impl Segment {
    /// A segment of which nothing is in memory.
    pub(crate) fn new(base: Offset, bytes: u32) -> Self {
        Self {
            base,
            bytes,
            span: 0,
            offsets: Table::new(base),
            times: Table::new(base),
            aborted: 0,
            written: TimestampMs::NONE,
            named: 0,
            file: OnceLock::new(),
            aborted_file: OnceLock::new(),
            largest: OnceLock::new(),
            distrusted: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }
    }

    /// A segment whose file is made now, empty.
    pub(crate) fn create(home: &Home, base: Offset) -> Result<Self, DiskError> {
        let segment = Self::new(base, 0);
        segment.create_file(home)?;
        Ok(segment)
    }

    /// Makes the file of batches, empty.
    pub(crate) fn create_file(&self, home: &Home) -> Result<(), DiskError> {
        let file = home.open(FileKind::Log, self.base, OpenMode::Create)?;
        if file.len()? > 0 {
            // What a crash left of a segment that never counted.
            file.set_len(0)?;
        }
        self.file.get_or_init(|| file);
        Ok(())
    }

    /// Opens what bringing the tables into their files needs.
    pub(crate) fn prepare_to_write_tables(&mut self, home: &Home) -> Result<(), DiskError> {
        self.offsets.prepare_write_out(home)?;
        self.times.prepare_push(home)?;
        // The largest timestamp may become its last entry.
        self.times.prepare(home)
    }

    /// Opens what adding an aborted transaction needs.
    pub(crate) fn prepare_aborted(&self, home: &Home) -> Result<(), DiskError> {
        self.aborted_file(home, OpenMode::Create).map(drop)
    }

    /// The file of batches.
    pub(crate) fn file(&self, home: &Home) -> Result<&Arc<dyn DiskFile>, DiskError> {
        self.used.store(true, Ordering::Relaxed);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = home.open(FileKind::Log, self.base, OpenMode::Write)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Adds an aborted transaction to the index.
    pub(crate) fn push_aborted(&mut self, home: &Home, txn: AbortedTxn) -> Result<(), DiskError> {
        let position = u64::from(self.aborted) * AbortedTxn::BYTES as u64;
        let file = self.aborted_file(home, OpenMode::Create)?;
        file.write_at(&[std::io::IoSlice::new(&txn.to_bytes())], position)?;
        self.aborted = self.aborted.saturating_add(1);
        Ok(())
    }

    /// Keeps the aborted transactions whose marker lies below `end`.
    pub(crate) fn truncate_aborted(&mut self, home: &Home, end: Offset) -> Result<(), DiskError> {
        if self.aborted == 0 {
            return Ok(());
        }
        let mut kept: u32 = 0;
        self.visit_aborted(home, &mut |txn| {
            let keep = txn.last_offset < end;
            kept += u32::from(keep);
            keep
        })?;
        if kept < self.aborted {
            let file = self.aborted_file(home, OpenMode::Create)?;
            file.set_len(u64::from(kept) * AbortedTxn::BYTES as u64)?;
            self.aborted = kept;
        }
        Ok(())
    }

    /// Makes the index of aborted transactions hold what it has below `from`, and `behind` behind it.
    ///
    /// Durable when it returns, and all or nothing: what lies below the recovery point is believed after
    /// a crash, and must not be half there.
    pub(crate) fn set_aborted_from(
        &mut self,
        home: &Home,
        from: Offset,
        behind: &[AbortedTxn],
    ) -> Result<(), DiskError> {
        let mut bytes = Vec::new();
        let mut kept: u32 = 0;
        self.visit_aborted(home, &mut |txn| {
            let keep = txn.last_offset < from;
            if keep {
                kept += 1;
                bytes.extend_from_slice(&txn.to_bytes());
            }
            keep
        })?;
        if kept == self.aborted && behind.is_empty() {
            return Ok(());
        }
        bytes.extend(behind.iter().flat_map(|txn| txn.to_bytes()));
        home.disk.replace(&home.path(FileKind::TxnIndex, self.base), &bytes)?;
        self.aborted_file.take();
        self.aborted = kept.saturating_add(u32::try_from(behind.len()).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Shows aborted transactions, by their last offset, as long as `more` asks for them.
    pub(crate) fn visit_aborted(
        &self,
        home: &Home,
        more: &mut dyn FnMut(AbortedTxn) -> bool,
    ) -> Result<(), DiskError> {
        const ENTRIES_PER_READ: usize = 64;
        let mut bytes = [0; ENTRIES_PER_READ * AbortedTxn::BYTES];
        for from in (0..self.aborted).step_by(ENTRIES_PER_READ) {
            let wanted = ENTRIES_PER_READ.min((self.aborted - from) as usize) * AbortedTxn::BYTES;
            let file = self.aborted_file(home, OpenMode::Write)?;
            let read = file.read_at(&mut bytes[..wanted], u64::from(from) * AbortedTxn::BYTES as u64)?;
            for entry in bytes[..read].chunks_exact(AbortedTxn::BYTES) {
                match AbortedTxn::read(entry) {
                    Some(txn) if more(txn) => {}
                    _ => return Ok(()),
                }
            }
        }
        Ok(())
    }

    /// Whether the aborted transactions can all be what was written into a segment that ends at `end`.
    pub(crate) fn are_aborted_sane(&self, home: &Home, end: Offset) -> Result<bool, DiskError> {
        let mut sane: u32 = 0;
        let mut before = Offset::NONE;
        self.visit_aborted(home, &mut |txn| {
            let fits = txn.last_offset >= self.base && txn.last_offset < end && txn.last_offset > before;
            before = txn.last_offset;
            sane += u32::from(fits);
            fits
        })?;
        Ok(sane == self.aborted)
    }

    /// The open files of the segment that a barrier must cover.
    pub(crate) fn opened(&self) -> impl Iterator<Item = &Arc<dyn DiskFile>> {
        let tables = self.offsets.opened().into_iter().chain(self.times.opened());
        self.file.get().into_iter().chain(tables).chain(self.aborted_file.get())
    }

    /// Whether a table's file was made since this was last asked: its name may not be on media.
    pub(crate) fn take_made(&mut self) -> bool {
        self.offsets.take_made() | self.times.take_made()
    }

    /// The open files of tables that were changed since the log was opened.
    pub(crate) fn changed_tables(&self) -> impl Iterator<Item = &Arc<dyn DiskFile>> {
        let offsets = self.offsets.opened().filter(|_| self.offsets.is_changed());
        let times = self.times.opened().filter(|_| self.times.is_changed());
        offsets.into_iter().chain(times)
    }

    /// The open files of the segment that hold what readers see.
    pub(crate) fn opened_records(&self) -> impl Iterator<Item = &Arc<dyn DiskFile>> {
        self.file.get().into_iter().chain(self.aborted_file.get())
    }

    /// Whether any file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened().next().is_some()
    }

    /// Closes all files of a segment that was not used since the last call.
    pub(crate) fn rest_if_idle(&mut self) {
        if !self.used.swap(false, Ordering::Relaxed) {
            self.rest();
        }
    }

    /// Closes all files until they are needed again.
    pub(crate) fn rest(&mut self) {
        self.file.take();
        self.aborted_file.take();
        self.offsets.rest();
        self.times.rest();
    }

    /// The segment does not grow any more; its largest timestamp is this.
    pub(crate) fn close(&mut self, largest: Option<Largest>) {
        self.largest = OnceLock::from(largest);
    }

    /// The segment grows again, or is another one.
    pub(crate) fn reopen(&mut self) {
        self.largest = OnceLock::new();
        self.distrusted = AtomicBool::new(false);
    }

    /// Whether its offset index was found to be wrong when it was last used.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::Relaxed)
    }

    /// The largest timestamp, of a segment that does not grow.
    pub(crate) fn largest(&self, home: &Home) -> Result<Option<Largest>, ScanError> {
        if let Some(&largest) = self.largest.get() {
            return Ok(largest);
        }
        // A closed segment ends its time index with its largest timestamp.
        let largest = match self.times.last(home)? {
            Some(entry) if self.has_time(home, entry)? => {
                Some(Largest { timestamp: entry.timestamp, offset: entry.offset(self.base) })
            }
            _ => self.largest_from(home, Offset::ZERO)?,
        };
        Ok(*self.largest.get_or_init(|| largest))
    }

    /// The largest timestamp of the batches that end at or behind `from`, by their headers.
    pub(crate) fn largest_from(&self, home: &Home, from: Offset) -> Result<Option<Largest>, ScanError> {
        let mut largest: Option<Largest> = None;
        let mut walk = self.walk_to(home, from)?;
        while let Some(found) = walk.next()? {
            if found.header.last_offset() >= from {
                largest = larger(largest, &found.header);
            }
        }
        Ok(largest)
    }

    /// Whether there is a batch as the time index says: an entry is a hint until it was seen to be true.
    pub(crate) fn has_time(&self, home: &Home, entry: TimeEntry) -> Result<bool, ScanError> {
        // Zero is what a file made long in advance is full of.
        if !entry.may_follow(None) {
            return Ok(false);
        }
        let offset = entry.offset(self.base);
        let found = self.walk_to(home, offset)?.reaching(offset)?;
        Ok(found.is_some_and(|Found { header, .. }| {
            header.last_offset() == offset && header.max_timestamp == entry.timestamp
        }))
    }

    /// A walk that comes to the batch with `target`, from not too far before it.
    pub(crate) fn walk_to(&self, home: &Home, target: Offset) -> Result<HeaderWalk<'_>, ScanError> {
        let guess =
            target.checked_since(self.base).map_or(Guess::MIDDLE, |delta| Guess::new(delta.0, self.span));
        let entry = self.offsets.last_where(home, guess, |entry| entry.offset(self.base) <= target);
        self.walk_from(home, entry?)
    }

    /// The first batch that reaches `target` or beyond.
    pub(crate) fn reaching(&self, home: &Home, target: Offset) -> Result<Option<Spot>, ScanError> {
        Ok(self.walk_to(home, target)?.reaching(target)?.map(|found| spot(&found)))
    }

    /// The last batch that begins at or before `position`, which lies before the end.
    pub(crate) fn beginning_by(&self, home: &Home, position: u32) -> Result<Option<Spot>, ScanError> {
        let guess = Guess::new(position, self.bytes);
        let entry = self.offsets.last_where(home, guess, |entry| entry.position <= position)?;
        let mut walk = self.walk_from(home, entry)?;
        let mut last = None;
        while let Some(found) = walk.next()? {
            if found.position > position {
                break;
            }
            last = Some(spot(&found));
        }
        Ok(last)
    }

    /// A walk from the batch an index entry points at, or from the front if the entry is wrong.
    fn walk_from(&self, home: &Home, entry: Option<OffsetEntry>) -> Result<HeaderWalk<'_>, ScanError> {
        let file = self.file(home)?.as_ref();
        if let Some(entry) = entry.filter(|_| !self.is_distrusted()) {
            let mut walk = HeaderWalk::new(file, entry.position, self.bytes);
            if walk.begins_with(entry.offset(self.base))? {
                return Ok(walk);
            }
            self.distrusted.store(true, Ordering::Relaxed);
        }
        Ok(HeaderWalk::new(file, 0, self.bytes))
    }

    fn aborted_file(&self, home: &Home, mode: OpenMode) -> Result<&Arc<dyn DiskFile>, DiskError> {
        if let Some(file) = self.aborted_file.get() {
            return Ok(file);
        }
        let file = home.open(FileKind::TxnIndex, self.base, mode)?;
        Ok(self.aborted_file.get_or_init(|| file))
    }
}

fn spot(found: &Found) -> Spot {
    Spot { offset: found.header.base_offset, position: found.position }
}

/// The larger of a timestamp and that of a batch behind it.
pub(crate) fn larger(largest: Option<Largest>, header: &BatchHeader) -> Option<Largest> {
    let timestamp = header.max_timestamp;
    // Compaction may leave a batch without records; its time is that of none.
    if header.records_count > 0
        && timestamp.is_some()
        && largest.is_none_or(|largest| timestamp > largest.timestamp)
    {
        return Some(Largest { timestamp, offset: header.last_offset() });
    }
    largest
}

/// What is known only of the segment that grows.
#[derive(Debug)]
pub(crate) struct Growth {
    pub(crate) recent: Recent,
    pub(crate) largest: Option<Largest>,
    /// Bytes since the last index entry.
    pub(crate) unindexed_bytes: u32,
    /// The largest timestamp of the first batch, once it was needed.
    pub(crate) first_timestamp: Option<TimestampMs>,
    /// When the segment was made, or opened.
    pub(crate) since: TimestampMs,
    /// Which part of `segment.jitter.ms` it is closed early by, once it was needed.
    pub(crate) jitter: Option<f64>,
    /// The position up to which a snapshot has the producers.
    pub(crate) saved_at: u32,
}

impl Growth {
    pub(crate) fn new(since: TimestampMs) -> Self {
        Self {
            recent: Recent::default(),
            largest: None,
            unindexed_bytes: 0,
            first_timestamp: None,
            since,
            jitter: None,
            saved_at: 0,
        }
    }

    /// Takes in a batch that stands at the end of the segment.
    pub(crate) fn add(
        &mut self,
        home: &Home,
        segment: &mut Segment,
        header: &BatchHeader,
        settings: &LogSettings,
    ) -> Result<(), DiskError> {
        let position = segment.bytes;
        let size = u32::try_from(header.size_bytes()).unwrap_or(u32::MAX);
        self.largest = larger(self.largest, header);
        if position == 0 {
            self.first_timestamp = Some(header.max_timestamp);
        }
        if self.unindexed_bytes > settings.index_interval_bytes {
            if let Some(delta) = header.last_offset().checked_since(segment.base) {
                segment.offsets.push(home, OffsetEntry { delta, position })?;
            }
            self.index_time(home, segment)?;
            self.unindexed_bytes = 0;
        }
        self.unindexed_bytes = self.unindexed_bytes.saturating_add(size);
        self.recent.push(segment.base, header.base_offset, header.last_offset(), position);
        segment.bytes = position.saturating_add(size);
        segment.span = header.next_offset().checked_since(segment.base).map_or(0, |delta| delta.0);
        Ok(())
    }

    /// The segment does not grow any more: brings its tables into their final form.
    pub(crate) fn finish(&self, home: &Home, segment: &mut Segment) -> Result<(), DiskError> {
        self.write_tables(home, segment)?;
        segment.close(self.largest);
        Ok(())
    }

    /// Brings the tables of the segment into their files, up to its end.
    pub(crate) fn write_tables(&self, home: &Home, segment: &mut Segment) -> Result<(), DiskError> {
        self.index_time(home, segment)?;
        segment.times.write_out(home)?;
        if segment.offsets.is_anew() {
            // An index of offsets that is there vouches for the other table.
            segment.times.opened().map_or(Ok(()), |file| file.sync())?;
        }
        segment.offsets.write_out(home)
    }

    /// Notes in the time index how far the largest timestamp has grown.
    pub(crate) fn index_time(&self, home: &Home, segment: &mut Segment) -> Result<(), DiskError> {
        let Some(largest) = self.largest else { return Ok(()) };
        let delta = largest.offset.checked_since(segment.base).unwrap_or(OffsetDelta(0));
        let last = segment.times.last(home)?.map(|entry| entry.timestamp);
        if last.is_some_and(|last| largest.timestamp <= last) {
            return Ok(());
        }
        segment.times.push(home, TimeEntry { timestamp: largest.timestamp, delta })
    }
}
