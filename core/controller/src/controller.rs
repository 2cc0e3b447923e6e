//! The controller itself: it looks at an image, and keeps it.

use base::{Now, Offset};
use metadata::settings::Layers;
use metadata::{ConfigMap, ConfigResource, Delta, Image, MetadataRecord};

use crate::command::{Command, Reply};
use crate::error::ControllerError;

static NOTHING: ConfigMap = ConfigMap::new();

/// What the controller has to know of its node's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSettings {
    /// `num.partitions`.
    pub partitions_default: i32,
    /// `default.replication.factor`.
    pub replication_factor_default: i16,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// What was set for the node at start, by name.
    pub fixed: ConfigMap,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            partitions_default: 1,
            replication_factor_default: 1,
            delete_topics: true,
            fixed: ConfigMap::new(),
        }
    }
}

/// Who decides what the cluster is.
#[derive(Debug)]
pub struct Controller {
    pub(crate) settings: ControllerSettings,
    pub(crate) image: Image,
    has_room: bool,
}

impl Controller {
    /// A controller of a cluster without anything in it.
    pub fn new(settings: ControllerSettings) -> Self {
        Self { settings, image: Image::default(), has_room: true }
    }

    /// What a new cluster's log begins with: the level of the metadata that follows.
    pub fn bootstrap() -> Vec<MetadataRecord> {
        let level =
            metadata::FeatureLevel { name: "metadata.version".into(), level: metadata::METADATA_VERSION };
        vec![MetadataRecord::FeatureLevel(level)]
    }

    /// The cluster as all replayed records make it.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Whether there is a log directory that takes new logs. Without one nothing is made that needs a log; it
    /// is taken for granted until the first call.
    pub fn on_room(&mut self, has_room: bool) {
        self.has_room = has_room;
    }

    /// Decides: what to answer once the records are committed and replayed. Without records there is
    /// nothing to commit. An error refuses the command as a whole.
    pub fn handle(
        &self,
        _now: Now,
        command: &Command,
    ) -> Result<(Reply, Vec<MetadataRecord>), ControllerError> {
        match command {
            Command::CreateTopics(command) => {
                let (outcomes, records) = self.create_topics(command)?;
                Ok((Reply::CreateTopics(outcomes), records))
            }
            Command::DeleteTopics(command) => {
                let (outcomes, records) = self.delete_topics(command);
                Ok((Reply::DeleteTopics(outcomes), records))
            }
            Command::CreatePartitions(command) => {
                let (outcomes, records) = self.create_partitions(command)?;
                Ok((Reply::CreatePartitions(outcomes), records))
            }
            Command::IncrementalAlterConfigs(command) => {
                let (outcomes, records) = self.incremental_alter_configs(command);
                Ok((Reply::IncrementalAlterConfigs(outcomes), records))
            }
            Command::AlterConfigs(command) => {
                let (outcomes, records) = self.alter_configs(command);
                Ok((Reply::AlterConfigs(outcomes), records))
            }
            Command::RegisterBroker(command) => {
                let (epoch, records) = self.register_broker(command)?;
                Ok((Reply::RegisterBroker(epoch), records))
            }
            Command::BrokerHeartbeat(command) => {
                let (reply, records) = self.broker_heartbeat(command)?;
                Ok((Reply::BrokerHeartbeat(reply), records))
            }
            Command::BrokerSuspected(_)
            | Command::AlterPartitions(_)
            | Command::ElectLeaders(_)
            | Command::AlterReassignments(_)
            | Command::UpdateFeatures(_) => {
                Err(ControllerError::InvalidRequest("This controller cannot do that.".into()))
            }
            Command::UnregisterBroker(command) => {
                let records = self.unregister_broker(*command)?;
                Ok((Reply::UnregisterBroker, records))
            }
            Command::AllocateProducerIds(command) => {
                let (block, records) = self.allocate_producer_ids(*command)?;
                Ok((Reply::AllocateProducerIds(block), records))
            }
            Command::SkipProducerIds(command) => {
                Ok((Reply::SkipProducerIds, self.skip_producer_ids(*command)?))
            }
            Command::AssignReplicasToDirs(command) => {
                Ok((Reply::AssignReplicasToDirs, self.assign_replicas_to_dirs(command)?))
            }
            Command::AdoptTopic(command) => {
                let (topic, records) = self.adopt_topic(command)?;
                Ok((Reply::AdoptTopic(topic), records))
            }
        }
    }

    /// Takes a committed record in, and notes what it changed.
    pub fn replay(&mut self, record: &MetadataRecord, delta: &mut Delta) {
        self.image.replay(record, delta);
    }

    /// Takes a committed batch in, whose last record lies right before `end`; what it changed.
    pub fn replay_batch(&mut self, records: &[MetadataRecord], end: Offset) -> Delta {
        let mut delta = Delta::default();
        self.replay_onto(records, end, &mut delta);
        delta
    }

    /// As [`Controller::replay_batch`], for the next of several batches: `delta` tells what all changed.
    pub fn replay_onto(&mut self, records: &[MetadataRecord], end: Offset, delta: &mut Delta) {
        for record in records {
            self.replay(record, delta);
        }
        self.image.set_end(end);
    }

    /// Refuses what would make logs that nobody can hold.
    pub(crate) fn check_room(&self) -> Result<(), ControllerError> {
        if self.has_room { Ok(()) } else { Err(ControllerError::NoRoom) }
    }

    /// What was set for every broker: a topic's defaults are the same wherever its partitions are.
    pub(crate) fn layers(&self) -> Layers<'_> {
        let default_broker = self.image.configs(&ConfigResource::DefaultBroker);
        Layers { broker: &NOTHING, default_broker, fixed: &self.settings.fixed }
    }
}
