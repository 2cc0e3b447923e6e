//! A sorted table of entries of one size: what lies in its file, and the newest entries, which are
//! written out in batches.
//!
//! ```text
//!   file   e0 e1 e2 … e(stored−1)      searched by reading, never loaded whole
//!   tail                          e e e   in memory, until written out
//! ```
//!
//! A table says where to start looking, never what is true: its reader checks what it finds there and
//! looks from the front of the segment if it does not fit.

use std::sync::{Arc, OnceLock};

use base::Offset;

use crate::disk::{DiskError, DiskFile, OpenMode};
use crate::home::Home;
use crate::layout::FileKind;

/// How many entries gather before they are written out on their own: half a page of them or more.
const TAIL_ENTRIES_MAX: usize = 512;
/// Below this many bytes a search reads the rest at once.
const BLOCK_BYTES: usize = 1024;

/// An entry of a table.
pub(crate) trait Entry: Copy + std::fmt::Debug {
    /// The file it lies in.
    const KIND: FileKind;
    /// Its size there.
    const BYTES: usize;
    /// From exactly [`Self::BYTES`] bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Appends exactly [`Self::BYTES`] bytes.
    fn write(self, out: &mut Vec<u8>);
    /// Whether `self` may stand right behind `before`, or at the front.
    fn may_follow(self, before: Option<Self>) -> bool;
}

/// Where a search begins: a part of the whole. Batches are of much the same size, so that a good guess
/// spares all other looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    part: u32,
    whole: u32,
}

impl Guess {
    /// Nothing is known.
    pub(crate) const MIDDLE: Self = Self { part: 1, whole: 2 };

    /// As far into the table as `part` is into `whole`.
    pub(crate) const fn new(part: u32, whole: u32) -> Self {
        if part < whole { Self { part, whole } } else { Self::MIDDLE }
    }

    fn of(self, entries: u32) -> u32 {
        let index = u64::from(entries) * u64::from(self.part) / u64::from(self.whole);
        u32::try_from(index).unwrap_or(0)
    }
}

/// The table of one segment.
#[derive(Debug)]
pub(crate) struct Table<E> {
    base: Offset,
    stored: u32,
    tail: Vec<E>,
    /// The newest entry, if it was pushed here: known without a look at the file.
    newest: Option<E>,
    /// Whether the file was given up, and entries gather until a whole one takes its place.
    anew: bool,
    /// Whether the file is known to be there.
    there: bool,
    /// Whether the file was made, and its directory not told of it.
    made: bool,
    /// Whether the file was changed since the log was opened.
    changed: bool,
    file: OnceLock<Arc<dyn DiskFile>>,
}

impl<E: Entry> Table<E> {
    /// An empty table of which nothing is known to be on the disk.
    pub(crate) fn new(base: Offset) -> Self {
        Self {
            base,
            stored: 0,
            tail: Vec::new(),
            newest: None,
            anew: false,
            there: false,
            made: false,
            changed: false,
            file: OnceLock::new(),
        }
    }

    /// The table whose file is there and holds exactly `stored` entries.
    pub(crate) fn found(base: Offset, stored: u32) -> Self {
        Self { stored, there: true, ..Self::new(base) }
    }

    /// How many entries a file of this length holds; `None` if it holds no whole number of them.
    pub(crate) fn entries_in(bytes: u64) -> Option<u32> {
        let size = E::BYTES as u64;
        u32::try_from(bytes / size).ok().filter(|_| bytes.is_multiple_of(size))
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> u32 {
        self.stored.saturating_add(u32::try_from(self.tail.len()).unwrap_or(u32::MAX))
    }

    /// Adds an entry behind the others.
    pub(crate) fn push(&mut self, home: &Home, entry: E) -> Result<(), DiskError> {
        self.newest = Some(entry);
        self.tail.push(entry);
        if self.tail.len() >= TAIL_ENTRIES_MAX && !self.anew { self.write_out(home) } else { Ok(()) }
    }

    /// Gives the file up, durably. Entries gather in memory until [`Table::write_out`] puts a whole file
    /// in its place: of a table that is built again there is all or nothing.
    pub(crate) fn begin_anew(&mut self, home: &Home) -> Result<(), DiskError> {
        *self = Self { anew: true, ..Self::new(self.base) };
        home.remove(E::KIND, self.base)?;
        home.sync_dir()
    }

    /// Whether it was begun anew and not written out yet.
    pub(crate) fn is_anew(&self) -> bool {
        self.anew
    }

    /// Whether the file was changed since the log was opened.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Whether the file was made since this was last asked.
    pub(crate) fn take_made(&mut self) -> bool {
        std::mem::take(&mut self.made)
    }

    /// Brings the newest entries into the file. Makes the file if it is not there.
    pub(crate) fn write_out(&mut self, home: &Home) -> Result<(), DiskError> {
        if self.tail.is_empty() && self.there {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.tail.len() * E::BYTES);
        for &entry in &self.tail {
            entry.write(&mut bytes);
        }
        if std::mem::take(&mut self.anew) {
            home.disk.replace(&home.path(E::KIND, self.base), &bytes)?;
            self.there = true;
        } else {
            let position = self.position(self.stored);
            let file = self.file_to_change(home)?;
            if !bytes.is_empty() {
                file.write_at(&[std::io::IoSlice::new(&bytes)], position)?;
            }
        }
        self.stored = self.len();
        self.tail.clear();
        self.tail.shrink_to(16);
        Ok(())
    }

    /// Keeps the first entries for which `keep` holds, in memory and in the file.
    pub(crate) fn truncate(&mut self, home: &Home, keep: impl Fn(E) -> bool) -> Result<(), DiskError> {
        let kept = self.tail.partition_point(|&entry| keep(entry));
        self.tail.truncate(kept);
        self.newest = self.tail.last().copied();
        if kept == 0 {
            self.cut_file(home, self.stored_where(home, Guess::MIDDLE, keep)?.0)?;
        }
        Ok(())
    }

    /// Makes the file exactly `entries` long. For a file that is longer than its valid entries.
    pub(crate) fn cut_file(&mut self, home: &Home, entries: u32) -> Result<(), DiskError> {
        let is_so_long = self.there && self.stored == entries;
        self.stored = entries;
        if self.anew || is_so_long {
            return Ok(());
        }
        let bytes = self.position(entries);
        let file = self.file_to_change(home)?;
        if file.len()? > bytes { file.set_len(bytes) } else { Ok(()) }
    }

    /// The newest entry for which `holds` holds; it must hold for a run of entries from the first.
    pub(crate) fn last_where(
        &self,
        home: &Home,
        guess: Guess,
        holds: impl Fn(E) -> bool,
    ) -> Result<Option<E>, DiskError> {
        match self.tail.partition_point(|&entry| holds(entry)).checked_sub(1) {
            Some(i) => Ok(Some(self.tail[i])),
            None => Ok(self.stored_where(home, guess, holds)?.1),
        }
    }

    /// The newest entry.
    pub(crate) fn last(&self, home: &Home) -> Result<Option<E>, DiskError> {
        match (self.newest, self.stored.checked_sub(1)) {
            (Some(entry), _) => Ok(Some(entry)),
            (None, Some(i)) => self.read_entry(home, i),
            (None, None) => Ok(None),
        }
    }

    /// The entry behind the first `index` entries of the file.
    pub(crate) fn stored_at(&self, home: &Home, index: u32) -> Result<Option<E>, DiskError> {
        if index < self.stored { self.read_entry(home, index) } else { Ok(None) }
    }

    /// How many entries from the first on are in order and satisfy `holds`; reads the file whole, a
    /// block at a time. Entries behind damage, or the zeroes of a file made long in advance, are not
    /// counted.
    pub(crate) fn count_valid(&self, home: &Home, holds: impl Fn(E) -> bool) -> Result<u32, DiskError> {
        const ENTRIES_PER_READ: u32 = 4096;
        let mut bytes = Vec::new();
        let (mut valid, mut before) = (0, None);
        while valid < self.stored {
            let count = (self.stored - valid).min(ENTRIES_PER_READ);
            bytes.resize(count as usize * E::BYTES, 0);
            let read = self.file(home)?.read_at(&mut bytes, self.position(valid))?;
            for chunk in bytes[..read].chunks_exact(E::BYTES) {
                let entry = E::read(chunk);
                if !entry.may_follow(before) || !holds(entry) {
                    return Ok(valid);
                }
                before = Some(entry);
                valid += 1;
            }
            if read < bytes.len() {
                break;
            }
        }
        Ok(valid)
    }

    /// The file, for a barrier; `None` if the table was never written.
    pub(crate) fn opened(&self) -> Option<&Arc<dyn DiskFile>> {
        self.file.get()
    }

    /// Closes the file until it is needed again.
    pub(crate) fn rest(&mut self) {
        self.file.take();
    }

    /// How many entries of the file satisfy `holds`, and the last of them. The search begins at the
    /// guess and halves what is left, a block at a time.
    fn stored_where(
        &self,
        home: &Home,
        guess: Guess,
        holds: impl Fn(E) -> bool,
    ) -> Result<(u32, Option<E>), DiskError> {
        let block = u32::try_from(BLOCK_BYTES / E::BYTES).unwrap_or(1);
        let mut bytes = [0; BLOCK_BYTES];
        let (mut low, mut high, mut last) = (0, self.stored, None);
        let mut probe = guess.of(self.stored);
        while low < high {
            let from = probe.saturating_sub(block / 2).clamp(low, high - 1);
            let to = high.min(from + block);
            let wanted = (to - from) as usize * E::BYTES;
            let read = self.file(home)?.read_at(&mut bytes[..wanted], self.position(from))?;
            let entries = bytes[..read].chunks_exact(E::BYTES).map(E::read);
            let (count, newest) =
                entries.take_while(|&e| holds(e)).fold((0, None), |(n, _), e| (n + 1, Some(e)));
            match newest {
                None => high = from,
                Some(_) => (low, last) = (from + count, newest),
            }
            if newest.is_some() && low < to {
                break;
            }
            probe = low + (high - low) / 2;
        }
        Ok((low, last))
    }

    fn read_entry(&self, home: &Home, index: u32) -> Result<Option<E>, DiskError> {
        let mut bytes = [0; BLOCK_BYTES];
        let bytes = &mut bytes[..E::BYTES];
        let read = self.file(home)?.read_at(bytes, self.position(index))?;
        Ok((read == E::BYTES).then(|| E::read(bytes)))
    }

    fn position(&self, index: u32) -> u64 {
        u64::from(index) * E::BYTES as u64
    }

    fn file(&self, home: &Home) -> Result<&Arc<dyn DiskFile>, DiskError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        // Opened for writing even by a reader: the handle is kept, and the writer may come next.
        let file = home.open(E::KIND, self.base, OpenMode::Write)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// The file, made if it is not there.
    fn file_to_change(&mut self, home: &Home) -> Result<&Arc<dyn DiskFile>, DiskError> {
        self.prepare(home)?;
        self.changed = true;
        self.file(home)
    }

    /// Opens the file, so that changing it needs no descriptor. Makes it if it is not there.
    pub(crate) fn prepare(&mut self, home: &Home) -> Result<(), DiskError> {
        if self.anew || self.file.get().is_some() {
            return Ok(());
        }
        let file = home.open(E::KIND, self.base, OpenMode::Create)?;
        self.made |= !self.there;
        self.there = true;
        self.file.get_or_init(|| file);
        Ok(())
    }

    /// Opens what [`Table::write_out`] needs.
    pub(crate) fn prepare_write_out(&mut self, home: &Home) -> Result<(), DiskError> {
        if self.tail.is_empty() && self.there { Ok(()) } else { self.prepare(home) }
    }

    /// Opens what the next [`Table::push`] and [`Table::last`] may need.
    pub(crate) fn prepare_push(&mut self, home: &Home) -> Result<(), DiskError> {
        if self.newest.is_none() && self.stored > 0 {
            self.newest = self.read_entry(home, self.stored - 1)?;
        }
        if self.tail.len() + 1 >= TAIL_ENTRIES_MAX { self.prepare(home) } else { Ok(()) }
    }
}
