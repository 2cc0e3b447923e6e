//! ListOffsets: asked of the partitions' leaders.

use base::{LeaderEpoch, Offset, PartitionIndex, TimestampMs};
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};
use crate::consumer::Isolation;

/// A place in a partition that is not an offset yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The first record there is.
    Earliest,
    /// Behind the last record that consumers may read.
    Latest,
    /// The record with the highest timestamp.
    MaxTimestamp,
    /// The first record that is still on the broker's own disks (KIP-405).
    EarliestLocal,
    /// Behind the last record that is in tiered storage (KIP-1005).
    LatestTiered,
    /// The first record that is still to go to tiered storage (KIP-1023).
    EarliestPendingUpload,
    /// The first record at this time or later.
    Time(TimestampMs),
}

impl At {
    /// Kafka's number for it, and the first version that knows it.
    const fn code(self) -> (i64, i16) {
        match self {
            Self::Latest => (-1, 0),
            Self::Earliest => (-2, 0),
            Self::MaxTimestamp => (-3, 7),
            Self::EarliestLocal => (-4, 8),
            Self::LatestTiered => (-5, 9),
            Self::EarliestPendingUpload => (-6, 11),
            // A time before 1970 would be taken for one of the others.
            Self::Time(time) => (if time.0 < 0 { 0 } else { time.0 }, 0),
        }
    }
}

/// A question for an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetOf {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// Which place.
    pub at: At,
}

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset; `None` if there is no such record.
    pub offset: Option<Offset>,
    /// The timestamp of the record there, if it was asked for by time.
    pub timestamp: Option<TimestampMs>,
    /// The leader that wrote the record there, counted in leaders.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// Finds offsets.
#[derive(Debug)]
pub struct ListOffsets {
    /// Whether records of transactions that are still open count.
    pub isolation: Isolation,
}

impl Ask for ListOffsets {
    type Item = OffsetOf;
    type Said = FoundOffset;
    type Request<'a> = ListOffsetsRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, of: &'a OffsetOf) -> Name<'a> {
        Name::Partition(&of.topic, of.partition)
    }

    fn route<'a>(&self, of: &'a OffsetOf) -> Route<'a> {
        Route::Leader(&of.topic, of.partition)
    }

    fn version_min(&self, of: &OffsetOf) -> i16 {
        of.at.code().1
    }

    fn request<'a>(&'a self, parts: &[&'a OffsetOf], how: &How<'_>) -> ListOffsetsRequest<'a> {
        let mut topics: Vec<ListOffsetsTopic<'a>> = Vec::new();
        for of in parts {
            if topics.last().is_none_or(|topic| topic.name != of.topic) {
                topics.push(ListOffsetsTopic { name: &of.topic, partitions: Vec::new() });
            }
            let known = how.cluster.topic(&of.topic).zip(usize::try_from(of.partition.0).ok());
            let known = known.and_then(|(topic, index)| topic.partitions.get(index));
            topics.last_mut().expect("one was pushed").partitions.push(ListOffsetsPartition {
                partition_index: of.partition.0,
                current_leader_epoch: known.map_or(LeaderEpoch::NONE, |leader| leader.epoch).0,
                timestamp: of.at.code().0,
            });
        }
        let (isolation_level, timeout_ms) = (self.isolation.code(), how.timeout_ms);
        ListOffsetsRequest { replica_id: -1, isolation_level, topics, timeout_ms }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.topics {
            for part in &topic.partitions {
                let name = Name::Partition(topic.name, PartitionIndex(part.partition_index));
                each(name, Refusal::check(part.error_code, None).map(|()| found(part)));
            }
        }
        said.throttle_time_ms
    }
}

fn found(part: &ListOffsetsPartitionResponse) -> FoundOffset {
    FoundOffset {
        offset: (part.offset >= 0).then_some(Offset(part.offset)),
        timestamp: (part.timestamp >= 0).then_some(TimestampMs(part.timestamp)),
        leader_epoch: (part.leader_epoch >= 0).then_some(LeaderEpoch(part.leader_epoch)),
    }
}
