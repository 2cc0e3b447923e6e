//! Reads a partition from its beginning to where it ends when this is started.
//!
//!     cargo run -p vltava-client --example consume -- 127.0.0.1:9092 orders 0

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::env;
use std::error::Error;
use std::time::Duration;

use vltava_client::admin::At;
use vltava_client::consumer::{Consumer, Start};
use vltava_client::{Admin, Scratch};

/// Between two looks at how far it has come, while nothing comes.
const TICK: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let partition = arguments.next().map_or(Ok(0), |text| text.parse())?;

    // That nothing comes for a while does not say that nothing is there: a broker may be slow.
    let mut end = 0;
    for found in Admin::new(&bootstrap)?.list_offsets([(&*topic, partition, At::Latest)]).wait() {
        end = found?.offset.map_or(0, |offset| offset.0);
    }
    let mut consumer = Consumer::builder(&bootstrap).build()?;
    consumer.assign([(&*topic, partition, Start::Earliest)]);
    // Compressed records are unpacked into this, batch after batch.
    let mut scratch = Scratch::default();
    loop {
        // Then all that lies before the end was received, and the last of it may be for nobody to read, as
        // the marks are in which transactions end.
        let is_all_here = consumer.position(&topic, partition).is_some_and(|next| next.0 >= end);
        let batch = match is_all_here {
            true => consumer.try_next_batch()?,
            false => consumer.next_batch_within(TICK)?,
        };
        let Some(batch) = batch else {
            if is_all_here {
                return Ok(());
            }
            continue;
        };
        let header = *batch.header();
        for record in batch.records(&mut scratch)? {
            let record = record?;
            if record.offset(&header).0 >= end {
                break;
            }
            // Key and value are lent: they lie where they were received.
            let key = String::from_utf8_lossy(record.key.unwrap_or(b"(no key)"));
            let value = String::from_utf8_lossy(record.value.unwrap_or(b"(no value)"));
            println!("{}: {key}: {value}", record.offset(&header));
        }
        if header.next_offset().0 >= end {
            return Ok(());
        }
    }
}
