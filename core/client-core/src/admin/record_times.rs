//! Fetch, for the first batch behind an offset: when was it written? Asked of the partitions' leaders.
//!
//! No request of Kafka's tells the time of an offset, only the offset of a time. But the header of a batch has the
//! time of its first record, and a leader brings the batches of many partitions in one answer.

use base::{Offset, PartitionIndex, TimestampMs};
use records::{BatchHeader, TimestampType};
use wire::Records;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// An answer carries so many bytes at most, but for its first batch, which may be larger.
const ANSWER_BYTES_MAX: i32 = 32 << 20;

/// A place in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// The offset.
    pub offset: Offset,
}

/// Says when the batches that have these offsets were begun, or the next ones where there is no such record.
#[derive(Debug)]
pub struct RecordTimes {
    /// How many bytes are brought of one partition. Of a batch that is larger nothing is said.
    pub batch_bytes_max: i32,
}

impl Ask for RecordTimes {
    type Item = Place;
    /// `None` if no batch is there, or if it is too large.
    type Said = Option<TimestampMs>;
    type Request<'a> = FetchRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, place: &'a Place) -> Name<'a> {
        Name::Partition(&place.topic, place.partition)
    }

    fn route<'a>(&self, place: &'a Place) -> Route<'a> {
        Route::Leader(&place.topic, place.partition)
    }

    fn version_max(&self) -> i16 {
        // Later ones name topics by id only.
        12
    }

    fn items_max(&self) -> usize {
        usize::try_from(ANSWER_BYTES_MAX / self.batch_bytes_max.max(1)).unwrap_or(1).max(1)
    }

    fn request<'a>(&'a self, places: &[&'a Place], _: &How<'_>) -> FetchRequest<'a> {
        let mut topics: Vec<FetchTopic<'a>> = Vec::new();
        for place in places {
            if topics.last().is_none_or(|topic| topic.topic != place.topic) {
                topics.push(FetchTopic { topic: &place.topic, ..FetchTopic::default() });
            }
            topics.last_mut().expect("one was pushed").partitions.push(FetchPartition {
                partition: place.partition.0,
                current_leader_epoch: -1,
                fetch_offset: place.offset.0,
                partition_max_bytes: self.batch_bytes_max,
                ..FetchPartition::default()
            });
        }
        // No session, and no waiting for records to come.
        FetchRequest {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: ANSWER_BYTES_MAX,
            topics,
            ..FetchRequest::default()
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        if let Err(refusal) = Refusal::check(said.error_code, None) {
            each(Name::All, Err(refusal));
        }
        for topic in &said.responses {
            for part in &topic.partitions {
                let name = Name::Partition(topic.topic, PartitionIndex(part.partition_index));
                let time = Refusal::check(part.error_code, None).map(|()| match &part.records {
                    Some(Records::Bytes(bytes)) => time_of(bytes),
                    Some(Records::External { .. }) | None => None,
                });
                each(name, time);
            }
        }
        said.throttle_time_ms
    }
}

/// The time of the first record, as the header of the first batch has it.
fn time_of(batches: &[u8]) -> Option<TimestampMs> {
    let header = BatchHeader::parse(batches).ok()?;
    let is_of_append = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
    // What was compacted may have another time in the place of its first record's.
    let is_replaced = header.attributes.has_delete_horizon();
    let time = if is_of_append || is_replaced { header.max_timestamp } else { header.base_timestamp };
    Some(time).filter(|time| time.0 >= 0)
}

#[cfg(test)]
mod tests {
    use base::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence};
    use records::Attributes;

    use super::*;

    fn batch(attributes: Attributes, base_timestamp: i64, max_timestamp: i64) -> Vec<u8> {
        let header = BatchHeader {
            base_offset: Offset(7),
            batch_length: 1_000,
            leader_epoch: LeaderEpoch(1),
            crc: 0,
            attributes,
            last_offset_delta: 3,
            base_timestamp: TimestampMs(base_timestamp),
            max_timestamp: TimestampMs(max_timestamp),
            producer_id: ProducerId(-1),
            producer_epoch: ProducerEpoch(-1),
            base_sequence: Sequence(-1),
            records_count: 4,
        };
        header.to_bytes().to_vec()
    }

    #[test]
    fn the_time_of_a_batch_is_that_of_its_first_record() {
        let plain = Attributes::default();
        let cases = [
            (batch(plain, 5, 9), Some(5)),
            (batch(plain.with_timestamp_type(TimestampType::LogAppendTime), 5, 9), Some(9)),
            (batch(plain.with_delete_horizon(true), 5, 9), Some(9)),
            (batch(plain, -1, -1), None),
            (batch(plain, 5, 9)[..60].to_vec(), None),
            (Vec::new(), None),
        ];
        for (bytes, time) in cases {
            assert_eq!(time_of(&bytes), time.map(TimestampMs), "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_has_a_bound() {
        for (batch_bytes_max, items) in [(4 << 10, 8_192), (1 << 20, 32), (i32::MAX, 1), (0, 32 << 20)] {
            assert_eq!(RecordTimes { batch_bytes_max }.items_max(), items);
        }
    }
}
