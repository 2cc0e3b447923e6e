//! One process per data directory.
//!
//! The lock is on `.lock`, the name that Kafka uses. It is taken twice: by `flock`, which ends with
//! this process however it ends, and by `fcntl`, which is what a Java process would see.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

/// The name of the lock within the directory.
const LOCK_NAME: &str = ".lock";

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process uses it.
    #[error("{dir} is in use by {holder}; stop it, or give this one another directory", dir = dir.display())]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Who holds it, as far as the lock file says.
        holder: String,
    },
    /// It could not be tried.
    #[error("cannot lock {dir}: {source}", dir = dir.display())]
    Failed {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The right to use a data directory, until it is dropped or the process ends.
#[derive(Debug)]
pub struct DirLock {
    dir: PathBuf,
    /// Never read: the lock lives as long as it is open.
    _file: File,
}

impl DirLock {
    /// Takes the lock of a directory, which must be there.
    pub fn acquire(dir: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Failed { dir: dir.to_owned(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join(LOCK_NAME))
            .map_err(failed)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive));
        match locked {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => {
                return Err(LockError::Held { dir: dir.to_owned(), holder: holder(&mut file) });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { dir: dir.to_owned(), _file: file })
    }

    /// The directory that is locked.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

/// Kafka leaves the file empty, so there may be nothing to tell.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(20).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::acquire(dir.path()).unwrap();
        let error = DirLock::acquire(dir.path()).unwrap_err().to_string();
        let expected = format!("{} is in use by process {}", dir.path().display(), std::process::id());
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(first.dir(), dir.path());
        drop(first);
        DirLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_stale_file_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK_NAME), "999999999 and more than a number").unwrap();
        drop(DirLock::acquire(dir.path()).unwrap());
        let text = std::fs::read_to_string(dir.path().join(LOCK_NAME)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_nameless_holder_is_still_a_holder() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirLock::acquire(dir.path()).unwrap();
        std::fs::write(dir.path().join(LOCK_NAME), "").unwrap();
        let error = DirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(error.contains("in use by another process"), "{error}");
        drop(lock);
    }

    #[test]
    fn a_directory_that_is_not_there_cannot_be_locked() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(matches!(DirLock::acquire(&missing), Err(LockError::Failed { dir, .. }) if dir == missing));
    }
}
