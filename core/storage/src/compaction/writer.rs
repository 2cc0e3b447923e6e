//! The files of a segment that takes the place of others: `.cleaned` until it does.
//!
//! Its tables are what the growing segment would have, entry by entry.

use std::io::IoSlice;
use std::sync::Arc;

use base::Offset;
use records::BatchHeader;

use crate::disk::{DiskError, DiskFile, OpenMode};
use crate::home::Home;
use crate::index::table::{Entry, Table};
use crate::index::{AbortedTxn, OffsetEntry, TimeEntry};
use crate::layout::{FileKind, cleaned_name, file_name};
use crate::segment::{Largest, Segment, larger};

/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 1 << 20;

/// A segment in the making.
pub(super) struct Writer {
    home: Home,
    base: Offset,
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes of all batches, those in the buffer included.
    bytes: u32,
    interval_bytes: u32,
    unindexed_bytes: u32,
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    largest: Option<Largest>,
    end: Offset,
}

impl Writer {
    pub(super) fn new(home: &Home, base: Offset, interval_bytes: u32) -> Result<Self, DiskError> {
        Ok(Self {
            file: create(home, FileKind::Log, base)?,
            home: home.clone(),
            base,
            buffer: Vec::new(),
            bytes: 0,
            interval_bytes,
            unindexed_bytes: 0,
            offsets: Vec::new(),
            times: Vec::new(),
            largest: None,
            end: base,
        })
    }

    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Adds a batch behind the others. There is room for it.
    pub(super) fn push(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<(), DiskError> {
        let (position, size) = (self.bytes, u32::try_from(batch.len()).unwrap_or(u32::MAX));
        self.largest = larger(self.largest, header);
        if self.unindexed_bytes > self.interval_bytes {
            if let Some(delta) = header.last_offset().checked_since(self.base) {
                self.offsets.push(OffsetEntry { delta, position });
            }
            self.index_time();
            self.unindexed_bytes = 0;
        }
        self.unindexed_bytes = self.unindexed_bytes.saturating_add(size);
        self.buffer.extend_from_slice(batch);
        self.bytes = position.saturating_add(size);
        self.end = header.next_offset();
        if self.buffer.len() >= BUFFER_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Makes everything durable. The segment, and the kinds of files that it has.
    pub(super) fn finish(mut self, aborted: &[AbortedTxn]) -> Result<(Segment, Vec<FileKind>), DiskError> {
        self.write_out()?;
        self.index_time();
        self.file.sync()?;
        let mut kinds = vec![FileKind::OffsetIndex, FileKind::TimeIndex];
        write_table(&self.home, self.base, &self.offsets)?;
        write_table(&self.home, self.base, &self.times)?;
        if !aborted.is_empty() {
            let bytes: Vec<u8> = aborted.iter().flat_map(|txn| txn.to_bytes()).collect();
            write(&self.home, FileKind::TxnIndex, self.base, &bytes)?;
            kinds.push(FileKind::TxnIndex);
        }
        kinds.push(FileKind::Log);
        self.home.sync_dir()?;
        let mut segment = Segment::new(self.base, self.bytes);
        let count = |entries: usize| u32::try_from(entries).unwrap_or(u32::MAX);
        segment.offsets = Table::found(self.base, count(self.offsets.len()));
        segment.times = Table::found(self.base, count(self.times.len()));
        segment.aborted = count(aborted.len());
        segment.span = self.end.checked_since(self.base).map_or(0, |delta| delta.0);
        segment.close(self.largest);
        Ok((segment, kinds))
    }

    /// Removes what was written.
    pub(super) fn discard(self) -> Result<(), DiskError> {
        self.home.disk.remove_file(&cleaned(&self.home, FileKind::Log, self.base))
    }

    fn write_out(&mut self) -> Result<(), DiskError> {
        let written = u64::from(self.bytes).saturating_sub(self.buffer.len() as u64);
        if !self.buffer.is_empty() {
            self.file.write_at(&[IoSlice::new(&self.buffer)], written)?;
        }
        self.buffer.clear();
        Ok(())
    }

    fn index_time(&mut self) {
        let Some(largest) = self.largest else { return };
        let Some(delta) = largest.offset.checked_since(self.base) else { return };
        if self.times.last().is_none_or(|last| largest.timestamp > last.timestamp) {
            self.times.push(TimeEntry { timestamp: largest.timestamp, delta });
        }
    }
}

fn cleaned(home: &Home, kind: FileKind, base: Offset) -> std::path::PathBuf {
    home.child(&cleaned_name(&file_name(kind, base)))
}

/// Makes a file, empty.
fn create(home: &Home, kind: FileKind, base: Offset) -> Result<Arc<dyn DiskFile>, DiskError> {
    let file = home.disk.open(&cleaned(home, kind, base), OpenMode::Create)?;
    if file.len()? > 0 {
        file.set_len(0)?;
    }
    Ok(file)
}

fn write(home: &Home, kind: FileKind, base: Offset, bytes: &[u8]) -> Result<(), DiskError> {
    let file = create(home, kind, base)?;
    if !bytes.is_empty() {
        file.write_at(&[IoSlice::new(bytes)], 0)?;
    }
    file.sync()
}

fn write_table<E: Entry>(home: &Home, base: Offset, entries: &[E]) -> Result<(), DiskError> {
    let mut bytes = Vec::with_capacity(entries.len() * E::BYTES);
    entries.iter().for_each(|entry| entry.write(&mut bytes));
    write(home, E::KIND, base, &bytes)
}
