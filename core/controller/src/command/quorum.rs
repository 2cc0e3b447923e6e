//! The quorum: who votes, and how far everybody is.
//!
//! A controller decides none of this. It is asked for in the same way, so that it finds its way to the node
//! that leads; whoever takes commands there hands these on to the quorum.

use base::{BrokerId, LeaderEpoch, Offset, TimestampMs, Uuid};
use metadata::Endpoint;
use serde::{Deserialize, Serialize};

/// What can be asked of the quorum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuorumCommand {
    /// Say who is in it, and how far.
    Describe,
    /// Let one who follows vote, too (KIP-853). It is answered once that is committed.
    AddVoter(NewVoter),
    /// Take the vote of one who has it (KIP-853). It is answered once that is committed.
    RemoveVoter {
        /// Its `node.id`.
        id: BrokerId,
        /// The directory that has its metadata log; another one is another voter. [`Uuid::ZERO`] if none is
        /// known of it yet, which is so of one that died right after the cluster began.
        directory: Uuid,
    },
}

/// What Kafka says to who names no voter whose vote could be taken.
pub const NO_VALID_VOTER: &str = "Remove voter request didn't include a valid voter";

/// One who shall vote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVoter {
    /// Its `node.id`, not negative.
    pub id: BrokerId,
    /// The directory that has its metadata log, not zero.
    pub directory: Uuid,
    /// Where the other nodes reach it.
    pub endpoint: Endpoint,
}

/// What the quorum answers, each to the command of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuorumReply {
    /// Who is in it, and how far.
    Describe(QuorumStatus),
    /// It votes.
    AddVoter,
    /// It votes no more.
    RemoveVoter,
}

/// A quorum, as the one who leads it sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumStatus {
    /// Who leads.
    pub leader: BrokerId,
    /// Which leadership this is.
    pub leader_epoch: LeaderEpoch,
    /// The offset behind the last committed record.
    pub high_watermark: Offset,
    /// Who votes, by id.
    pub voters: Vec<QuorumReplica>,
    /// Who only follows, by id.
    #[serde(default)]
    pub observers: Vec<QuorumReplica>,
}

/// One who has the metadata log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumReplica {
    /// Its `node.id`.
    pub id: BrokerId,
    /// The directory that has its log; [`Uuid::ZERO`] if it is not known.
    #[serde(default)]
    pub directory: Uuid,
    /// The end of its log, as far as the leader knows; [`Offset::NONE`] if it does not.
    pub log_end: Offset,
    /// When it asked for more last, or the leader last heard from it; the leader's own is the time of the
    /// answer.
    #[serde(default)]
    pub fetched_at: Option<TimestampMs>,
    /// When it had all that the leader had last; the leader's own is the time of the answer.
    #[serde(default)]
    pub caught_up_at: Option<TimestampMs>,
    /// Where the other nodes reach it, if that is known.
    #[serde(default)]
    pub endpoint: Option<Endpoint>,
}
