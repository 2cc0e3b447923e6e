//! Copies a topic into another: every record with its key, headers and time, into the partition it was in,
//! in its order, up to where the topic ends when this is started. A copy that is not there is made, with as
//! many partitions.
//!
//!     cargo run -p vltava-client --example copy_topic -- 127.0.0.1:9092 orders orders-copy

#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use vltava_client::admin::{At, NewTopic};
use vltava_client::consumer::{Consumer, Start};
use vltava_client::producer::{DeliveryReport, Producer, Record};
use vltava_client::{Admin, Header, Scratch};

/// Between two looks at how far it has come, while nothing comes.
const TICK: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [bootstrap, from, to] = &arguments[..] else { return Err("copy_topic BOOTSTRAP FROM TO".into()) };

    let admin = Admin::new(bootstrap)?;
    let ends = ends(&admin, from)?;
    let is_there = admin.list_topics().wait()?.iter().any(|topic| topic.name == *to);
    if !is_there {
        let partitions = Some(ends.len().try_into()?);
        admin.create_topic(NewTopic { partitions, ..NewTopic::named(to) }).wait()?;
    }
    // Idempotent and acks=all unless told otherwise: retries lose, double and reorder nothing. To hear of
    // each batch costs less than to keep the delivery of each record.
    let failed = Arc::new(AtomicUsize::new(0));
    let count_failed = {
        let failed = failed.clone();
        move |report: &DeliveryReport<'_>| {
            if report.outcome.is_err() {
                failed.fetch_add(report.records.len(), Ordering::Relaxed);
            }
        }
    };
    let producer = Producer::builder(bootstrap).on_delivery(count_failed).build()?;
    let count = copy(bootstrap, (from, ends), &producer, to)?;
    producer.close_blocking(Duration::from_secs(30));
    match failed.load(Ordering::Relaxed) {
        0 => println!("{count} records copied"),
        failed => return Err(format!("{failed} of {count} records were not acknowledged").into()),
    }
    Ok(())
}

/// Where each partition of a topic ends now.
fn ends(admin: &Admin, name: &str) -> Result<BTreeMap<i32, i64>, Box<dyn Error>> {
    let topic = admin.describe_topic(name).wait()?;
    let partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.index.0).collect();
    let found = admin.list_offsets(partitions.iter().map(|&partition| (name, partition, At::Latest))).wait();
    let mut ends = BTreeMap::new();
    for (partition, found) in partitions.into_iter().zip(found) {
        ends.insert(partition, found?.offset.map_or(0, |offset| offset.0));
    }
    Ok(ends)
}

/// Sends what lies before the ends to the copy; how many records that is.
fn copy(
    bootstrap: &str,
    (from, mut ends): (&str, BTreeMap<i32, i64>),
    producer: &Producer,
    to: &str,
) -> Result<usize, Box<dyn Error>> {
    let mut consumer = Consumer::builder(bootstrap).build()?;
    consumer.assign(ends.keys().map(|&partition| (from, partition, Start::Earliest)));
    let (mut scratch, mut count) = (Scratch::default(), 0);
    while !ends.is_empty() {
        // That nothing comes for a while does not say that nothing is there: a broker may be slow. Once all
        // that lies before the ends was received, the last of it may be for nobody to read, as the marks are
        // in which transactions end.
        let is_here = |(&partition, &end): (&i32, &i64)| {
            consumer.position(from, partition).is_some_and(|next| next.0 >= end)
        };
        let is_all_here = ends.iter().all(is_here);
        let batch = match is_all_here {
            true => consumer.try_next_batch()?,
            false => consumer.next_batch_within(TICK)?,
        };
        let Some(batch) = batch else {
            if is_all_here {
                break;
            }
            continue;
        };
        let (header, partition) = (*batch.header(), batch.partition().0);
        let Some(&end) = ends.get(&partition) else { continue };
        for record in batch.records(&mut scratch)? {
            let record = record?;
            if record.offset(&header).0 >= end {
                break;
            }
            let headers: Vec<Header<'_>> = record.headers.collect();
            let mut copy = Record::to(to).partition(partition).headers(&headers);
            copy = copy.timestamp_ms(record.timestamp(&header).0);
            // No key is not an empty key.
            if let Some(key) = record.key {
                copy = copy.key(key);
            }
            if let Some(value) = record.value {
                copy = copy.value(value);
            }
            producer.send_blocking(&copy)?;
            count += 1;
        }
        if header.next_offset().0 >= end {
            ends.remove(&partition);
            consumer.pause(from, partition);
        }
    }
    Ok(count)
}
