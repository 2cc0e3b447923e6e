//! The types with which the consensus library is used; nothing of it leaves this crate.
//!
//! A term is Kafka's leader epoch, so there is one leader a term, and a log id is a term and an index.
//! An index counts batches, an offset counts records.

use std::fmt;

use base::{BrokerId, LeaderEpoch, Uuid};
use bytes::Bytes;
use openraft::entry::RaftEntry;
use openraft::impls::{BoxedErrorSource, InlineBatch, TokioRuntime, leader_id_std};
use openraft::raft::responder::Responder;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftTypeConfig};
use wire::{Decoder, EncodeError, Encoder};

use crate::error::Malformed;

/// The library's parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl RaftTypeConfig for Types {
    type D = Records;
    type R = ();
    type NodeId = u64;
    type Node = Home;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = EntryPayload<Records, u64, Home>;
    type Entry = Entry;
    type AsyncRuntime = TokioRuntime;
    type Responder<T>
        = Answer<T>
    where
        T: Send + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = BoxedErrorSource;
}

pub(crate) type CommittedLeaderId = <<Types as RaftTypeConfig>::LeaderId as RaftLeaderId>::Committed;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Vote = openraft::Vote<leader_id_std::LeaderId<u64, u64>>;
pub(crate) type Payload = EntryPayload<Records, u64, Home>;
pub(crate) type Membership = openraft::Membership<u64, Home>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, u64, Home>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, u64, Home>;
pub(crate) type Snapshot = openraft::Snapshot<CommittedLeaderId, u64, Home, Bytes>;

/// A log id.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

/// The leader epoch that is a term. What a peer or a disk says was checked to be one when it was read.
pub(crate) fn epoch(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).unwrap_or(i32::MAX))
}

/// The node's number as Kafka has it.
pub(crate) fn broker(node: u64) -> BrokerId {
    BrokerId(i32::try_from(node).unwrap_or(BrokerId::NONE.0))
}

/// A node's number as the library has it.
pub(crate) fn node(broker: BrokerId) -> u64 {
    u64::try_from(broker.0).unwrap_or(u64::MAX)
}

/// Where a node is found, and the disk it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) address: String,
    pub(crate) directory: Uuid,
}

/// The longest address: a host's name has 255 bytes at most.
const ADDRESS_BYTES_MAX: usize = 300;

impl Home {
    pub(crate) fn encode(&self, e: &mut Encoder) -> Result<(), EncodeError> {
        e.uuid(self.directory);
        e.str(&self.address, true)
    }

    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (directory, address) = (d.uuid()?, d.str(true)?);
        match address.len() {
            ..=ADDRESS_BYTES_MAX => Ok(Self { directory, address: address.to_owned() }),
            len => Err(Malformed(format!("an address of {len} bytes"))),
        }
    }
}

/// A record batch that was proposed. Its offset and its epoch are of no meaning until it is in a log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Records(pub(crate) Bytes);

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// One entry: one record batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) log_id: LogId,
    pub(crate) payload: Payload,
    /// The batch as it lies in the log of the leader that made it, and so in every log.
    pub(crate) stored: Option<Bytes>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.log_id, self.payload)
    }
}

impl RaftEntry for Entry {
    type CommittedLeaderId = CommittedLeaderId;
    type Payload = Payload;

    fn new(log_id: LogId, payload: Payload) -> Self {
        Self { log_id, payload, stored: None }
    }

    fn log_id_parts(&self) -> (&CommittedLeaderId, u64) {
        (&self.log_id.leader_id, self.log_id.index)
    }

    fn set_log_id(&mut self, new: LogId) {
        self.log_id = new;
    }

    fn get_membership(&self) -> Option<Membership> {
        match &self.payload {
            EntryPayload::Membership(membership) => Some(membership.clone()),
            EntryPayload::Blank | EntryPayload::Normal(_) => None,
        }
    }
}

/// What is done with the outcome of a write.
pub(crate) struct Answer<T>(Box<dyn FnOnce(T) + Send>);

impl<T> Answer<T> {
    pub(crate) fn new(then: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(then))
    }
}

impl<T: Send + 'static> Responder<Types, T> for Answer<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}
