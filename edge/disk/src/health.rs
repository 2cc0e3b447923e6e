//! Whether a directory can still be trusted, shared by all who use it.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::Errno;
use storage::disk::{DiskError, Failed};

/// The state of one log directory.
#[derive(Debug, Default)]
pub struct DirHealth {
    retired: OnceLock<DiskError>,
}

impl DirHealth {
    /// The error that retired the directory; `None` while it is good.
    pub fn retired(&self) -> Option<&DiskError> {
        self.retired.get()
    }

    /// Refuses to change anything in a directory that is retired.
    pub(crate) fn check(&self, operation: &'static str, path: &Path) -> Result<(), DiskError> {
        match self.retired() {
            None => Ok(()),
            Some(first) => Err(DiskError {
                operation,
                path: path.to_owned(),
                reason: format!("the directory is retired since {first}"),
                failed: Failed::Directory,
            }),
        }
    }

    /// An error after which nothing is known: retires the directory.
    pub(crate) fn retire(&self, operation: &'static str, path: &Path, error: io::Error) -> DiskError {
        let error = DiskError { failed: Failed::Directory, ..disk_error(operation, path, &error) };
        // Only the first counts. Whoever gets the error tells of it.
        let _ = self.retired.set(error.clone());
        error
    }

    /// An error of a change to names. The disk is at fault, and the directory retired, unless the
    /// error is about the names themselves or about this process.
    pub(crate) fn judge(&self, operation: &'static str, path: &Path, error: io::Error) -> DiskError {
        let has_no_room = matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::DQUOT));
        if has_no_room || is_of_medium(&error) {
            self.retire(operation, path, error)
        } else {
            disk_error(operation, path, &error)
        }
    }
}

/// Whether an error says that the disk below is at fault, not what was asked of it.
pub(crate) fn is_of_medium(error: &io::Error) -> bool {
    const FAULTS: [Errno; 6] =
        [Errno::IO, Errno::ROFS, Errno::NODEV, Errno::NXIO, Errno::UCLEAN, Errno::SHUTDOWN];
    Errno::from_io_error(error).is_some_and(|errno| FAULTS.contains(&errno))
}

/// An error of one file, or of this process; the directory is as good as before.
pub(crate) fn disk_error(operation: &'static str, path: &Path, error: &io::Error) -> DiskError {
    let of_process = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM));
    let failed = if of_process { Failed::Process } else { Failed::File };
    DiskError { operation, path: path.to_owned(), reason: error.to_string(), failed }
}
