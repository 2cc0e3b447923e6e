//! Records of one byte to one MiB, in every compression.

use anyhow::{Context, Result, ensure};

use super::{CODECS, STORY_MS};
use crate::driver::{How, Place, ReadMany};
use crate::matrix::{Client, Feature};
use crate::record::Many;
use crate::suite::{Suite, topic};

const MIB: usize = 1 << 20;
/// Around the places where a length takes one more byte, and those that need their own fetch.
const SIZES: [usize; 12] = [1, 2, 63, 64, 127, 128, 1000, 8191, 8192, 65_536, MIB - 1, MIB];

/// A partition for each compression, and some for weaker promises.
pub fn sizes(suite: &Suite, client: &Client) -> Result<()> {
    let topic = topic("sizes", client);
    let many = Many {
        seed: 1,
        count: SIZES.len() as u64,
        sizes: SIZES.to_vec(),
        timestamp: client.can(Feature::Timestamps).then_some(STORY_MS),
        batch_bytes_max: Some(MIB + MIB / 2),
    };
    let how = |compression, acks, idempotent| How { compression, acks, idempotent };
    let safe = CODECS.map(|compression| how(compression, "all", true));
    let weak = [how("none", "1", false), how("zstd", "1", false), how("gzip", "0", false)];
    let hows = [&safe[..], &weak[..]].concat();
    let digest = many.digest(0..many.count);
    suite.tell(client, |driver| {
        suite.create(driver, &topic, hows.len() as i32, &[("max.message.bytes", "2097152")])?;
        for (partition, how) in (0..).zip(&hows) {
            let at = Place { topic: &topic, partition };
            let last = many.count as i64 - 1;
            let offsets = driver.produce_many(at, *how, &many).with_context(|| format!("{how:?}"))?;
            let told = offsets == (Some(0), Some(last));
            ensure!(told || how.acks == "0", "{how:?}: written at {offsets:?}");
            let read = driver.consume_many(at, 0, many.count).with_context(|| format!("{how:?}"))?;
            let want =
                ReadMany { first: Some(0), last: Some(last), count: many.count, digest: digest.clone() };
            ensure!(read == want, "{how:?}: read {read:?}, not {want:?}");
        }
        Ok(())
    })
}
