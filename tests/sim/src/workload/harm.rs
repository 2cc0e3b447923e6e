//! What disks do to those who trust them.

use std::path::{Path, PathBuf};

use storage::layout::{FileKind, FileName, parse_file_name};

use crate::disk::{Fault, FaultKind, Operation};
use crate::found::{Rotten, Stop};
use crate::world::World;

/// The bytes of a batch that no checksum covers: base offset, length and leader epoch.
const UNCOVERED_BYTES: usize = 16;

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

    /// The server goes down, and while it is, a bit of its records flips.
    pub(super) fn rot(&mut self) {
        let stop = self.random.pick(&[Stop::Killed, Stop::PowerCut]);
        self.restart(stop, |world, _| {
            let (path, len) = world.any_file(&[FileKind::Log])?;
            let position = world.random.index(len);
            if world.is_uncovered(&path, position) {
                return None;
            }
            let mask = 1 << world.random.below(8);
            world.disk.rot(&path, position, mask);
            Some(Rotten { path, position, mask })
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

    /// Whether a byte of a file of records is one that only a comparison with others could judge.
    fn is_uncovered(&self, path: &Path, position: usize) -> bool {
        let bytes = self.disk.peek(path).unwrap_or_default();
        let mut at = 0;
        while let Some(Ok(header)) = bytes.get(at..).map(records::BatchHeader::parse) {
            if (at..at + UNCOVERED_BYTES).contains(&position) {
                return true;
            }
            at += header.size_bytes();
        }
        false
    }
}
