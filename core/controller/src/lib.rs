//! Who decides what the cluster is.
//!
//! ```text
//!   Command ─▶ handle ─▶ (Reply, records) ─▶ commit ─▶ replay ─▶ next command
//!              looks at the image            durable    changes the image
//! ```
//!
//! Commands are decided one after the other on an image that has all that was decided before; a reply is
//! given out only once its records are committed, and all that they build on. [`Controller::on_command`],
//! [`Controller::on_event`] and [`Controller::on_tick`] step it.
//!
//! **Invariant:** what is decided changes only through records, and replaying them is the same on every
//! node. What is known of brokers besides, such as when they were heard last, is lost with the leadership.

mod command; // start here
mod controller;
mod office;
mod quorum; // who commits it
mod step;

mod configs;
mod delete;
mod features;
mod partitions;
mod placement;
mod producer_ids;
mod topics; // what is decided

mod brokers; // who is alive, and who leads
mod election;
mod electorate;
mod heartbeats;
mod isr;
mod reassign;
mod revision;
mod sessions;

mod error;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod tests;

pub use command::{
    AdoptTopic, AllocateProducerIds, AlterConfigs, AlterPartition, AlterPartitions, AlterReassignments,
    AssignReplicasToDirs, BrokerHeartbeat, BrokerSuspected, Command, ConfigOp, CreatePartitions,
    CreateTopics, DeleteTopics, ElectLeaders, Elected, ElectionKind, FeatureDirection, FeatureUpdate,
    FoundPartition, HeartbeatReply, InDoubt, IncrementalAlterConfigs, NO_VALID_VOTER, NewTopic, NewVoter,
    Outcomes, PartitionAltered, PartitionsCreated, ProducerIdBlock, QuorumCommand, QuorumReplica,
    QuorumReply, QuorumStatus, Reassignment, RegisterBroker, Reply, ResourceConfigs, SkipProducerIds,
    TopicCreated, TopicDeleted, TopicGrowth, TopicKey, UnregisterBroker, UpdateFeatures,
};
pub use controller::{Controller, ControllerSettings, Decision, REPLICATION_FACTOR_MAX};
pub use error::ControllerError;
pub use office::CommandId;
pub use quorum::{Committed, MetadataQuorum, Proposal, QuorumEvent};
pub use step::Effect;

/// Partitions that one command may make: their records are one batch, which every node holds in memory.
pub const PARTITIONS_PER_COMMAND_MAX: usize = 10_000;

/// Partitions that the cluster may have: each takes memory on every node, open files on some, and time
/// at every start, and nothing else would stop a client that makes ever more.
pub const PARTITIONS_MAX: usize = 200_000;

/// What all settings of topics, brokers and groups may take, in bytes: every node holds them, and a snapshot has them
/// all. Groups have settings whether they are there or not, so that nothing else would stop a client that makes ever more.
pub const CONFIG_BYTES_MAX: usize = 256 << 20;

/// Records of one batch where a command's may be split: far below what a batch holds.
pub const RECORDS_PER_BATCH: usize = 10_000;

/// What the records of one batch may take: half of what a quorum takes (Kafka's limit of a metadata batch).
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Producer ids that a broker is given at a time, as in Kafka.
pub const PRODUCER_IDS_PER_BLOCK: i64 = 1_000;
