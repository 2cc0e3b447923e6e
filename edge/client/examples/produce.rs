//! Writes a thousand records, and says where they are.
//!
//!     cargo run -p vltava-client --example produce -- 127.0.0.1:9092 orders

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::time::Duration;

use vltava_client::producer::{Producer, Record};
use vltava_client::{Compression, Header};

#[tokio::main(flavor = "current_thread")] // any other executor would do
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());

    let producer = Producer::builder(&bootstrap).compression(Compression::Lz4, None).build()?;
    let headers = [Header { key: b"written by", value: Some(b"an example") }];
    let mut deliveries = Vec::new();
    for number in 0..1_000 {
        let (key, value) = (format!("customer {}", number % 10), format!("order {number}"));
        let record = Record::to(&topic).key(&key).value(&value).headers(&headers);
        // This waits for room in the producer's memory; the record itself is on its way meanwhile.
        deliveries.push(producer.send(record).await?);
    }
    let mut last = BTreeMap::new();
    for delivery in deliveries {
        // And this for the brokers: what they acknowledged is kept.
        let written = delivery.await?;
        last.insert(written.partition, written.offset);
    }
    for (partition, offset) in last {
        if let Some(offset) = offset {
            println!("partition {partition}: the last one is at offset {offset}");
        }
    }
    let given_up = producer.close(Duration::from_secs(10)).await;
    assert_eq!(given_up, 0, "all of them were acknowledged before");
    Ok(())
}
