//! From log directories to logs that are open, once the metadata say what this node has.

use std::collections::BTreeMap;

use base::{BrokerId, TopicPartition};
use controller::{AdoptTopic, Command, FoundPartition, SkipProducerIds};
use metadata::Image;
use storage::dirs::locate::Whose;
use tracing::{info, warn};

use super::{HostingThread, Stopping};
use crate::directories::{Directories, Directory};
use crate::recovery;

/// Takes out of the way what was taken from this broker while it was away or about to end, before anything else
/// looks at it.
pub(crate) fn finish_deletions(thread: &HostingThread, directories: &mut Directories) {
    for directory in &mut directories.all {
        let after_crash = !directory.clean;
        directory.delete(|topic, name| thread.gone.has(topic, name, after_crash));
    }
}

/// Opens the logs of this node and puts them in service.
pub(crate) fn open(thread: &HostingThread, directories: Directories) -> Result<(), Stopping> {
    let hosting = &thread.hosting;
    let image = hosting.image.load_full();
    let home = directories.home;
    let mut all = directories.all;
    let paths = recovery::note_paths(hosting, home, &all, &image);
    if thread.had_a_life {
        recovery::set_strays_aside(hosting, &mut all, &image);
    }
    let recovered = recovery::open_all(hosting, &all, &image, &paths);
    if let Some(largest) = recovery::largest_producer_id(&recovered.cells) {
        let command = SkipProducerIds { broker: hosting.node, largest };
        thread.must(&Command::SkipProducerIds(command))?;
    }
    let opened = recovered.cells.len();
    thread.serve(&image, recovered.cells)?;
    let offline = hosting.table.offline_count();
    hosting.metrics.state.partitions_offline.set(offline as u64);
    if opened + offline > 0 {
        info!(opened, offline, scanned_bytes = recovered.scanned_bytes, "logs opened");
    }
    Ok(())
}

/// Takes topics in that another program left in the log directories, Apache Kafka say. Whether there
/// were any: then they are in the metadata that come next.
///
/// Only in a cluster without any topics: in any other a directory that nobody knows is a mistake that a
/// person should look at.
pub(crate) fn adopt(
    thread: &HostingThread,
    directories: &mut Directories,
    image: &Image,
) -> Result<bool, Stopping> {
    if image.topic_count() > 0 {
        return Ok(false);
    }
    let adoptable = adoptable(thread.hosting.node, &directories.all);
    for directory in &mut directories.all {
        // Before they are ours: offsets may be missing in them, which in a log of ours would be damage.
        let is_taken = |name: &&TopicPartition| adoptable.contains_key(&name.topic);
        let names: Vec<_> = directory.partitions.keys().filter(is_taken).cloned().collect();
        if !names.is_empty() {
            directory.dir.mark(|marks| marks.begin_adoption(names));
            directory.checkpoints = directory.dir.marks.lock().checkpoints().clone();
        }
    }
    let mut any = false;
    for (name, command) in adoptable {
        let partitions = command.partitions.len();
        if thread.must(&Command::AdoptTopic(command))? {
            info!(topic = %name, partitions, "took in a topic that was in the log directories");
            any = true;
        } else {
            warn!(topic = %name, "a topic in the log directories was left alone");
        }
    }
    Ok(any)
}

/// The topics that are in the directories.
fn adoptable(node: BrokerId, directories: &[Directory]) -> BTreeMap<base::TopicName, AdoptTopic> {
    let mut topics: BTreeMap<_, AdoptTopic> = BTreeMap::new();
    for directory in directories {
        for (TopicPartition { topic, partition }, whose) in &directory.partitions {
            let Whose::Topic(id) = whose else {
                warn!(%topic, %partition, "left alone: its directory does not say the topic's id");
                continue;
            };
            let adopted = topics.entry(topic.clone()).or_insert_with(|| AdoptTopic {
                name: topic.clone(),
                id: *id,
                partitions: BTreeMap::new(),
                broker: node,
            });
            if adopted.id == *id {
                let found = FoundPartition {
                    last_epoch: directory.last_epoch(topic, *partition),
                    directory: directory.dir.id,
                };
                // The first of several; the others are told of when the logs are opened.
                adopted.partitions.entry(*partition).or_insert(found);
            }
        }
    }
    topics
}
