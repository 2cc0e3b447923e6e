//! What a shard writes, as a batch of its partition's log.

use base::{ErrorCode, LeaderEpoch, Now, Offset};
use coordinator::Record;
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch};

use crate::codes::append_error;
use crate::host::HostedPartition;
use crate::parked::Waiter;

/// What one decision about a group may take, if `max.message.bytes` of the topic does not allow more: that is for those
/// who send batches, and its default of 1 MiB is less than a commit of 20 000 partitions or the assignment of a large
/// group takes, none of which can be written in parts. Who follows or loads the log reads whole batches of any size.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Appends records as the leader of `epoch`, if enough replicas are in sync. `waiter` is woken once they are
/// committed, unless they are so already.
///
/// # Errors
/// Kafka's code for what was not appended; nothing of it is in the log then.
pub fn write(
    hosted: &dyn HostedPartition,
    epoch: LeaderEpoch,
    now: Now,
    records: &[Record],
    waiter: &Waiter,
) -> Result<Offset, ErrorCode> {
    if !hosted.has_room() {
        // It is no less the coordinator for that, and may have room again.
        return Err(ErrorCode::NotEnoughReplicas);
    }
    let mut scratch = Scratch::default();
    let raw = batch(now, records, &mut scratch)?;
    let limits = BatchLimits {
        batch_bytes_max: (hosted.settings().message_bytes_max as usize).max(BATCH_BYTES_MAX),
        keys_required: true,
        ..BatchLimits::default()
    };
    let batch = CheckedBatch::check(&raw, &limits, &mut scratch).map_err(|error| error.error_code())?;
    let mut result = Err(ErrorCode::NotLeaderOrFollower);
    hosted.append_step(&mut |hosted, out| {
        if hosted.partition.epoch() != epoch {
            return;
        }
        let appended = hosted.with(out, |partition, out| partition.append(now, &batch, true, out));
        result = appended.map(|it| it.last_offset.next()).map_err(|error| append_error(&error));
        if let Ok(end) = result
            && hosted.partition.high_watermark() < end
        {
            hosted.parked.await_commit(end, waiter.clone());
        }
    });
    result
}

/// Up to where a log is committed that was read to `end`. `waiter` is woken once all of that is committed, unless it is
/// so already: what an earlier leader wrote commits without a word of this one's.
pub fn await_committed(hosted: &dyn HostedPartition, end: Offset, waiter: &Waiter) -> Offset {
    let mut committed = Offset::ZERO;
    hosted.step(&mut |hosted, _| {
        committed = hosted.partition.high_watermark();
        if committed < end {
            hosted.parked.await_commit(end, waiter.clone());
        }
    });
    committed
}

fn batch(now: Now, records: &[Record], scratch: &mut Scratch) -> Result<Vec<u8>, ErrorCode> {
    let mut builder = BatchBuilder::new(usize::MAX);
    for record in records {
        let added = builder.try_append(now.wall, Some(&record.key), record.value.as_deref(), &[]);
        added.map_err(|_| ErrorCode::MessageTooLarge)?;
    }
    let mut raw = Vec::with_capacity(builder.size_bytes());
    let built = builder.finish(&BatchOptions::default(), scratch, &mut raw);
    built.map_err(|error| error.error_code())?;
    Ok(raw)
}
