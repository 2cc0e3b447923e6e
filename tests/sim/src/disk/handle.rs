//! An open file of the simulated disk.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use storage::disk::{DiskError, DiskFile, Failed, OpenMode};

use super::contents::Contents;
use super::fault::{FaultKind, Operation};
use super::tree::NodeId;
use super::{Damage, Halt, Power, SimDisk, State, error};
use crate::trace::hash;

/// A handle: it stays readable after its file was renamed or removed, and dies with the process.
#[derive(Debug)]
pub(super) struct SimFile {
    disk: SimDisk,
    node: NodeId,
    /// The path it was opened under, for errors.
    path: PathBuf,
    mode: OpenMode,
    boot: u32,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, node: NodeId, path: PathBuf, mode: OpenMode, boot: u32) -> Self {
        Self { disk, node, path, mode, boot }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn check(&self, state: &State, operation: Operation, writes: bool) -> Result<(), DiskError> {
        if state.boot != self.boot {
            return Err(error(operation, self.path(), "handle of a process that is gone", Failed::File));
        }
        if writes && self.mode == OpenMode::Read {
            return Err(error(operation, self.path(), "opened for reading only", Failed::File));
        }
        Ok(())
    }

    fn contents<'a>(&self, state: &'a State, operation: Operation) -> Result<&'a Contents, DiskError> {
        let gone = || error(operation, self.path(), "handle of a file that is gone", Failed::File);
        state.tree.contents(self.node).ok_or_else(gone)
    }

    fn contents_mut<'a>(
        &self,
        state: &'a mut State,
        operation: Operation,
    ) -> Result<&'a mut Contents, DiskError> {
        let gone = || error(operation, self.path(), "handle of a file that is gone", Failed::File);
        state.tree.contents_mut(self.node).ok_or_else(gone)
    }

    fn fail_sync(&self, state: &mut State) {
        let State { tree, random, power, .. } = state;
        if let (Some(contents), true) = (tree.contents_mut(self.node), !matches!(*power, Power::Off(_))) {
            contents.fail_sync(random);
        }
    }

    /// A barrier that the drive only pretends to carry out.
    fn lie(&self, state: &mut State, kind: FaultKind) {
        let State { tree, random, damage, .. } = state;
        let Some(contents) = tree.contents_mut(self.node) else { return };
        let bytes = match kind {
            FaultKind::Misdirected => contents.sync_misdirected(random),
            FaultKind::LostWrite | FaultKind::Io | FaultKind::Full => contents.sync_but_one(random),
        };
        match bytes {
            Some(bytes) => damage.push(Damage { path: self.path.clone(), bytes }),
            None => contents.sync(),
        }
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError> {
        let mut state = self.disk.lock();
        self.check(&state, Operation::Write, true)?;
        let bytes = parts.iter().map(|part| &part[..]).collect::<Vec<_>>().concat();
        let detail = hash(position, &bytes);
        let dies_here = state.power == Power::Until(0, Halt::Process);
        let admitted = state.admit(Operation::Write, self.path(), detail);
        // A write that fails, or that its process does not see the end of, may have written its first
        // part.
        let len = match (&admitted, state.power) {
            (Ok(_), _) => bytes.len(),
            (Err(_), Power::Off(_)) if !dies_here => 0,
            (Err(_), _) => state.random.index(bytes.len() + 1),
        };
        if len > 0 {
            let position = position as usize;
            self.contents_mut(&mut state, Operation::Write)?.write(position, &bytes[..len]);
        }
        admitted.map(|_| ())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize, DiskError> {
        let mut state = self.disk.lock();
        self.check(&state, Operation::Read, false)?;
        state.admit_quietly(Operation::Read, self.path())?;
        let cached = self.contents(&state, Operation::Read)?.cached();
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(cached.len());
        let len = buffer.len().min(cached.len() - start);
        buffer[..len].copy_from_slice(&cached[start..start + len]);
        Ok(len)
    }

    fn len(&self) -> Result<u64, DiskError> {
        let state = self.disk.lock();
        self.check(&state, Operation::Read, false)?;
        Ok(self.contents(&state, Operation::Read)?.cached().len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        let mut state = self.disk.lock();
        self.check(&state, Operation::SetLen, true)?;
        state.admit(Operation::SetLen, self.path(), len)?;
        self.contents_mut(&mut state, Operation::SetLen)?.set_len(len as usize);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.disk.lock();
        self.check(&state, Operation::Sync, false)?;
        match state.admit(Operation::Sync, self.path(), 0) {
            Ok(None) if state.ignores_barriers => {}
            Ok(None) => self.contents_mut(&mut state, Operation::Sync)?.sync(),
            Ok(Some(kind)) => self.lie(&mut state, kind),
            Err(failed) => {
                self.fail_sync(&mut state);
                return Err(failed);
            }
        }
        Ok(())
    }

    fn reread(&self, position: u64) -> Result<(), DiskError> {
        let mut state = self.disk.lock();
        self.check(&state, Operation::Read, false)?;
        self.contents_mut(&mut state, Operation::Read)?.forget_cached(position as usize);
        Ok(())
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }
}
