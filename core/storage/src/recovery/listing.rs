//! What lies in a partition's directory.

use std::collections::BTreeMap;

use base::Offset;

use crate::disk::{DirEntry, DiskError, OpenMode};
use crate::home::Home;
use crate::index::table::Table;
use crate::index::{AbortedTxn, OffsetEntry, TimeEntry};
use crate::layout::{FileKind, FileName, cleaned_base, file_name, parse_file_name, swap_name};
use crate::scan::{HeaderWalk, ScanError};
use crate::segment::Segment;

/// The files of one segment.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) base: Offset,
    /// Length of the file of batches.
    pub(super) bytes: u64,
    has_records: bool,
    offset_entries: Option<u32>,
    time_entries: Option<u32>,
    /// Entries in the index of aborted transactions, if there is one.
    aborted: Option<u32>,
}

impl Found {
    /// The segment as its files' lengths say.
    pub(super) fn segment(&self) -> Segment {
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        let mut segment = Segment::new(self.base, bytes);
        // Both are built in one walk over the records, so that one alone is of no use.
        if let (Some(offsets), Some(times)) = (self.offset_entries, self.time_entries) {
            segment.offsets = Table::found(self.base, offsets);
            segment.times = Table::found(self.base, times);
        }
        segment.aborted = self.aborted.unwrap_or(0);
        segment
    }

    /// Whether a table is not there, or has no whole number of entries.
    pub(super) fn tables_missing(&self) -> bool {
        self.bytes > 0 && (self.offset_entries.is_none() || self.time_entries.is_none())
    }

    /// Whether there is an index of aborted transactions, be it empty.
    pub(super) fn has_aborted(&self) -> bool {
        self.aborted.is_some()
    }

    /// Removes all files of the segment. Nobody reads them yet.
    pub(super) fn remove(&self, home: &Home) -> Result<(), DiskError> {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex, FileKind::Log] {
            home.remove(kind, self.base)?;
        }
        Ok(())
    }

    fn add(&mut self, kind: FileKind, bytes: u64) {
        match kind {
            FileKind::Log => (self.bytes, self.has_records) = (bytes, true),
            FileKind::OffsetIndex => self.offset_entries = Table::<OffsetEntry>::entries_in(bytes),
            FileKind::TimeIndex => self.time_entries = Table::<TimeEntry>::entries_in(bytes),
            FileKind::TxnIndex => {
                let entries = bytes / AbortedTxn::BYTES as u64;
                self.aborted = Some(u32::try_from(entries).unwrap_or(u32::MAX));
            }
            FileKind::Snapshot => {}
        }
    }
}

/// The directory, cleared of what a crash left unfinished.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Ordered by base offset.
    pub(super) segments: Vec<Found>,
    /// Offsets of snapshots, in order.
    pub(super) snapshots: Vec<Offset>,
    /// Whether a name was removed or changed.
    pub(super) names_changed: bool,
}

impl Listing {
    pub(super) fn read(home: &Home) -> Result<Self, DiskError> {
        let entries = home.disk.list(&home.dir)?;
        let swapped = complete_swaps(home, &entries)?;
        let entries = if swapped { home.disk.list(&home.dir)? } else { entries };
        let mut listing = Self { names_changed: swapped, ..Self::default() };
        let mut found: BTreeMap<Offset, Found> = BTreeMap::new();
        if entries.iter().any(|entry| matches!(parse_file_name(&entry.name), FileName::Leftover)) {
            // A segment may have been put aside by a process that was killed before its barrier. Once its
            // new name is gone as well, nobody knows that the old one may come back with the power.
            home.sync_dir()?;
        }
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            match parse_file_name(&entry.name) {
                FileName::Part(FileKind::Snapshot, at) => listing.snapshots.push(at),
                FileName::Part(kind, base) => found.entry(base).or_default().add(kind, entry.len),
                FileName::Leftover | FileName::Swap(..) => {
                    home.disk.remove_file(&home.child(&entry.name))?;
                    listing.names_changed = true;
                }
                FileName::Other => {}
            }
        }
        for (base, mut found) in found {
            found.base = base;
            if found.has_records {
                listing.segments.push(found);
            } else {
                // Tables without records: those went first when the segment was given up.
                found.remove(home)?;
                listing.names_changed = true;
            }
        }
        listing.snapshots.sort_unstable();
        Ok(listing)
    }
}

/// A file that was about to take the place of another, or of several.
struct SwapFile {
    kind: FileKind,
    base: Offset,
    bytes: u64,
}

impl SwapFile {
    fn of(entry: &DirEntry) -> Option<Self> {
        match parse_file_name(&entry.name) {
            FileName::Swap(kind, base) => Some(Self { kind, base, bytes: entry.len }),
            _ => None,
        }
    }

    fn name(&self) -> String {
        swap_name(&file_name(self.kind, self.base))
    }

    fn remove(&self, home: &Home) -> Result<(), DiskError> {
        home.disk.remove_file(&home.child(&self.name()))
    }

    fn rename(&self, home: &Home) -> Result<(), DiskError> {
        home.disk.rename(&home.child(&self.name()), &home.path(self.kind, self.base))
    }
}

/// Finishes what compaction, this broker's or Kafka's, had decided when it was stopped: segments that it had
/// written anew take the place of all they were made from. Whether there was anything.
fn complete_swaps(home: &Home, entries: &[DirEntry]) -> Result<bool, DiskError> {
    let swaps: Vec<_> = entries.iter().filter_map(SwapFile::of).collect();
    if swaps.is_empty() {
        return Ok(false);
    }
    // With some files still being cleaned, those from there on were not decided yet.
    let undecided = entries.iter().filter_map(|e| cleaned_base(&e.name)).min();
    let is_undecided = |swap: &SwapFile| undecided.is_some_and(|undecided| swap.base >= undecided);
    let (undecided, decided): (Vec<_>, Vec<_>) = swaps.into_iter().partition(is_undecided);
    undecided.iter().try_for_each(|swap| swap.remove(home))?;
    let (records, tables): (Vec<_>, Vec<_>) = decided.iter().partition(|swap| swap.kind == FileKind::Log);
    for swap in &records {
        let end = end_of_swap(home, swap)?;
        for replaced in entries.iter().filter_map(|e| log_of(&e.name)) {
            if swap.base < replaced && replaced < end {
                Found { base: replaced, ..Found::default() }.remove(home)?;
            }
        }
    }
    // What goes must not come back beside what takes its place.
    home.sync_dir()?;
    for table in tables {
        let has_records = records.iter().any(|swap| swap.base == table.base);
        // Alone it is the rest of a swap that was completed, or of one that was taken back.
        let is_there = entries.iter().any(|e| e.name == file_name(table.kind, table.base));
        if has_records || !is_there { table.rename(home)? } else { table.remove(home)? }
    }
    records.iter().try_for_each(|swap| swap.rename(home))?;
    home.sync_dir()?;
    Ok(true)
}

fn log_of(name: &str) -> Option<Offset> {
    match parse_file_name(name) {
        FileName::Part(FileKind::Log, base) => Some(base),
        _ => None,
    }
}

/// Where the batches of a swap file end. What cannot be read replaces nothing more.
fn end_of_swap(home: &Home, swap: &SwapFile) -> Result<Offset, DiskError> {
    let bytes = u32::try_from(swap.bytes).unwrap_or(u32::MAX);
    let file = home.disk.open(&home.child(&swap.name()), OpenMode::Read)?;
    let mut walk = HeaderWalk::new(file.as_ref(), 0, bytes);
    let mut end = Offset::ZERO;
    loop {
        match walk.next() {
            Ok(Some(found)) => end = found.header.next_offset(),
            Ok(None) | Err(ScanError::Damaged { .. }) => return Ok(end),
            Err(ScanError::Disk(error)) => return Err(error),
        }
    }
}
