//! A disk whose power goes: what has not seen its barrier is there afterwards, or not, or in part.
//!
//! It dies after as many changes as it is told to. Then names that no barrier of their directory has covered are as
//! they were or as they were to be, each for itself, and so are the bytes of each file.

#![expect(clippy::disallowed_types, reason = "it stands behind the door, as the other disks do")]

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{DirEntry, Disk, DiskError, DiskFile, Failed, OpenMode};

#[derive(Debug, Clone, Default)]
pub(crate) struct PowerDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names since the last barrier, oldest first.
    pending: Vec<Change>,
    dirs: Vec<PathBuf>,
    changes_left: Option<usize>,
}

#[derive(Debug, Default, Clone)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Change {
    Made(PathBuf, usize),
    Removed(PathBuf),
    Renamed(PathBuf, PathBuf, usize),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Made(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Removed(path) => {
                names.remove(path);
            }
            Self::Renamed(from, to, inode) => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        let (Self::Made(path, _) | Self::Removed(path) | Self::Renamed(path, _, _)) = self;
        path.parent() == Some(dir)
    }
}

#[derive(Debug)]
struct PowerFile {
    disk: PowerDisk,
    path: PathBuf,
    inode: usize,
}

impl PowerDisk {
    /// All changes fail after as many as this.
    pub(crate) fn die_after(&self, changes: usize) {
        self.lock().changes_left = Some(changes);
    }

    /// Whether it died; it is told to live on.
    pub(crate) fn revive(&self) -> bool {
        self.lock().changes_left.take() == Some(0)
    }

    /// What is there when the power comes back, by this chance.
    pub(crate) fn cut(&self, chance: &mut dyn FnMut() -> u32) -> Self {
        let state = self.lock();
        let mut names = state.durable_names.clone();
        for change in &state.pending {
            if chance().is_multiple_of(2) {
                change.apply(&mut names);
            }
        }
        let mut inodes = state.inodes.clone();
        for inode in &mut inodes {
            match chance() % 3 {
                0 => inode.bytes = inode.durable.clone(),
                1 => {
                    let kept = chance() as usize % (inode.bytes.len() + 1);
                    inode.bytes.truncate(kept.max(inode.durable.len().min(inode.bytes.len())));
                }
                _ => {}
            }
            inode.durable = inode.bytes.clone();
        }
        let dirs = state.dirs.clone();
        let durable_names = names.clone();
        let after = State { inodes, names, durable_names, dirs, ..State::default() };
        Self(Arc::new(Mutex::new(after)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds it")
    }

    fn change(&self, operation: &'static str, path: &Path) -> Result<MutexGuard<'_, State>, DiskError> {
        let mut state = self.lock();
        match &mut state.changes_left {
            Some(0) => Err(error(operation, path, Failed::Directory)),
            Some(left) => {
                *left -= 1;
                Ok(state)
            }
            None => Ok(state),
        }
    }
}

fn error(operation: &'static str, path: &Path, failed: Failed) -> DiskError {
    DiskError { operation, path: path.to_owned(), reason: "no power, or not there".to_owned(), failed }
}

impl Disk for PowerDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        let known = self.lock().names.get(path).copied();
        let inode = match (known, mode) {
            (Some(inode), _) => inode,
            (None, OpenMode::Create) => {
                let mut state = self.change("open", path)?;
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.names.insert(path.to_owned(), inode);
                state.pending.push(Change::Made(path.to_owned(), inode));
                inode
            }
            (None, _) => return Err(error("open", path, Failed::File)),
        };
        Ok(Arc::new(PowerFile { disk: self.clone(), path: path.to_owned(), inode }))
    }

    fn read(&self, path: &Path, _: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let state = self.lock();
        Ok(state.names.get(path).map(|&inode| state.inodes[inode].bytes.clone()))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let mut state = self.change("replace", path)?;
        state.inodes.push(Inode { bytes: bytes.to_vec(), durable: bytes.to_vec() });
        let inode = state.inodes.len() - 1;
        state.names.insert(path.to_owned(), inode);
        state.pending.push(Change::Made(path.to_owned(), inode));
        let dir = path.parent().expect("it lies in one").to_owned();
        drop(state);
        self.settle(&dir);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.lock().dirs.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let state = self.lock();
        let entry = |(child, &inode): (&PathBuf, &usize)| {
            let name = child.file_name()?.to_str()?.to_owned();
            let len = state.inodes[inode].bytes.len() as u64;
            (child.parent() == Some(path)).then_some(DirEntry { name, is_dir: false, len })
        };
        Ok(state.names.iter().filter_map(entry).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut state = self.change("rename", from)?;
        let inode = state.names.remove(from).ok_or_else(|| error("rename", from, Failed::File))?;
        state.names.insert(to.to_owned(), inode);
        state.pending.push(Change::Renamed(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.change("remove_file", path)?;
        if state.names.remove(path).is_some() {
            state.pending.push(Change::Removed(path.to_owned()));
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        Err(error("remove_dir", path, Failed::File))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        drop(self.change("sync_dir", path)?);
        self.settle(path);
        Ok(())
    }
}

impl PowerDisk {
    fn settle(&self, dir: &Path) {
        let mut state = self.lock();
        let (settled, pending): (Vec<_>, Vec<_>) = state.pending.drain(..).partition(|c| c.is_in(dir));
        state.pending = pending;
        settled.iter().for_each(|change| change.apply(&mut state.durable_names));
    }
}

impl DiskFile for PowerFile {
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError> {
        let mut state = self.disk.change("write", &self.path)?;
        let bytes = &mut state.inodes[self.inode].bytes;
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
        let state = self.disk.lock();
        let bytes = &state.inodes[self.inode].bytes;
        let from = usize::try_from(position).expect("small").min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.disk.lock().inodes[self.inode].bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        let mut state = self.disk.change("set_len", &self.path)?;
        state.inodes[self.inode].bytes.resize(usize::try_from(len).expect("small"), 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.disk.change("sync", &self.path)?;
        let inode = &mut state.inodes[self.inode];
        inode.durable = inode.bytes.clone();
        Ok(())
    }

    fn reread(&self, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }
}
