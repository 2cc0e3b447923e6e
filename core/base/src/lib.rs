//! The words every other crate uses: places in a log, names of things, time, and what a decision
//! asks its caller to do.
//!
//! **Invariant:** imports nothing of ours, does no I/O, allocates only for names.

mod address;
mod effects;
mod error_code;
mod excerpt;
mod ids;
mod map;
mod offset;
mod time;

pub use address::counted_as;
pub use effects::Effects;
pub use error_code::ErrorCode;
pub use excerpt::excerpt;
pub use ids::{
    BrokerEpoch, BrokerId, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicId, TopicName,
    TopicNameError, TopicPartition, Uuid, UuidError,
};
pub use map::{Map, Set};
pub use offset::{LeaderEpoch, Offset, OffsetDelta};
pub use time::{Now, TimestampMs};
