//! Where the files of one log lie.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Offset;

use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::layout::{FileKind, deleted_name, file_name};

/// A partition's directory and the disk it lies on.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
}

impl Home {
    pub(crate) fn path(&self, kind: FileKind, base: Offset) -> PathBuf {
        self.dir.join(file_name(kind, base))
    }

    pub(crate) fn open(
        &self,
        kind: FileKind,
        base: Offset,
        mode: OpenMode,
    ) -> Result<Arc<dyn DiskFile>, DiskError> {
        self.disk.open(&self.path(kind, base), mode)
    }

    pub(crate) fn remove(&self, kind: FileKind, base: Offset) -> Result<(), DiskError> {
        self.disk.remove_file(&self.path(kind, base))
    }

    /// Renames a segment's records out of the way; they stay readable until they are removed.
    pub(crate) fn set_aside(&self, base: Offset) -> Result<PathBuf, DiskError> {
        let name = file_name(FileKind::Log, base);
        let aside = self.dir.join(deleted_name(&name));
        self.disk.rename(&self.dir.join(name), &aside)?;
        Ok(aside)
    }

    pub(crate) fn sync_dir(&self) -> Result<(), DiskError> {
        self.disk.sync_dir(&self.dir)
    }

    pub(crate) fn child(&self, name: &str) -> PathBuf {
        Path::new(&self.dir).join(name)
    }
}
