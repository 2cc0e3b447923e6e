//! The door between a controller and the quorum that commits what it decides.
//!
//! ```text
//!   Controller ── Proposal ─▶ quorum ── replicated, durable on a majority ─▶ Committed ─▶ every node's controller
//!       ▲                        │
//!       └── Elected, Following ──┘
//! ```
//!
//! **Contract**, which whoever implements it keeps and whoever tests the controller breaks nothing of:
//! each node is told every committed batch, in the same order, once in a life of its process; a node that
//! comes back or is far behind is told a [`QuorumEvent::Snapshot`] first, which stands for all batches up to
//! its end. Proposals of one epoch are committed in the order in which they were made: if one is lost, so
//! are all after it, and `Following` is told. A proposal is never committed in another epoch than its own.

use base::{BrokerId, LeaderEpoch, Offset};
use metadata::{Image, MetadataRecord};

/// Records that become true together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The leadership of the quorum in which it was decided.
    pub epoch: LeaderEpoch,
    /// The records, in order.
    pub records: Vec<MetadataRecord>,
}

/// A batch that a majority of the voters has on its disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The leadership of the quorum that committed it.
    pub epoch: LeaderEpoch,
    /// The records, in order; none if the quorum wrote the batch for itself.
    pub records: Vec<MetadataRecord>,
    /// The offset behind its last record.
    pub end: Offset,
}

/// What a quorum tells the controller of its node.
#[derive(Debug, Clone, PartialEq)]
pub enum QuorumEvent {
    /// A batch is committed.
    Committed(Committed),
    /// The cluster is this, whatever was told before; the image's end says up to where.
    Snapshot(Image),
    /// This node leads, and was told all that was committed before.
    Elected {
        /// Its leadership.
        epoch: LeaderEpoch,
    },
    /// This node does not lead. What it proposed and was not told of may be committed later, or never.
    Following {
        /// The leadership that is known of.
        epoch: LeaderEpoch,
        /// Whose it is, if that is known.
        leader: Option<BrokerId>,
    },
}

/// A quorum as its node's controller sees it.
pub trait MetadataQuorum {
    /// Begins to commit a batch; what becomes of it is told by [`QuorumEvent`]s. Does not wait.
    fn propose(&mut self, proposal: Proposal);
}
