//! What a replica is to its partition.

use base::{BrokerId, Offset};

use crate::leader::Leader;

/// See the module.
#[derive(Debug)]
pub(crate) enum Role {
    /// Nothing is known of who leads.
    None,
    Leader(Leader),
    Follower(Following),
}

/// Follows.
#[derive(Debug)]
pub(crate) struct Following {
    /// Whom, if anybody leads.
    pub(crate) leader: Option<BrokerId>,
    /// Up to where the leader said last that its log is committed, which may be beyond this one's end.
    pub(crate) committed: Offset,
    /// Where the leader's log starts, if that is within a batch and the log here is empty and begins with that batch:
    /// it asks from there, since the leader gives nothing from before.
    pub(crate) within: Option<Offset>,
}

/// What a follower is to give up of its log, once its recovery point is lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecidedCut {
    pub(crate) cut: Cut,
    /// Up to where it may be noted, at most, that the log is durable.
    pub(crate) durable_max: Offset,
}

/// See [`DecidedCut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// All from here on.
    From(Offset),
    /// Everything: the log goes on here, behind its end.
    All(Offset),
    /// Everything, of which there is nothing: the log begins with the batch at `base`, which the leader's log starts
    /// within.
    Within { base: Offset, start: Offset },
}
