//! A disk that forgets, tears, reorders, rots and lies, as the seed says.
//!
//! It keeps the promises of [`storage::disk`] and not one more: bytes are durable after `sync`, names
//! after `sync_dir`, and a power cut decides about everything else.
//!
//! ```text
//!   write ─▶ cached ─ sync, or writeback of random sectors ─▶ media ─ power cut ─▶ cached again
//! ```
//!
//! Power goes at a chosen operation, in the middle of whatever the caller is doing: from there on
//! every call fails, until [`SimDisk::restore_power`].

mod contents;
mod fault;
mod handle;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage::disk::{DirEntry, Disk, DiskError, DiskFile, Failed, OpenMode};

pub use contents::{PAGE_BYTES, PowerCut, SECTOR_BYTES};
pub use fault::{Fault, FaultKind, Operation};

use crate::random::Random;
use crate::trace::{Trace, hash};
use fault::Faults;
use handle::SimFile;
use tree::{PathError, Tree};

/// The end of the name of a file that is about to replace another.
const BESIDE: &str = ".tmp";

/// A simulated disk. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

impl std::fmt::Debug for SimDisk {
    /// Without what lies on it: whoever prints a handle does not want every byte.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimDisk")
    }
}

pub(crate) struct State {
    tree: Tree,
    faults: Faults,
    random: Random,
    trace: Trace,
    /// Chances in a thousand that an operation comes with writeback nobody asked for.
    writeback_per_thousand: u32,
    /// Counts starts of the machine: a handle from an earlier one is dead.
    boot: u32,
    power: Power,
    /// Whether armed faults wait, so that who judges the log is not struck.
    faults_held: bool,
    /// Operations that changed something, or tried to.
    changes: u64,
    /// Whether a barrier has failed since the power was last off.
    sync_failed: bool,
    /// Whether a barrier is answered and not done.
    ignores_barriers: bool,
    damage: Vec<Damage>,
}

/// What ends in the middle of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The machine: the page cache is gone with it.
    Power,
    /// The process: the page cache stays, with whatever part of a write had come there.
    Process,
}

/// Whether the machine and the process run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    /// On for this many more changing operations.
    Until(u64, Halt),
    Off(Halt),
}

/// Something the disk did to bytes it had promised to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which file.
    pub path: PathBuf,
    /// The bytes that may be wrong.
    pub bytes: std::ops::Range<usize>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(random: Random, trace: Trace) -> Self {
        Self(Arc::new(Mutex::new(State {
            tree: Tree::new(),
            faults: Faults::default(),
            random,
            trace,
            writeback_per_thousand: 0,
            boot: 0,
            power: Power::On,
            faults_held: false,
            changes: 0,
            sync_failed: false,
            ignores_barriers: false,
            damage: Vec::new(),
        })))
    }

    /// Sets how often writeback happens that nobody asked for, in a thousand operations.
    pub fn set_writeback(&self, per_thousand: u32) {
        self.lock().writeback_per_thousand = per_thousand;
    }

    /// Arms a fault.
    pub fn arm(&self, fault: Fault) {
        self.lock().faults.arm(fault);
    }

    /// Takes all armed faults away, also the lasting ones; whether one had struck.
    pub fn disarm(&self) -> bool {
        self.lock().faults.disarm()
    }

    /// Whether an armed fault has struck since the last [`SimDisk::disarm`].
    pub fn has_struck(&self) -> bool {
        self.lock().faults.has_struck()
    }

    /// Whether a barrier has failed since the last start or power cut: what the page cache shows may then
    /// never have reached the media, and no later barrier will say so.
    pub fn has_failed_to_sync(&self) -> bool {
        self.lock().sync_failed
    }

    /// Whoever came up has read again what lay behind such a barrier, or written it anew.
    pub fn believe_again(&self) {
        self.lock().sync_failed = false;
    }

    /// The faults that have struck since the last [`SimDisk::disarm`]: which operation on which file.
    pub fn strikes(&self) -> Vec<(Operation, PathBuf)> {
        self.lock().faults.strikes().to_vec()
    }

    /// Lets armed faults wait, or strike again.
    pub fn hold_faults(&self, held: bool) {
        self.lock().faults_held = held;
    }

    /// Lets the power go, or the process die, at the changing operation that comes after `operations`
    /// more.
    pub fn halt_after(&self, operations: u64, halt: Halt) {
        self.lock().power = Power::Until(operations, halt);
    }

    /// Takes back what [`SimDisk::halt_after`] said, if it has not come to that.
    pub fn stay_up(&self) {
        let mut state = self.lock();
        if let Power::Until(..) = state.power {
            state.power = Power::On;
        }
    }

    /// How many changing operations are left until something ends, if it was told to.
    pub fn halt_pending(&self) -> Option<(u64, Halt)> {
        match self.lock().power {
            Power::Until(operations, halt) => Some((operations, halt)),
            Power::On | Power::Off(_) => None,
        }
    }

    /// What has ended, if something has.
    pub fn halted(&self) -> Option<Halt> {
        match self.lock().power {
            Power::Off(halt) => Some(halt),
            Power::On | Power::Until(..) => None,
        }
    }

    /// The machine comes back after a power cut: the page cache is what the media gave back.
    pub fn restore_power(&self, cut: PowerCut) {
        let mut state = self.lock();
        let State { tree, random, .. } = &mut *state;
        tree.cut_power(cut, random);
        state.sync_failed = false;
        state.reboot();
        state.note(format!("power cut, keeping {cut:?}"));
    }

    /// The process was killed, the machine was not: the page cache is as it was, handles are dead.
    pub fn kill_process(&self) {
        let mut state = self.lock();
        state.reboot();
        state.note("process killed".to_owned());
    }

    /// Flips the bits of `mask` in one byte at rest.
    pub fn rot(&self, path: &Path, position: usize, mask: u8) {
        let mut state = self.lock();
        let Ok(file) = state.tree.file(path) else { return };
        if let Some(contents) = state.tree.contents_mut(file) {
            contents.rot(position, mask);
        }
        state.note(format!("rot {} at {position} by {mask:#04x}", path.display()));
    }

    /// Cuts a file for good.
    pub fn shorten(&self, path: &Path, len: usize) {
        let mut state = self.lock();
        let Ok(file) = state.tree.file(path) else { return };
        if let Some(contents) = state.tree.contents_mut(file) {
            contents.set_len(len);
            contents.sync();
        }
        state.note(format!("shortened {} to {len}", path.display()));
    }

    /// Removes a file for good, as if it had never been there.
    pub fn lose(&self, path: &Path) {
        let mut state = self.lock();
        let _ = state.tree.lose(path);
        state.note(format!("lost {}", path.display()));
    }

    /// What the page cache shows of a file.
    pub fn peek(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        let file = state.tree.file(path).ok()?;
        state.tree.contents(file).map(|contents| contents.cached().to_vec())
    }

    /// What reads of a file give once nothing is cached any more but what is dirty.
    pub fn peek_uncached(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        let file = state.tree.file(path).ok()?;
        let mut contents = state.tree.contents(file)?.clone();
        contents.forget_cached(0);
        Some(contents.cached().to_vec())
    }

    /// What a power cut would certainly leave of a file; `None` if its name may be gone.
    pub fn on_media(&self, path: &Path) -> Option<Vec<u8>> {
        self.lock().tree.on_media(path).map(<[u8]>::to_vec)
    }

    /// The names that a power cut would certainly leave in a directory, in order.
    pub fn names_on_media(&self, dir: &Path) -> Vec<String> {
        self.lock().tree.names_on_media(dir)
    }

    /// Says yes to every barrier from here on and does nothing, as a disk that lies.
    pub fn ignore_barriers(&self) {
        self.lock().ignores_barriers = true;
    }

    /// Every path to a file, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        self.lock().tree.files().into_iter().map(PathBuf::from).collect()
    }

    /// How many operations have changed something, or tried to.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// What the disk has broken of its promises.
    pub fn damage(&self) -> Vec<Damage> {
        self.lock().damage.clone()
    }

    /// Whether the disk has broken a promise.
    pub fn has_lied(&self) -> bool {
        !self.lock().damage.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        let mut state = self.lock();
        state.admit_quietly(Operation::Open, path)?;
        let file = match state.tree.file(path) {
            Ok(file) => file,
            Err(PathError::Missing) if mode == OpenMode::Create => {
                state.admit(Operation::Create, path, 0)?;
                state.tree.create_file(path).map_err(|why| refuse(Operation::Open, path, why))?
            }
            Err(why) => return Err(refuse(Operation::Open, path, why)),
        };
        let boot = state.boot;
        drop(state);
        Ok(Arc::new(SimFile::new(self.clone(), file, path.to_owned(), mode, boot)))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let mut state = self.lock();
        state.admit_quietly(Operation::Read, path)?;
        let file = match state.tree.file(path) {
            Ok(file) => file,
            Err(PathError::Missing) => return Ok(None),
            Err(why) => return Err(refuse(Operation::Read, path, why)),
        };
        let bytes = state.tree.contents(file).map(|contents| contents.cached().to_vec()).unwrap_or_default();
        if bytes.len() as u64 > bytes_max {
            return Err(error(Operation::Read, path, "larger than it may be", Failed::File));
        }
        Ok(Some(bytes))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(BESIDE);
        let beside = PathBuf::from(beside);
        let file = self.open(&beside, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(&[std::io::IoSlice::new(bytes)], 0)?;
        file.sync()?;
        self.rename(&beside, path)?;
        self.sync_dir(path.parent().unwrap_or(Path::new("/")))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.admit(Operation::CreateDir, path, 0)?;
        state.tree.create_dir(path).map_err(|why| refuse(Operation::CreateDir, path, why))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let mut state = self.lock();
        state.admit_quietly(Operation::List, path)?;
        let entries = state.tree.list(path).map_err(|why| refuse(Operation::List, path, why))?;
        Ok(entries.into_iter().map(|(name, is_dir, len)| DirEntry { name, is_dir, len }).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.admit(Operation::Rename, to, hash(0, from.as_os_str().as_encoded_bytes()))?;
        state.tree.rename(from, to).map_err(|why| refuse(Operation::Rename, from, why))
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.admit(Operation::Remove, path, 0)?;
        match state.tree.file(path) {
            Err(PathError::Missing) => Ok(()),
            Err(why) => Err(refuse(Operation::Remove, path, why)),
            Ok(_) => state.tree.unlink(path).map_err(|why| refuse(Operation::Remove, path, why)),
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        let entries = {
            let mut state = self.lock();
            state.admit_quietly(Operation::List, path)?;
            match state.tree.list(path) {
                Err(PathError::Missing) => return Ok(()),
                Err(why) => return Err(refuse(Operation::Remove, path, why)),
                Ok(entries) => entries,
            }
        };
        for (name, is_dir, _) in entries {
            let child = path.join(name);
            match is_dir {
                true => self.remove_dir(&child)?,
                false => self.remove_file(&child)?,
            }
        }
        let mut state = self.lock();
        state.admit(Operation::Remove, path, 0)?;
        state.tree.unlink(path).map_err(|why| refuse(Operation::Remove, path, why))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let mut state = self.lock();
        state.admit(Operation::SyncDir, path, 0)?;
        state.tree.sync_dir(path).map_err(|why| refuse(Operation::SyncDir, path, why))
    }
}

impl State {
    /// Lets an operation that changes something begin, or says why it fails. The answer is how a
    /// barrier has to lie, if it has to.
    fn admit(
        &mut self,
        operation: Operation,
        path: &Path,
        detail: u64,
    ) -> Result<Option<FaultKind>, DiskError> {
        match self.power {
            Power::On => {}
            Power::Until(0, halt) | Power::Off(halt) => {
                if self.power != Power::Off(halt) {
                    self.note(format!("{halt:?} gone at {} {}", operation.name(), path.display()));
                }
                self.power = Power::Off(halt);
                return Err(gone(operation, path));
            }
            Power::Until(left, halt) => self.power = Power::Until(left - 1, halt),
        }
        self.changes += 1;
        self.note(format!("{} {} {detail:x}", operation.name(), path.display()));
        if self.random.chance(self.writeback_per_thousand) {
            let Self { tree, random, .. } = self;
            tree.write_back_some(random);
        }
        self.strike(operation, path)
    }

    /// The same for an operation that only looks.
    fn admit_quietly(&mut self, operation: Operation, path: &Path) -> Result<(), DiskError> {
        if let Power::Off(_) = self.power {
            return Err(gone(operation, path));
        }
        self.strike(operation, path).map(|_| ())
    }

    fn strike(&mut self, operation: Operation, path: &Path) -> Result<Option<FaultKind>, DiskError> {
        if self.faults_held {
            return Ok(None);
        }
        let struck = self.faults.strike(operation, path);
        self.sync_failed |= matches!(struck, Some(FaultKind::Io | FaultKind::Full))
            && matches!(operation, Operation::Sync | Operation::SyncDir);
        match struck {
            lie @ (None | Some(FaultKind::LostWrite | FaultKind::Misdirected)) => Ok(lie),
            Some(FaultKind::Io) => {
                self.note(format!("{} {} fails", operation.name(), path.display()));
                Err(error(operation, path, "input/output error", operation.breaks()))
            }
            Some(FaultKind::Full) => {
                self.note(format!("{} {} finds no room", operation.name(), path.display()));
                Err(error(operation, path, "no space left on device", Failed::Directory))
            }
        }
    }

    fn note(&self, event: String) {
        self.trace.event(event);
    }

    fn reboot(&mut self) {
        self.boot += 1;
        self.power = Power::On;
        self.faults.disarm();
    }
}

fn error(operation: Operation, path: &Path, reason: &str, failed: Failed) -> DiskError {
    DiskError { operation: operation.name(), path: path.to_owned(), reason: reason.to_owned(), failed }
}

/// What nobody hears any more.
fn gone(operation: Operation, path: &Path) -> DiskError {
    error(operation, path, "the machine or the process is gone", Failed::Directory)
}

fn refuse(operation: Operation, path: &Path, why: PathError) -> DiskError {
    error(operation, path, why.reason(), Failed::File)
}

#[cfg(test)]
mod tests;
