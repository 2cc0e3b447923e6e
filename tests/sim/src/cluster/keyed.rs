//! Records of logs that are compacted.

use base::{LeaderEpoch, Offset, TimestampMs};
use records::{Scratch, StoredBatch};
use storage::Log;

use crate::world::World as LogWorld;

/// A record of a log that is compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyedRecord {
    pub(crate) offset: Offset,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) time: TimestampMs,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// Reads what a compacted log has between two offsets, `bytes_max` at the most but a batch at least: the records, and
/// where to read on.
pub(crate) fn read_keyed(
    log: &Log,
    from: Offset,
    upto: Offset,
    bytes_max: u32,
) -> Result<(Vec<KeyedRecord>, Offset), String> {
    let plan = log.plan_read(from, upto, bytes_max, true).map_err(|error| error.to_string())?;
    let bytes = LogWorld::fetch(&plan).map_err(|error| error.to_string())?;
    let (mut scratch, mut found) = (Scratch::default(), Vec::new());
    for batch in records::whole_batches(&bytes) {
        let batch = batch.map_err(|error| error.to_string())?;
        found.extend(keyed(&batch, &mut scratch)?);
    }
    // Nothing may be left of all that was there.
    let next = if plan.next <= from { upto } else { plan.next };
    found.retain(|record| (from..upto).contains(&record.offset));
    Ok((found, next))
}

/// All of a batch.
pub(crate) fn keyed(batch: &StoredBatch<'_>, scratch: &mut Scratch) -> Result<Vec<KeyedRecord>, String> {
    let (base, epoch) = (batch.base_offset(), batch.leader_epoch());
    let records = batch.records(scratch).map_err(|error| error.to_string())?;
    let read = records.map(|record| {
        let record = record.map_err(|error| error.to_string())?;
        let key = record.key.ok_or_else(|| "a record without a key".to_owned())?.to_vec();
        let offset = Offset(base.0 + i64::from(record.offset_delta));
        let time = record.timestamp(batch.header());
        Ok(KeyedRecord { offset, epoch, time, key, value: record.value.map(<[u8]>::to_vec) })
    });
    read.collect()
}
