//! An open file of a log directory.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use rustix::param::page_size;
use storage::disk::{DiskError, DiskFile, OpenMode};

use crate::health::{DirHealth, disk_error};

/// The kernel takes no more parts than this in one call (`IOV_MAX`).
const PARTS_MAX: usize = 1_024;

/// The kernel forgets the pages of a file in whole pieces, large folios, which are no larger than a huge page: as many
/// pages as one of them has entries, of 8 bytes, in a table of pages.
fn piece_bytes() -> u64 {
    let page = page_size() as u64;
    page.saturating_mul(page / 8)
}

#[derive(Debug)]
pub(crate) struct FsFile {
    pub(crate) file: File,
    /// Where it was when it was opened; for messages.
    pub(crate) path: PathBuf,
    pub(crate) mode: OpenMode,
    pub(crate) health: Arc<DirHealth>,
}

impl FsFile {
    fn may_change(&self, operation: &'static str) -> Result<(), DiskError> {
        if self.mode == OpenMode::Read {
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "opened for reading");
            return Err(disk_error(operation, &self.path, &error));
        }
        self.health.check(operation, &self.path)
    }
}

impl DiskFile for FsFile {
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError> {
        self.may_change("write")?;
        let written = write_all_at(parts, position, |parts, position| {
            Ok(rustix::io::pwritev(&self.file, parts, position)?)
        });
        written.map_err(|error| self.health.retire("write", &self.path, error))
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize, DiskError> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], position + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(disk_error("read", &self.path, &error)),
            }
        }
        Ok(read)
    }

    fn len(&self) -> Result<u64, DiskError> {
        let metadata = self.file.metadata().map_err(|error| disk_error("stat", &self.path, &error))?;
        Ok(metadata.len())
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.may_change("truncate")?;
        self.file.set_len(len).map_err(|error| self.health.retire("truncate", &self.path, error))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.health.check("sync", &self.path)?;
        self.file.sync_data().map_err(|error| self.health.retire("sync", &self.path, error))?;
        // The kernel tells of an error once. Another barrier on the same file may have taken it, and
        // retired the directory, while this one was told that all is well.
        self.health.check("sync", &self.path)
    }

    fn reread(&self, position: u64) -> Result<(), DiskError> {
        // What is dirty stays, and is no lie: the next barrier writes it, or fails.
        let whole_pieces = position & !(piece_bytes() - 1);
        fadvise(&self.file, whole_pieces, None, Advice::DontNeed)
            .map_err(|error| disk_error("forget", &self.path, &error.into()))
    }

    fn descriptor(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

/// Writes all parts with as few calls as the kernel allows.
fn write_all_at(
    parts: &[IoSlice<'_>],
    position: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    // Only a short write needs a list of its own, so the usual case copies nothing.
    let mut rest: Vec<IoSlice<'_>> = Vec::new();
    let mut written = 0;
    while written < bytes {
        let list = if written == 0 { parts } else { &rest };
        match write(&list[..list.len().min(PARTS_MAX)], position + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if written < bytes {
            rest = parts_after(parts, written);
        }
    }
    Ok(())
}

fn parts_after<'a>(parts: &'a [IoSlice<'_>], mut skip: usize) -> Vec<IoSlice<'a>> {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let skipped = skip.min(part.len());
        skip -= skipped;
        if skipped < part.len() {
            rest.push(IoSlice::new(&part[skipped..]));
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes through a kernel that takes `at_once` bytes at most; what arrived, and in how many calls.
    fn write(lens: &[usize], at_once: usize) -> (Vec<u8>, usize) {
        let mut next = 0u8;
        let parts: Vec<Vec<u8>> = lens
            .iter()
            .map(|len| {
                (0..*len)
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect()
            })
            .collect();
        let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let (mut media, mut calls) = (vec![], 0);
        write_all_at(&slices, 10, |parts, position| {
            assert_eq!(position, 10 + media.len() as u64);
            assert!(parts.len() <= PARTS_MAX);
            calls += 1;
            if calls % 3 == 2 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            let taken = all.len().min(at_once);
            media.extend_from_slice(&all[..taken]);
            Ok(taken)
        })
        .unwrap();
        assert_eq!(media, parts.concat());
        (media, calls)
    }

    #[test]
    fn short_writes_are_continued() {
        for at_once in [1, 2, 3, 7, 64] {
            write(&[0, 5, 0, 1, 9, 0], at_once);
        }
        assert_eq!(write(&[], 1).1, 0);
        assert_eq!(write(&[3, 4], 100).1, 1);
    }

    #[test]
    fn more_parts_than_the_kernel_takes() {
        let (media, calls) = write(&[1; 2_500], usize::MAX);
        assert_eq!(media.len(), 2_500);
        assert_eq!(calls, 4, "three writes and one interruption");
    }
}
