//! The records that the cluster's state is made of.
//!
//! Each is one of Kafka's metadata records, with its words checked and typed: a [`TopicName`] is a legal
//! name, a broker's id is not a partition's index. So replaying one cannot fail: what could be wrong
//! with the bytes was found when they were decoded.

use base::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionIndex, ProducerId, TopicId, TopicName, Uuid};

use crate::parts::{Broker, ConfigResource, Partition};

/// One change of the cluster's state, as it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataRecord {
    /// A topic was created; its partitions follow.
    Topic(NewTopic),
    /// A partition was created.
    Partition(NewPartition),
    /// Something of a partition changed.
    PartitionChange(PartitionChange),
    /// A topic was deleted, with its partitions and its configs.
    RemoveTopic(TopicId),
    /// A config was set or taken back.
    Config(ConfigChange),
    /// A block of producer ids was given away.
    ProducerIds(ProducerIds),
    /// A broker came, or came back.
    RegisterBroker(Broker),
    /// A broker left for good.
    UnregisterBroker(BrokerId, BrokerEpoch),
    /// Something of a broker changed.
    BrokerChange(BrokerChange),
    /// A feature's finalized level changed; level 0 takes it away.
    FeatureLevel(FeatureLevel),
    /// Nothing happened.
    NoOp,
}

/// A topic that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id, which no other topic had or will have.
    pub id: TopicId,
}

/// A partition that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartition {
    /// The topic it belongs to.
    pub topic: TopicId,
    /// All there is to know of it.
    pub partition: Partition,
}

/// What changed of a partition; `None` is "as it was". Its partition epoch grows by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionChange {
    /// The topic it belongs to.
    pub topic: TopicId,
    /// Which partition.
    pub partition: PartitionIndex,
    /// The new leader, [`BrokerId::NONE`] for none. Setting it starts a new leader epoch, even if it
    /// is the same as before.
    pub leader: Option<BrokerId>,
    /// The new in-sync set.
    pub isr: Option<Vec<BrokerId>>,
    /// The new replicas, in order of preference.
    pub replicas: Option<Vec<BrokerId>>,
    /// Replicas that are on their way in.
    pub adding: Option<Vec<BrokerId>>,
    /// Replicas that are on their way out.
    pub removing: Option<Vec<BrokerId>>,
    /// Eligible leader replicas.
    pub eligible: Option<Vec<BrokerId>>,
    /// The eligible leader replicas that were known last.
    pub last_known_eligible: Option<Vec<BrokerId>>,
    /// Whether the leader is recovering from an unclean election.
    pub recovering: Option<bool>,
    /// The log directory of each replica.
    pub directories: Option<Vec<Uuid>>,
}

impl PartitionChange {
    /// A change of this partition that changes nothing yet.
    pub fn of(topic: TopicId, partition: PartitionIndex) -> Self {
        Self {
            topic,
            partition,
            leader: None,
            isr: None,
            replicas: None,
            adding: None,
            removing: None,
            eligible: None,
            last_known_eligible: None,
            recovering: None,
            directories: None,
        }
    }
}

/// A config that was set or taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Whose config.
    pub resource: ConfigResource,
    /// The setting's name.
    pub name: String,
    /// Its new value; `None` takes the override away.
    pub value: Option<String>,
}

/// A block of producer ids that was given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIds {
    /// The broker that asked.
    pub broker: BrokerId,
    /// In which of its lives.
    pub broker_epoch: BrokerEpoch,
    /// The first id of the next block.
    pub next: ProducerId,
}

/// What changed of a broker; `None` is "as it was".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerChange {
    /// Which broker.
    pub broker: BrokerId,
    /// In which of its lives.
    pub epoch: BrokerEpoch,
    /// Whether it may not lead nor serve.
    pub fenced: Option<bool>,
    /// Whether it is about to stop. It never goes back.
    pub in_controlled_shutdown: bool,
    /// The directories that it can use.
    pub log_dirs: Option<Vec<Uuid>>,
}

/// The finalized level of a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureLevel {
    /// The feature's name, as `metadata.version`.
    pub name: String,
    /// Its level; 0 is "not in use".
    pub level: i16,
}

/// The epoch of a partition that was just created.
pub(crate) const PARTITION_EPOCH_FIRST: i32 = 0;

impl NewPartition {
    /// A partition of a topic at its very beginning: every replica in sync, the first one leads.
    pub fn first(topic: TopicId, index: PartitionIndex, replicas: Vec<BrokerId>, isr: Vec<BrokerId>) -> Self {
        let leader = isr.first().copied().unwrap_or(BrokerId::NONE);
        let directories = vec![Partition::DIRECTORY_UNASSIGNED; replicas.len()];
        Self {
            topic,
            partition: Partition {
                index,
                leader,
                leader_epoch: LeaderEpoch::FIRST,
                partition_epoch: PARTITION_EPOCH_FIRST,
                recovering: false,
                unclean_epoch: LeaderEpoch::NONE,
                replicas: replicas.into(),
                isr: isr.into(),
                directories: directories.into(),
                unsettled: None,
            },
        }
    }
}
