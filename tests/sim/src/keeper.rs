//! What a server keeps beside its logs: how far they are durable, where they start, and whether the
//! last stop was an orderly one.
//!
//! ```text
//!   start   read checkpoints and marker ─▶ open the log ─▶ remove the marker
//!   stop    close the log ─▶ write checkpoints ─▶ write the marker
//!   cut     lower the checkpoint ─▶ cut
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Offset, PartitionIndex, TopicName, TopicPartition};
use storage::checkpoint::{PartitionOffsets, read_offsets, write_offsets};
use storage::disk::{Disk, DiskError};
use storage::layout::{CLEAN_SHUTDOWN_FILE, LOG_STARTS_FILE, RECOVERY_POINTS_FILE, partition_dir};
use storage::{Known, OpenError};

use crate::plant::Plant;

/// The log directory of the simulated server.
const LOG_DIR: &str = "/data";

/// The files of a log directory that belong to no log.
#[derive(Debug, Clone)]
pub struct Keeper {
    disk: Arc<dyn Disk>,
    plant: Option<Plant>,
    partition: TopicPartition,
}

impl Keeper {
    /// The keeper of a log directory with one partition.
    pub fn new(disk: Arc<dyn Disk>, plant: Option<Plant>) -> Self {
        let topic = TopicName::new("events").expect("a legal name");
        Self { disk, plant, partition: TopicPartition { topic, partition: PartitionIndex(0) } }
    }

    /// Makes the log directory.
    pub fn create(&self) -> Result<(), DiskError> {
        self.disk.create_dir(Path::new(LOG_DIR))?;
        self.disk.sync_dir(Path::new("/"))
    }

    /// Where the log lies.
    pub fn partition_dir(&self) -> PathBuf {
        partition_dir(Path::new(LOG_DIR), &self.partition)
    }

    /// What is known of the log. The marker of an orderly stop is gone afterwards: whatever happens
    /// from here on, the next start must not believe it.
    pub fn start(&self) -> Result<Known, OpenError> {
        let point = |file| -> Result<Offset, OpenError> {
            let offsets = read_offsets(self.disk.as_ref(), &path(file)).map_err(OpenError::Metadata)?;
            Ok(offsets.get(&self.partition).copied().unwrap_or(Offset::ZERO))
        };
        let clean = self.disk.read(&path(CLEAN_SHUTDOWN_FILE), 64)?.is_some();
        let known = Known {
            recovery_point: match self.plant {
                Some(Plant::CheckpointIgnored) => Offset::ZERO,
                _ => point(RECOVERY_POINTS_FILE)?,
            },
            log_start: point(LOG_STARTS_FILE)?,
            clean,
            adopted: false,
        };
        if clean && self.plant != Some(Plant::CleanMarkerKept) {
            self.disk.remove_file(&path(CLEAN_SHUTDOWN_FILE))?;
            self.disk.sync_dir(Path::new(LOG_DIR))?;
        }
        Ok(known)
    }

    /// Writes down how far the log is durable.
    pub fn keep_recovery_point(&self, at: Offset) -> Result<(), DiskError> {
        self.keep(RECOVERY_POINTS_FILE, at)
    }

    /// Writes down where the log starts.
    pub fn keep_log_start(&self, at: Offset) -> Result<(), DiskError> {
        self.keep(LOG_STARTS_FILE, at)
    }

    /// Writes down that the stop was an orderly one.
    pub fn mark_clean(&self) -> Result<(), DiskError> {
        self.disk.replace(&path(CLEAN_SHUTDOWN_FILE), b"clean")
    }

    fn keep(&self, file: &str, at: Offset) -> Result<(), DiskError> {
        let offsets = PartitionOffsets::from([(self.partition.clone(), at)]);
        write_offsets(self.disk.as_ref(), &path(file), &offsets)
    }
}

fn path(file: &str) -> PathBuf {
    Path::new(LOG_DIR).join(file)
}
