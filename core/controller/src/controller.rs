//! The controller itself: it looks at an image, and keeps it.

use std::time::Duration;

use base::{BrokerId, Now, Offset};
use metadata::settings::{BrokerSettings, Layers};
use metadata::{ConfigMap, ConfigResource, Delta, Image, MetadataRecord};

use crate::command::{Command, Reply};
use crate::error::ControllerError;
use crate::office::Office;
use crate::sessions::Sessions;

static NOTHING: ConfigMap = ConfigMap::new();

/// What the controller has to know of its node's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSettings {
    /// `node.id`.
    pub node_id: BrokerId,
    /// The cluster's id: brokers of another one are refused. `None` asks nobody.
    pub cluster_id: Option<String>,
    /// `num.partitions`.
    pub partitions_default: i32,
    /// `default.replication.factor`; `None` chooses by the number of brokers, see [`REPLICATION_FACTOR_MAX`].
    pub replication_factor_default: Option<i16>,
    /// How many brokers there will be at least: those of `cluster.peers`. Before they have registered, what is
    /// made for fewer would stay with fewer.
    pub brokers_expected: usize,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `leader.imbalance.check.interval.seconds`; `None` without `auto.leader.rebalance.enable`.
    pub balance_interval: Option<Duration>,
    /// What was set for the node at start, by name.
    pub fixed: ConfigMap,
}

/// Replicas that a topic gets if nobody says how many, as far as there are brokers for them.
///
/// [`REPLICATION_FACTOR_MAX`]: self::REPLICATION_FACTOR_MAX
pub const REPLICATION_FACTOR_MAX: usize = 3;

impl Default for ControllerSettings {
    fn default() -> Self {
        let settings = BrokerSettings::parse::<String, String>([]).expect("the defaults fit");
        Self::from(&settings)
    }
}

impl From<&BrokerSettings> for ControllerSettings {
    fn from(settings: &BrokerSettings) -> Self {
        Self {
            node_id: settings.node_id,
            cluster_id: None,
            partitions_default: settings.partitions_default,
            replication_factor_default: settings.replication_factor_default,
            // Peers of one that only votes are no brokers either.
            brokers_expected: if settings.roles.broker { settings.cluster_peers.len() } else { 0 },
            delete_topics: settings.delete_topics,
            session_timeout: settings.broker_session_timeout,
            heartbeat_interval: settings.broker_heartbeat_interval,
            balance_interval: settings.balance_interval,
            fixed: settings.fixed.clone(),
        }
    }
}

/// Who decides what the cluster is.
#[derive(Debug)]
pub struct Controller {
    pub(crate) settings: ControllerSettings,
    /// What decisions are made on: all that is committed, and while this controller is the active one also
    /// what it has decided since.
    pub(crate) image: Image,
    pub(crate) committed: Image,
    pub(crate) sessions: Sessions,
    pub(crate) office: Office,
    /// Whose controller was the active one last, as far as is known.
    pub(crate) predecessor: Option<BrokerId>,
    has_room: bool,
}

impl Controller {
    /// A controller of a cluster without anything in it.
    pub fn new(settings: ControllerSettings) -> Self {
        Self {
            sessions: Sessions::new(settings.session_timeout),
            predecessor: None,
            settings,
            image: Image::default(),
            committed: Image::default(),
            office: Office::Vacant { active: None },
            has_room: true,
        }
    }

    /// What a new cluster's log begins with: the level of the metadata that follows.
    pub fn bootstrap() -> Vec<MetadataRecord> {
        let level = |(name, _, level): &(&str, i16, i16)| {
            MetadataRecord::FeatureLevel(metadata::FeatureLevel { name: (*name).to_owned(), level: *level })
        };
        metadata::FEATURES.iter().map(level).collect()
    }

    /// The cluster as all that is committed makes it.
    #[expect(clippy::misnamed_getters, reason = "what is decided and not committed is nobody's business")]
    pub fn image(&self) -> &Image {
        &self.committed
    }

    /// Whether there is a log directory that takes new logs. Without one nothing is made that needs a log; it
    /// is taken for granted until the first call.
    pub fn on_room(&mut self, has_room: bool) {
        self.has_room = has_room;
    }

    /// How many brokers will be there besides any that register: those who founded the cluster and were not taken
    /// out of it.
    pub fn on_brokers_expected(&mut self, count: usize) {
        self.settings.brokers_expected = count;
    }

    /// Decides: what to answer once the records are committed and replayed. Without records there is
    /// nothing to commit. An error refuses the command as a whole.
    pub fn handle(&mut self, now: Now, command: &Command) -> Decision {
        match command {
            Command::CreateTopics(command) => decided(self.create_topics(command)?, Reply::CreateTopics),
            Command::DeleteTopics(command) => decided(self.delete_topics(command), Reply::DeleteTopics),
            Command::CreatePartitions(command) => {
                decided(self.create_partitions(command)?, Reply::CreatePartitions)
            }
            Command::IncrementalAlterConfigs(command) => {
                decided(self.incremental_alter_configs(command), Reply::IncrementalAlterConfigs)
            }
            Command::AlterConfigs(command) => decided(self.alter_configs(command), Reply::AlterConfigs),
            Command::UpdateFeatures(command) => decided(self.update_features(command), Reply::UpdateFeatures),
            Command::RegisterBroker(command) => {
                decided(self.register_broker(command)?, Reply::RegisterBroker)
            }
            Command::BrokerHeartbeat(command) => {
                decided(self.broker_heartbeat(now, command)?, Reply::BrokerHeartbeat)
            }
            Command::BrokerSuspected(command) => {
                Ok((Reply::BrokerSuspected, self.broker_suspected(now, *command)?))
            }
            Command::UnregisterBroker(command) => {
                Ok((Reply::UnregisterBroker, self.unregister_broker(*command)?))
            }
            Command::AlterPartitions(command) => {
                decided(self.alter_partitions(command)?, Reply::AlterPartitions)
            }
            Command::ElectLeaders(command) => decided(self.elect_leaders(command), Reply::ElectLeaders),
            Command::AlterReassignments(command) => {
                decided(self.alter_reassignments(command), Reply::AlterReassignments)
            }
            Command::AllocateProducerIds(command) => {
                decided(self.allocate_producer_ids(*command)?, Reply::AllocateProducerIds)
            }
            Command::SkipProducerIds(command) => {
                Ok((Reply::SkipProducerIds, self.skip_producer_ids(*command)?))
            }
            Command::AssignReplicasToDirs(command) => {
                Ok((Reply::AssignReplicasToDirs, self.assign_replicas_to_dirs(command)?))
            }
            Command::AdoptTopic(command) => decided(self.adopt_topic(command)?, Reply::AdoptTopic),
            Command::Quorum(_) => {
                let why = "A controller has no quorum that could be asked.";
                Err(ControllerError::UnsupportedVersion(why.into()))
            }
        }
    }

    /// Takes a committed batch in, whose last record lies right before `end`; what it changed.
    ///
    /// This and [`Controller::handle`] are for who commits each command before the next one is decided;
    /// whoever has several on their way steps the controller.
    pub fn replay_batch(&mut self, records: &[MetadataRecord], end: Offset) -> Delta {
        let mut delta = Delta::default();
        self.replay_onto(records, end, &mut delta);
        delta
    }

    /// As [`Controller::replay_batch`], for the next of several batches: `delta` tells what all changed.
    pub fn replay_onto(&mut self, records: &[MetadataRecord], end: Offset, delta: &mut Delta) {
        for record in records {
            self.committed.replay(record, delta);
        }
        self.committed.set_end(end);
        self.image = self.committed.clone();
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

/// What to answer, and what to commit before.
pub type Decision = Result<(Reply, Vec<MetadataRecord>), ControllerError>;

fn decided<T>((answer, records): (T, Vec<MetadataRecord>), reply: impl FnOnce(T) -> Reply) -> Decision {
    Ok((reply(answer), records))
}
