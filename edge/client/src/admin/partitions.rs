//! What only a partition's leader knows and does: offsets, and records that are to go.

use base::{Offset, PartitionIndex, TimestampMs};
use client_core::admin::{DeleteBefore, DeleteRecords, ListOffsets, OffsetOf, Place, RecordTimes};

use super::{Admin, AdminError, At, Call, FoundOffset, Isolation};

/// How large batches are taken to be when one is looked at for its time, one try after the other: most are smaller
/// than the first or than the second, which is Java's `batch.size` four times; the last is `max.message.bytes`.
const BATCH_BYTES: [i32; 3] = [4 << 10, 64 << 10, (1 << 20) + 12];

impl Admin {
    /// The offset of a place in each of these partitions: topic, partition, place. Each leader is asked for
    /// its own. A partition without a leader is waited for until the deadline.
    ///
    /// Records of transactions that are still open count; [`Admin::list_offsets_as`] chooses.
    pub fn list_offsets<T: Into<String>>(
        &self,
        places: impl IntoIterator<Item = (T, i32, At)>,
    ) -> Call<Vec<Result<FoundOffset, AdminError>>> {
        self.list_offsets_as(Isolation::ReadUncommitted, places)
    }

    /// [`Admin::list_offsets`] for a consumer of this `isolation.level`.
    pub fn list_offsets_as<T: Into<String>>(
        &self,
        isolation: Isolation,
        places: impl IntoIterator<Item = (T, i32, At)>,
    ) -> Call<Vec<Result<FoundOffset, AdminError>>> {
        let places = places.into_iter().map(|(topic, partition, at)| OffsetOf {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            at,
        });
        let (places, list) = (places.collect(), ListOffsets { isolation });
        self.call(|admin| async move { admin.ask(list, places, admin.deadline()).await })
    }

    /// About when the records were written that these partitions have at an offset: topic, partition, offset. It is
    /// the time at which the record's batch was begun, and `None` where nothing is, or a batch of more than a
    /// megabyte.
    ///
    /// Each leader is asked for many at once, for small batches first: what does not fit is asked for again.
    pub fn record_times<T: Into<String>>(
        &self,
        places: impl IntoIterator<Item = (T, i32, Offset)>,
    ) -> Call<Vec<Result<Option<TimestampMs>, AdminError>>> {
        let place = |(topic, partition, offset): (T, i32, Offset)| Place {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            offset,
        };
        let places: Vec<Place> = places.into_iter().map(place).collect();
        self.call(|admin| async move {
            let until = admin.deadline();
            let mut times: Vec<_> = places.iter().map(|_| Ok(None)).collect();
            let mut open: Vec<usize> = (0..places.len()).collect();
            for batch_bytes_max in BATCH_BYTES {
                if open.is_empty() {
                    break;
                }
                let wanted = open.iter().map(|&at| places[at].clone()).collect();
                let said = admin.ask(RecordTimes { batch_bytes_max }, wanted, until).await;
                open.iter().zip(said).for_each(|(&at, said)| times[at] = said);
                open.retain(|&at| times[at] == Ok(None));
            }
            times
        })
    }

    /// Deletes the oldest records of partitions: topic, partition, the first offset to keep. Without an
    /// offset everything goes that consumers may read. Says where each log begins then.
    pub fn delete_records<T: Into<String>>(
        &self,
        partitions: impl IntoIterator<Item = (T, i32, Option<Offset>)>,
    ) -> Call<Vec<Result<Offset, AdminError>>> {
        let partitions = partitions.into_iter().map(|(topic, partition, offset)| DeleteBefore {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            offset,
        });
        let partitions = partitions.collect();
        self.call(|admin| async move { admin.change(DeleteRecords, partitions).await })
    }
}
