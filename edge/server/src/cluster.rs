//! The ways from this node to the others, and who it is to them.
//!
//! ```text
//!   Links      ─▶ control connections: the quorum's messages, commands for the active controller
//!   connect_for_records ─▶ connections for records, of those who follow
//!   Seat       ─▶ this node in the quorum: a member of it, or one who follows without a vote
//! ```

pub(crate) mod founding;
pub(crate) mod identity;
pub(crate) mod joining;
pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod network;
pub(crate) mod observing;
pub(crate) mod seat;
