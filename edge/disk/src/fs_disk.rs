//! One log directory on a file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::disk::{DirEntry, Disk, DiskError, DiskFile, OpenMode};

use crate::file::FsFile;
use crate::health::{DirHealth, disk_error};

/// Records are nobody else's business, whatever the umask says.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// The files of one log directory. Relative paths are below its root.
#[derive(Debug)]
pub struct FsDisk {
    root: PathBuf,
    health: Arc<DirHealth>,
}

impl FsDisk {
    /// The directory at `root`, which need not be there yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), health: Arc::default() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the directory can still be trusted.
    pub fn health(&self) -> &Arc<DirHealth> {
        &self.health
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    fn write_beside(&self, temporary: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(temporary)
            .map_err(|error| self.health.judge("open", temporary, error))?;
        file.write_all(bytes).map_err(|error| self.health.retire("write", temporary, error))?;
        file.sync_all().map_err(|error| self.health.retire("sync", temporary, error))?;
        self.health.check("sync", temporary)
    }

    fn rename_synced(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::rename(from, to).map_err(|error| self.health.judge("rename", from, error))?;
        self.sync_dir_at(to.parent().unwrap_or(&self.root))
    }

    fn sync_dir_at(&self, path: &Path) -> Result<(), DiskError> {
        let dir = File::open(path).map_err(|error| disk_error("open", path, &error))?;
        dir.sync_all().map_err(|error| self.health.retire("sync", path, error))?;
        self.health.check("sync", path)
    }
}

impl Disk for FsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        let path = self.at(path);
        if mode == OpenMode::Create {
            self.health.check("open", &path)?;
        }
        // The standard library opens everything with `O_CLOEXEC`.
        let file = OpenOptions::new()
            .read(true)
            .write(mode != OpenMode::Read)
            .create(mode == OpenMode::Create)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(|error| self.health.judge("open", &path, error))?;
        Ok(Arc::new(FsFile { file, path, mode, health: self.health.clone() }))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let path = self.at(path);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk_error("open", &path, &error)),
        };
        let mut bytes = Vec::new();
        // One byte more shows that there is more, whatever length the file claims or grows to.
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| disk_error("read", &path, &error))?;
        if bytes.len() as u64 > bytes_max {
            let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("over {bytes_max} bytes"));
            return Err(disk_error("read", &path, &error));
        }
        Ok(Some(bytes))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let path = self.at(path);
        self.health.check("replace", &path)?;
        let mut temporary = path.clone().into_os_string();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        self.write_beside(&temporary, bytes)?;
        self.rename_synced(&temporary, &path)
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        let path = self.at(path);
        self.health.check("create", &path)?;
        DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(&path)
            .map_err(|error| self.health.judge("create", &path, error))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let path = self.at(path);
        let failed = |error: io::Error| disk_error("list", &path, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // We give no file such a name, so whatever it is, it is not ours.
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.metadata() {
                Ok(found) => {
                    let is_dir = found.is_dir();
                    entries.push(DirEntry { name, is_dir, len: if is_dir { 0 } else { found.len() } });
                }
                // Removed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let (from, to) = (self.at(from), self.at(to));
        self.health.check("rename", &from)?;
        fs::rename(&from, &to).map_err(|error| self.health.judge("rename", &from, error))
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let path = self.at(path);
        self.health.check("remove", &path)?;
        gone(fs::remove_file(&path)).map_err(|error| self.health.judge("remove", &path, error))
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        let path = self.at(path);
        self.health.check("remove", &path)?;
        gone(fs::remove_dir_all(&path)).map_err(|error| self.health.judge("remove", &path, error))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let path = self.at(path);
        self.health.check("sync", &path)?;
        self.sync_dir_at(&path)
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
