//! From log directories to a node that knows its cluster and has its logs open.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base::{BrokerEpoch, BrokerId, TopicPartition, Uuid};
use controller::{
    AdoptTopic, AssignReplicasToDirs, BrokerHeartbeat, Command, ControllerSettings, FoundPartition, InDoubt,
    PARTITIONS_PER_COMMAND_MAX, RegisterBroker, Reply, SkipProducerIds,
};
use metadata::settings::BrokerSettings;
use metadata::{Endpoint, Image};
use quorum::{Quorum, Start};
use storage::dirs::locate::Whose;
use tracing::{info, warn};

use crate::control::{ControlFailed, ControlThread};
use crate::directories::{Directories, Directory};
use crate::error::ServerError;
use crate::hosting::Hosting;
use crate::partition::PartitionCell;
use crate::random::random;
use crate::recovery;

/// Reads the metadata, begins a new life of this broker, and opens its logs.
pub(crate) fn bring_up(
    hosting: Hosting,
    directories: &mut Directories,
    bound: SocketAddr,
) -> Result<ControlThread, ServerError> {
    let (settings, clock) = (hosting.settings.clone(), hosting.clock);
    let opening = Start {
        log_dir: Path::new(""),
        node_id: settings.node_id,
        settings: ControllerSettings::from(&settings),
        fresh_cluster_id: Uuid::from_random(random()),
        now: clock.now(),
    };
    let home = directories.home;
    let quorum = Quorum::open(Arc::clone(&directories.all[home].dir.disk), opening).map_err(Box::new)?;
    let directories = &mut directories.all;
    // Not before the log is there and can be read: what a directory names must not be missed for nothing.
    let home_id = directories[home].dir.id;
    for directory in directories.iter() {
        directory.dir.mark(|marks| marks.name_metadata_directory(home_id));
    }
    // Before anything else looks at them: a node without topics takes in those it finds.
    directories.iter_mut().for_each(|directory| directory.finish_deletions(quorum.deleted()));
    let image = Arc::new(ArcSwap::from_pointee(Image::default()));
    let mut control = ControlThread { quorum, image, hosting, clock, commits: 0 };
    let epoch = register(&mut control, &settings, directories, bound)?;
    adopt(&mut control, directories)?;
    let paths = recovery::note_paths(&control.hosting, home, directories, control.quorum.image());
    let recovered = recovery::open_all(&control.hosting, directories, control.quorum.image(), &paths);
    if let Some(largest) = recovery::largest_producer_id(&recovered.cells) {
        let command = SkipProducerIds { broker: settings.node_id, largest };
        control.must(&Command::SkipProducerIds(command))?;
    }
    let opened = recovered.cells.len();
    control.serve(recovered.cells)?;
    let ready = BrokerHeartbeat {
        id: settings.node_id,
        epoch,
        metadata_end: control.quorum.image().end(),
        wants_fence: false,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    };
    control.must(&Command::BrokerHeartbeat(ready))?;
    control.image.store(Arc::new(control.quorum.image().clone()));
    control.count();
    let offline = control.hosting.table.offline_count();
    control.hosting.metrics.state.partitions_offline.set(offline as u64);
    if opened + offline > 0 {
        info!(opened, offline, scanned_bytes = recovered.scanned_bytes, "logs opened");
    }
    Ok(control)
}

impl ControlThread {
    /// Puts partitions whose logs were just made or opened in service, once it is durable in which
    /// directories they are: a log that takes records and is not there later must be missed.
    pub(crate) fn serve(&mut self, cells: Vec<Arc<PartitionCell>>) -> Result<(), ControlFailed> {
        for some in cells.chunks(PARTITIONS_PER_COMMAND_MAX) {
            let place = |cell: &Arc<PartitionCell>| (cell.topic, cell.name.partition, cell.dir.id);
            let replicas = some.iter().map(place).collect();
            let command = AssignReplicasToDirs { broker: self.hosting.node, replicas };
            self.must(&Command::AssignReplicasToDirs(command))?;
        }
        if !cells.is_empty() {
            self.hosting.table.add(cells);
        }
        Ok(())
    }

    /// Commits a command of this node's own, which the controller has no reason to refuse.
    fn must(&mut self, command: &Command) -> Result<(), ControlFailed> {
        match self.commit(command)? {
            Ok(_) => Ok(()),
            Err(refused) => panic!("the controller refuses {command:?}: {refused}"),
        }
    }
}

fn register(
    control: &mut ControlThread,
    settings: &BrokerSettings,
    directories: &[Directory],
    bound: SocketAddr,
) -> Result<BrokerEpoch, ServerError> {
    let command = Command::RegisterBroker(RegisterBroker {
        id: settings.node_id,
        incarnation: Uuid::from_random(random()),
        endpoints: endpoints(settings, bound),
        features: Vec::new(),
        rack: settings.rack.clone(),
        log_dirs: directories.iter().map(|directory| directory.dir.id).collect(),
        cluster_id: control.quorum.cluster_id().to_owned(),
        cluster_address: None,
        previous_epoch: None,
        in_doubt: InDoubt::Nothing,
        is_voter: true,
        after_crash: directories.iter().any(|directory| !directory.clean && !directory.is_new),
    });
    match control.commit(&command)? {
        Ok((Reply::RegisterBroker(epoch), _)) => Ok(epoch),
        Ok((other, _)) => panic!("a broker registers and is answered {other:?}"),
        Err(refused) => Err(ServerError::Control(refused.to_string())),
    }
}

/// Where clients are told to connect.
fn endpoints(settings: &BrokerSettings, bound: SocketAddr) -> Vec<Endpoint> {
    let listeners = settings.advertised_listeners().iter();
    listeners
        .map(|listener| Endpoint {
            listener: listener.name.clone(),
            host: match listener.host.as_str() {
                "" | "0.0.0.0" | "::" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
                host => host.to_owned(),
            },
            port: if listener.port == 0 { bound.port() } else { listener.port },
            security_protocol: listener.protocol.code(),
        })
        .collect()
}

/// Takes topics in that another program left in the log directories, Apache Kafka say.
///
/// Only a node without any topics does so: on any other a directory that nobody knows is a mistake
/// that a person should look at.
fn adopt(control: &mut ControlThread, directories: &mut [Directory]) -> Result<(), ServerError> {
    if control.quorum.image().topic_count() > 0 {
        return Ok(());
    }
    let adoptable = adoptable(control.hosting.node, directories);
    for directory in directories.iter_mut() {
        // Before they are ours: offsets may be missing in them, which in a log of ours would be damage.
        let is_taken = |name: &&TopicPartition| adoptable.contains_key(&name.topic);
        let names: Vec<_> = directory.partitions.keys().filter(is_taken).cloned().collect();
        if !names.is_empty() {
            directory.dir.mark(|marks| marks.begin_adoption(names));
            directory.checkpoints = directory.dir.marks.lock().checkpoints().clone();
        }
    }
    for (name, command) in adoptable {
        let partitions = command.partitions.len();
        match control.commit(&Command::AdoptTopic(command))? {
            Ok(_) => info!(topic = %name, partitions, "took in a topic that was in the log directories"),
            Err(why) => warn!(topic = %name, %why, "a topic in the log directories was left alone"),
        }
    }
    Ok(())
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
