//! What each request does to a shard's groups, one file for each.
//!
//! A handler looks, changes what is soft, and says in an [`Outcome`](crate::outcome::Outcome) who is answered and what
//! has to be written before; what lasts changes only when that is replayed.

pub(crate) mod consumer_group_heartbeat;
pub(crate) mod heartbeat;
pub(crate) mod join_group; // the life of a member
pub(crate) mod leave_group;
pub(crate) mod sync_group;

pub(crate) mod offset_commit; // how far it came
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;

pub(crate) mod consumer_group_describe;
pub(crate) mod delete_group;
pub(crate) mod describe_group; // what people ask
pub(crate) mod list_groups;
