//! Bugs that are planted on purpose, to prove that the simulation finds such bugs.
//!
//! None of them is in the product, for a door that lets a bug in could be left open: each is a wrapper
//! around the disk or a mistake of the simulated server, made where a careless change would make it. So
//! none of them can ship.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use records::{BatchHeader, HEADER_BYTES};
use storage::disk::{DirEntry, Disk, DiskError, DiskFile, OpenMode};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Files are not synced: records are acknowledged from the page cache.
    AckBeforeSync,
    /// The directory of a log is not synced: new segments can lose their names.
    NamesNotSynced,
    /// A barrier that fails is tried again, and believed when it then says yes.
    FailedSyncRetried,
    /// A start after a barrier that failed believes what the page cache shows.
    CacheBelieved,
    /// A write that fails is taken for one that came through.
    WriteErrorIgnored,
    /// Bytes that cannot be read are taken for bytes that are not there.
    ReadErrorIsEnd,
    /// Nobody looks at checksums.
    ChecksumsSkipped,
    /// The checkpoint says more than is on the media: up to the end of the log.
    CheckpointAhead,
    /// The log is cut before the checkpoint is lowered.
    CutBeforeCheckpoint,
    /// The checkpoint is not read: damage to durable records looks like a torn end.
    CheckpointIgnored,
    /// The start that DeleteRecords set is not written to its checkpoint.
    LogStartForgotten,
    /// After a restart the log is not told what to delete.
    RetentionForgotten,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::AckBeforeSync,
        Self::NamesNotSynced,
        Self::FailedSyncRetried,
        Self::CacheBelieved,
        Self::WriteErrorIgnored,
        Self::ReadErrorIsEnd,
        Self::ChecksumsSkipped,
        Self::CheckpointAhead,
        Self::CutBeforeCheckpoint,
        Self::CheckpointIgnored,
        Self::LogStartForgotten,
        Self::RetentionForgotten,
    ];

    /// The one with this name, as `Debug` prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plant| format!("{plant:?}").eq_ignore_ascii_case(name))
    }

    /// The disk as the log sees it.
    pub fn behind_door(plant: Option<Self>, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        match plant {
            Some(
                plant @ (Self::AckBeforeSync
                | Self::NamesNotSynced
                | Self::FailedSyncRetried
                | Self::CacheBelieved
                | Self::WriteErrorIgnored
                | Self::ReadErrorIsEnd
                | Self::ChecksumsSkipped),
            ) => Arc::new(CarelessDisk { disk, plant }),
            Some(_) | None => disk,
        }
    }
}

/// A disk that is not used as it must be.
#[derive(Debug)]
struct CarelessDisk {
    disk: Arc<dyn Disk>,
    plant: Plant,
}

impl Disk for CarelessDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        let file = self.disk.open(path, mode)?;
        let path = path.to_owned();
        Ok(Arc::new(CarelessFile { file, path, plant: self.plant }))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        self.disk.read(path, bytes_max)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        self.disk.replace(path, bytes)
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.create_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        self.disk.list(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let of_log = path.parent().is_some_and(|parent| parent != Path::new("/"));
        if of_log && self.plant == Plant::NamesNotSynced { Ok(()) } else { self.disk.sync_dir(path) }
    }
}

#[derive(Debug)]
struct CarelessFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    plant: Plant,
}

impl DiskFile for CarelessFile {
    fn write_at(&self, parts: &[IoSlice<'_>], position: u64) -> Result<(), DiskError> {
        let written = self.file.write_at(parts, position);
        if self.plant == Plant::WriteErrorIgnored { Ok(()) } else { written }
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize, DiskError> {
        let read = match self.file.read_at(buffer, position) {
            Err(_) if self.plant == Plant::ReadErrorIsEnd => 0,
            read => read?,
        };
        if self.plant == Plant::ChecksumsSkipped && self.path.extension().is_some_and(|e| e == "log") {
            forge_checksums(self.file.as_ref(), &mut buffer[..read], position)?;
        }
        Ok(read)
    }

    fn len(&self) -> Result<u64, DiskError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.file.set_len(len)
    }

    fn sync(&self) -> Result<(), DiskError> {
        match self.plant {
            Plant::AckBeforeSync => Ok(()),
            Plant::FailedSyncRetried => self.file.sync().or_else(|_| self.file.sync()),
            _ => self.file.sync(),
        }
    }

    fn reread(&self, position: u64) -> Result<(), DiskError> {
        if self.plant == Plant::CacheBelieved { Ok(()) } else { self.file.reread(position) }
    }

    fn descriptor(&self) -> Option<i32> {
        self.file.descriptor()
    }
}

/// Shows every batch with the checksum that its bytes have, which is what reading without comparing
/// checksums comes to.
fn forge_checksums(file: &dyn DiskFile, shown: &mut [u8], position: u64) -> Result<(), DiskError> {
    const CRC_AT: usize = 17;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    let shown_from = usize::try_from(position).unwrap_or(usize::MAX);
    let mut at = 0;
    while let Ok(header) = BatchHeader::parse(&bytes[at..]) {
        let Some(batch) = bytes.get(at..at + header.size_bytes()) else { break };
        let crc = header.compute_crc(&batch[HEADER_BYTES..]).to_be_bytes();
        for (place, byte) in (at + CRC_AT..).zip(crc) {
            if let Some(shown) = place.checked_sub(shown_from).and_then(|i| shown.get_mut(i)) {
                *shown = byte;
            }
        }
        at += header.size_bytes();
    }
    Ok(())
}
