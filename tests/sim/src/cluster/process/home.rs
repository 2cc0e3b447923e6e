//! The log directories of a process: the first has the metadata, and takes the process with it when it
//! fails; another takes its own partitions only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Now, Offset, TopicId, TopicPartition, Uuid};
use broker::directories::{Found, LastStop, give_up, last_stop};
use storage::checkpoint::{PartitionOffsets, read_partition_metadata};
use storage::dirs::locate::Whose;
use storage::dirs::{Checkpoints, LogDir, LogDirError, Owner};
use storage::disk::{Disk, DiskError};
use storage::layout::{META_PROPERTIES_FILE, partition_dir};

use super::cell::Cell;
use super::command::Asker;
use super::{CLUSTER, PartitionKey, Process};
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
    /// What the last stop left.
    pub(super) fn last_stop(&self) -> LastStop {
        let found = |home: &Home| {
            let lax = home.dir.checkpoints().lax.keys().filter(|name| home.found.contains(name));
            let lax = lax.filter_map(|name| Some((home.whose(name)?, name.partition)));
            Found { is_new: home.is_new, clean: home.was_clean, lax: lax.collect() }
        };
        last_stop(&self.homes.iter().map(found).collect::<Vec<_>>())
    }

    /// What lay under a name when the process began, and in which of the directories.
    pub(super) fn named(&self, name: &TopicPartition) -> Vec<(usize, Whose)> {
        let whose = |home: &Home| match read_partition_metadata(&*self.disk, &home.partition_dir(name)) {
            Ok(whose) => whose.map(Whose::Topic),
            Err(why) => Some(Whose::Unreadable(why.to_string())),
        };
        let all = self.homes.iter().enumerate().filter(|(_, home)| home.found.contains(name));
        all.filter_map(|(at, home)| Some((at, whose(home)?))).collect()
    }

    /// Where a new log is made: where there are fewest.
    pub(super) fn home_for_new(&self) -> usize {
        let usable = (0..self.homes.len()).filter(|at| !self.homes[*at].has_failed);
        let count = |at: &usize| self.cells.values().filter(|cell| cell.home == *at).count();
        usable.min_by_key(count).expect("the first has not failed")
    }

    /// Partitions whose logs cannot be served although their directories are as good as any.
    pub(super) fn lost(&self) -> Vec<PartitionKey> {
        let is_well = |home: usize| !self.homes[home].has_failed;
        let failed = self.cells.values().filter(|cell| is_well(cell.home) && cell.with(|it| it.is_failed()));
        let offline = self.offline.iter().filter(|(_, offline)| offline.home.is_some_and(is_well));
        failed.map(|cell| cell.key).chain(offline.map(|(key, _)| *key)).collect()
    }

    /// Whether a partition that lies in a directory, or should, cannot be served: of its log nobody knows, and
    /// the next start looks at it again.
    pub(super) fn has_offline_in(&self, at: usize) -> bool {
        self.offline.values().any(|offline| offline.home == Some(at))
            || self.cells.values().any(|cell| cell.home == at && cell.with(|it| it.is_failed()))
    }

    /// Has it known which logs cannot be served, until it is.
    pub(super) fn give_up_lost(&mut self, now: Now) {
        if let Some(command) = give_up(self.id, &self.image, self.lost()) {
            self.give(now, Asker::Nobody, &command);
        }
    }

    /// Up to where it is written down that a log is durable.
    pub(crate) fn recovery_point_noted(&self, cell: &Cell) -> Offset {
        self.homes[cell.home].noted(&cell.name).0
    }

    /// Whether anything of it could not be served in the life of this process.
    pub(crate) fn needs_repair(&self) -> bool {
        self.homes.iter().any(|home| home.has_failed) || !self.offline.is_empty() || !self.lost().is_empty()
    }

    /// A disk refused something: if nothing is known of the directory any more, it is given up.
    pub(super) fn on_disk_error(&mut self, now: Now, home: usize, error: &DiskError) {
        if !error.is_of_directory() {
            return self.say(format!("the disk refused: {error}"));
        }
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

    /// Writes down where a log starts.
    pub(super) fn save_start(&mut self, now: Now, key: PartitionKey) {
        let Some(cell) = self.cells.get(&key).cloned().filter(|cell| !self.homes[cell.home].has_failed)
        else {
            return;
        };
        let start = cell.with(|partition| partition.log().start());
        match self.homes[cell.home].dir.save_starts([(cell.name.clone(), start)].into()) {
            Ok(()) => cell.on_start_saved(start),
            Err(why) => self.on_disk_error(now, cell.home, &why),
        }
    }

    fn write_checkpoint(&mut self, at: usize) -> Result<(), DiskError> {
        let (mut served, mut starts) = (Checkpoints::default(), Vec::new());
        for cell in self.cells.values().filter(|cell| cell.home == at) {
            starts.push((Arc::clone(cell), cell.with(|partition| partition.log().start())));
            cell.with(|partition| {
                let log = partition.log();
                served.recovery_points.insert(cell.name.clone(), log.recovery_point());
                served.log_starts.insert(cell.name.clone(), log.start());
                served.high_watermarks.insert(cell.name.clone(), partition.high_watermark());
            });
        }
        self.homes[at].dir.save(served)?;
        starts.into_iter().for_each(|(cell, start)| cell.on_start_saved(start));
        Ok(())
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
