//! Reads a partition from its beginning to its end, and goes on when there is more.
//!
//!     cargo run -p vltava-client --example consume -- 127.0.0.1:9092 orders 0

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::env;
use std::error::Error;
use std::time::Duration;

use vltava_client::Scratch;
use vltava_client::consumer::{Consumer, Start};

/// Ends when nothing came for so long.
const QUIET: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let partition = arguments.next().map_or(Ok(0), |text| text.parse())?;

    let mut consumer = Consumer::builder(&bootstrap).build()?;
    consumer.assign([(&*topic, partition, Start::Earliest)]);
    // Compressed records are unpacked into this, batch after batch.
    let mut scratch = Scratch::default();
    while let Some(batch) = consumer.next_batch_within(QUIET)? {
        let header = *batch.header();
        for record in batch.records(&mut scratch)? {
            let record = record?;
            // Key and value are lent: they lie where they were received.
            let key = String::from_utf8_lossy(record.key.unwrap_or(b"(no key)"));
            let value = String::from_utf8_lossy(record.value.unwrap_or(b"(no value)"));
            println!("{}: {key}: {value}", record.offset(&header));
        }
    }
    Ok(())
}
