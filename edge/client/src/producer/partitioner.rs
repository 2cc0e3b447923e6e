//! A choice of partitions that is the user's own.

use std::sync::Arc;

use base::PartitionIndex;
use parking_lot::MutexGuard;

use super::{Record, State};

/// Who chooses.
pub(super) type Partitioner = Arc<dyn Fn(&Unplaced<'_>) -> Option<i32> + Send + Sync>;

/// A record that is to be given a partition, for [`ProducerBuilder::partitioner`](super::ProducerBuilder::partitioner).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Unplaced<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// How many partitions the topic has; the first has the index 0. Never 0, and never fewer than before.
    pub partitions: usize,
}

/// The partition of a record, if it is said or chosen. While the topic is not known it is neither, and the
/// record is not taken.
pub(super) fn choose(
    partitioner: &Partitioner,
    state: &mut MutexGuard<'_, State>,
    record: &Record<'_>,
) -> Option<PartitionIndex> {
    let count = state.core.partition_count(record.topic);
    let (None, Some(partitions)) = (record.partition, count) else { return record.partition };
    let (key, value) = (record.fields.key, record.fields.value);
    let unplaced = Unplaced { topic: record.topic, key, value, partitions };
    // It may take its time, or use this very producer.
    MutexGuard::unlocked(state, || partitioner(&unplaced)).map(PartitionIndex)
}
