//! A disk in memory, for tests and for tools that need no other.
//!
//! It forgets nothing and fails never, unless told to: [`MemoryDisk::fail`]. Whoever wants a disk that
//! tears and lies takes the simulator's.

#![expect(
    clippy::disallowed_types,
    reason = "this stands behind the door: it is a disk, and disks are shared between threads"
)]

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{DirEntry, Disk, DiskError, DiskFile, Failed, OpenMode};

/// A disk in memory. A clone is the same disk.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<Contents>>,
    dirs: BTreeMap<PathBuf, ()>,
    failing: Option<&'static str>,
    /// One operation that will fail, and how many of its kind go well before.
    failing_once: Option<(&'static str, usize)>,
    /// How often each operation was asked for.
    counts: BTreeMap<&'static str, usize>,
}

#[derive(Debug, Default)]
struct Contents(Mutex<Vec<u8>>);

#[derive(Debug)]
struct MemoryFile {
    path: PathBuf,
    contents: Arc<Contents>,
    writable: bool,
    disk: MemoryDisk,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on this operation fails: `write`, `sync`, `open`, `rename`, … Or none does. Opening fails
    /// as if the process had no descriptors left, reading as if that file alone could not be read.
    pub fn fail(&self, operation: Option<&'static str>) {
        self.lock().failing = operation;
    }

    /// This operation fails once, after `well` of its kind went well.
    pub fn fail_once(&self, operation: &'static str, well: usize) {
        self.lock().failing_once = Some((operation, well));
    }

    /// How often an operation was asked for.
    pub fn count(&self, operation: &str) -> usize {
        self.lock().counts.get(operation).copied().unwrap_or(0)
    }

    /// How many files are open, of those that have a name: each once for every time it was opened.
    pub fn open_files(&self) -> usize {
        // Beside the disk, only an open file has hold of what one contains.
        self.lock().files.values().map(|contents| Arc::strong_count(contents) - 1).sum()
    }

    /// What a file holds.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let contents = self.lock().files.get(path).cloned();
        contents.map(|contents| contents.lock().clone())
    }

    /// Puts a file in place.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.lock().files.insert(path.to_owned(), Arc::new(Contents(Mutex::new(bytes))));
    }

    /// A disk with the same files that shares none of them with this one.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        let state = self.lock();
        let mut copied = copy.lock();
        copied.dirs = state.dirs.clone();
        for (path, contents) in &state.files {
            let bytes = contents.lock().clone();
            copied.files.insert(path.clone(), Arc::new(Contents(Mutex::new(bytes))));
        }
        drop(copied);
        copy
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, operation: &'static str, path: &Path) -> Result<MutexGuard<'_, State>, DiskError> {
        let mut state = self.lock();
        *state.counts.entry(operation).or_default() += 1;
        let fails_now = match &mut state.failing_once {
            Some((failing, 0)) if *failing == operation => true,
            Some((failing, well)) if *failing == operation => {
                *well -= 1;
                false
            }
            _ => false,
        };
        if fails_now {
            state.failing_once = None;
        }
        if fails_now || state.failing == Some(operation) {
            return Err(failing_disk(operation, path));
        }
        Ok(state)
    }
}

impl Contents {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn error(operation: &'static str, path: &Path, reason: &str) -> DiskError {
    DiskError { operation, path: path.to_owned(), reason: reason.to_owned(), failed: Failed::File }
}

fn failing_disk(operation: &'static str, path: &Path) -> DiskError {
    let failed = match operation {
        "read" | "read_at" | "list" => Failed::File,
        "open" => Failed::Process,
        _ => Failed::Directory,
    };
    DiskError { failed, ..error(operation, path, "told to fail") }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        let mut state = self.enter("open", path)?;
        let contents = match (state.files.get(path), mode) {
            (Some(contents), _) => contents.clone(),
            (None, OpenMode::Create) => {
                let contents = Arc::new(Contents::default());
                state.files.insert(path.to_owned(), contents.clone());
                contents
            }
            (None, OpenMode::Read | OpenMode::Write) => return Err(error("open", path, "not there")),
        };
        let writable = mode != OpenMode::Read;
        Ok(Arc::new(MemoryFile { path: path.to_owned(), contents, writable, disk: self.clone() }))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let contents = self.enter("read", path)?.files.get(path).cloned();
        let bytes = contents.map(|contents| contents.lock().clone());
        match bytes {
            Some(bytes) if bytes.len() as u64 > bytes_max => Err(error("read", path, "too large")),
            bytes => Ok(bytes),
        }
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.enter("replace", path)?;
        state.files.insert(path.to_owned(), Arc::new(Contents(Mutex::new(bytes.to_vec()))));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.enter("create_dir", path)?;
        for dir in path.ancestors() {
            state.dirs.insert(dir.to_owned(), ());
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let state = self.enter("list", path)?;
        if !state.dirs.contains_key(path) {
            return Err(error("list", path, "not there"));
        }
        let named = |child: &PathBuf| {
            let name = child.file_name()?.to_str()?.to_owned();
            (child.parent() == Some(path)).then_some(name)
        };
        let dirs = state.dirs.keys().filter_map(named);
        let dirs = dirs.map(|name| DirEntry { name, is_dir: true, len: 0 });
        let files = state.files.iter().filter_map(|(child, contents)| Some((named(child)?, contents)));
        let files =
            files.map(|(name, contents)| DirEntry { name, is_dir: false, len: contents.lock().len() as u64 });
        let mut entries: Vec<_> = dirs.chain(files).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut state = self.enter("rename", from)?;
        if let Some(contents) = state.files.remove(from) {
            state.files.insert(to.to_owned(), contents);
            return Ok(());
        }
        if state.dirs.remove(from).is_none() {
            return Err(error("rename", from, "not there"));
        }
        state.dirs.insert(to.to_owned(), ());
        let moved: Vec<_> = state.files.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            let Ok(rest) = path.strip_prefix(from) else { continue };
            let target = to.join(rest);
            if let Some(contents) = state.files.remove(&path) {
                state.files.insert(target, contents);
            }
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.enter("remove_file", path)?.files.remove(path);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.enter("remove_dir", path)?;
        state.files.retain(|file, _| !file.starts_with(path));
        state.dirs.retain(|dir, ()| !dir.starts_with(path));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.enter("sync_dir", path).map(drop)
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError> {
        drop(self.disk.enter("write", &self.path)?);
        if !self.writable {
            return Err(error("write", &self.path, "opened for reading"));
        }
        let mut bytes = self.contents.lock();
        let mut at = usize::try_from(position).unwrap_or(usize::MAX);
        for part in parts {
            let end = at.saturating_add(part.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(part);
            at = end;
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize, DiskError> {
        drop(self.disk.enter("read_at", &self.path)?);
        let bytes = self.contents.lock();
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.contents.lock().len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        drop(self.disk.enter("set_len", &self.path)?);
        self.contents.lock().resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.enter("sync", &self.path).map(drop)
    }

    fn reread(&self, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }
}
