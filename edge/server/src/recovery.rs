//! Opens the logs that are there, at start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{TopicId, TopicPartition};
use metadata::Image;
use storage::{Known, Log, OpenError};
use tracing::{debug, error, info, warn};

use crate::directories::Directory;
use crate::hosting::Hosting;
use crate::partition::{PartitionCell, log_settings};
use crate::threads::on_threads;

/// Threads that open logs, at least: after a crash each waits for the disk now and then.
const OPENING_THREADS: usize = 8;

/// What was found in the log directories.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Partitions that are served.
    pub(crate) opened: usize,
    /// Partitions of this node that cannot be.
    pub(crate) offline: usize,
    /// Bytes that had to be read again.
    pub(crate) scanned_bytes: u64,
}

/// A log to open: which of the directories it is in, whose it is.
struct Found<'a> {
    directory: &'a Directory,
    name: TopicPartition,
    topic: TopicId,
}

/// Opens every partition that the image gives to this node, on several threads, and makes those that
/// were decided on but not made before the last stop.
///
/// `complete` says that every directory which this node had before is there. If one is not, a log that
/// is missing may be in it: making an empty one in its place would lose it for good.
pub(crate) fn open_all(
    hosting: &Hosting,
    directories: &[Directory],
    image: &Image,
    complete: bool,
) -> Recovery {
    let mut found: BTreeMap<TopicPartition, Found<'_>> = BTreeMap::new();
    for directory in directories {
        for (name, topic) in &directory.partitions {
            let here = Found { directory, name: name.clone(), topic: *topic };
            if let Some(other) = found.insert(name.clone(), here) {
                let other = other.directory.dir.path.display().to_string();
                error!(partition = %name, other, "partition is in two log directories; the later one is used");
            }
        }
    }
    let (mut wanted, mut missing) = (Vec::new(), Vec::new());
    for topic in image.topics() {
        for partition in topic.partitions().iter().filter(|p| p.replicas.contains(&hosting.node)) {
            let name = TopicPartition { topic: topic.name.clone(), partition: partition.index };
            match found.remove(&name).filter(|found| found.topic == topic.id) {
                Some(found) => wanted.push((topic, partition, found)),
                None => missing.push((topic, partition, name)),
            }
        }
    }
    for stray in found.values() {
        let dir = stray.directory.dir.path.display();
        warn!(partition = %stray.name, %dir, "directory of no topic of this cluster: left as it is");
    }
    let mut recovery = open_found(hosting, &wanted, image);
    for (topic, partition, name) in missing {
        if !complete {
            error!(partition = %name, "partition is offline: it may be in a log directory that is not there");
            recovery.offline += 1;
            continue;
        }
        let made = hosting.make(topic, partition, &hosting.topic_settings(image, topic));
        recovery.offline += usize::from(made.is_none());
        hosting.table.add(made);
    }
    recovery
}

type Wanted<'a> = (&'a Arc<metadata::Topic>, &'a Arc<metadata::Partition>, Found<'a>);

fn open_found(hosting: &Hosting, wanted: &[Wanted<'_>], image: &Image) -> Recovery {
    let opened = on_threads(OPENING_THREADS.max(hosting.settings.recovery_threads), wanted, |wanted| {
        let (topic, partition, found) = wanted;
        open(hosting, topic, partition, found, image)
    });
    let mut recovery = Recovery::default();
    let mut cells = Vec::with_capacity(opened.len());
    for opened in opened {
        match opened {
            Some((cell, scanned_bytes)) => {
                recovery.opened += 1;
                recovery.scanned_bytes += scanned_bytes;
                cells.push(cell);
            }
            None => recovery.offline += 1,
        }
    }
    hosting.table.add(cells);
    recovery
}

fn open(
    hosting: &Hosting,
    topic: &metadata::Topic,
    partition: &metadata::Partition,
    found: &Found<'_>,
    image: &Image,
) -> Option<(Arc<PartitionCell>, u64)> {
    let Found { directory, name, .. } = found;
    let settings = hosting.topic_settings(image, topic);
    let known = Known {
        recovery_point: directory
            .checkpoints
            .recovery_points
            .get(name)
            .copied()
            .unwrap_or(base::Offset::ZERO),
        log_start: directory.checkpoints.log_starts.get(name).copied().unwrap_or(base::Offset::ZERO),
        clean: directory.clean,
        adopted: false,
    };
    let log_settings = log_settings(&settings, hosting.settings.producer_id_expiration);
    let dir = &directory.dir;
    let opened = Log::open(
        Arc::clone(&dir.disk),
        PathBuf::from(name.to_string()),
        log_settings,
        known,
        hosting.clock.now(),
    );
    let (log, recovered) = match opened {
        Ok(opened) => opened,
        Err(OpenError::Disk(why)) => {
            dir.retire(&why);
            return None;
        }
        Err(why @ (OpenError::Quarantined { .. } | OpenError::Metadata(_))) => {
            error!(partition = %name, dir = %dir.path.display(), %why, "partition is offline: its log is damaged");
            return None;
        }
    };
    if let Some(cut) = &recovered.cut {
        let damage = cut.damage.to_string();
        info!(partition = %name, at = %cut.at, bytes = cut.bytes, damage, "cut a torn end that nobody was promised");
    }
    debug!(partition = %name, end = %log.end(), scanned = recovered.scanned_bytes, "log opened");
    dir.partitions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let cell = hosting.host(dir, name.clone(), log, partition, &settings);
    Some((cell, recovered.scanned_bytes))
}
