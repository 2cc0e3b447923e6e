//! One client writes, another reads: what is stored belongs to no client.

use anyhow::{Context, Result, ensure};

use super::shapes::{check_same, now_ms, shapes};
use super::{CODECS, STORY_MS};
use crate::driver::{From, How, Place};
use crate::matrix::Client;
use crate::suite::{Suite, topic};

/// A partition for each compression.
pub fn ring(suite: &Suite, writer: &Client, reader: &Client) -> Result<()> {
    let topic = topic(&format!("ring-{}", writer.name), reader);
    let records = shapes(writer, reader, STORY_MS);
    let started = now_ms();
    let places = (0..).zip(CODECS).map(|(partition, codec)| (Place { topic: &topic, partition }, codec));
    suite.tell(writer, |driver| {
        suite.create(driver, &topic, CODECS.len() as i32, &[])?;
        for (at, compression) in places.clone() {
            let how = How { compression, acks: "all", idempotent: true };
            driver.produce(at, how, &records).context(compression)?;
        }
        Ok(())
    })?;
    let clock = started..=now_ms();
    suite.tell(reader, |driver| {
        let partitions = driver.partitions(&topic)?;
        ensure!(partitions == CODECS.len() as i32, "{partitions} partitions");
        for (at, compression) in places {
            let offsets = driver.offsets(at)?;
            ensure!(offsets == (0, records.len() as i64), "{compression}: the partition is {offsets:?}");
            let read = driver.consume(at, From::Offset(0), records.len()).context(compression)?;
            check_same(&read, &records, 0, &clock).context(compression)?;
        }
        Ok(())
    })
}
