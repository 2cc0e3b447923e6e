//! Reads the log of a shard's partition into it.

use std::time::Instant;

use base::{Offset, ProducerId, TimestampMs};
use broker::groups::await_committed;
use broker::parked::Wake;
use coordinator::Shard;
use records::{ControlRecord, Record, Scratch, StoredBatch, whole_batches};
use storage::ReadPlan;
use tracing::{debug, error, info, warn};

use super::cell::ShardCell;

/// How much is read at a time.
const READ_BYTES: u32 = 1 << 20;

/// Loads a shard, unless it is taken away meanwhile. If its log cannot be read the shard is given up, and another one in
/// its place reads the log after a while.
pub(super) fn load(shard: &ShardCell) {
    let began = Instant::now();
    let name = &shard.partition().name;
    let bounds = shard.partition().with(|partition| {
        let is_led = partition.epoch() == shard.epoch() && partition.is_leader();
        is_led.then(|| (partition.log().start(), partition.log().end()))
    });
    let Some((start, end)) = bounds else {
        // It was taken away again meanwhile.
        return shard.unload();
    };
    match read(shard, start, end) {
        Ok(()) => {}
        Err(Interrupted::TakenAway) => return,
        Err(Interrupted::Unreadable(why)) => {
            error!(
                partition = %name, why,
                "the groups of this partition cannot be served: its log cannot be read; that is tried again, once a \
                 minute after the first times; look at its directory, or let another replica lead"
            );
            return shard.fail();
        }
    }
    let open = shard.with(Shard::transactions_open);
    if open > 0 {
        warn!(
            partition = %name, transactions = open,
            "offsets that were committed in transactions are passed over: the log does not say how these ended"
        );
    }
    let Some(waiter) = shard.waiter() else { return };
    let committed = await_committed(shard.partition().as_ref(), end, &waiter);
    let image = shard.image();
    if !shard.load(|now, shard, out| shard.on_loaded(now, (end, committed), &image, out)) {
        return;
    }
    // It may have rung before there was anything to tell.
    shard.wake();
    let (groups, offsets) = shard.with(|shard| (shard.group_count(), shard.offset_count()));
    let took_ms = began.elapsed().as_millis();
    match groups {
        0 => debug!(partition = %name, took_ms, "coordinates groups"),
        _ => info!(partition = %name, groups, offsets, took_ms, "coordinates groups"),
    }
}

/// Why a log is not read to its end.
enum Interrupted {
    /// The partition is led elsewhere.
    TakenAway,
    /// What is wrong.
    Unreadable(String),
}

impl Interrupted {
    fn by(error: impl std::fmt::Display) -> Self {
        Self::Unreadable(error.to_string())
    }
}

fn read(shard: &ShardCell, start: Offset, end: Offset) -> Result<(), Interrupted> {
    let (mut scratch, mut bytes) = (Scratch::default(), Vec::new());
    let mut from = start;
    while from < end {
        let planned =
            shard.partition().with(|partition| partition.log().plan_read(from, end, READ_BYTES, true));
        // What cannot be read may be damaged: then another replica has to lead.
        let unreadable = |at: Offset| {
            shard.partition().suspect(at);
        };
        let plan = planned.inspect_err(|_| unreadable(from)).map_err(Interrupted::by)?;
        if plan.next <= from {
            break;
        }
        fill(&plan, &mut bytes).inspect_err(|_| unreadable(from))?;
        for batch in whole_batches(&bytes) {
            let batch = batch.inspect_err(|_| unreadable(from)).map_err(Interrupted::by)?;
            take(shard, &batch, &mut scratch)?;
        }
        from = plan.next;
    }
    Ok(())
}

fn fill(plan: &ReadPlan, bytes: &mut Vec<u8>) -> Result<(), Interrupted> {
    bytes.clear();
    for slice in &plan.slices {
        let at = bytes.len();
        bytes.resize(at + slice.len as usize, 0);
        let read = slice.file.read_at(&mut bytes[at..], slice.position).map_err(Interrupted::by)?;
        if read < slice.len as usize {
            let missing = slice.len as usize - read;
            return Err(Interrupted::Unreadable(format!("a file ends {missing} bytes too early")));
        }
    }
    Ok(())
}

/// Whose records they are, and what they are.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    /// A producer has them in a transaction.
    Transactional(ProducerId),
    /// They say how a producer's transaction ended, or something that is of no concern here.
    Control(ProducerId),
}

impl Kind {
    fn of(batch: &StoredBatch<'_>) -> Self {
        let (attributes, producer) = (batch.header().attributes, batch.header().producer_id);
        match attributes.is_transactional() && producer.0 >= 0 {
            _ if attributes.is_control() => Self::Control(producer),
            true => Self::Transactional(producer),
            false => Self::Plain,
        }
    }

    /// Has the shard take in a record. What is no record of a group is an error, and is passed over.
    fn take(
        self,
        shard: &mut Shard,
        (offset, time): (Offset, TimestampMs),
        record: &Record<'_>,
    ) -> Result<(), String> {
        let (key, value) = (record.key, record.value);
        match self {
            Self::Plain => shard.on_record((offset, time), key, value).map_err(|error| error.to_string()),
            Self::Transactional(producer) => {
                let taken = shard.on_transactional_record(producer, (offset, time), key, value);
                taken.map_err(|error| error.to_string())
            }
            Self::Control(producer) => match ControlRecord::parse(record) {
                Ok(ControlRecord::End(end)) => {
                    shard.on_transaction_end(producer, offset, end.commit);
                    Ok(())
                }
                Ok(ControlRecord::LeaderChange(_) | ControlRecord::Other(_)) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

fn take(shard: &ShardCell, batch: &StoredBatch<'_>, scratch: &mut Scratch) -> Result<(), Interrupted> {
    let kind = Kind::of(batch);
    let base = batch.base_offset();
    let mut passed_over = None;
    let mut failed = None;
    let is_here = shard.load(|_, shard, _| {
        let records = match batch.records(scratch) {
            Ok(records) => records,
            Err(error) => return failed = Some(Interrupted::by(error)),
        };
        for record in records {
            match record {
                Ok(record) => {
                    let offset = Offset(base.0 + i64::from(record.offset_delta));
                    let time = record.timestamp(batch.header());
                    if let Err(error) = kind.take(shard, (offset, time), &record) {
                        passed_over = Some((offset, error));
                    }
                }
                Err(error) => return failed = Some(Interrupted::by(error)),
            }
        }
    });
    if !is_here {
        return Err(Interrupted::TakenAway);
    }
    if let Some((offset, error)) = passed_over {
        warn!(partition = %shard.partition().name, %offset, error, "a record of a group was passed over");
    }
    failed.map_or(Ok(()), Err)
}
