//! What disks do to those who trust them.

use std::path::{Path, PathBuf};

use storage::layout::{FileKind, FileName, parse_file_name};

use crate::disk::{Fault, FaultKind, Operation};
use crate::found::{Rotten, Stop};
use crate::world::World;

/// What is made from records.
const TABLES: [FileKind; 4] =
    [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex, FileKind::Snapshot];
/// Where a batch says in which leader epoch it was written. No checksum covers that.
const LEADER_EPOCH: std::ops::Range<usize> = 12..16;

impl World {
    /// Something will fail soon, or a barrier will lie.
    pub(super) fn fail(&mut self) {
        const OPERATIONS: [Operation; 12] = [
            Operation::Write,
            Operation::Write,
            Operation::Sync,
            Operation::Sync,
            Operation::SyncDir,
            Operation::Create,
            Operation::SetLen,
            Operation::Rename,
            Operation::Read,
            Operation::Read,
            Operation::Open,
            Operation::Remove,
        ];
        let lies = self.options.lies && self.random.chance(500);
        let after = self.random.below(12);
        let fault = if lies {
            let kind = self.random.pick(&[FaultKind::LostWrite, FaultKind::Misdirected]);
            Fault { on: Operation::Sync, after, kind, suffix: ".log" }
        } else {
            let kind = self.random.pick(&[FaultKind::Io, FaultKind::Full]);
            Fault { on: self.random.pick(&OPERATIONS), after, kind, suffix: "" }
        };
        self.disk.arm(fault);
    }

    /// The server goes down, and while it is, a bit flips: mostly of its records, else of what follows
    /// from them.
    pub(super) fn rot(&mut self) {
        let stop = self.random.pick(&[Stop::Killed, Stop::PowerCut]);
        self.restart(stop, |world, _| {
            let of_records = world.random.chance(600);
            let kinds: &[FileKind] = if of_records { &[FileKind::Log] } else { &TABLES };
            let (path, len) = world.any_file(kinds)?;
            let position = world.random.index(len);
            let mask = 1 << world.random.below(8);
            let lasts = !of_records || world.is_leader_epoch(&path, position);
            world.disk.rot(&path, position, mask);
            Some(Rotten { path, position, mask, lasts })
        });
    }

    /// The server goes down, and while it is, something is lost that can be made again from records.
    pub(super) fn lose_file(&mut self) {
        let stop = self.random.pick(&[Stop::Killed, Stop::PowerCut]);
        self.restart(stop, |world, _| {
            let kinds = [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::Snapshot];
            let (path, len) = world.any_file(&kinds)?;
            match parse_file_name(path.file_name()?.to_str()?) {
                FileName::Part(FileKind::Snapshot, _) if len > 0 => {
                    let position = world.random.index(len);
                    world.disk.rot(&path, position, 0xff);
                }
                _ => world.disk.lose(&path),
            }
            None
        });
    }

    /// A file of one of these kinds with something in it.
    fn any_file(&mut self, kinds: &[FileKind]) -> Option<(PathBuf, usize)> {
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            matches!(parse_file_name(name), FileName::Part(kind, _) if kinds.contains(&kind))
        };
        let files: Vec<PathBuf> = self.disk.files().into_iter().filter(is_wanted).collect();
        let path = files.get(self.random.index(files.len()))?.clone();
        let len = self.disk.peek(&path)?.len();
        (len > 0).then_some((path, len))
    }

    /// Whether a byte of a file of records belongs to a leader epoch.
    fn is_leader_epoch(&self, path: &Path, position: usize) -> bool {
        let bytes = self.disk.peek(path).unwrap_or_default();
        let mut at = 0;
        while let Some(Ok(header)) = bytes.get(at..).map(records::BatchHeader::parse) {
            if position < at + header.size_bytes() {
                return LEADER_EPOCH.contains(&(position - at));
            }
            at += header.size_bytes();
        }
        false
    }
}
