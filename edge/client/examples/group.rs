//! Reads a topic as a member of a group, and shows what the group gives and takes. Start it twice, and both share the
//! topic; stop one, and the other reads on where that one was. It ends after as many records as are asked for.
//!
//!     cargo run -p vltava-client --example group -- 127.0.0.1:9092 billing orders 100

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::env;
use std::error::Error;
use std::time::Duration;

use vltava_client::TopicPartition;
use vltava_client::consumer::{Consumer, RebalanceListener, Reset, Revoked};

/// How long to take leave at most: what was read is committed then, and the group hears that others may read on.
const LEAVE_MAX: Duration = Duration::from_secs(10);

struct Shown;

impl RebalanceListener for Shown {
    fn assigned(&mut self, partitions: &[TopicPartition]) {
        println!("given: {}", words(partitions));
    }

    fn revoked(&mut self, revoked: &mut Revoked<'_>) {
        println!("given back: {}", words(revoked.partitions()));
    }

    fn lost(&mut self, partitions: &[TopicPartition]) {
        println!("lost: {}", words(partitions));
    }
}

fn words(partitions: &[TopicPartition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let group = arguments.next().unwrap_or_else(|| "billing".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let count = arguments.next().map_or(Ok(usize::MAX), |text| text.parse())?;

    // Where nothing is committed yet it begins with the first record. What was read is committed every five seconds,
    // and before a partition is given back; `auto_commit(None)` leaves that to `commit`.
    let builder = Consumer::builder(&bootstrap).group_id(&group).reset(Reset::Earliest);
    let mut consumer = builder.build()?;
    consumer.set_rebalance_listener(Shown);
    consumer.subscribe([&*topic])?;
    for record in consumer.records_blocking().take(count) {
        let record = record?;
        let value = record.value.as_deref().map_or("(no value)".into(), String::from_utf8_lossy);
        println!("{}-{} {}: {value}", record.topic, record.partition.0, record.offset);
    }
    consumer.close(LEAVE_MAX)?;
    Ok(())
}
