//! A member: what it said of itself, and what it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{PartitionIndex, TopicId};

use crate::assign::Partitions;

/// Who sends a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The version of the request.
    pub version: i16,
    /// The name of its client.
    pub client_id: &'a str,
    /// The address it comes from.
    pub client_host: &'a str,
    /// Random bits, for the id of a member that brings none.
    pub random: u128,
}

/// The epoch of a static member that left and may come back (KIP-848).
pub const EPOCH_LEFT_STATIC: i32 = -2;
/// The epoch in a request of a member that leaves for good.
pub const EPOCH_LEAVE: i32 = -1;
/// The epoch in a request of a member that joins.
pub const EPOCH_JOIN: i32 = 0;

/// The id of a member; cheap to clone.
pub type MemberId = Arc<str>;

/// Partitions of a member, each with the epoch at which it got it (KIP-1251).
pub type Owned = BTreeMap<TopicId, BTreeMap<PartitionIndex, i32>>;

/// What a member said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberMetadata {
    /// Its `group.instance.id`, if it is static.
    pub instance_id: Option<String>,
    /// The rack it runs in.
    pub rack_id: Option<String>,
    /// The name of its client.
    pub client_id: String,
    /// The address it comes from.
    pub client_host: String,
    /// The topics it wants by name, sorted.
    pub topics: Vec<String>,
    /// A pattern of the topics that it wants, too.
    pub regex: Option<String>,
    /// How long it may take to give back what it should, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// The assignor it asks for.
    pub assignor: Option<String>,
    /// What a member that speaks the classic protocol said when it joined.
    pub classic: Option<ClassicMetadata>,
}

impl MemberMetadata {
    /// About how much it says.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.topics.iter().map(String::len).sum();
        let protocols = self.classic.iter().flat_map(|classic| &classic.protocols);
        names + protocols.map(|(name, blob)| name.len() + blob.len()).sum::<usize>()
    }
}

/// What a member of the classic protocol said when it joined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassicMetadata {
    /// How long it may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// The assignors that it knows, by name, with its subscription as bytes.
    pub protocols: Vec<(String, Vec<u8>)>,
}

/// How far a member is on the way to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemberState {
    /// It has its target.
    #[default]
    Stable,
    /// It has to give something back first.
    UnrevokedPartitions,
    /// It waits for what others have to give back.
    UnreleasedPartitions,
    /// A state that this release does not know: it has to join again.
    Unknown,
}

impl MemberState {
    /// As it is in records.
    pub(super) const fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }

    pub(super) const fn from_code(code: i8) -> Self {
        match code {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }
}

/// What a member has, and what it has to give back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CurrentAssignment {
    /// The epoch of what it has; 0 before it has anything, [`EPOCH_LEFT_STATIC`] while it is away.
    pub epoch: i32,
    /// The epoch before this one: an answer that said the new one may have been lost.
    pub previous_epoch: i32,
    /// How far it is.
    pub state: MemberState,
    /// What it may read.
    pub assigned: Owned,
    /// What it has to give back.
    pub revoking: Owned,
}

impl CurrentAssignment {
    /// With another epoch; the one before is remembered.
    pub(super) fn at(&self, epoch: i32) -> Self {
        let previous_epoch = if epoch == self.epoch { self.previous_epoch } else { self.epoch };
        Self { epoch, previous_epoch, ..self.clone() }
    }

    /// All that nobody else may have.
    pub(super) fn held(&self) -> impl Iterator<Item = (TopicId, PartitionIndex)> {
        let each = |owned: &Owned| {
            let pairs = owned.iter().flat_map(|(topic, of)| of.keys().map(|index| (*topic, *index)));
            pairs.collect::<Vec<_>>()
        };
        each(&self.assigned).into_iter().chain(each(&self.revoking))
    }
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// What it said of itself.
    pub metadata: Arc<MemberMetadata>,
    /// What it has.
    pub current: Arc<CurrentAssignment>,
}

impl Member {
    /// Whether it speaks the classic protocol.
    pub fn is_classic(&self) -> bool {
        self.metadata.classic.is_some()
    }

    /// Whether it has all of the target of an epoch, and nothing else.
    pub(super) fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == epoch
    }
}

/// Without the epochs.
pub(super) fn partitions_of(owned: &Owned) -> Partitions {
    owned.iter().map(|(topic, of)| (*topic, of.keys().copied().collect())).collect()
}

/// All with the same epoch.
pub(super) fn owned_since(partitions: &Partitions, epoch: i32) -> Owned {
    partitions.iter().map(|(topic, of)| (*topic, of.iter().map(|index| (*index, epoch)).collect())).collect()
}
