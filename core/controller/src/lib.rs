//! Who decides what the cluster is.
//!
//! ```text
//!   Command ─▶ handle ─▶ (Reply, records) ─▶ commit ─▶ replay ─▶ next command
//!              looks at the image            durable    changes the image
//! ```
//!
//! One command at a time: its records are committed and replayed before the next one is handled, so that
//! what [`Controller::handle`] sees is all there is. The reply is given out only then.
//!
//! **Invariant:** `handle` changes nothing; `replay` cannot fail, and it is the same on every node.

mod brokers;
mod command;
mod configs;
mod controller;
mod delete;
mod error;
mod partitions;
mod placement;
mod quorum; // who commits it
#[cfg(test)]
mod tests;
mod topics;

pub use command::{
    AdoptTopic, AllocateProducerIds, AlterConfigs, AlterPartition, AlterPartitions, AlterReassignments,
    AssignReplicasToDirs, BrokerHeartbeat, BrokerSuspected, Command, ConfigOp, CreatePartitions,
    CreateTopics, DeleteTopics, ElectLeaders, Elected, ElectionKind, FeatureDirection, FeatureUpdate,
    FoundPartition, HeartbeatReply, InDoubt, IncrementalAlterConfigs, NewTopic, Outcomes, PartitionAltered,
    PartitionsCreated, ProducerIdBlock, Reassignment, RegisterBroker, Reply, ResourceConfigs,
    SkipProducerIds, TopicCreated, TopicDeleted, TopicGrowth, TopicKey, UnregisterBroker, UpdateFeatures,
};
pub use controller::{Controller, ControllerSettings};
pub use error::ControllerError;
pub use quorum::{Committed, MetadataQuorum, Proposal, QuorumEvent};

/// Partitions that one command may make: their records are one batch, which every node holds in memory.
pub const PARTITIONS_PER_COMMAND_MAX: usize = 10_000;

/// Partitions that the cluster may have: each takes memory on every node, open files on some, and time
/// at every start, and nothing else would stop a client that makes ever more.
pub const PARTITIONS_MAX: usize = 200_000;

/// Records of one batch where a command's may be split: far below what a batch holds.
pub const RECORDS_PER_BATCH: usize = 10_000;

/// Producer ids that a broker is given at a time, as in Kafka.
pub const PRODUCER_IDS_PER_BLOCK: i64 = 1_000;
