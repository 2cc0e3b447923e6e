//! The log directories at start: locked, known to be this node's, and looked through.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName, TopicPartition, Uuid};
use broker::directories::{Found, LastStop, last_stop};
use disk::{DirLock, FlushPool, FsDisk, LockError, probe};
use metadata::settings::BrokerSettings;
use quorum::METADATA_TOPIC;
use storage::checkpoint::{parse_epochs, read_partition_metadata};
use storage::dirs::locate::Whose;
use storage::dirs::metadata_home::{self, HomeError, Root};
use storage::dirs::{Checkpoints, LogDir, LogDirError, MetaProperties, Owner};
use storage::disk::{DirEntry, Disk, DiskError};
use storage::layout::{
    DirName, EPOCHS_FILE, FileKind, FileName, META_PROPERTIES_FILE, parse_dir_name, parse_file_name,
};
use telemetry::Metrics;
use tracing::{error, info, warn};

use crate::log_dir::{LogDirectory, Parts};
use crate::random::random;

/// A log directory that is about to be used.
pub(crate) struct Directory {
    pub(crate) dir: Arc<LogDirectory>,
    /// Whether the last stop was an orderly one.
    pub(crate) clean: bool,
    /// Whether it was used before.
    pub(crate) is_new: bool,
    pub(crate) checkpoints: Checkpoints,
    /// What is in it that has a partition's name.
    pub(crate) partitions: BTreeMap<TopicPartition, Whose>,
}

/// All log directories of the node, in the order of the settings.
pub(crate) struct Directories {
    pub(crate) all: Vec<Directory>,
    /// The place of the one with the metadata log.
    pub(crate) home: usize,
    /// Those that the node goes without, since their disks fail.
    pub(crate) failing: Vec<PathBuf>,
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
        source: io::Error,
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
    /// It cannot be told where the metadata is.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// It cannot be looked whether it has a metadata log.
    #[error("log directory {root}: {error}", root = root.display())]
    Metadata {
        /// Which.
        root: PathBuf,
        /// Why.
        error: Box<quorum::OpenError>,
    },
    /// Its threads cannot be started.
    #[error("cannot start the flush threads: {0}")]
    Threads(io::Error),
    /// Its disk fails, and the node cannot go without it.
    #[error(
        "{0}; the disk fails, and the metadata of this node is there, or may be: repair it. If it is lost for good, and \
         the rest of the cluster has what is here: give this node empty log directories, and it is filled by the others"
    )]
    Failing(Box<DirectoryError>),
}

impl DirectoryError {
    fn with_advice(self) -> Self {
        Self::Failing(Box::new(self))
    }
}

/// Who opens the directories.
struct Opening<'a> {
    settings: &'a BrokerSettings,
    metrics: &'a Arc<Metrics>,
    cluster_id: &'a str,
    /// Whether no directory belonged to a cluster.
    is_new_cluster: bool,
}

/// Directories that are this process's, and not changed yet.
pub(crate) struct Locked {
    locks: Vec<DirLock>,
    home: usize,
    failing: Vec<PathBuf>,
    /// The cluster that they belong to; `None` if none was used before.
    pub(crate) cluster_id: Option<String>,
    /// Whether the node came to that cluster by joining it, and has some of its metadata.
    pub(crate) has_joined: bool,
    /// Whether it was to join that cluster, and has nothing of its metadata yet.
    pub(crate) is_joining: bool,
}

impl Locked {
    /// Takes the directories of the settings. All of them belong to one cluster: that of the first that was
    /// used before. One whose disk fails is gone without, if it cannot be the one with the metadata.
    pub(crate) fn lock(settings: &BrokerSettings) -> Result<Self, DirectoryError> {
        let (mut locks, mut roots, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for root in &settings.log_dirs {
            match lock(root).and_then(|lock| Ok((lock, look(root)?))) {
                Ok((lock, root)) => {
                    locks.push(lock);
                    roots.push(root);
                }
                Err(error) if probe::failing(root).is_some() => failed.push((root, error)),
                Err(error) => return Err(error),
            }
        }
        let home = match (metadata_home::choose(&roots), failed.is_empty()) {
            (Ok(home), true) => home,
            (Ok(home), false) if metadata_home::is_sure(&roots, home) => home,
            (Err(why), true) | (Err(why @ HomeError::Several { .. }), false) => return Err(why.into()),
            // What is missing may be on the disk that fails.
            _ => return Err(failed.swap_remove(0).1.with_advice()),
        };
        let failing = failed.into_iter().map(|(root, error)| without(root, &error)).collect();
        let first_used =
            std::iter::once(&roots[home]).chain(&roots).find_map(|root| root.properties.as_ref());
        let cluster_id = first_used.map(|known| known.cluster_id.clone());
        let Root { properties, has_log, .. } = &roots[home];
        let joins = properties.as_ref().is_some_and(|properties| properties.joins);
        let (has_joined, is_joining) = (joins && *has_log, joins && !*has_log);
        Ok(Self { locks, home, failing, cluster_id, has_joined, is_joining })
    }
}

/// Says that the node goes without a directory.
fn without(root: &Path, error: &DirectoryError) -> PathBuf {
    error!(
        dir = %root.display(), %error,
        "started without a log directory, since its disk fails: what it had is filled again by others that lead, if \
         there are any, or waits until the disk is repaired and the node started again"
    );
    root.to_owned()
}

impl Directories {
    /// Opens directories, as this cluster's.
    pub(crate) fn open(
        locked: Locked,
        cluster_id: &str,
        settings: &BrokerSettings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, DirectoryError> {
        let Locked { locks, home, mut failing, cluster_id: used, .. } = locked;
        let opening = Opening { settings, metrics, cluster_id, is_new_cluster: used.is_none() };
        let mut all: Vec<Option<Directory>> = locks.iter().map(|_| None).collect();
        let mut locks: Vec<Option<DirLock>> = locks.into_iter().map(Some).collect();
        // The one with the metadata first: the others say which one that is.
        let others = (0..all.len()).filter(|place| *place != home);
        for place in std::iter::once(home).chain(others) {
            let lock = locks[place].take().expect("each place comes once");
            let root = lock.dir().to_owned();
            let metadata_directory = all[home].as_ref().map(|home| home.dir.id);
            let directory = match opening.open(&root, lock, metadata_directory) {
                Ok(directory) => directory,
                Err(error) if place != home && probe::failing(&root).is_some() => {
                    failing.push(without(&root, &error));
                    continue;
                }
                Err(error) if probe::failing(&root).is_some() => return Err(error.with_advice()),
                Err(error) => return Err(error),
            };
            if all.iter().flatten().any(|known| known.dir.id == directory.dir.id) {
                let error = LogDirError::Copy { path: root.clone() };
                return Err(DirectoryError::Unusable { root, error });
            }
            all[place] = Some(directory);
        }
        let home = all[..home].iter().flatten().count();
        Ok(Self { all: all.into_iter().flatten().collect(), home, failing })
    }

    /// What the last stop left.
    pub(crate) fn last_stop(&self) -> LastStop {
        let found = |directory: &Directory| {
            let lax =
                directory.checkpoints.lax.keys().filter_map(|name| match directory.partitions.get(name) {
                    Some(Whose::Topic(id)) => Some((*id, name.partition)),
                    _ => None,
                });
            let clean = directory.dir.marks.lock().clean_shutdown();
            Found { is_new: directory.is_new, clean, lax: lax.collect() }
        };
        last_stop(&self.all.iter().map(found).collect::<Vec<_>>())
    }
}

fn lock(root: &Path) -> Result<DirLock, DirectoryError> {
    make(root).map_err(|source| DirectoryError::Make { path: root.to_owned(), source })?;
    Ok(DirLock::acquire(root)?)
}

/// Makes a directory and those above it that are missing, so that they survive a power cut.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    make(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => return Err(error),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

/// What a directory is, before anything in it is changed.
fn look(path: &Path) -> Result<Root<'_>, DirectoryError> {
    let unusable = |error| DirectoryError::Unusable { root: path.to_owned(), error };
    let disk = FsDisk::new(path);
    let bytes =
        disk.read(Path::new(META_PROPERTIES_FILE), 1 << 20).map_err(|error| unusable(error.into()))?;
    let properties = bytes.map(|bytes| MetaProperties::parse(&bytes)).transpose().map_err(|error| {
        unusable(LogDirError::Properties { path: path.join(META_PROPERTIES_FILE), error })
    })?;
    let has_log = quorum::has_log(&disk, Path::new(""))
        .map_err(|error| DirectoryError::Metadata { root: path.to_owned(), error: Box::new(error) })?;
    let entries = disk.list(Path::new("")).map_err(|error| unusable(error.into()))?;
    let is_partition = |entry: &DirEntry| match parse_dir_name(&entry.name) {
        DirName::Partition(name) => entry.is_dir && name.topic.as_str() != METADATA_TOPIC,
        DirName::Deleted | DirName::Aside | DirName::Other => false,
    };
    Ok(Root { path, properties, has_log, has_partitions: entries.iter().any(is_partition) })
}

impl Opening<'_> {
    fn open(
        &self,
        root: &Path,
        lock: DirLock,
        metadata_directory: Option<Uuid>,
    ) -> Result<Directory, DirectoryError> {
        let unusable = |error: LogDirError| DirectoryError::Unusable { root: root.to_owned(), error };
        let fs = FsDisk::new(root);
        let health = Arc::clone(fs.health());
        let disk: Arc<dyn Disk> = Arc::new(fs);
        let is_new = !root.join(META_PROPERTIES_FILE).exists();
        let owner = Owner {
            cluster_id: Some(self.cluster_id.to_owned()),
            node_id: self.settings.node_id,
            metadata_directory,
        };
        if is_new && self.is_new_cluster {
            let joins = !self.settings.cluster_join.is_empty();
            claim(disk.as_ref(), &owner, joins).map_err(|error| unusable(error.into()))?;
        }
        let here = PathBuf::new();
        let (marks, contents) =
            LogDir::open(Arc::clone(&disk), here, &owner, Uuid::from_random(random())).map_err(unusable)?;
        for name in &contents.aside {
            warn!(dir = %root.display(), name, "left alone: set aside before, or moved by another program; remove it once nobody wants its records");
        }
        let mut partitions = BTreeMap::new();
        for name in contents.partitions {
            let whose = whose(disk.as_ref(), &name).map_err(|error| unusable(error.into()))?;
            partitions.extend(whose.map(|whose| (name, whose)));
        }
        let flush_metrics = Arc::clone(self.metrics);
        let label = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let flushes = FlushPool::start(&label, FlushPool::THREADS_DEFAULT, move |took| {
            flush_metrics.log.flushes.observe(took);
        })
        .map_err(DirectoryError::Threads)?;
        let (clean, checkpoints) = (marks.clean_shutdown().is_some(), marks.checkpoints().clone());
        let metrics = Arc::clone(self.metrics);
        let dir = LogDirectory::new(Parts { path: root.to_owned(), marks, health, flushes, lock, metrics });
        contents.deleted.into_iter().for_each(|name| dir.discard(name));
        Ok(Directory { dir: Arc::new(dir), clean, is_new, checkpoints, partitions })
    }
}

/// Makes a directory this node's although there are partitions in it already: there is no cluster yet
/// that they could be missing from, so they were put there to be taken in. Whether it joins is put down with it:
/// if nothing else comes of this start, the next one must not take it for a founder.
fn claim(disk: &dyn Disk, owner: &Owner, joins: bool) -> Result<(), DiskError> {
    let properties = MetaProperties {
        cluster_id: owner.cluster_id.clone().unwrap_or_default(),
        node_id: owner.node_id,
        directory_id: Uuid::from_random(random()),
        metadata_directory: owner.metadata_directory.unwrap_or(Uuid::ZERO),
        joins,
    };
    disk.replace(Path::new(META_PROPERTIES_FILE), properties.format().as_bytes())
}

/// Whose log lies in a directory with this name; `None` if there is none. What a crash has left of one
/// that was being made is removed.
fn whose(disk: &dyn Disk, name: &TopicPartition) -> Result<Option<Whose>, DiskError> {
    if name.topic.as_str() == METADATA_TOPIC {
        return Ok(None);
    }
    let dir = PathBuf::from(name.to_string());
    match read_partition_metadata(disk, &dir) {
        Ok(Some(id)) => Ok(Some(Whose::Topic(id))),
        Ok(None) if is_unfinished(disk, &dir) => {
            disk.remove_dir(&dir)?;
            disk.sync_dir(Path::new(""))?;
            Ok(None)
        }
        Ok(None) => Ok(Some(Whose::Nobodys)),
        Err(why) => Ok(Some(Whose::Unreadable(why.to_string()))),
    }
}

/// Whether a directory has nothing in it but what a log begins with: it was never served.
pub(crate) fn is_unfinished(disk: &dyn Disk, dir: &Path) -> bool {
    let is_beginning = |entry: &DirEntry| match parse_file_name(&entry.name) {
        FileName::Part(FileKind::Log, base) => base == Offset::ZERO && entry.len == 0,
        FileName::Leftover => true,
        FileName::Part(..) | FileName::Swap(..) | FileName::Other => false,
    };
    disk.list(dir).is_ok_and(|entries| entries.iter().all(|entry| !entry.is_dir && is_beginning(entry)))
}

impl Directory {
    /// Deletes the logs of these partitions.
    pub(crate) fn delete(&mut self, is_gone: impl Fn(TopicId, &TopicPartition) -> bool) {
        let Self { dir, partitions, .. } = self;
        let is_gone = |name: &TopicPartition, whose: &mut Whose| match whose {
            Whose::Topic(id) => is_gone(*id, name),
            Whose::Nobodys | Whose::Unreadable(_) => false,
        };
        for (name, _) in partitions.extract_if(.., is_gone) {
            if let Some(aside) = dir.mark(|marks| marks.set_aside(&name, Uuid::from_random(random()))) {
                info!(dir = %dir.path.display(), partition = %name, "partition deleted, as was decided while this broker was not there");
                dir.discard(aside);
            }
        }
    }

    /// Sets logs aside that nobody knows, with their records.
    pub(crate) fn set_aside(&mut self, is_stray: impl Fn(TopicId, &TopicPartition) -> bool) {
        let Self { dir, partitions, .. } = self;
        let is_stray = |name: &TopicPartition, whose: &mut Whose| match whose {
            Whose::Topic(id) => is_stray(*id, name),
            Whose::Nobodys | Whose::Unreadable(_) => false,
        };
        for (name, _) in partitions.extract_if(.., is_stray) {
            let files = dir.disk.list(Path::new(&name.to_string())).unwrap_or_default();
            let bytes: u64 = files.iter().map(|file| file.len).sum();
            if let Some(aside) = dir.mark(|marks| marks.set_stray(&name, Uuid::from_random(random()))) {
                warn!(
                    dir = %dir.path.display(), partition = %name, aside, bytes,
                    "set aside the log of a partition that this broker does not have there: the cluster does not know it, or has \
                     it elsewhere; remove it once nobody wants its records"
                );
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
