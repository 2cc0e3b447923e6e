//! Failures that are armed ahead: the n-th operation of a kind goes wrong.

use std::path::{Path, PathBuf};

use storage::disk::Failed;

/// What a disk can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of the same name")]
pub enum Operation {
    Open,
    Create,
    Read,
    Write,
    SetLen,
    Sync,
    List,
    CreateDir,
    Rename,
    Remove,
    SyncDir,
}

impl Operation {
    /// The word for it in errors and in the trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLen => "set_len",
            Self::Sync => "sync",
            Self::List => "list",
            Self::CreateDir => "create_dir",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::SyncDir => "sync_dir",
        }
    }

    /// How far an error of it reaches.
    pub fn breaks(self) -> Failed {
        match self {
            Self::Open | Self::Read | Self::List => Failed::File,
            _ => Failed::Directory,
        }
    }
}

/// How an operation goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An input/output error, once. After a barrier that failed so, the next one says yes although
    /// part of the bytes never reached the media.
    Io,
    /// No room left, for this and every later operation of its kind.
    Full,
    /// A barrier says yes, but one sector is not there.
    LostWrite,
    /// A barrier says yes, but one sector went to another's place.
    Misdirected,
}

/// One failure to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which kind of operation it waits for.
    pub on: Operation,
    /// How many of them go well first.
    pub after: u64,
    /// What then happens.
    pub kind: FaultKind,
    /// How the names of files end that it may strike; empty for all.
    pub suffix: &'static str,
}

/// All armed faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Fault>,
    struck: Vec<(Operation, PathBuf)>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }

    pub(super) fn disarm(&mut self) -> bool {
        self.armed.clear();
        !std::mem::take(&mut self.struck).is_empty()
    }

    pub(super) fn has_struck(&self) -> bool {
        !self.struck.is_empty()
    }

    /// Which operations failed, on which files.
    pub(super) fn strikes(&self) -> &[(Operation, PathBuf)] {
        &self.struck
    }

    /// What happens to an operation that begins now.
    pub(super) fn strike(&mut self, operation: Operation, path: &Path) -> Option<FaultKind> {
        let lies = |kind| matches!(kind, FaultKind::LostWrite | FaultKind::Misdirected);
        let mut due = None;
        for (index, fault) in self.armed.iter_mut().enumerate() {
            if fault.on != operation
                || !path.as_os_str().as_encoded_bytes().ends_with(fault.suffix.as_bytes())
            {
                continue;
            }
            match fault.after.checked_sub(1) {
                Some(left) => fault.after = left,
                None => due = due.or(Some(index)),
            }
        }
        let index = due?;
        let kind = self.armed[index].kind;
        if kind != FaultKind::Full {
            self.armed.remove(index);
        }
        if !lies(kind) {
            self.struck.push((operation, path.to_owned()));
        }
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_strikes_once_at_the_nth() {
        let mut faults = Faults::default();
        faults.arm(Fault { on: Operation::Sync, after: 1, kind: FaultKind::Io, suffix: ".log" });
        assert_eq!(faults.strike(Operation::Write, Path::new("/0.log")), None);
        assert_eq!(faults.strike(Operation::Sync, Path::new("/0.log")), None);
        assert!(!faults.has_struck());
        assert_eq!(faults.strike(Operation::Sync, Path::new("/0.index")), None);
        assert_eq!(faults.strike(Operation::Sync, Path::new("/0.log")), Some(FaultKind::Io));
        assert_eq!(faults.strike(Operation::Sync, Path::new("/0.log")), None);
        assert!(faults.disarm());
        assert!(!faults.has_struck());
    }

    #[test]
    fn a_full_disk_stays_full() {
        let mut faults = Faults::default();
        faults.arm(Fault { on: Operation::Write, after: 0, kind: FaultKind::Full, suffix: "" });
        assert_eq!(faults.strike(Operation::Write, Path::new("/0.log")), Some(FaultKind::Full));
        assert_eq!(faults.strike(Operation::Write, Path::new("/0.log")), Some(FaultKind::Full));
        faults.disarm();
        assert_eq!(faults.strike(Operation::Write, Path::new("/0.log")), None);
    }
}
