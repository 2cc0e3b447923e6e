//! Transactions that are open at the same time, and end well or not: who reads only what is committed sees
//! nothing else, and nobody sees the marks of their ends.

use anyhow::{Context, Result, ensure};

use super::STORY_MS;
use crate::driver::{How, Place};
use crate::matrix::Client;
use crate::record::{Bytes, Record, Stored};
use crate::suite::{Suite, topic};

/// Batches that lie as they were sent, and such that have to be unpacked.
const CODECS: [&str; 2] = ["none", "zstd"];

/// A partition for each compression. Plain records lie between the transactions.
pub fn transactions(suite: &Suite, writer: &Client, reader: &Client) -> Result<()> {
    let topic = topic("transactions", reader);
    let places = (0..).zip(CODECS).map(|(partition, codec)| (Place { topic: &topic, partition }, codec));
    // By turns: one of each, for as long as each has any. The longest is aborted.
    let commits = [true, false, true, false];
    let sizes = [5, 40, 7, 1];
    let open = || commits.into_iter().zip(sizes).enumerate();
    suite.tell(writer, |driver| {
        suite.create(driver, &topic, CODECS.len() as i32, &[])?;
        for (at, compression) in places.clone() {
            let how = How { compression, acks: "all", idempotent: true };
            driver.produce(at, how, &[record("plain", 0)])?;
            let spelled = open().map(|(name, (commit, size))| (commit, records(&name.to_string(), size)));
            driver.transactions(at, compression, &spelled.collect::<Vec<_>>())?;
            driver.produce(at, how, &[record("plain", 1)])?;
        }
        Ok(())
    })?;
    let by_turns = |is_wanted: fn(bool) -> bool| {
        let turns = (0..40).flat_map(|turn| {
            let has_turn = open().filter(move |(_, (commit, size))| turn < *size && is_wanted(*commit));
            has_turn.map(move |(name, _)| record(&name.to_string(), turn))
        });
        [vec![record("plain", 0)], turns.collect(), vec![record("plain", 1)]].concat()
    };
    suite.tell(reader, |driver| {
        for (at, compression) in places {
            for (isolation, want) in
                [("read_committed", by_turns(|commit| commit)), ("read_uncommitted", by_turns(|_| true))]
            {
                let read = driver.consume_isolated(at, isolation, want.len());
                let read = read.with_context(|| format!("{isolation}, {compression}"))?;
                ensure!(read.is_sorted_by_key(|stored| stored.offset), "{isolation}: {read:?}");
                let read: Vec<_> = read.into_iter().map(|Stored { record, .. }| record).collect();
                ensure!(read == want, "{isolation}, {compression}: read {read:?}, not {want:?}");
            }
        }
        Ok(())
    })
}

fn records(name: &str, count: usize) -> Vec<Record> {
    (0..count).map(|number| record(name, number)).collect()
}

fn record(name: &str, number: usize) -> Record {
    let value = format!("{name} {number} {}", ".".repeat(100));
    let timestamp = Some(STORY_MS + number as i64);
    Record { key: None, value: Some(Bytes::from(&*value)), headers: Vec::new(), timestamp }
}
