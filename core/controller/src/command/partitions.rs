//! Partitions: who is in sync, who leads, and where the replicas are.

use base::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionIndex, TopicId};
use serde::{Deserialize, Serialize};

use crate::ControllerError;

/// A leader says who is in sync (KIP-497, KIP-903).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterPartitions {
    /// The leader.
    pub broker: BrokerId,
    /// In which of its lives.
    pub broker_epoch: BrokerEpoch,
    /// The partitions, each once.
    pub partitions: Vec<AlterPartition>,
}

/// Who shall be in sync of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterPartition {
    /// The topic it belongs to.
    pub topic: TopicId,
    /// Which partition.
    pub partition: PartitionIndex,
    /// The leadership that asks.
    pub leader_epoch: LeaderEpoch,
    /// The change of the partition that this one follows on: after any other it is refused.
    pub partition_epoch: i32,
    /// Who shall be in sync, each with the life of its broker in which it caught up. Who is in sync already
    /// and the leader itself may come with [`BrokerEpoch::NONE`].
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
    /// Whether the leader still recovers from an unclean election.
    #[serde(default)]
    pub recovering: bool,
}

/// A partition as it is after an [`AlterPartition`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionAltered {
    /// Who leads it; [`BrokerId::NONE`] when nobody does.
    pub leader: BrokerId,
    /// Which leadership this is.
    pub leader_epoch: LeaderEpoch,
    /// Who is in sync.
    pub isr: Vec<BrokerId>,
    /// Whether the leader recovers from an unclean election.
    pub recovering: bool,
    /// The change that made it so.
    pub partition_epoch: i32,
}

/// Elect leaders anew (KIP-460).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElectLeaders {
    /// Which ones.
    pub kind: ElectionKind,
    /// Of which partitions, by their topics' names as they were asked for; `None` for all.
    pub partitions: Option<Vec<(String, PartitionIndex)>>,
}

/// Which leaders are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElectionKind {
    /// The first replica, if it is in sync.
    Preferred,
    /// Any replica, where no other can lead. What only the others had is lost.
    Unclean,
}

/// How an election went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elected {
    /// The topic, as it was asked for.
    pub topic: String,
    /// Which of its partitions.
    pub partition: PartitionIndex,
    /// Whether it has the leader that was asked for.
    pub outcome: Result<(), ControllerError>,
}

/// Move partitions to other brokers (KIP-455).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterReassignments {
    /// The partitions, each once.
    pub partitions: Vec<Reassignment>,
    /// Whether a partition may get more or fewer replicas than it has (KIP-860).
    #[serde(default = "yes")]
    pub allow_replication_factor_change: bool,
}

fn yes() -> bool {
    true
}

/// Where a partition's replicas shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reassignment {
    /// Its topic's name, as it was asked for.
    pub topic: String,
    /// Which partition.
    pub partition: PartitionIndex,
    /// The brokers, the preferred leader first; `None` takes back what is under way.
    pub replicas: Option<Vec<BrokerId>>,
}
