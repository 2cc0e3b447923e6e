//! The log directories of a process: the first has the metadata, and takes the process with it when it
//! fails; another takes its own partitions only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{BrokerEpoch, Now, Offset, TopicId, TopicPartition, Uuid};
use controller::InDoubt;
use storage::checkpoint::{PartitionOffsets, read_partition_metadata};
use storage::dirs::{Checkpoints, LogDir, LogDirError, Owner};
use storage::disk::{Disk, DiskError};
use storage::layout::{META_PROPERTIES_FILE, partition_dir};

use super::{CLUSTER, Process};
use crate::cluster::quorum::broker;

/// A log directory.
pub(super) struct Home {
    pub(super) path: PathBuf,
    pub(super) dir: LogDir,
    /// Partitions whose directories were there when the process began.
    pub(super) found: BTreeSet<TopicPartition>,
    pub(super) is_new: bool,
    pub(super) was_clean: Option<i64>,
    pub(super) has_failed: bool,
}

impl Home {
    /// Opens all directories of a node. `salt` tells this process from all others.
    pub(super) fn open_all(
        disk: &Arc<dyn Disk>,
        paths: &[PathBuf],
        node: usize,
        salt: u64,
    ) -> Result<Vec<Self>, LogDirError> {
        let mut homes: Vec<Self> = Vec::new();
        for (path, number) in paths.iter().zip(77_u64..) {
            let is_new = disk.read(&path.join(META_PROPERTIES_FILE), 1 << 20)?.is_none();
            let metadata_directory = homes.first().map(|first| first.dir.id());
            let owner =
                Owner { cluster_id: Some(CLUSTER.to_owned()), node_id: broker(node), metadata_directory };
            disk.create_dir(path)?;
            disk.sync_dir(Path::new("/"))?;
            let fresh = Uuid::from_random(u128::from(salt) << 64 | u128::from(number));
            let (dir, contents) = LogDir::open(Arc::clone(disk), path.clone(), &owner, fresh)?;
            let was_clean = dir.clean_shutdown();
            let found = contents.partitions.into_iter().collect();
            homes.push(Self { path: path.clone(), dir, found, is_new, was_clean, has_failed: false });
        }
        Ok(homes)
    }

    pub(super) fn partition_dir(&self, name: &TopicPartition) -> PathBuf {
        partition_dir(&self.path, name)
    }

    /// The topic whose log lies here under a name.
    pub(super) fn whose(&self, name: &TopicPartition) -> Option<TopicId> {
        read_partition_metadata(self.dir.disk().as_ref(), &self.partition_dir(name)).ok().flatten()
    }

    /// What is written down of a partition: its recovery point, its start, up to where it was committed.
    pub(super) fn noted(&self, name: &TopicPartition) -> (Offset, Offset, Option<Offset>) {
        let checkpoints = self.dir.checkpoints();
        let of = |offsets: &PartitionOffsets| offsets.get(name).copied();
        let recovery_point = of(&checkpoints.recovery_points).unwrap_or(Offset::ZERO);
        let log_start = of(&checkpoints.log_starts).unwrap_or(Offset::ZERO);
        (recovery_point, log_start, of(&checkpoints.high_watermarks))
    }
}

impl Process {
    /// What the last stop left: whether it was a crash, the life that was stopped in good order, and what may
    /// be missing of what was acknowledged. Where nothing counted that was not durable, nothing is.
    pub(super) fn last_stop(&self) -> (bool, Option<BrokerEpoch>, InDoubt) {
        let used: Vec<&Home> = self.homes.iter().filter(|home| !home.is_new).collect();
        let unclean: Vec<&&Home> = used.iter().filter(|home| home.was_clean.is_none()).collect();
        if used.is_empty() {
            return (false, None, InDoubt::Everything);
        }
        if unclean.is_empty() {
            let epoch = used.iter().filter_map(|home| home.was_clean).min();
            return (false, epoch.map(BrokerEpoch), InDoubt::Nothing);
        }
        let lax = unclean.iter().flat_map(|home| {
            let lax = home.dir.checkpoints().lax.keys().filter(|name| home.found.contains(name));
            lax.filter_map(|name| Some((home.whose(name)?, name.partition)))
        });
        let lax: Vec<_> = lax.collect();
        (true, None, if lax.is_empty() { InDoubt::Nothing } else { InDoubt::Partitions(lax) })
    }

    /// Where a partition is, or shall be: where it lies, else where it was assigned to, else where there are
    /// fewest.
    pub(super) fn home_for(&self, topic: TopicId, name: &TopicPartition, assigned: Option<Uuid>) -> usize {
        let usable = || (0..self.homes.len()).filter(|at| !self.homes[*at].has_failed);
        let is_here = |at: &usize| self.homes[*at].whose(name) == Some(topic);
        let is_assigned = |at: &usize| Some(self.homes[*at].dir.id()) == assigned;
        let count = |at: &usize| self.cells.values().filter(|cell| cell.home == *at).count();
        let known = usable().find(is_here).or_else(|| usable().find(is_assigned));
        known.or_else(|| usable().min_by_key(count)).expect("the first has not failed")
    }

    /// Whether a directory has failed in the life of this process.
    pub(crate) fn has_failed_directory(&self) -> bool {
        self.homes.iter().any(|home| home.has_failed)
    }

    /// A directory failed.
    pub(super) fn on_disk_error(&mut self, now: Now, home: usize, error: &DiskError) {
        if home == 0 {
            return self.fail(format!("the disk failed: {error}"));
        }
        if std::mem::replace(&mut self.homes[home].has_failed, true) {
            return;
        }
        self.say(format!("gives up {}: {error}", self.homes[home].path.display()));
        for cell in self.cells.values().filter(|cell| cell.home == home) {
            cell.retire();
        }
        let directory = self.homes[home].dir.id();
        if let Some(lifecycle) = &mut self.lifecycle {
            lifecycle.on_log_dir_failed(now, directory);
        }
    }

    pub(super) fn write_checkpoints(&mut self, now: Now) {
        for at in 0..self.homes.len() {
            if !self.homes[at].has_failed
                && let Err(why) = self.write_checkpoint(at)
            {
                self.on_disk_error(now, at, &why);
            }
        }
    }

    fn write_checkpoint(&mut self, at: usize) -> Result<(), DiskError> {
        let mut served = Checkpoints::default();
        for cell in self.cells.values().filter(|cell| cell.home == at) {
            cell.with(|partition| {
                let log = partition.log();
                served.recovery_points.insert(cell.name.clone(), log.recovery_point());
                served.log_starts.insert(cell.name.clone(), log.start());
                served.high_watermarks.insert(cell.name.clone(), partition.high_watermark());
            });
        }
        self.homes[at].dir.save(served)
    }

    /// Brings everything in one directory to the disk, and says that it is there.
    pub(super) fn close_home(&mut self, at: usize) -> Result<(), DiskError> {
        for cell in self.cells.values().filter(|cell| cell.home == at) {
            cell.with(|partition| if partition.is_failed() { Ok(()) } else { partition.log_mut().close() })?;
        }
        self.write_checkpoint(at)?;
        self.homes[at].dir.mark_clean(self.epoch.map_or(-1, |epoch| epoch.0))
    }
}
