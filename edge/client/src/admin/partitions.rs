//! What only a partition's leader knows and does: offsets, and records that are to go.

use base::{Offset, PartitionIndex};
use client_core::admin::{DeleteBefore, DeleteRecords, ListOffsets, OffsetOf};

use super::{Admin, AdminError, At, Call, FoundOffset, Isolation};

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
