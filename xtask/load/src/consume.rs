//! Reads all partitions of a topic with librdkafka, from the beginning, without a group.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::bindings as c;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::Value;

use crate::{PATIENCE, Way};

/// What was read.
#[derive(Clone, Copy, Default)]
struct Count {
    records: u64,
    bytes: u64,
    errors: u64,
}

/// Reads so many records.
pub(crate) fn run(config: &ClientConfig, topic: &str, records: u64, way: Way) -> Result<Value> {
    let mut config = config.clone();
    // A consumer must have the name of a group; it neither joins it nor commits to it.
    config.set("group.id", "bench").set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false").set("auto.offset.reset", "error");
    let consumer: BaseConsumer = config.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE)?;
    let found = metadata.topics().first().context("no such topic")?;
    let mut assigned = TopicPartitionList::new();
    for partition in found.partitions() {
        assigned.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
    }
    let since = Instant::now();
    consumer.assign(&assigned)?;
    let count = match way {
        Way::Crate => by_crate(&consumer, records)?,
        Way::Bulk => bulk(&consumer, records),
    };
    let said = crate::result(count.records, count.bytes, since);
    ensure!(count.errors == 0, "{} errors while reading", count.errors);
    ensure!(count.records >= records, "{} of {records} records were read", count.records);
    Ok(said)
}

/// With the call of the crate.
fn by_crate(consumer: &BaseConsumer, records: u64) -> Result<Count> {
    let mut count = Count::default();
    while count.records < records {
        let message = consumer.poll(PATIENCE).context("no record came for a minute")??;
        count.bytes += message.payload().map_or(0, <[u8]>::len) as u64;
        count.records += 1;
    }
    Ok(count)
}

/// With librdkafka's own call, which hands over all records that are there.
fn bulk(consumer: &BaseConsumer, records: u64) -> Count {
    let mut count = Count::default();
    // SAFETY: the consumer lives longer than its queue is used here.
    let queue = unsafe { c::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
    let mut heard = Instant::now();
    while count.records < records && heard.elapsed() < PATIENCE {
        // SAFETY: the count outlives the call, and nobody else has it meanwhile.
        let served = unsafe {
            let count = (&raw mut count).cast();
            c::rd_kafka_consume_callback_queue(queue, WAIT.as_millis() as i32, Some(take), count)
        };
        if served > 0 {
            heard = Instant::now();
        }
    }
    // SAFETY: it is not used again.
    unsafe { c::rd_kafka_queue_destroy(queue) };
    count
}

const WAIT: Duration = Duration::from_millis(100);

/// Counts one record.
unsafe extern "C" fn take(message: *mut c::rd_kafka_message_t, count: *mut c_void) {
    // SAFETY: librdkafka lends the message for this call, and `bulk` the count.
    let (message, count) = unsafe { (&*message, &mut *count.cast::<Count>()) };
    if message.err == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        count.records += 1;
        count.bytes += message.len as u64;
    } else {
        count.errors += 1;
    }
}
