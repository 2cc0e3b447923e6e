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

use base::{BrokerId, Offset, PartitionIndex, TopicName, TopicPartition, Uuid};
use storage::Known;
use storage::checkpoint::PartitionOffsets;
use storage::dirs::{Checkpoints, LogDir, LogDirError, Owner};
use storage::disk::{Disk, DiskError};
use storage::layout::partition_dir;

use crate::plant::Plant;

/// The log directory of the simulated server.
const LOG_DIR: &str = "/data";

/// The product's log directory, with one partition in it.
#[derive(Debug)]
pub struct Keeper {
    disk: Arc<dyn Disk>,
    plant: Option<Plant>,
    partition: TopicPartition,
    /// `None` until the first start.
    dir: Option<LogDir>,
}

impl Keeper {
    /// The keeper of a log directory with one partition.
    pub fn new(disk: Arc<dyn Disk>, plant: Option<Plant>) -> Self {
        let topic = TopicName::new("events").expect("a legal name");
        Self { disk, plant, partition: TopicPartition { topic, partition: PartitionIndex(0) }, dir: None }
    }

    /// Where the log lies.
    pub fn partition_dir(&self) -> PathBuf {
        partition_dir(Path::new(LOG_DIR), &self.partition)
    }

    /// Opens the log directory, or makes it: what is known of the log. The marker of an orderly stop is
    /// gone afterwards: whatever happens from here on, the next start must not believe it.
    pub fn start(&mut self) -> Result<Known, LogDirError> {
        let owner = Owner { cluster_id: None, node_id: BrokerId(1), metadata_directory: None };
        let fresh_id = Uuid::from_random(1);
        // As `edge/server` does: the directory's own name must last, too.
        self.disk.create_dir(Path::new(LOG_DIR))?;
        self.disk.sync_dir(Path::new("/"))?;
        let (dir, _) = LogDir::open(self.disk.clone(), LOG_DIR.into(), &owner, fresh_id)?;
        let of = |offsets: &PartitionOffsets| offsets.get(&self.partition).copied().unwrap_or(Offset::ZERO);
        let known = Known {
            recovery_point: match self.plant {
                Some(Plant::CheckpointIgnored) => Offset::ZERO,
                _ => of(&dir.checkpoints().recovery_points),
            },
            log_start: of(&dir.checkpoints().log_starts),
            clean: dir.clean_shutdown().is_some(),
            adopted: false,
        };
        self.dir = Some(dir);
        Ok(known)
    }

    /// Writes down how far the log is durable.
    pub fn keep_recovery_point(&mut self, at: Offset) -> Result<(), DiskError> {
        let recovery_points = self.only(at);
        self.dir().save(Checkpoints { recovery_points, ..Checkpoints::default() })
    }

    /// Writes down where the log starts.
    pub fn keep_log_start(&mut self, at: Offset) -> Result<(), DiskError> {
        let log_starts = self.only(at);
        self.dir().save(Checkpoints { log_starts, ..Checkpoints::default() })
    }

    /// Writes down that the stop was an orderly one.
    pub fn mark_clean(&mut self) -> Result<(), DiskError> {
        self.dir().mark_clean(1)
    }

    fn only(&self, at: Offset) -> PartitionOffsets {
        PartitionOffsets::from([(self.partition.clone(), at)])
    }

    fn dir(&mut self) -> &mut LogDir {
        self.dir.as_mut().expect("a server that runs was started")
    }
}
