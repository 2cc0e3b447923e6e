//! A disk whose power is cut after so many operations, and what is left of it.
//!
//! What was synced is there. Of the rest each file has what was on the media, all of what was written, a
//! part, or a hole; and each name that was not synced is there or not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use storage::disk::{DirEntry, Disk, DiskError, DiskFile, Failed, OpenMode};
use tokio::sync::Notify;

use super::nodes::look;
use crate::files::VOTE_FILE;

/// What a disk says is durable, and is not. It is to a disk as if the writer did not sync it, so a test of what
/// is durable has to fail with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Forgets {
    #[default]
    Nothing,
    /// The file of votes, and its name.
    Votes,
    /// All but that: entries above all, and what is noted of them.
    Entries,
}

impl Forgets {
    fn has(self, path: &Path) -> bool {
        let is_vote = path.file_stem().is_some_and(|stem| stem == VOTE_FILE);
        match self {
            Self::Nothing => false,
            Self::Votes => is_vote,
            Self::Entries => !is_vote,
        }
    }
}

/// Numbers in no order, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

#[derive(Debug, Default, Clone)]
struct Contents {
    written: Vec<u8>,
    media: Vec<u8>,
    /// Whether the next barrier has something to do. It has nothing after one that failed.
    is_dirty: bool,
}

impl Contents {
    fn sync(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            self.media.clone_from(&self.written);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Contents>,
    names: BTreeMap<PathBuf, usize>,
    names_on_media: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    /// Operations until the power goes.
    left: usize,
    done: usize,
    /// The barrier of a file that fails, if that is the change that has this number.
    fails_at: Option<usize>,
    has_failed: bool,
    forgets: Forgets,
    gone: Arc<Notify>,
}

/// The disk. A clone is the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct FragileDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct FragileFile {
    disk: FragileDisk,
    path: PathBuf,
    id: usize,
}

fn error(operation: &'static str, path: &Path, reason: &str, failed: Failed) -> DiskError {
    DiskError { operation, path: path.to_owned(), reason: reason.into(), failed }
}

impl FragileDisk {
    /// A disk that works for so many changes.
    pub(crate) fn new(changes: usize) -> Self {
        let disk = Self::default();
        disk.0.lock().left = changes;
        disk
    }

    /// The power goes after so many more changes.
    pub(crate) fn cut_after(&self, changes: usize) {
        let mut state = self.0.lock();
        state.left = changes;
        state.look_at_power();
    }

    /// Waits until the power is gone.
    pub(crate) async fn power_is_gone(&self) {
        let gone = self.0.lock().gone.clone();
        look(&gone, || (!self.has_power()).then_some(())).await;
    }

    pub(crate) fn has_power(&self) -> bool {
        self.0.lock().left > 0
    }

    /// From now on this is not made durable any more.
    pub(crate) fn forget(&self, what: Forgets) {
        self.0.lock().forgets = what;
    }

    /// The change of this number fails if it is the barrier of a file; the file looks as if it had not.
    pub(crate) fn fail_barrier(&self, number: usize) {
        self.0.lock().fails_at = Some(number);
    }

    /// The process starts again, and the machine does not. Whether a barrier had failed.
    pub(crate) fn start_again(&self) -> bool {
        let mut state = self.0.lock();
        (state.fails_at, state.left) = (None, usize::MAX);
        state.has_failed
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> usize {
        self.0.lock().done
    }

    fn change(&self, operation: &'static str, path: &Path) -> Result<(), DiskError> {
        let mut state = self.0.lock();
        if state.left == 0 {
            return Err(error(operation, path, "the power is gone", Failed::Directory));
        }
        state.left -= 1;
        state.done += 1;
        state.look_at_power();
        Ok(())
    }

    /// What a power cut leaves: a disk that works, and has all of it on its media. Where all numbers are 0 that is
    /// what was synced and no more.
    pub(crate) fn survivors(&self, mut random: impl FnMut() -> u64) -> Self {
        let state = self.0.lock();
        let mut names = state.names_on_media.clone();
        let all: Vec<_> = state.names.keys().chain(state.names_on_media.keys()).cloned().collect();
        for path in all {
            if state.names.get(&path) != state.names_on_media.get(&path) && !random().is_multiple_of(2) {
                match state.names.get(&path) {
                    Some(id) => drop(names.insert(path, *id)),
                    None => drop(names.remove(&path)),
                }
            }
        }
        let mut left = State { dirs: state.dirs.clone(), left: usize::MAX, ..State::default() };
        for (path, id) in names {
            let bytes = state.files[id].survivors(&mut random);
            left.names.insert(path, left.files.len());
            left.files.push(Contents { media: bytes.clone(), written: bytes, is_dirty: false });
        }
        left.names_on_media = left.names.clone();
        Self(Arc::new(Mutex::new(left)))
    }
}

impl State {
    fn look_at_power(&self) {
        if self.left == 0 {
            self.gone.notify_waiters();
        }
    }
}

impl Contents {
    fn survivors(&self, mut random: impl FnMut() -> u64) -> Vec<u8> {
        let Self { written, media, .. } = self;
        let cut = |random: u64| usize::try_from(random).unwrap_or(0) % (written.len() + 1);
        match random() % 4 {
            _ if written == media => written.clone(),
            0 => media.clone(),
            1 => written.clone(),
            // It grew: a part of what is new, or all of it with a hole.
            _ if !written.starts_with(media) => media.clone(),
            2 => written[..cut(random()).max(media.len())].to_vec(),
            _ => {
                let mut holed = written.clone();
                let from = cut(random()).max(media.len());
                holed[media.len()..from].fill(0);
                holed
            }
        }
    }
}

impl Disk for FragileDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        let there = self.0.lock().names.get(path).copied();
        let id = match (there, mode) {
            (Some(id), _) => id,
            (None, OpenMode::Create) => {
                self.change("open", path)?;
                let mut state = self.0.lock();
                state.files.push(Contents::default());
                let id = state.files.len() - 1;
                state.names.insert(path.to_owned(), id);
                id
            }
            (None, OpenMode::Read | OpenMode::Write) => {
                return Err(error("open", path, "not there", Failed::File));
            }
        };
        Ok(Arc::new(FragileFile { disk: self.clone(), path: path.to_owned(), id }))
    }

    fn read(&self, path: &Path, _: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let state = self.0.lock();
        Ok(state.names.get(path).map(|id| state.files[*id].written.clone()))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let beside = path.with_extension("tmp");
        let file = self.open(&beside, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(&[IoSlice::new(bytes)], 0)?;
        file.sync()?;
        self.rename(&beside, path)?;
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.lock().dirs.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let state = self.0.lock();
        if !state.dirs.contains(path) {
            return Err(error("list", path, "not there", Failed::File));
        }
        let name = |child: &PathBuf| {
            let name = child.file_name()?.to_str()?.to_owned();
            (child.parent() == Some(path)).then_some(name)
        };
        let dirs = state.dirs.iter().filter_map(name).map(|name| DirEntry { name, is_dir: true, len: 0 });
        let files = state.names.iter().filter_map(|(child, id)| Some((name(child)?, *id)));
        let files = files.map(|(name, id)| DirEntry {
            name,
            is_dir: false,
            len: state.files[id].written.len() as u64,
        });
        let mut entries: Vec<_> = dirs.chain(files).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.change("rename", from)?;
        let mut state = self.0.lock();
        let id = state.names.remove(from);
        let id = id.ok_or_else(|| error("rename", from, "not there", Failed::File))?;
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.change("remove", path)?;
        self.0.lock().names.remove(path);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.change("remove", path)?;
        let mut state = self.0.lock();
        state.names.retain(|name, _| !name.starts_with(path));
        state.dirs.retain(|dir| !dir.starts_with(path));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.change("sync_dir", path)?;
        let mut state = self.0.lock();
        let forgets = state.forgets;
        let is_synced = |name: &PathBuf| name.parent() == Some(path) && !forgets.has(name);
        let names: Vec<_> = state.names.iter().map(|(name, id)| (name.clone(), *id)).collect();
        state.names_on_media.retain(|name, _| !is_synced(name));
        state.names_on_media.extend(names.into_iter().filter(|(name, _)| is_synced(name)));
        Ok(())
    }
}

impl DiskFile for FragileFile {
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError> {
        self.disk.change("write", &self.path)?;
        let mut state = self.disk.0.lock();
        state.files[self.id].is_dirty = true;
        let bytes = &mut state.files[self.id].written;
        let mut at = usize::try_from(position).expect("small");
        for part in parts {
            let end = at + part.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(part);
            at = end;
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize, DiskError> {
        let state = self.disk.0.lock();
        let bytes = &state.files[self.id].written;
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.disk.0.lock().files[self.id].written.len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.disk.change("set_len", &self.path)?;
        let mut state = self.disk.0.lock();
        let contents = &mut state.files[self.id];
        contents.is_dirty = true;
        contents.written.resize(usize::try_from(len).expect("small"), 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.change("sync", &self.path)?;
        let mut state = self.disk.0.lock();
        if state.fails_at == Some(state.done) {
            state.files[self.id].is_dirty = false;
            // Whoever hears of it stops.
            (state.left, state.has_failed) = (0, true);
            return Err(error("sync", &self.path, "input/output error", Failed::Directory));
        }
        if !state.forgets.has(&self.path) {
            state.files[self.id].sync();
        }
        Ok(())
    }

    fn reread(&self, _: u64) -> Result<(), DiskError> {
        let mut state = self.disk.0.lock();
        let Contents { written, media, is_dirty } = &mut state.files[self.id];
        if !*is_dirty {
            written.clone_from(media);
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }
}
