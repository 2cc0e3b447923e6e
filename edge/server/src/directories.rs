//! The log directories at start: locked, known to be this node's, and looked through.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LeaderEpoch, PartitionIndex, TopicId, TopicName, TopicPartition, Uuid};
use disk::{DirLock, FlushPool, FsDisk, LockError};
use metadata::settings::BrokerSettings;
use quorum::METADATA_TOPIC;
use storage::checkpoint::{CheckpointError, parse_epochs, read_partition_metadata};
use storage::dirs::{Checkpoints, LogDir, LogDirError, MetaProperties, Owner};
use storage::disk::{Disk, DiskError};
use storage::layout::{EPOCHS_FILE, META_PROPERTIES_FILE};
use telemetry::Metrics;
use tracing::{info, warn};

use crate::log_dir::LogDirectory;
use crate::random::random;

/// A log directory that is about to be used.
pub(crate) struct Directory {
    pub(crate) dir: Arc<LogDirectory>,
    /// Whether the last stop was an orderly one.
    pub(crate) clean: bool,
    /// Whether it was used before.
    pub(crate) is_new: bool,
    pub(crate) checkpoints: Checkpoints,
    /// The partitions in it and the ids of their topics; zero if the directory does not say.
    pub(crate) partitions: Vec<(TopicPartition, TopicId)>,
}

/// All log directories of the node.
pub(crate) struct Directories {
    pub(crate) all: Vec<Directory>,
    pub(crate) cluster_id: String,
}

/// Why a log directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be made.
    #[error("cannot make the log directory {path}: {source}", path = path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process uses it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It belongs to another node, or is damaged.
    #[error("log directory {root}: {error}", root = root.display())]
    Unusable {
        /// Which.
        root: PathBuf,
        /// Why.
        error: LogDirError,
    },
    /// A partition in it does not say whose it is.
    #[error("log directory {root}, partition {name}: {error}", root = root.display())]
    Partition {
        /// Which.
        root: PathBuf,
        /// Which partition.
        name: TopicPartition,
        /// Why.
        error: CheckpointError,
    },
    /// Its threads cannot be started.
    #[error("cannot start the flush threads: {0}")]
    Threads(std::io::Error),
}

impl Directories {
    /// Opens the directories of the settings. All of them belong to one cluster: that of the first
    /// that was used before, or a new one.
    pub(crate) fn open(settings: &BrokerSettings, metrics: &Arc<Metrics>) -> Result<Self, DirectoryError> {
        let locks = settings.log_dirs.iter().map(|root| lock(root)).collect::<Result<Vec<_>, _>>()?;
        let named = settings.log_dirs.iter().find_map(|root| cluster_of(root));
        let is_new_cluster = named.is_none();
        let cluster_id = named.unwrap_or_else(|| Uuid::from_random(random()).to_string());
        let mut all: Vec<Directory> = Vec::with_capacity(locks.len());
        for (root, lock) in settings.log_dirs.iter().zip(locks) {
            let directory = open_one(root, lock, settings, &cluster_id, is_new_cluster, metrics)?;
            if all.iter().any(|known| known.dir.id == directory.dir.id) {
                let error = LogDirError::Copy { path: root.clone() };
                return Err(DirectoryError::Unusable { root: root.clone(), error });
            }
            all.push(directory);
        }
        Ok(Self { all, cluster_id })
    }
}

fn lock(root: &Path) -> Result<DirLock, DirectoryError> {
    std::fs::create_dir_all(root).map_err(|source| DirectoryError::Make { path: root.to_owned(), source })?;
    Ok(DirLock::acquire(root)?)
}

/// The cluster that a directory says it belongs to. What is damaged is reported when it is opened.
fn cluster_of(root: &Path) -> Option<String> {
    let bytes = std::fs::read(root.join(META_PROPERTIES_FILE)).ok()?;
    MetaProperties::parse(&bytes).ok().map(|properties| properties.cluster_id)
}

fn open_one(
    root: &Path,
    lock: DirLock,
    settings: &BrokerSettings,
    cluster_id: &str,
    is_new_cluster: bool,
    metrics: &Arc<Metrics>,
) -> Result<Directory, DirectoryError> {
    let unusable = |error: LogDirError| DirectoryError::Unusable { root: root.to_owned(), error };
    let disk: Arc<dyn Disk> = Arc::new(FsDisk::new(root));
    let is_new = !root.join(META_PROPERTIES_FILE).exists();
    let owner = Owner { cluster_id: Some(cluster_id.to_owned()), node_id: settings.node_id };
    if is_new && is_new_cluster {
        claim(disk.as_ref(), &owner).map_err(|error| unusable(error.into()))?;
    }
    let here = PathBuf::new();
    let (marks, contents) =
        LogDir::open(Arc::clone(&disk), here, &owner, Uuid::from_random(random())).map_err(unusable)?;
    for name in &contents.aside {
        warn!(dir = %root.display(), name, "left alone: moved or given up by another program");
    }
    let mut partitions = Vec::with_capacity(contents.partitions.len());
    for name in contents.partitions {
        if name.topic.as_str() == METADATA_TOPIC {
            continue;
        }
        let id = read_partition_metadata(disk.as_ref(), Path::new(&name.to_string())).map_err(|error| {
            DirectoryError::Partition { root: root.to_owned(), name: name.clone(), error }
        })?;
        partitions.push((name, id.unwrap_or(TopicId(Uuid::ZERO))));
    }
    let flush_metrics = Arc::clone(metrics);
    let label = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let flushes = FlushPool::start(&label, FlushPool::THREADS_DEFAULT, move |took| {
        flush_metrics.log.flushes.observe(took);
    })
    .map_err(DirectoryError::Threads)?;
    let (clean, checkpoints) = (marks.clean_shutdown().is_some(), marks.checkpoints().clone());
    let dir = Arc::new(LogDirectory::new(root.to_owned(), marks, flushes, lock, Arc::clone(metrics)));
    let directory = Directory { dir, clean, is_new, checkpoints, partitions };
    directory.remove_deleted(&contents.deleted);
    Ok(directory)
}

/// Makes a directory this node's although there are partitions in it already: there is no cluster yet
/// that they could be missing from, so they were put there to be taken in.
fn claim(disk: &dyn Disk, owner: &Owner) -> Result<(), DiskError> {
    let properties = MetaProperties {
        cluster_id: owner.cluster_id.clone().unwrap_or_default(),
        node_id: owner.node_id,
        directory_id: Uuid::from_random(random()),
    };
    disk.replace(Path::new(META_PROPERTIES_FILE), properties.format().as_bytes())
}

impl Directory {
    fn remove_deleted(&self, names: &[String]) {
        for name in names {
            self.dir.mark(|marks| marks.remove(name));
            info!(dir = %self.dir.path.display(), name, "removed what was left of a deleted partition");
        }
    }

    /// Removes what a crash has left of topics that were deleted.
    ///
    /// Behind an orderly stop nothing is left: what is there then, somebody has put there.
    pub(crate) fn finish_deletions(&mut self, deleted: &BTreeSet<TopicId>) {
        if self.clean {
            return;
        }
        let Self { dir, partitions, .. } = self;
        for (name, _) in partitions.extract_if(.., |(_, topic)| deleted.contains(topic)) {
            let aside = dir.mark(|marks| marks.set_aside(&name, Uuid::from_random(random())));
            if aside.is_some_and(|aside| dir.mark(|marks| marks.remove(&aside)).is_some()) {
                info!(dir = %dir.path.display(), partition = %name, "partition deleted, as was decided before a crash");
            }
        }
    }

    /// The highest leader epoch of a partition, or the first if none is written down.
    pub(crate) fn last_epoch(&self, topic: &TopicName, partition: PartitionIndex) -> LeaderEpoch {
        let file = Path::new(&format!("{topic}-{partition}")).join(EPOCHS_FILE);
        let bytes = self.dir.disk.read(&file, 64 << 20).ok().flatten();
        let epochs = bytes.and_then(|bytes| parse_epochs(&bytes).ok()).unwrap_or_default();
        epochs.last().map_or(LeaderEpoch::FIRST, |(epoch, _)| *epoch)
    }
}
