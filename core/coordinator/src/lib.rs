//! Groups: who is in them, what each member reads, and how far it came.
//!
//! A shard is one partition of `__consumer_offsets`, and the groups whose ids fall on it. Its state is nothing but
//! the replay of that partition's records.
//!
//! ```text
//!   request ── handle ──▶ records ── append ──▶ the partition's log ── replay ──▶ state
//!                    └──▶ reply ── waits until the high watermark is behind its records ──▶ the member
//! ```
//!
//! **Invariant:** what a reply says is committed before it leaves; replaying a record cannot fail.

mod request;
mod response;
mod settings;
mod shard; // start here

mod api; // what each request does
mod outcome;

mod group; // who is there
mod limits;
mod link;
mod offsets; // how far they came

pub mod assign; // who reads what, as a function
pub mod consumer; // groups of KIP-848

mod group_record; // what lasts
pub mod record; // as it is on disk

#[cfg(test)]
mod stories;

pub use group_record::{GroupRecord, Record, RecordError, ShownRecord};
pub use outcome::{Cause, Count};
pub use request::{Caller, ConnectionId, Request, Speaker, Speech, Ticket};
pub use response::{
    CommittedTopic, DeletedOffsets, DeletedTopic, DescribedConsumerGroup, DescribedGroup, DescribedMember,
    FetchedGroup, FetchedPartition, FetchedTopic, HeardMember, JoinedGroup, JoinedMember, LeftGroup,
    ListedGroup, ListedGroups, Response, SyncedGroup,
};
pub use settings::ShardSettings;
pub use shard::{CountedGroup, CountedTopic, Effect, Shard};
