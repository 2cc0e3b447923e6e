//! A hundred thousand records, over many segments.

use anyhow::{Context, Result, ensure};

use super::STORY_MS;
use super::segment::{check_stored, segments};
use crate::driver::{Driver, How, Place, ReadMany};
use crate::matrix::{Client, Feature};
use crate::record::Many;
use crate::suite::{Suite, topic};

const COUNT: u64 = 100_000;
/// The smallest that Kafka allows.
const SEGMENT_BYTES: &str = "1048576";
/// Each record takes more than its value, so that there are more.
const SEGMENTS_MIN: usize = (COUNT as usize * 100) >> 20;

/// Writes them, reads them all, reads some from where no batch and no segment starts.
pub fn bulk(suite: &Suite, client: &Client) -> Result<()> {
    let topic = topic("bulk", client);
    let how = |compression, acks, idempotent| How { compression, acks, idempotent };
    let hows = [how("none", "all", true), how("lz4", "1", false), how("zstd", "0", false)];
    let many = Many {
        seed: 2,
        count: COUNT,
        sizes: vec![100],
        timestamp: client.can(Feature::Timestamps).then_some(STORY_MS),
        batch_bytes_max: None,
    };
    suite.tell(client, |driver| {
        suite.create(driver, &topic, hows.len() as i32, &[("segment.bytes", SEGMENT_BYTES)])?;
        for (partition, how) in (0..).zip(hows) {
            let at = Place { topic: &topic, partition };
            one(driver, at, how, &many).with_context(|| format!("{how:?}"))?;
            if let Some(data_dir) = suite.data_dir() {
                check_stored(&data_dir, at, how)?;
                let segments = segments(&data_dir, at)?;
                let min = if how.compression == "none" { SEGMENTS_MIN } else { 1 };
                ensure!(segments.len() > min, "{how:?}: the log did not roll: {segments:?}");
            }
        }
        Ok(())
    })
}

fn one(driver: &mut Driver, at: Place<'_>, how: How, many: &Many) -> Result<()> {
    let offsets = driver.produce_many(at, how, many)?;
    let told = offsets == (Some(0), Some(COUNT as i64 - 1));
    ensure!(told || how.acks == "0", "written at {offsets:?}");
    // Under acks=0 only a read tells that all have arrived.
    read(driver, at, many, 0, COUNT).context("all of them")?;
    let offsets = driver.offsets(at)?;
    ensure!(offsets == (0, COUNT as i64), "the partition is {offsets:?}");
    for (from, count) in [(54_321, 1000), (COUNT - 1, 1)] {
        read(driver, at, many, from, count).with_context(|| format!("{count} from {from}"))?;
    }
    if many.timestamp.is_some() {
        for index in [0, 1, 9_999, 50_000, 99_999] {
            let found = driver.offset_for_time(at, STORY_MS + index)?;
            ensure!(found == Some(index), "offset {found:?} has the time of record {index}");
        }
    }
    Ok(())
}

fn read(driver: &mut Driver, at: Place<'_>, many: &Many, from: u64, count: u64) -> Result<()> {
    let want = ReadMany {
        first: Some(from as i64),
        last: Some((from + count) as i64 - 1),
        count,
        digest: many.digest(from..from + count),
    };
    let read = driver.consume_many(at, from as i64, count)?;
    ensure!(read == want, "read {read:?}, not {want:?}");
    Ok(())
}
