//! Brokers: the lives they begin, and what they say while they live.

use base::{BrokerEpoch, BrokerId, Offset, PartitionIndex, ProducerId, TopicId, Uuid};
use metadata::Endpoint;
use serde::{Deserialize, Serialize};

/// A broker has come. It is fenced until a [`BrokerHeartbeat`] says that it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterBroker {
    /// Its `node.id`.
    pub id: BrokerId,
    /// The id of its process.
    pub incarnation: Uuid,
    /// The cluster that it takes itself to be in; empty if it does not know one.
    #[serde(default)]
    pub cluster_id: String,
    /// Where clients reach it, in the order of its listeners.
    pub endpoints: Vec<Endpoint>,
    /// Where the other nodes reach it; `None` if there are none that could.
    #[serde(default)]
    pub cluster_address: Option<Endpoint>,
    /// The features it can speak: name, lowest and highest level.
    #[serde(default)]
    pub features: Vec<(String, i16, i16)>,
    /// The rack it is in.
    #[serde(default)]
    pub rack: Option<String>,
    /// The ids of the log directories that it can use. What it has a replica of in any other is in doubt.
    pub log_dirs: Vec<Uuid>,
    /// Whether its last life ended without its logs being closed: what it leads gets a new leader epoch,
    /// so that clients and followers notice where a log was cut.
    #[serde(default)]
    pub after_crash: bool,
    /// The life whose logs these are, as the mark of an orderly end says; `None` without such a mark. If it
    /// is not this broker's last one, the logs are older than what it promised since: all are in doubt.
    #[serde(default)]
    pub previous_epoch: Option<BrokerEpoch>,
    /// Which of its replicas may lack what it once acknowledged (KIP-966).
    #[serde(default)]
    pub in_doubt: InDoubt,
    /// Whether it also votes in the quorum.
    #[serde(default)]
    pub is_voter: bool,
}

/// Replicas that may lack what they once acknowledged. They are neither in sync nor eligible until they
/// have caught up again, save where nobody else has the partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InDoubt {
    /// None: every log ends where it ended, or whatever is cut off was never counted on.
    #[default]
    Nothing,
    /// Those of these partitions.
    Partitions(Vec<(TopicId, PartitionIndex)>),
    /// All: the log directories are new, or nobody knows.
    Everything,
}

/// A broker lives, and says how far it is. It is given every `broker.heartbeat.interval.ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerHeartbeat {
    /// The broker.
    pub id: BrokerId,
    /// In which of its lives.
    pub epoch: BrokerEpoch,
    /// The end of the metadata that it has acted on.
    pub metadata_end: Offset,
    /// Whether it wants to be or stay fenced. A broker does until it has seen this life of its own in its
    /// metadata, and its logs are open.
    #[serde(default)]
    pub wants_fence: bool,
    /// Whether it is about to stop, and waits for its leaderships to be taken over.
    #[serde(default)]
    pub wants_shutdown: bool,
    /// Log directories that it had and cannot use any more. It says so until it ends.
    #[serde(default)]
    pub offline_log_dirs: Vec<Uuid>,
}

/// How the controller sees a broker that gave a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// Whether its metadata reaches to its registration at least.
    pub is_caught_up: bool,
    /// Whether it may not lead nor serve.
    pub is_fenced: bool,
    /// Whether it may stop: others lead what others can, and know that they do.
    pub should_shut_down: bool,
}

/// A broker cannot be reached any more, and may be dead before its session has ended.
///
/// If the node of the active controller says so, whose connection with the broker broke and could not be
/// made again, the broker is fenced. If another says so, its session is cut short instead: the other may
/// be the one that cannot be reached. To be wrong costs a change of leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerSuspected {
    /// Who cannot be reached.
    pub suspect: BrokerId,
    /// In which of its lives; another is not meant.
    pub epoch: BrokerEpoch,
    /// Who says so.
    pub by: BrokerId,
}

/// A broker will not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnregisterBroker {
    /// Its `node.id`.
    pub id: BrokerId,
}

/// Replicas of one broker and the log directories they are in.
///
/// Written down once the log is there, and before it takes its first record: so a broker knows where
/// each of its logs must be, and never begins an empty one in the place of one that it cannot find.
///
/// A log that cannot be served is in [`metadata::Partition::DIRECTORY_LOST`]: its replica is in doubt, and
/// neither leads nor is in sync before it is somewhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignReplicasToDirs {
    /// The broker.
    pub broker: BrokerId,
    /// In which of its lives.
    pub epoch: BrokerEpoch,
    /// Partitions, each with the id of a log directory. What the broker has no replica of is passed
    /// over: it may have been deleted meanwhile.
    pub replicas: Vec<(TopicId, PartitionIndex, Uuid)>,
}

/// A broker needs producer ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocateProducerIds {
    /// Which broker.
    pub broker: BrokerId,
    /// In which of its lives.
    pub epoch: BrokerEpoch,
}

/// Producer ids that nobody else has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerIdBlock {
    /// The first of them.
    pub first: ProducerId,
    /// How many there are.
    pub len: i32,
}

/// Producer ids that are in logs, but were not given out by this cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipProducerIds {
    /// The broker that found them.
    pub broker: BrokerId,
    /// The largest of them.
    pub largest: ProducerId,
}
