//! DeleteRecords: asked of the partitions' leaders.

use base::{Offset, PartitionIndex};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The protocol's "all that consumers may read".
const HIGH_WATERMARK: i64 = -1;

/// The beginning of a partition's log, which is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteBefore {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// The first offset to keep; `None`: all that consumers may read goes.
    pub offset: Option<Offset>,
}

/// Deletes the oldest records of partitions.
#[derive(Debug)]
pub struct DeleteRecords;

impl Ask for DeleteRecords {
    type Item = DeleteBefore;
    /// Where the log begins then.
    type Said = Offset;
    type Request<'a> = DeleteRecordsRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, before: &'a DeleteBefore) -> Name<'a> {
        Name::Partition(&before.topic, before.partition)
    }

    fn route<'a>(&self, before: &'a DeleteBefore) -> Route<'a> {
        Route::Leader(&before.topic, before.partition)
    }

    fn request<'a>(&'a self, parts: &[&'a DeleteBefore], how: &How<'_>) -> DeleteRecordsRequest<'a> {
        let mut request = DeleteRecordsRequest { timeout_ms: how.timeout_ms, ..Default::default() };
        for part in parts {
            if request.topics.last().is_none_or(|topic| topic.name != part.topic) {
                request.topics.push(DeleteRecordsTopic { name: &part.topic, partitions: Vec::new() });
            }
            let offset = part.offset.map_or(HIGH_WATERMARK, |offset| offset.0);
            let partition = DeleteRecordsPartition { partition_index: part.partition.0, offset };
            request.topics.last_mut().expect("one was pushed").partitions.push(partition);
        }
        request
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.topics {
            for part in &topic.partitions {
                let name = Name::Partition(topic.name, PartitionIndex(part.partition_index));
                each(name, Refusal::check(part.error_code, None).map(|()| Offset(part.low_watermark)));
            }
        }
        said.throttle_time_ms
    }
}
