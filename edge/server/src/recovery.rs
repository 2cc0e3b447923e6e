//! Finds and opens the logs of this node, at start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{Offset, ProducerId, TopicId, TopicPartition, Uuid};
use broker::directories::place;
use broker::partition::{flush_policy, log_settings};
use metadata::{Image, Partition, Topic};
use storage::dirs::locate::{Lost, Place, Whose};
use storage::disk::Failed;
use storage::{Known, Log, OpenError};
use tracing::{debug, error, info, warn};

use crate::directories::Directory;
use crate::hosting::{Hosting, Unmade, note_lax};
use crate::partition::PartitionCell;
use crate::table::Offline;
use crate::threads::on_threads;

/// What was found in the log directories.
#[derive(Default)]
pub(crate) struct Recovery {
    /// Partitions that can be served, once it is written down where they are.
    pub(crate) cells: Vec<Arc<PartitionCell>>,
    /// Bytes that had to be read again.
    pub(crate) scanned_bytes: u64,
}

/// Where each log directory was when it was last seen, those that are not there now included.
pub(crate) type KnownPaths = BTreeMap<Uuid, PathBuf>;

/// A partition of this node.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    topic: &'a Arc<Topic>,
    partition: &'a Arc<Partition>,
    at: usize,
}

/// What lies in the directories under each partition's name, by the places of the directories.
type Named = BTreeMap<TopicPartition, Vec<(usize, Whose)>>;

/// Opens every partition that the image gives to this node, on several threads, and makes those that
/// were decided on but not made before the last stop.
pub(crate) fn open_all(
    hosting: &Hosting,
    directories: &[Directory],
    image: &Image,
    paths: &KnownPaths,
) -> Recovery {
    let mut named = named(directories);
    let ids: Vec<Uuid> = directories.iter().map(|directory| directory.dir.id).collect();
    let (mut wanted, mut unmade) = (Vec::new(), Vec::new());
    for topic in image.topics() {
        for partition in topic.partitions() {
            if !partition.replicas.contains(&hosting.node) {
                continue;
            }
            let name = TopicPartition { topic: topic.name.clone(), partition: partition.index };
            let here = named.remove(&name).unwrap_or_default();
            let compacts = || hosting.topic_settings(image, topic).cleanup.compact;
            let place = place(hosting.node, image, (topic.id, partition), &ids, &here, compacts);
            let Some(place) = place else { continue };
            warn_of_others(&name, directories, topic.id, &here, &place);
            match place {
                Place::Open(at) => wanted.push(Wanted { topic, partition, at }),
                Place::Make => {
                    let settings = hosting.topic_settings(image, topic);
                    unmade.push(Unmade { topic, partition, settings });
                }
                Place::Offline(lost) => {
                    let has_others = partition.replicas.len() > 1;
                    offline(hosting, directories, (topic.id, name), (&lost, has_others), paths);
                }
            }
        }
    }
    for (name, here) in &named {
        here.iter().for_each(|(at, _)| stray(name, &directories[*at]));
    }
    forget_the_gone(directories, image);
    let mut recovery = open_found(hosting, directories, wanted, image);
    recovery.cells.extend(hosting.make_all(unmade, hosting.producer_expiry(image)));
    recovery
}

/// Sets aside what has no place in the metadata, which know of this life of the broker and so of all that was
/// decided before it. Only what says whose it is: of the rest a person has to tell.
///
/// A log in another directory than the one that it is assigned to, and in which it is, too, has no place either: the
/// directory was away, and the replica was filled again elsewhere.
pub(crate) fn set_strays_aside(hosting: &Hosting, directories: &mut [Directory], image: &Image) {
    let assigned = |topic: TopicId, name: &TopicPartition| {
        let topic = image.topic_by_id(topic).filter(|topic| topic.name == name.topic);
        let partition = topic.and_then(|topic| topic.partition(name.partition));
        partition.and_then(|partition| partition.directory_of(hosting.node))
    };
    let mut at_home: BTreeSet<TopicPartition> = BTreeSet::new();
    for directory in directories.iter() {
        let here = directory.partitions.iter().filter(|(name, whose)| match whose {
            Whose::Topic(topic) => assigned(*topic, name) == Some(directory.dir.id),
            Whose::Nobodys | Whose::Unreadable(_) => false,
        });
        at_home.extend(here.map(|(name, _)| name.clone()));
    }
    for directory in directories.iter_mut() {
        let id = directory.dir.id;
        directory.set_aside(|topic, name| match assigned(topic, name) {
            Some(home) => home != id && at_home.contains(name),
            None => true,
        });
    }
}

fn named(directories: &[Directory]) -> Named {
    let mut named = Named::new();
    for (at, directory) in directories.iter().enumerate() {
        for (name, whose) in &directory.partitions {
            named.entry(name.clone()).or_default().push((at, whose.clone()));
        }
    }
    named
}

fn stray(name: &TopicPartition, directory: &Directory) {
    let dir = directory.dir.path.display();
    warn!(partition = %name, %dir, "directory of no partition of this broker: left as it is");
}

/// Tells of what has the partition's name and is not the log that was decided on.
fn warn_of_others(
    name: &TopicPartition,
    directories: &[Directory],
    topic: TopicId,
    here: &[(usize, Whose)],
    place: &Place,
) {
    let taken = match place {
        Place::Open(at) => Some(*at),
        Place::Make | Place::Offline(Lost::Vanished { .. }) => None,
        Place::Offline(lost) => lost.at(),
    };
    for (at, whose) in here.iter().filter(|(at, _)| Some(*at) != taken) {
        let directory = &directories[*at];
        match whose {
            Whose::Topic(id) if *id == topic => {
                // Without its own directory there is nothing to compare a copy with.
                let Some(taken) = taken else { continue };
                let used = directories[taken].dir.path.display().to_string();
                error!(
                    partition = %name, used, other = %directory.dir.path.display(),
                    "partition is in two log directories: look which of them has its records, and move the other away"
                );
            }
            Whose::Topic(_) | Whose::Nobodys => stray(name, directory),
            Whose::Unreadable(why) => warn!(
                partition = %name, dir = %directory.dir.path.display(), why,
                "directory of which it cannot be told whose it is: left as it is"
            ),
        }
    }
}

fn offline(
    hosting: &Hosting,
    directories: &[Directory],
    (topic, name): (TopicId, TopicPartition),
    (lost, has_others): (&Lost, bool),
    paths: &KnownPaths,
) {
    let at = lost.at();
    let path = match lost {
        Lost::NoDirectory(id) => paths.get(id).map(PathBuf::as_path),
        _ => at.map(|at| directories[at].dir.path.as_path()),
    };
    error!(partition = %name, why = lost.advice(path, has_others), "partition is offline");
    let dir = at.map(|at| Arc::clone(&directories[at].dir));
    hosting
        .table
        .add_offline(topic, Offline { name, dir, has_log: false, unmade: false, is_gone: lost.is_nowhere() });
}

/// Drops what was noted of partitions of which there is neither a directory nor a topic any more: a
/// crash came between their deletion and the next checkpoint.
fn forget_the_gone(directories: &[Directory], image: &Image) {
    for directory in directories {
        let is_known = |name: &TopicPartition| {
            let topic = image.topic(name.topic.as_str());
            directory.partitions.contains_key(name)
                || topic.is_some_and(|topic| topic.partition(name.partition).is_some())
        };
        let noted = directory.checkpoints.recovery_points.keys();
        let noted = noted.chain(directory.checkpoints.log_starts.keys());
        let noted = noted.chain(directory.checkpoints.high_watermarks.keys());
        let gone: BTreeSet<_> = noted.filter(|name| !is_known(name)).cloned().collect();
        if !gone.is_empty() {
            directory.dir.mark(|marks| marks.forget(gone));
        }
    }
}

/// Opens logs; each directory with as many threads as the settings give to one.
fn open_found(
    hosting: &Hosting,
    directories: &[Directory],
    wanted: Vec<Wanted<'_>>,
    image: &Image,
) -> Recovery {
    note_lax_ones(hosting, directories, &wanted, image);
    let producer_expiry = hosting.producer_expiry(image);
    let opened = std::thread::scope(|scope| {
        let open_in = |at: usize| {
            let here: Vec<Wanted<'_>> = wanted.iter().filter(|wanted| wanted.at == at).copied().collect();
            scope.spawn(move || {
                on_threads(hosting.settings.recovery_threads, &here, |wanted| {
                    open(hosting, &directories[at], wanted, (image, producer_expiry))
                })
            })
        };
        let threads: Vec<_> = (0..directories.len()).map(open_in).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|opened| opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let opened: Vec<Option<(Arc<PartitionCell>, u64)>> = opened;
    let mut recovery = Recovery::default();
    for (cell, scanned_bytes) in opened.into_iter().flatten() {
        recovery.scanned_bytes += scanned_bytes;
        recovery.cells.push(cell);
    }
    end_adoptions(directories, &recovery.cells);
    recovery
}

/// Whatever made them so since they were noted last - other settings, another directory - logs that count records
/// before these are durable are noted before they take any.
fn note_lax_ones(hosting: &Hosting, directories: &[Directory], wanted: &[Wanted<'_>], image: &Image) {
    let mut topics = BTreeMap::new();
    let mut lax: Vec<Vec<TopicPartition>> = directories.iter().map(|_| Vec::new()).collect();
    for Wanted { topic, partition, at } in wanted {
        let is_lax = || !flush_policy(&hosting.topic_settings(image, topic)).counts_durable();
        if *topics.entry(topic.id).or_insert_with(is_lax) {
            lax[*at].push(TopicPartition { topic: topic.name.clone(), partition: partition.index });
        }
    }
    directories.iter().zip(lax).for_each(|(directory, names)| note_lax(&directory.dir, names));
}

/// What was written by another program and is open now is this node's own.
fn end_adoptions(directories: &[Directory], cells: &[Arc<PartitionCell>]) {
    for directory in directories.iter().filter(|directory| !directory.checkpoints.adopted.is_empty()) {
        let here = cells.iter().filter(|cell| Arc::ptr_eq(&cell.dir, &directory.dir));
        let opened: BTreeSet<_> = here.map(|cell| cell.name.clone()).collect();
        directory.dir.mark(|marks| marks.end_adoption(&opened));
    }
}

fn open(
    hosting: &Hosting,
    directory: &Directory,
    wanted: &Wanted<'_>,
    (image, producer_expiry): (&Image, Duration),
) -> Option<(Arc<PartitionCell>, u64)> {
    let Wanted { topic, partition, .. } = wanted;
    let name = TopicPartition { topic: topic.name.clone(), partition: partition.index };
    let settings = hosting.topic_settings(image, topic);
    let noted = |offsets: &storage::checkpoint::PartitionOffsets| offsets.get(&name).copied();
    let known = Known {
        recovery_point: noted(&directory.checkpoints.recovery_points).unwrap_or(Offset::ZERO),
        log_start: noted(&directory.checkpoints.log_starts).unwrap_or(Offset::ZERO),
        clean: directory.clean,
        adopted: directory.checkpoints.adopted.contains_key(&name),
    };
    let log_settings = log_settings(&settings, producer_expiry);
    let dir = &directory.dir;
    let path = PathBuf::from(name.to_string());
    let opened = Log::open(Arc::clone(&dir.disk), path, log_settings, known, hosting.clock.now());
    let was_given_up = partition.directory_of(hosting.node) == Some(Partition::DIRECTORY_LOST);
    let opened = opened.and_then(|mut opened| {
        // Maybe for damage that a start does not look for.
        if was_given_up {
            opened.0.check_whole()?;
        }
        Ok(opened)
    });
    let (mut log, recovered) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            let is_gone = partition.replicas.len() > 1 && why.is_for_good(was_given_up);
            cannot_open(directory, &name, &why, is_gone);
            let dir = Some(Arc::clone(dir));
            let offline = Offline { name, dir, has_log: true, unmade: false, is_gone };
            hosting.table.add_offline(topic.id, offline);
            return None;
        }
    };
    if let Some(cut) = &recovered.cut {
        let damage = cut.damage.to_string();
        info!(partition = %name, at = %cut.at, bytes = cut.bytes, damage, "cut a torn end that nobody was promised");
    }
    debug!(partition = %name, end = %log.end(), scanned = recovered.scanned_bytes, "log opened");
    log.set_clean_upto(noted(&directory.checkpoints.clean_offsets).unwrap_or(Offset::ZERO));
    dir.partitions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let high_watermark = noted(&directory.checkpoints.high_watermarks).unwrap_or_else(|| log.start());
    let cell = hosting.host(dir, (name, log, high_watermark), partition, &settings);
    Some((cell, recovered.scanned_bytes))
}

fn cannot_open(directory: &Directory, name: &TopicPartition, why: &OpenError, is_gone: bool) {
    let dir = &directory.dir;
    let advice = match why {
        OpenError::Disk(error) if dir.on_error(error) => return,
        _ if is_gone => {
            "once another replica leads that has all records, it fills an empty log here, and what is there now is kept \
             beside it; look at the disk"
        }
        OpenError::Disk(error) if error.failed == Failed::Process => {
            "the process has too few descriptors or too little memory: raise `ulimit -n` and start again"
        }
        OpenError::Disk(_) => "look at the file that is named, and start again",
        OpenError::Quarantined { .. } => {
            "records that were durable are damaged; nothing was changed: put the partition's directory back from \
             a backup, or delete the topic to give its records up"
        }
        OpenError::Metadata(_) => "put partition.metadata back from a backup, and start again",
    };
    error!(partition = %name, dir = %dir.path.display(), %why, advice, "partition is offline");
}

/// The largest producer id in the logs that a cluster may have given out, if there is one.
pub(crate) fn largest_producer_id(cells: &[Arc<PartitionCell>]) -> Option<ProducerId> {
    let largest_of = |cell: &Arc<PartitionCell>| {
        cell.with(|partition| partition.producers().map(|producer| producer.id).filter(is_given).max())
    };
    cells.iter().filter_map(largest_of).max()
}

/// Ids are given out in order, so one from the upper half was made up by a client: if it counted, the
/// ids could be used up by a single batch.
fn is_given(id: &ProducerId) -> bool {
    id.0 < i64::MAX / 2
}

/// The file beside the metadata that says where each log directory was, for those who look for one.
const PATHS_FILE: &str = "vltava-log-dirs";

/// Reads where the log directories were, and notes where they are. Directories that are not there are
/// kept for as long as a partition is assigned to them.
pub(crate) fn note_paths(
    hosting: &Hosting,
    home: usize,
    directories: &[Directory],
    image: &Image,
) -> KnownPaths {
    let disk = &directories[home].dir.disk;
    let stored = disk.read(Path::new(PATHS_FILE), 1 << 20).ok().flatten().unwrap_or_default();
    let parse = |line: &str| {
        let (id, path) = line.split_once(' ')?;
        Some((id.parse().ok()?, PathBuf::from(path)))
    };
    let mut paths: KnownPaths = String::from_utf8_lossy(&stored).lines().filter_map(parse).collect();
    let used: BTreeSet<Uuid> = image
        .topics()
        .flat_map(|topic| {
            topic.partitions().iter().filter_map(|partition| partition.directory_of(hosting.node))
        })
        .collect();
    paths.retain(|id, _| used.contains(id));
    for directory in directories {
        let path = &directory.dir.path;
        paths.insert(directory.dir.id, std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    }
    let text: String = paths.iter().map(|(id, path)| format!("{id} {}\n", path.display())).collect();
    if text.as_bytes() != stored
        && let Err(why) = disk.replace(Path::new(PATHS_FILE), text.as_bytes())
    {
        directories[home].dir.on_error(&why);
    }
    paths
}
