//! Where partitions begin and end, and what offset a time has.

use std::collections::BTreeMap;

use base::{BrokerId, ErrorCode, Offset, PartitionIndex, TimestampMs};
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use super::{Admin, Topic};
use crate::error::ClientError;

/// A place in a partition that is not an offset yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The first record there is.
    Earliest,
    /// Behind the last record that consumers may read.
    Latest,
    /// The record with the highest timestamp.
    MaxTimestamp,
    /// The first record at this time or later.
    Time(TimestampMs),
}

impl At {
    fn code(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::Time(time) => time.0,
        }
    }
}

impl Admin {
    /// The offset of a place in each partition of a topic that has a leader; [`Offset::NONE`] where there
    /// is no such record, and the broker's error where it cannot tell.
    pub fn list_offsets(
        &mut self,
        topic: &Topic,
        at: At,
    ) -> Result<BTreeMap<PartitionIndex, Result<Offset, ErrorCode>>, ClientError> {
        let mut by_leader: BTreeMap<BrokerId, Vec<&super::Partition>> = BTreeMap::new();
        for partition in &topic.partitions {
            if let Some(leader) = partition.leader {
                by_leader.entry(leader).or_default().push(partition);
            }
        }
        let brokers = self.describe_cluster()?.brokers;
        let mut offsets = BTreeMap::new();
        for (leader, partitions) in by_leader {
            let partitions = partitions.iter().map(|partition| ListOffsetsPartition {
                partition_index: partition.index.0,
                current_leader_epoch: partition.leader_epoch,
                timestamp: at.code(),
            });
            let request = ListOffsetsRequest {
                replica_id: -1,
                topics: vec![ListOffsetsTopic { name: &topic.name, partitions: partitions.collect() }],
                timeout_ms: self.timeout_ms(),
                ..ListOffsetsRequest::default()
            };
            let answer = self.leader(leader, &brokers)?.ask(&request)?;
            let body = answer.read()?;
            for found in body.topics.iter().flat_map(|topic| &topic.partitions) {
                let offset = match ErrorCode::from_i16(found.error_code) {
                    Some(ErrorCode::None) => Ok(Offset(found.offset)),
                    error => Err(error.unwrap_or(ErrorCode::UnknownServerError)),
                };
                offsets.insert(PartitionIndex(found.partition_index), offset);
            }
        }
        Ok(offsets)
    }
}
