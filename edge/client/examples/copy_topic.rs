//! Copies a topic into another: every record with its key, headers and time, into the partition it was in,
//! in its order.
//!
//!     cargo run -p vltava-client --example copy_topic -- 127.0.0.1:9092 orders orders-copy

#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use vltava_client::consumer::{Consumer, Start};
use vltava_client::producer::{DeliveryReport, Producer, Record};
use vltava_client::{Admin, Header, Scratch};

/// Ends when nothing came for so long.
const QUIET: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [bootstrap, from, to] = &arguments[..] else { return Err("copy_topic BOOTSTRAP FROM TO".into()) };

    let topic = Admin::new(bootstrap)?.describe_topic(from).wait()?;
    let partitions = topic.partitions.iter();

    let mut consumer = Consumer::builder(bootstrap).build()?;
    consumer.assign(partitions.map(|partition| (from.as_str(), partition.index.0, Start::Earliest)));
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
    let (mut scratch, mut count) = (Scratch::default(), 0);
    while let Some(batch) = consumer.next_batch_within(QUIET)? {
        let (header, partition) = (*batch.header(), batch.partition());
        for record in batch.records(&mut scratch)? {
            let record = record?;
            let headers: Vec<Header<'_>> = record.headers.collect();
            let mut copy = Record::to(to).partition(partition.0).headers(&headers);
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
    }
    producer.close_blocking(Duration::from_secs(30));
    match failed.load(Ordering::Relaxed) {
        0 => println!("{count} records copied"),
        failed => return Err(format!("{failed} of {count} records were not acknowledged").into()),
    }
    Ok(())
}
