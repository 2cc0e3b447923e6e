//! The log directories of a broker: whose they are, what lies in them, where new partitions go.
//!
//! ```text
//!   data-1/ meta.properties                    whose directory this is
//!           .kafka_cleanshutdown               there only between an orderly stop and the next start
//!           recovery-point-offset-checkpoint   offsets of each partition
//!           log-start-offset-checkpoint
//!           replication-offset-checkpoint
//!           cleaner-offset-checkpoint          up to where it was compacted
//!           vltava-adopted-checkpoint        logs of another program that were never opened by this one
//!           events-0/  events-1/ …             its partitions
//! ```
//!
//! The checkpoints have an entry for each partition that lies in the directory, served or not: an entry
//! goes when its partition is deleted, never because its log could not be opened.

pub mod locate;
pub mod metadata_home;
mod properties;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{BrokerId, Offset, TopicPartition, Uuid};

use crate::checkpoint::{CheckpointError, PartitionOffsets, read_offsets, write_offsets};
use crate::disk::{Disk, DiskError};
use crate::layout::{
    CLEAN_OFFSETS_FILE, CLEAN_SHUTDOWN_FILE, DirName, HIGH_WATERMARKS_FILE, LOG_STARTS_FILE,
    META_PROPERTIES_FILE, RECOVERY_POINTS_FILE, deleted_dir_name, parse_dir_name, partition_dir,
    stray_dir_name,
};

pub use properties::{MetaProperties, PropertiesError};

/// Ours alone: Kafka has no need of it, and passes it over.
const ADOPTED_FILE: &str = "vltava-adopted-checkpoint";

/// A file of our own with Kafka's format.
const LAX_FILE: &str = "vltava-lax-checkpoint";

const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;

/// Who opens a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The cluster; `None` accepts the one that the directory names.
    pub cluster_id: Option<String>,
    /// The node.
    pub node_id: BrokerId,
    /// The directory that has the metadata log, for one that is new; `None` if it is this one.
    pub metadata_directory: Option<Uuid>,
}

/// Why a log directory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogDirError {
    /// It belongs to another cluster or node.
    #[error(
        "{path} belongs to {what} {found}, this is {what} {expected}; give this node another directory, or set \
         {what} to what the directory says", path = path.display()
    )]
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
    #[error(
        "{path} holds partitions but no meta.properties, so nothing says whose they are; put the file back, \
         or give this node another directory", path = path.display()
    )]
    Unowned {
        /// Which directory.
        path: PathBuf,
    },
    /// Another directory of this broker has the same id: one is a copy of the other.
    #[error(
        "{path} has the same directory.id as another log directory, so one is a copy of the other; take the copy \
         out of log.dirs", path = path.display()
    )]
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
    #[error(
        "{path}: {error}; put back a copy of it from a backup, or move it away to have all logs of the directory \
         taken as they are", path = path.display()
    )]
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
    /// Up to where they were compacted; only of logs that ever were.
    pub clean_offsets: PartitionOffsets,
    /// Logs that another program wrote and this node has not opened yet; the offsets say nothing.
    pub adopted: PartitionOffsets,
    /// Logs that count records before they are on media: after a crash some may be missing. The offsets say
    /// nothing.
    pub lax: PartitionOffsets,
}

/// One log directory.
#[derive(Debug)]
pub struct LogDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    properties: MetaProperties,
    clean: Option<i64>,
    /// As they are on the media.
    checkpoints: Checkpoints,
    /// Partitions whose entries go with the next save.
    forgotten: BTreeSet<TopicPartition>,
}

/// What may be noted at most of a log that is about to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutNotes {
    /// Up to where it is durable: a crash in the middle of it must not take what is missing for lost.
    pub recovery_point: Offset,
    /// Where it will end; 0 if nothing of it stays.
    pub end: Offset,
    /// Where it will start at the latest. What was deleted before that stays deleted.
    pub start: Offset,
}

impl LogDir {
    /// Opens a directory, or makes it if it is not there. `fresh_id` becomes its id if it has none.
    /// What an orderly stop left is taken away: from here on a stop is unclean until it is not. That the
    /// directory's own name is durable is for the caller to see to.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        owner: &Owner,
        fresh_id: Uuid,
    ) -> Result<(Self, Contents), LogDirError> {
        disk.create_dir(&path)?;
        let contents = read_contents(disk.as_ref(), &path)?;
        let properties = own(disk.as_ref(), &path, owner, fresh_id, &contents)?;
        // A process that was killed may have renamed a checkpoint into place and not come to make that
        // durable: what is read below must be what is on the media.
        disk.sync_dir(&path)?;
        let checkpoints = Checkpoints {
            recovery_points: read_checkpoint(disk.as_ref(), &path, RECOVERY_POINTS_FILE)?,
            log_starts: read_checkpoint(disk.as_ref(), &path, LOG_STARTS_FILE)?,
            high_watermarks: read_checkpoint(disk.as_ref(), &path, HIGH_WATERMARKS_FILE)?,
            clean_offsets: read_clean_offsets(disk.as_ref(), &path)?,
            adopted: read_checkpoint(disk.as_ref(), &path, ADOPTED_FILE)?,
            lax: read_checkpoint(disk.as_ref(), &path, LAX_FILE)?,
        };
        let clean = take_clean_mark(disk.as_ref(), &path)?;
        let dir = Self { disk, path, properties, clean, checkpoints, forgotten: BTreeSet::new() };
        Ok((dir, contents))
    }

    /// The disk it lies on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Its id, which stays the same wherever it is mounted.
    pub fn id(&self) -> Uuid {
        self.properties.directory_id
    }

    /// To whom it belongs.
    pub fn properties(&self) -> &MetaProperties {
        &self.properties
    }

    /// Notes which directory of the node has the metadata log, once there is one.
    pub fn name_metadata_directory(&mut self, id: Uuid) -> Result<(), DiskError> {
        if self.properties.metadata_directory != id {
            let properties = MetaProperties { metadata_directory: id, ..self.properties.clone() };
            let file = self.path.join(META_PROPERTIES_FILE);
            self.disk.replace(&file, properties.format().as_bytes())?;
            self.properties = properties;
        }
        Ok(())
    }

    /// Whether the last stop was an orderly one, and with which broker epoch; -1 if that is unknown.
    pub fn clean_shutdown(&self) -> Option<i64> {
        self.clean
    }

    /// The offsets as they were last saved.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Keeps the offsets of the partitions that are served.
    ///
    /// A partition that is not among them keeps the entries it has, until it is forgotten: a log that
    /// cannot be served now may be repaired, and only its recovery point tells what was promised of it.
    pub fn save(&mut self, served: Checkpoints) -> Result<(), DiskError> {
        let Checkpoints { recovery_points, log_starts, high_watermarks, clean_offsets, adopted, lax } =
            served;
        self.save_one(RECOVERY_POINTS_FILE, recovery_points, |kept| &mut kept.recovery_points)?;
        self.save_one(LOG_STARTS_FILE, log_starts, |kept| &mut kept.log_starts)?;
        self.save_one(HIGH_WATERMARKS_FILE, high_watermarks, |kept| &mut kept.high_watermarks)?;
        self.save_clean_offsets(clean_offsets)?;
        self.save_one(ADOPTED_FILE, adopted, |kept| &mut kept.adopted)?;
        self.save_one(LAX_FILE, lax, |kept| &mut kept.lax)?;
        self.forgotten.clear();
        Ok(())
    }

    /// Keeps where the logs of some of the partitions that are served begin, and nothing else of them.
    pub fn save_starts(&mut self, served: PartitionOffsets) -> Result<(), DiskError> {
        self.save_one(LOG_STARTS_FILE, served, |kept| &mut kept.log_starts)
    }

    /// Keeps up to where the logs of some of the partitions were compacted, and nothing else of them.
    pub fn save_clean_offsets(&mut self, served: PartitionOffsets) -> Result<(), DiskError> {
        self.save_one(CLEAN_OFFSETS_FILE, served, |kept| &mut kept.clean_offsets)
    }

    /// Before a log is cut: what comes in the place of what goes must not be taken for compacted, committed or deleted.
    pub fn note_cut(&mut self, partition: &TopicPartition, notes: CutNotes) -> Result<(), DiskError> {
        let lowered = |kept: &PartitionOffsets, to: Offset| -> PartitionOffsets {
            kept.get(partition).filter(|at| **at > to).map(|_| (partition.clone(), to)).into_iter().collect()
        };
        let clean_offsets = lowered(&self.checkpoints.clean_offsets, notes.recovery_point);
        let high_watermarks = lowered(&self.checkpoints.high_watermarks, notes.end);
        let log_starts = lowered(&self.checkpoints.log_starts, notes.start);
        self.save_clean_offsets(clean_offsets)?;
        self.save_one(HIGH_WATERMARKS_FILE, high_watermarks, |kept| &mut kept.high_watermarks)?;
        self.save_starts(log_starts)?;
        let point = PartitionOffsets::from([(partition.clone(), notes.recovery_point)]);
        self.save_one(RECOVERY_POINTS_FILE, point, |kept| &mut kept.recovery_points)
    }

    fn save_one(
        &mut self,
        file: &str,
        served: PartitionOffsets,
        place: impl Fn(&mut Checkpoints) -> &mut PartitionOffsets,
    ) -> Result<(), DiskError> {
        let kept = place(&mut self.checkpoints);
        let mut offsets = kept.clone();
        offsets.retain(|partition, _| !self.forgotten.contains(partition));
        offsets.extend(served);
        if *kept != offsets {
            write_offsets(self.disk.as_ref(), &self.path.join(file), &offsets)?;
            *kept = offsets;
        }
        Ok(())
    }

    /// Notes which logs were written by another program and are about to be taken in.
    pub fn begin_adoption(
        &mut self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), DiskError> {
        let adopted = partitions.into_iter().map(|partition| (partition, Offset::ZERO)).collect();
        self.save(Checkpoints { adopted, ..Checkpoints::default() })
    }

    /// Notes that these logs, of those that were to be taken in, are this node's own from here on.
    pub fn end_adoption(&mut self, partitions: &BTreeSet<TopicPartition>) -> Result<(), DiskError> {
        let mut adopted = self.checkpoints.adopted.clone();
        adopted.retain(|partition, _| !partitions.contains(partition));
        if adopted != self.checkpoints.adopted {
            write_offsets(self.disk.as_ref(), &self.path.join(ADOPTED_FILE), &adopted)?;
            self.checkpoints.adopted = adopted;
        }
        Ok(())
    }

    /// Notes which logs count records before they are on media, before they do.
    pub fn note_lax(
        &mut self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), DiskError> {
        let lax = partitions.into_iter().map(|partition| (partition, Offset::ZERO)).collect();
        self.save_one(LAX_FILE, lax, |kept| &mut kept.lax)
    }

    /// Drops the entries of these partitions, durably: whoever gets their names next begins at nothing.
    pub fn forget(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Result<(), DiskError> {
        self.forgotten.extend(partitions);
        self.save(Checkpoints::default())
    }

    /// Renames a partition's directory so that it is no partition any more, durably; its entries in the
    /// checkpoints go with the next save. The name it has then; `unique` must be new.
    pub fn set_aside(&mut self, partition: &TopicPartition, unique: Uuid) -> Result<String, DiskError> {
        self.rename(partition, deleted_dir_name(partition, unique))
    }

    /// Renames a directory that has the partition's name and is not its log, durably, so that it is never served
    /// and never removed; its entries in the checkpoints go with the next save. The name it has then; `unique`
    /// must be new.
    pub fn set_stray(&mut self, partition: &TopicPartition, unique: Uuid) -> Result<String, DiskError> {
        self.rename(partition, stray_dir_name(partition, unique))
    }

    fn rename(&mut self, partition: &TopicPartition, name: String) -> Result<String, DiskError> {
        self.disk.rename(&partition_dir(&self.path, partition), &self.path.join(&name))?;
        self.disk.sync_dir(&self.path)?;
        self.forgotten.insert(partition.clone());
        Ok(name)
    }

    /// Leaves the mark of an orderly stop. Every log must be closed by then.
    pub fn mark_clean(&mut self, broker_epoch: i64) -> Result<(), DiskError> {
        let text = format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}");
        self.disk.replace(&self.path.join(CLEAN_SHUTDOWN_FILE), text.as_bytes())
    }
}

/// Removes a directory that [`LogDir::set_aside`] renamed, in the log directory at `path`. Takes long
/// if there is much in it.
pub fn remove_deleted(disk: &dyn Disk, path: &Path, name: &str) -> Result<(), DiskError> {
    // Only what is called so may go: a name is all that stands between here and the records.
    if parse_dir_name(name) != DirName::Deleted {
        return Ok(());
    }
    disk.remove_dir(&path.join(name))
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
    let stored = match disk.read(&file, SMALL_FILE_BYTES_MAX)? {
        None if !contents.partitions.is_empty() => {
            return Err(LogDirError::Unowned { path: path.to_owned() });
        }
        None => None,
        Some(bytes) => {
            let parsed = MetaProperties::parse(&bytes);
            let error = |error| LogDirError::Properties { path: file.clone(), error };
            Some(parsed.map_err(error)?)
        }
    };
    if let Some(stored) = &stored {
        check_owner(path, stored, owner)?;
    }
    let mut properties = stored.clone().unwrap_or_else(|| MetaProperties {
        cluster_id: owner.cluster_id.clone().unwrap_or_default(),
        node_id: owner.node_id,
        directory_id: fresh_id,
        metadata_directory: owner.metadata_directory.unwrap_or(fresh_id),
        joins: false,
    });
    if properties.directory_id.is_zero() {
        properties.directory_id = fresh_id;
    }
    if stored.as_ref() != Some(&properties) {
        disk.replace(&file, properties.format().as_bytes())?;
    }
    Ok(properties)
}

fn check_owner(path: &Path, stored: &MetaProperties, owner: &Owner) -> Result<(), LogDirError> {
    let foreign = |what, found: &dyn ToString, expected: &dyn ToString| LogDirError::Foreign {
        path: path.to_owned(),
        what,
        found: found.to_string(),
        expected: expected.to_string(),
    };
    if let Some(expected) = owner.cluster_id.as_ref().filter(|&id| *id != stored.cluster_id) {
        return Err(foreign("cluster", &stored.cluster_id, expected));
    }
    if stored.node_id != owner.node_id {
        return Err(foreign("node", &stored.node_id, &owner.node_id));
    }
    Ok(())
}

fn read_checkpoint(disk: &dyn Disk, dir: &Path, file: &str) -> Result<PartitionOffsets, LogDirError> {
    let path = dir.join(file);
    read_offsets(disk, &path).map_err(|error| match error {
        CheckpointError::Disk(error) => LogDirError::Disk(error),
        error @ CheckpointError::Malformed { .. } => LogDirError::Checkpoint { path, error },
    })
}

/// One that is damaged promises nothing: the logs are compacted from their front on.
fn read_clean_offsets(disk: &dyn Disk, dir: &Path) -> Result<PartitionOffsets, LogDirError> {
    match read_checkpoint(disk, dir, CLEAN_OFFSETS_FILE) {
        Err(LogDirError::Checkpoint { .. }) => Ok(PartitionOffsets::new()),
        read => read,
    }
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
