//! The log directories of a broker: whose they are, what lies in them, where new partitions go.
//!
//! ```text
//!   data-1/ meta.properties                    whose directory this is
//!           .kafka_cleanshutdown               there only between an orderly stop and the next start
//!           recovery-point-offset-checkpoint   three offsets of each partition
//!           log-start-offset-checkpoint
//!           replication-offset-checkpoint
//!           events-0/  events-1/ …             its partitions
//! ```
//!
//! One directory lies on one disk. The first error of a write or a barrier retires it, for good: what
//! the disk still says about it cannot be believed. The others go on.

mod properties;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{BrokerId, Offset, TopicPartition, Uuid};

use crate::checkpoint::{CheckpointError, PartitionOffsets, read_offsets, write_offsets};
use crate::disk::{Disk, DiskError};
use crate::layout::{
    CLEAN_SHUTDOWN_FILE, DirName, HIGH_WATERMARKS_FILE, LOG_STARTS_FILE, META_PROPERTIES_FILE,
    RECOVERY_POINTS_FILE, deleted_dir_name, parse_dir_name, partition_dir,
};

pub use properties::{MetaProperties, PropertiesError};

const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;

/// Who opens a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The cluster; `None` accepts the one that the directory names.
    pub cluster_id: Option<String>,
    /// The node.
    pub node_id: BrokerId,
}

/// Why a log directory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogDirError {
    /// It belongs to another cluster or node.
    #[error("{path} belongs to {what} {found}, this is {what} {expected}", path = path.display())]
    Foreign {
        /// Which directory.
        path: PathBuf,
        /// `cluster` or `node`.
        what: &'static str,
        /// To whom it belongs.
        found: String,
        /// Who wants it.
        expected: String,
    },
    /// It has partitions, but does not say whose they are.
    #[error("{path} holds partitions but no meta.properties", path = path.display())]
    Unowned {
        /// Which directory.
        path: PathBuf,
    },
    /// Another directory of this broker has the same id: one is a copy of the other.
    #[error("{path} has the same directory.id as another log directory", path = path.display())]
    Copy {
        /// Which directory.
        path: PathBuf,
    },
    /// `meta.properties` cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Properties {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: PropertiesError,
    },
    /// A checkpoint is damaged. Nothing tells which records were durable.
    #[error("{path}: {error}", path = path.display())]
    Checkpoint {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: CheckpointError,
    },
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// What lies in a log directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Partitions, in order.
    pub partitions: Vec<TopicPartition>,
    /// Names of directories whose removal was not finished.
    pub deleted: Vec<String>,
    /// Names of directories that are not ours to touch.
    pub aside: Vec<String>,
}

/// The offsets that are kept of each partition of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoints {
    /// Up to where records are on media for certain.
    pub recovery_points: PartitionOffsets,
    /// Where readers may begin.
    pub log_starts: PartitionOffsets,
    /// Up to where all in-sync replicas had come.
    pub high_watermarks: PartitionOffsets,
}

/// One log directory.
#[derive(Debug)]
pub struct LogDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    properties: MetaProperties,
    clean: Option<i64>,
    checkpoints: Checkpoints,
    partitions_count: usize,
    failure: Option<DiskError>,
}

impl LogDir {
    /// Opens a directory, or makes it if it is not there. `fresh_id` becomes its id if it has none.
    /// What an orderly stop left is taken away: from here on a stop is unclean until it is not.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        owner: &Owner,
        fresh_id: Uuid,
    ) -> Result<(Self, Contents), LogDirError> {
        disk.create_dir(&path)?;
        let contents = read_contents(disk.as_ref(), &path)?;
        let properties = own(disk.as_ref(), &path, owner, fresh_id, &contents)?;
        let checkpoints = Checkpoints {
            recovery_points: read_checkpoint(disk.as_ref(), &path, RECOVERY_POINTS_FILE)?,
            log_starts: read_checkpoint(disk.as_ref(), &path, LOG_STARTS_FILE)?,
            high_watermarks: read_checkpoint(disk.as_ref(), &path, HIGH_WATERMARKS_FILE)?,
        };
        let clean = take_clean_mark(disk.as_ref(), &path)?;
        let partitions_count = contents.partitions.len();
        let failure = None;
        let dir = Self { disk, path, properties, clean, checkpoints, partitions_count, failure };
        Ok((dir, contents))
    }

    /// The disk it lies on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its id, which stays the same wherever it is mounted.
    pub fn id(&self) -> Uuid {
        self.properties.directory_id
    }

    /// To whom it belongs.
    pub fn properties(&self) -> &MetaProperties {
        &self.properties
    }

    /// Whether the last stop was an orderly one, and with which broker epoch; -1 if that is unknown.
    pub fn clean_shutdown(&self) -> Option<i64> {
        self.clean
    }

    /// The offsets as they were last saved.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// How many partitions lie in it.
    pub fn partitions_count(&self) -> usize {
        self.partitions_count
    }

    /// Why it was retired, if it was.
    pub fn failure(&self) -> Option<&DiskError> {
        self.failure.as_ref()
    }

    /// Retires it. The first reason stays.
    pub fn fail(&mut self, error: DiskError) {
        self.failure.get_or_insert(error);
    }

    /// The directory of a partition.
    pub fn partition_dir(&self, partition: &TopicPartition) -> PathBuf {
        partition_dir(&self.path, partition)
    }

    /// Counts a partition that was made in it.
    pub fn added(&mut self) {
        self.partitions_count += 1;
    }

    /// Keeps up to where records are on media.
    pub fn save_recovery_points(&mut self, offsets: PartitionOffsets) -> Result<(), DiskError> {
        self.save(RECOVERY_POINTS_FILE, offsets, |checkpoints| &mut checkpoints.recovery_points)
    }

    /// Lowers one recovery point, before its log is cut. Durable when it returns.
    pub fn lower_recovery_point(&mut self, partition: &TopicPartition, to: Offset) -> Result<(), DiskError> {
        let mut offsets = self.checkpoints.recovery_points.clone();
        match offsets.get_mut(partition) {
            Some(point) if *point > to => *point = to,
            _ => return Ok(()),
        }
        self.save_recovery_points(offsets)
    }

    /// Keeps where readers may begin.
    pub fn save_log_starts(&mut self, offsets: PartitionOffsets) -> Result<(), DiskError> {
        self.save(LOG_STARTS_FILE, offsets, |checkpoints| &mut checkpoints.log_starts)
    }

    /// Keeps the high watermarks.
    pub fn save_high_watermarks(&mut self, offsets: PartitionOffsets) -> Result<(), DiskError> {
        self.save(HIGH_WATERMARKS_FILE, offsets, |checkpoints| &mut checkpoints.high_watermarks)
    }

    /// Renames a partition's directory so that it is no partition any more, durably. The name it has
    /// then; `unique` must be new.
    pub fn set_aside(&mut self, partition: &TopicPartition, unique: Uuid) -> Result<String, DiskError> {
        let name = deleted_dir_name(partition, unique);
        self.changing(|dir| {
            dir.disk.rename(&dir.partition_dir(partition), &dir.path.join(&name))?;
            dir.disk.sync_dir(&dir.path)
        })?;
        self.partitions_count = self.partitions_count.saturating_sub(1);
        Ok(name)
    }

    /// Removes a directory that [`LogDir::set_aside`] renamed.
    pub fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        // Only what is called so may go: a name is all that stands between here and the records.
        if parse_dir_name(name) != DirName::Deleted {
            return Ok(());
        }
        self.changing(|dir| dir.disk.remove_dir(&dir.path.join(name)))
    }

    /// Leaves the mark of an orderly stop. Every log must be closed by then.
    pub fn mark_clean(&mut self, broker_epoch: i64) -> Result<(), DiskError> {
        let text = format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}");
        let path = self.path.join(CLEAN_SHUTDOWN_FILE);
        self.changing(|dir| dir.disk.replace(&path, text.as_bytes()))
    }

    fn save(
        &mut self,
        file: &str,
        offsets: PartitionOffsets,
        place: impl Fn(&mut Checkpoints) -> &mut PartitionOffsets,
    ) -> Result<(), DiskError> {
        if *place(&mut self.checkpoints) == offsets {
            return Ok(());
        }
        self.changing(|dir| write_offsets(dir.disk.as_ref(), &dir.path.join(file), &offsets))?;
        *place(&mut self.checkpoints) = offsets;
        Ok(())
    }

    fn changing<T>(&mut self, change: impl FnOnce(&Self) -> Result<T, DiskError>) -> Result<T, DiskError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let done = change(self);
        if let Err(error) = &done {
            self.fail(error.clone());
        }
        done
    }
}

/// All log directories of a broker.
#[derive(Debug, Default)]
pub struct LogDirs {
    dirs: Vec<LogDir>,
}

impl LogDirs {
    /// No directory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory; its place among them.
    pub fn add(&mut self, dir: LogDir) -> Result<usize, LogDirError> {
        if self.dirs.iter().any(|known| known.id() == dir.id()) {
            return Err(LogDirError::Copy { path: dir.path });
        }
        self.dirs.push(dir);
        Ok(self.dirs.len() - 1)
    }

    /// Where a new partition goes: the directory with the fewest, the first of several. `None` if all
    /// were retired.
    pub fn place(&self) -> Option<usize> {
        let usable = self.dirs.iter().enumerate().filter(|(_, dir)| dir.failure.is_none());
        usable.min_by_key(|(_, dir)| dir.partitions_count).map(|(index, _)| index)
    }

    /// The directory at a place.
    pub fn get(&self, index: usize) -> Option<&LogDir> {
        self.dirs.get(index)
    }

    /// The directory at a place, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut LogDir> {
        self.dirs.get_mut(index)
    }

    /// All of them, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &LogDir> {
        self.dirs.iter()
    }

    /// All of them, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut LogDir> {
        self.dirs.iter_mut()
    }
}

fn read_contents(disk: &dyn Disk, path: &Path) -> Result<Contents, DiskError> {
    let mut contents = Contents::default();
    for entry in disk.list(path)?.into_iter().filter(|entry| entry.is_dir) {
        match parse_dir_name(&entry.name) {
            DirName::Partition(partition) => contents.partitions.push(partition),
            DirName::Deleted => contents.deleted.push(entry.name),
            DirName::Aside => contents.aside.push(entry.name),
            DirName::Other => {}
        }
    }
    contents.partitions.sort();
    Ok(contents)
}

/// Makes sure that the directory is the owner's, or makes it the owner's if it is new.
fn own(
    disk: &dyn Disk,
    path: &Path,
    owner: &Owner,
    fresh_id: Uuid,
    contents: &Contents,
) -> Result<MetaProperties, LogDirError> {
    let file = path.join(META_PROPERTIES_FILE);
    let Some(bytes) = disk.read(&file, SMALL_FILE_BYTES_MAX)? else {
        if !contents.partitions.is_empty() {
            return Err(LogDirError::Unowned { path: path.to_owned() });
        }
        let properties = MetaProperties {
            cluster_id: owner.cluster_id.clone().unwrap_or_default(),
            node_id: owner.node_id,
            directory_id: fresh_id,
        };
        disk.replace(&file, properties.format().as_bytes())?;
        if let Some(parent) = path.parent() {
            disk.sync_dir(parent)?;
        }
        return Ok(properties);
    };
    let parsed = MetaProperties::parse(&bytes);
    let mut properties = parsed.map_err(|error| LogDirError::Properties { path: file.clone(), error })?;
    let foreign = |what, found: &dyn ToString, expected: &dyn ToString| LogDirError::Foreign {
        path: path.to_owned(),
        what,
        found: found.to_string(),
        expected: expected.to_string(),
    };
    if let Some(expected) = owner.cluster_id.as_ref().filter(|&id| *id != properties.cluster_id) {
        return Err(foreign("cluster", &properties.cluster_id, expected));
    }
    if properties.node_id != owner.node_id {
        return Err(foreign("node", &properties.node_id, &owner.node_id));
    }
    if properties.directory_id.is_zero() {
        properties.directory_id = fresh_id;
        disk.replace(&file, properties.format().as_bytes())?;
    }
    Ok(properties)
}

fn read_checkpoint(disk: &dyn Disk, dir: &Path, file: &str) -> Result<PartitionOffsets, LogDirError> {
    let path = dir.join(file);
    read_offsets(disk, &path).map_err(|error| match error {
        CheckpointError::Disk(error) => LogDirError::Disk(error),
        error @ CheckpointError::Malformed { .. } => LogDirError::Checkpoint { path, error },
    })
}

/// Takes the mark of an orderly stop away, durably, before anything is written that it would vouch
/// for. The broker epoch in it; -1 if it has none.
fn take_clean_mark(disk: &dyn Disk, dir: &Path) -> Result<Option<i64>, DiskError> {
    let path = dir.join(CLEAN_SHUTDOWN_FILE);
    let Some(bytes) = disk.read(&path, SMALL_FILE_BYTES_MAX)? else { return Ok(None) };
    disk.remove_file(&path)?;
    disk.sync_dir(dir)?;
    let text = String::from_utf8_lossy(&bytes);
    let epoch = text.split_once("\"brokerEpoch\":").map_or("", |(_, rest)| rest);
    let epoch = epoch.trim_start().split([',', '}', ' ']).next().and_then(|epoch| epoch.parse().ok());
    Ok(Some(epoch.unwrap_or(-1)))
}

#[cfg(test)]
mod tests;
