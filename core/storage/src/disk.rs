//! The only door to a disk.
//!
//! Everything in `storage` that touches bytes at rest goes through these two traits, so that the
//! simulator can stand behind them with a disk that forgets, tears, reorders and lies.
//!
//! What the caller may count on, and nothing more:
//!
//! ```text
//!   write_at ─▶ page cache ─ sync ─▶ media        bytes and length of one file
//!   open(create), rename, remove ─ sync_dir ─▶    the names in one directory
//! ```
//!
//! Before its barrier a change may survive a power cut whole, in part, out of order, or not at all.
//! After the first error of a write or a barrier nothing is known about the file: the caller gives
//! up the whole directory for good, it never tries again.

use std::fmt::Debug;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An operation on a disk that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {path}: {reason}", path = path.display())]
pub struct DiskError {
    /// What was tried: `write`, `sync`, `open`, …
    pub operation: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub reason: String,
    /// What has failed.
    pub failed: Failed,
}

/// How far an error of a disk reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// A write, a barrier or a change of names: nothing that the disk says about the directory can be
    /// believed any more.
    Directory,
    /// One file or name, which cannot be read, say. Others are as good as before.
    File,
    /// The process has no descriptors or no memory left. Nothing was changed, and the same may work later.
    Process,
}

impl DiskError {
    /// Whether the directory must be given up.
    pub fn is_of_directory(&self) -> bool {
        self.failed == Failed::Directory
    }
}

/// What [`Disk::list`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name within the directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It must exist; writing is an error.
    Read,
    /// It must exist; for reading and writing.
    Write,
    /// For reading and writing; made if it is not there, kept as it is if it is.
    Create,
}

/// One file system as one log directory sees it. Every call may block.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError>;
    /// Reads a small file whole; `None` if it is not there, an error if it is over `bytes_max`.
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError>;
    /// Puts a small file in the place of another, so that after a power cut one of the two is there,
    /// whole: written beside it, synced, renamed, directory synced.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError>;
    /// Makes a directory, and those above it, unless they are there.
    fn create_dir(&self, path: &Path) -> Result<(), DiskError>;
    /// What lies in a directory, ordered by name. An error if it is not there.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError>;
    /// Renames a file or a directory, in the place of what was there.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;
    /// Removes a file; fine if it is not there.
    fn remove_file(&self, path: &Path) -> Result<(), DiskError>;
    /// Removes a directory with all that is in it; fine if it is not there.
    fn remove_dir(&self, path: &Path) -> Result<(), DiskError>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> Result<(), DiskError>;
}

#[expect(clippy::len_without_is_empty, reason = "nobody asks whether a file is empty")]
/// An open file. Stays readable after it was renamed or removed.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all the parts, one after the other, from `position`; grows the file as needed.
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError>;
    /// Reads from `position` until the buffer is full or the file ends; how many bytes were read.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize, DiskError>;
    /// Length in bytes, as the page cache has it.
    fn len(&self) -> Result<u64, DiskError>;
    /// Cuts the file, or grows it with zeroes.
    fn set_len(&self, len: u64) -> Result<(), DiskError>;
    /// Makes bytes and length durable: `fdatasync`.
    fn sync(&self) -> Result<(), DiskError>;
    /// Lets reads from `position` on show what the media has, or is still to get: what is cached and was written is
    /// forgotten. After a barrier that failed, the page cache goes on showing what the media never got, and the next
    /// barrier says that all is well (Rebello et al., "Can Applications Recover from fsync Failures?", 2020).
    fn reread(&self, position: u64) -> Result<(), DiskError>;
    /// The operating system's number for it, for `sendfile`; `None` in a simulation.
    fn descriptor(&self) -> Option<i32>;
}
